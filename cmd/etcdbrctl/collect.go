package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"druid.internal/druid/internal/backup/retention"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/engine/collector"
	"druid.internal/druid/internal/engine/extender"
	"druid.internal/druid/internal/engine/replay"
	"druid.internal/druid/internal/engine/verifier"
	"druid.internal/druid/internal/store"
)

// retentionFlags say what to keep.
type retentionFlags struct {
	policy     string
	maxBackups int

	maxBackupsGiven func() bool

	deltaRetention time.Duration
	maxAge         time.Duration
	maxSize        bytesFlag
	keep           retention.Counts
}

func (f *retentionFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.policy, "garbage-collection-policy", "", "keep fulls as the original does: LimitBased or Exponential")
	flags.IntVarP(&f.maxBackups, "max-backups", "m", 7, "fulls that LimitBased keeps")
	f.maxBackupsGiven = func() bool { return flags.Changed("max-backups") }
	flags.DurationVar(&f.deltaRetention, "delta-snapshot-retention-period", 0, "keep deltas that are younger, and the full they need")
	flags.IntVar(&f.keep.Last, "keep-last", 0, "keep so many of the newest fulls")
	flags.IntVar(&f.keep.Hourly, "keep-hourly", 0, "keep the newest full of so many hours")
	flags.IntVar(&f.keep.Daily, "keep-daily", 0, "keep the newest full of so many days")
	flags.IntVar(&f.keep.Weekly, "keep-weekly", 0, "keep the newest full of so many weeks")
	flags.IntVar(&f.keep.Monthly, "keep-monthly", 0, "keep the newest full of so many months")
	flags.DurationVar(&f.maxAge, "max-age", 0, "let go what is older, even if kept otherwise; 0: any age")
	flags.Var(&f.maxSize, "max-size", "let go the oldest until everything is smaller, for example 100Gi; 0: any size")
}

func (f *retentionFlags) build() (retention.Policy, error) {
	method, err := retention.ParseMethod(f.policy)
	if err != nil {
		return retention.Policy{}, &usageError{fmt.Errorf("--garbage-collection-policy: %w", err)}
	}
	p := retention.Policy{Method: method, Keep: f.keep, DeltaRetention: f.deltaRetention, MaxAge: f.maxAge, MaxSize: int64(f.maxSize)}
	if method == retention.LimitBased {
		p.MaxBackups = f.maxBackups
	}
	if f.policy == "" && f.maxBackupsGiven() {
		return retention.Policy{}, &usageError{fmt.Errorf("--max-backups needs --garbage-collection-policy=LimitBased; --keep-last keeps so many fulls without it")}
	}
	return p, nil
}

