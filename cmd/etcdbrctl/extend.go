package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/backup/restoreplan"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/engine/collector"
	"druid.internal/druid/internal/engine/extender"
	"druid.internal/druid/internal/engine/replay"
	"druid.internal/druid/internal/store"
)

func (a *app) extendCommand() *cobra.Command {
	var (
		from    storeFlags
		out     outputFlag
		lineage lineageFlag
		q       extender.Request
		since   string
		verify  string
		notice  string
		keep    string
		digest  string
	)
	cmd := &cobra.Command{
		Use:   "extend-snapshot-immutability",
		Short: "Keep the newest backup of a cluster that sleeps locked, in the cheapest way the store has",
		Long: `Keep the newest backup of a cluster that sleeps locked, in the cheapest way the store has.

Everything that a restore to the newest revision needs is kept: the full, its deltas, their manifests, and the records that
guard the prefix. What might end before the next run is through gets a whole period from now. Runs come daily, or as rarely as --every says; in
place a lock that would not outlive one that is missed is prolonged too, or one with less than half of the period left:

  retention in place    S3, versions of ABS, objects of GCS with retention of their own, directories
  hold                  GCS with a policy of the bucket: until --release-holds, then for one more period
  server-side copy      policies of ABS containers and OSS buckets: a copy of a new name, which the bucket locks anew
  download and upload   the same where the store does not copy

What was never prolonged is read first, whole, against its digest; later one in ten is. A copy is read before another one is made of it, and that is
read as well. What is damaged is never prolonged:
the newest good chain is kept instead, an error is logged, and the exit code is 7. Ends of locks are told as they were read back.

With --keep=NAME that full is kept besides, whatever is newer: whoever may write can add a backup that is. It is kept itself, or where copies are
made the copy of it that was read, and which is a copy of it by its name and its history as well; the report and the notice say until when, and what is newer. If it is gone, excluded or damaged, and no good copy is
there, the newest is kept, and the exit code is 7.

With --release-holds nothing is prolonged. It is for a cluster that is awake again: when there is a newer backup, which is read whole before,
what this command held is released. What somebody else holds stays held.

With --every a period that runs so far apart cannot keep alive is told, with the arithmetic and exit code 6, when all is done that can be.

Copies that this command made since --gc-from-timestamp are removed when their locks have ended, except for the newest. Nothing else
is ever deleted. It may be killed at any moment and run again; while enough time is left it changes nothing.`,
		Example: `  etcdbrctl extend-snapshot-immutability --storage-provider=S3 --store-container=backups --store-prefix=ns--uid/etcd-main \
      --gc-from-timestamp=2026-11-22T08:00:00Z`,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if q.Verify, err = extender.ParseVerify(verify); err != nil {
				return &usageError{fmt.Errorf("--verify: %w", err)}
			}
			if q.Since, err = parseSince(since); err != nil {
				return &usageError{fmt.Errorf("--gc-from-timestamp: %w", err)}
			}
			if min(q.Period, q.DefaultPeriod, q.MaxPeriod, q.Every) < 0 {
				return &usageError{errors.New("--retention-period, --default-retention-period, --max-retention-period and --every must not be below 0")}
			}
			if q.Release && (q.Period > 0 || since != "") {
				return &usageError{errors.New("--release-holds prolongs nothing and removes nothing: leave out --retention-period and --gc-from-timestamp")}
			}
			if err := named(&q, keep, digest); err != nil {
				return &usageError{err}
			}
			s, err := a.openStore(cmd.Context(), from)
			if err != nil {
				return err
			}
			shown := newProgress(a.sys.err, a.log)
			q.Store, q.Prefix, q.Lineage, q.Ranges = s, from.prefix, lineage.id, from.parallelUploads
			q.Progress, q.Log = shown.report, a.log
			deleter, _ := store.As[store.Deleter](s)
			q.Collect = func(only func(timeline.Snapshot) bool, prove extender.Prove) *collector.Collector {
				return collector.New(s, deleter, collector.Options{Prefix: from.prefix, Policy: extender.Copies, Only: only, Prove: prove, Log: a.log})
			}
			began := time.Now()
			report, err := extender.Run(cmd.Context(), q)
			shown.end()
			for _, w := range report.Warnings {
				a.log.Warn(w)
			}
			if len(report.Objects) > 0 {
				if printErr := out.print(a.sys.out, report, func(w io.Writer) error { return extendTable(w, report) }); printErr != nil && err == nil {
					err = printErr
				}
			}
			if noticeErr := leaveNotice(notice, began, report, err, q.DryRun); noticeErr != nil && err == nil {
				err = noticeErr
			}
			return withRemedy(err)
		},
	}
	flags := cmd.Flags()
	from.add(flags, "", "the store")
	out.add(flags)
	flags.StringVar(&notice, "notice-file", "", "write one line of JSON with what is kept and until when into this `FILE`, such as /dev/termination-log; empty: none")
	flags.StringVar(&since, "gc-from-timestamp", "", "remove expired copies that this command made at this time or later (RFC 3339, or seconds since 1970), all but the newest; empty: remove none")
	flags.StringVar(&keep, "keep", "", "keep the full of this `NAME` whatever is newer, besides the newest; empty: the newest alone")
	flags.StringVar(&digest, "keep-digest", "", "the SHA-256 of what --keep names, in hexadecimal, by which it is told from what has its name; empty: its manifest tells")
	flags.DurationVar(&q.Period, "retention-period", 0, "how long from now locks are to end, for example 96h; 0: what the bucket gives to what is written into it")
	flags.DurationVar(&q.DefaultPeriod, "default-retention-period", 0, "how long from now where the bucket does not tell what it gives, as Azure's do without fields of the management API; 0: nothing is prolonged then")
	flags.DurationVar(&q.MaxPeriod, "max-retention-period", 0, "never lock for longer than this, because no lock can be shortened; 0: ten years")
	flags.DurationVar(&q.Every, "every", 0, "the longest time between the starts of two runs, for example 24h; what would not last until the next one is through is prolonged; 0: not told, and taken for a day")
	flags.StringVar(&verify, "verify", string(extender.VerifyFirst), "when to read what is kept: first, before its first extension and one in ten times later; always, also if nothing is to be extended; never")
	flags.Var(&lineage, "lineage", "keep this lineage `ID` instead of the newest; unnamed: snapshots without one")
	flags.BoolVar(&q.Release, "release-holds", false, "prolong nothing, and release what earlier runs held, once there is a newer backup")
	flags.BoolVar(&q.DryRun, "dry-run", false, "print what would be done, read nothing whole and change nothing")
	return cmd
}

// named reads what is to be kept whatever is newer.
func named(q *extender.Request, keep, digest string) error {
	if keep == "" && digest == "" {
		return nil
	}
	n, err := snapshot.ParseName(keep)
	switch {
	case keep == "":
		return errors.New("--keep-digest goes with --keep")
	case err != nil, n.Kind != snapshot.Full:
		return fmt.Errorf("--keep: %q is not the name of a full snapshot, as `etcdbrctl list` shows it", keep)
	case q.Release:
		return errors.New("--release-holds keeps nothing: leave out --keep")
	}
	q.Keep = n
	if digest != "" {
		if err := q.Digest.UnmarshalText([]byte(digest)); err != nil || q.Digest.IsZero() {
			return fmt.Errorf("--keep-digest: %q is not a SHA-256 in hexadecimal", digest)
		}
	}
	return nil
}

// leaveNotice writes for whoever started the program what is protected now. What a run that failed found out is
// left out, unless it is that something is damaged or gone: what was known before stays so.
func leaveNotice(path string, began time.Time, r extender.Report, failure error, dryRun bool) error {
	var none *restoreplan.NoWayError
	gone := r.Base == "" && errors.As(failure, &none)
	k := r.Kept
	kept := k != nil && k.Name != "" && k.Protection.Objects > 0
	if k != nil && !kept && k.Problem == "" && failure != nil {
		return nil // whatever else was found out is not about what was asked for
	}
	if path == "" || dryRun || !kept && !gone && len(r.Damaged) == 0 && r.PassedOver == "" && (r.Base == "" || r.Protection.Objects == 0) {
		return nil
	}
	n := immutability.Notice{At: began.UTC(), Snapshot: r.Base, End: int64(r.End), Until: r.Protection.Until, Held: r.Protection.Held, Released: r.Released,
		Inferred: &r.Protection.Inferred}
	n.Exclude(r.Excluded)
	if gone {
		n.Damaged = failure.Error()
	}
	if r.PassedOver != "" {
		n.Damaged = r.PassedOver
	}
	for _, d := range r.Damaged {
		n.Damaged = d.Object + ": " + d.Reason
		break
	}
	if k != nil {
		n.Recorded, n.Newer, n.NewestEnd = k.Asked, k.Newer, int64(r.End)
		if k.Problem != "" {
			n.Damaged = k.Problem
		}
	}
	if kept {
		n.Snapshot, n.End, n.Damaged = k.Name, int64(k.End), ""
		n.Until, n.Held, n.Inferred, n.Whole, n.Unproven = k.Protection.Until, k.Protection.Held, &k.Protection.Inferred, k.Whole, k.Unproven
	}
	if err := os.WriteFile(path, []byte(n.String()+"\n"), 0o644); err != nil { //nolint:gosec // it holds no secret, and somebody else reads it
		return fmt.Errorf("leave a notice: %w", err)
	}
	return nil
}