func (a *app) collectCommand() *cobra.Command {
	var (
		from   storeFlags
		policy retentionFlags
		out    outputFlag
		owner  string
		copies string
		limits replayFlags
		verify bool
		yes    bool
	)
	cmd := &cobra.Command{
		Use:   "collect",
		Short: "Delete what a retention policy lets go; prints what it would do until --yes is given",
		Long: `Delete what a retention policy lets go; prints what it would do until --yes is given.

Nothing is deleted that is newer than, or part of, the newest chain that is proven by reading it. If
something could be deleted, the newest chain is read and replayed first, as verify does; room for two
databases is needed meanwhile. If the newest full or delta is damaged, the newest chain that can be
restored is proven instead, everything from its full on stays, and the exit code is 4. With
--verify=false nothing is read, so nothing is deleted.

Everything that a kept snapshot needs also stays, and so does everything under a lock or hold, and
everything whose lock is unknown. Without a policy nothing is deleted. What is blocked names the moment before which it stays: the end of its
lock and a margin. With --yes locks are looked at right before each deletion, so the report can name as
blocked what the plan was to delete.

With --copies-from-timestamp there is no policy: what goes are copies that extend-snapshot-immutability
made at this time or later, but for the newest backup, once their locks have ended. So the identity that
extends needs no right to delete.`,
		Example: `  etcdbrctl collect --storage-provider=S3 --store-container=backups --store-prefix=ns--uid/etcd-main \
      --garbage-collection-policy=LimitBased --max-backups=30 --delta-snapshot-retention-period=96h`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			options, err := collects(policy, copies)
			if err != nil {
				return err
			}
			s, err := a.openStore(cmd.Context(), from)
			if err != nil {
				return err
			}
			deleter, _ := store.As[store.Deleter](s)
			shown := newProgress(a.sys.err, a.log)
			options.Prefix, options.Owner, options.LocksLast, options.Log = from.prefix, owner, yes, a.log
			var damaged []string
			if verify {
				release, err := makeScratch(limits.scratch)
				if err != nil {
					return err
				}
				defer release()
				limitMemory(int64(limits.memory))
				options.Prove = func(ctx context.Context, t timeline.Timeline, lineage snapshot.LineageID) (retention.Proof, []string, error) {
					p, notes, err := verifier.Prove(ctx, verifier.Request{ScratchDir: limits.scratch, KeepFree: keepFree, MemoryLimit: int64(limits.memory), From: replay.Options{
						Store: s, Timeline: t, Lineage: &lineage, Ranges: from.parallelUploads, ReadAhead: readAhead(int64(limits.memory)), Progress: shown.report, Log: a.log}})
					damaged = append(damaged, notes...)
					return p, notes, err
				}
			}
			c := collector.New(s, deleter, options)
			plan, err := c.Plan(cmd.Context())
			shown.end()
			if err != nil {
				return err
			}
			broken := brokenBackup(damaged)
			if !yes {
				err := out.print(a.sys.out, plan, func(w io.Writer) error {
					if err := plan.WriteTable(w); err != nil {
						return err
					}
					if len(plan.Deletions()) > 0 {
						fmt.Fprintln(w, "\nNothing was deleted. Give --yes to delete.")
					}
					return nil
				})
				return cmp.Or(err, broken)
			}
			if out == "table" {
				if err := plan.WriteTable(a.sys.err); err != nil {
					return err
				}
				if len(plan.Deletions()) > 0 {
					fmt.Fprintln(a.sys.err, "note: locks that were not told yet are looked at right before each deletion")
				}
			}
			report, err := c.Execute(cmd.Context(), plan)
			if printErr := out.print(a.sys.out, report, report.WriteTable); printErr != nil && err == nil {
				err = printErr
			}
			return errors.Join(err, broken)
		},
	}
	flags := cmd.Flags()
	from.add(flags, "", "the store")
	policy.add(flags)
	out.add(flags)
	limits.add(flags)
	flags.BoolVar(&verify, "verify", true, "read and replay the newest chain before anything is deleted; false: read nothing, and delete nothing")
	flags.StringVar(&owner, "owner", "", "refuse unless the prefix is that of this owner, for example the cluster's UID; empty: whoever's it is")
	flags.StringVar(&copies, "copies-from-timestamp", "", "remove expired copies that extend-snapshot-immutability made at this time or later (RFC 3339, or seconds since 1970), and nothing else")
	flags.BoolVar(&yes, "yes", false, "delete")
	return cmd
}

// brokenBackup is the error of a collection that found the newest chain damaged.
func brokenBackup(damaged []string) error {
	if len(damaged) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s; everything from the newest chain on that can be restored was kept: take a full snapshot, and exclude what is damaged", verifier.ErrBroken, damaged[0])
}

// collects is what goes: by a policy, or expired copies.
func collects(policy retentionFlags, copies string) (collector.Options, error) {
	p, err := policy.build()
	if err != nil {
		return collector.Options{}, err
	}
	since, err := parseSince(copies)
	switch {
	case err != nil:
		return collector.Options{}, &usageError{fmt.Errorf("--copies-from-timestamp: %w", err)}
	case since.IsZero():
		return collector.Options{Policy: p}, nil
	case !p.IsZero():
		return collector.Options{}, &usageError{errors.New("--copies-from-timestamp removes copies alone: give it, or a policy")}
	}
	return collector.Options{Policy: extender.Copies, Only: extender.CopiedSince(since)}, nil
}