// parseSince reads a moment as RFC 3339 or as seconds since 1970; nothing is the zero time.
func parseSince(s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if n, err := strconv.ParseUint(s, 10, 63); err == nil && n > 0 && n <= lastSecond {
		return time.Unix(int64(n), 0).UTC(), nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil || t.Unix() <= 0 {
		return time.Time{}, fmt.Errorf("%q is neither a time like 2026-11-22T08:00:00Z nor a number of seconds since 1970", s)
	}
	return t.UTC(), nil
}

// lastSecond is the end of the year 9999, the last that RFC 3339 can write.
const lastSecond = 253402300799

// newer is what is newer than what is kept, without what is told as damaged.
func newer(r extender.Report) (all []string) {
	if k := r.Kept; k != nil && k.Newer != "" && !slices.ContainsFunc(r.Damaged, func(d replay.Damage) bool { return d.Object+": "+d.Reason == k.Newer }) {
		all = append(all, k.Newer)
	}
	if p := r.PassedOver; p != "" && !slices.Contains(all, p) {
		all = append(all, p)
	}
	return all
}

func extendTable(w io.Writer, r extender.Report) error {
	rows := [][]string{{"OBJECT", "KIND", "RESULT", "WAY", "BEFORE", "NOW", "WHY"}}
	for _, o := range r.Objects {
		way, now := string(o.Way), moment(o.After)
		if way == "" {
			way = "-"
		}
		if o.Held {
			now = "held"
		}
		rows = append(rows, []string{o.Key, string(o.Kind), string(o.Result), way, moment(o.Before), now, o.Reason})
		if o.Copy != "" {
			rows = append(rows, []string{"  copy: " + o.Copy})
		}
	}
	if err := columns(w, rows); err != nil {
		return err
	}
	fmt.Fprintf(w, "\nchain     %s and %s, to revision %d\n", r.Base, counted(r.Deltas, "delta"), r.End)
	fmt.Fprintf(w, "protected %s\n", r.Protection)
	if k := r.Kept; k != nil && k.Name != "" {
		fmt.Fprintf(w, "kept      %s\n          %s\n", k.Name, k.Protection)
	}
	for _, text := range newer(r) {
		fmt.Fprintf(w, "NEWER     %s\n", text)
	}
	if r.Period > 0 {
		fmt.Fprintf(w, "period    %s\n", r.Period)
	}
	fmt.Fprintf(w, "verified  %s\n", r.Verified)
	if r.Released {
		fmt.Fprintln(w, "holds     nothing is held by earlier runs any more")
	}
	fmt.Fprintf(w, "cost      %s, %s read, %s sent\n", counted(int(r.Changes), "change"), bytesString(r.BytesRead), bytesString(r.BytesMoved))
	for _, d := range r.Damaged {
		fmt.Fprintf(w, "DAMAGED   %s: %s\n", d.Object, d.Reason)
	}
	for _, text := range r.Warnings {
		fmt.Fprintf(w, "warning   %s\n", text)
	}
	if r.Collected != nil {
		fmt.Fprintln(w, "\ncopies that are not needed any more:")
		return r.Collected.WriteTable(w)
	}
	return nil
}
