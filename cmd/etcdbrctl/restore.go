package main

import (
	"encoding/hex"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/engine/replay"
	"druid.internal/druid/internal/engine/restorer"
	"druid.internal/druid/internal/etcd/datadir"
)

func (a *app) restoreCommand() *cobra.Command {
	var (
		from       storeFlags
		target     targetFlags
		cluster    clusterFlags
		out        outputFlag
		bump       bumpFlag
		limits     replayFlags
		quota      int64
		overwrite  bool
		history    bool
		compacted  bool
		dryRun     bool
		fetchers   int
		newLineage string
	)
	cmd := &cobra.Command{
		Use:   "restore",
		Short: "Restore a data directory from the bucket, exactly, and prove it",
		Long: `Restore a data directory from the bucket, exactly, and prove it.

The plan is printed first. No etcd runs: full and deltas are replayed straight into a new
database with every key's revisions, version and lease. The directory appears under its name
only when it is complete, verified and on the disk; what was there before is touched only
with --overwrite, and kept aside until then. Only a directory that holds nothing but the data of an
etcd is replaced.`,
		Example: `  etcdbrctl restore --storage-provider=S3 --store-container=backups --store-prefix=ns--uid/etcd-main \
      --data-dir=/var/etcd/new --to-time=2026-11-20T10:00:00Z`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := target.target(); err != nil { // a usage error comes before any other
				return err
			}
			switch {
			case bump.Auto || bump.By > 0:
				if !compacted {
					return &usageError{fmt.Errorf("--mark-compacted=false contradicts --bump-revision: watchers of the revisions in between would wait forever instead of listing again")}
				}
			case cmd.Flags().Changed("mark-compacted") && compacted:
				return &usageError{fmt.Errorf("--mark-compacted needs --bump-revision: without a bump there is nothing to mark")}
			}
			if target.lastKnown != 0 && !bump.Auto {
				return &usageError{fmt.Errorf("--last-known-revision needs --bump-revision=auto: nothing else asks for it")}
			}
			lineage, err := cluster.lineage(newLineage)
			if err != nil {
				return err
			}
			membership := cluster.membership(lineage)
			if err := membership.Check(); err != nil {
				return &usageError{err}
			}
			old, refusal := datadir.Check(cluster.dataDir, overwrite)
			refusal = withRemedy(refusal)
			if refusal != nil && !dryRun {
				return refusal
			}
			b, err := a.openReplay(cmd.Context(), from, target, limits)
			if err != nil {
				return err
			}
			q := restorer.Request{
				From: b.from, KeepHistory: history, Bump: bump.Bump, LastKnown: snapshot.Revision(target.lastKnown),
				Dir: cluster.dataDir, Overwrite: overwrite, Member: membership, NewLineage: lineage,
				QuotaBytes: quota, MemoryLimit: int64(limits.memory), ScratchDir: limits.scratch, Parallel: fetchers,
			}
			q.Replanned = func(reason string, next restorer.Plan) {
				b.shown.end()
				fmt.Fprintf(a.sys.err, "\n%s\nplanning again:\n%s\n", reason, next)
			}
			plan, err := restorer.Decide(q)
			if err != nil {
				return b.withFindings(err)
			}
			if refusal != nil {
				plan.Warnings = append(plan.Warnings, fmt.Sprintf("the restore itself will be refused: %v", refusal))
			}
			if old != nil {
				plan.Warnings = append(plan.Warnings, fmt.Sprintf("--overwrite replaces and removes %s", old))
			}
			if dryRun {
				return out.print(a.sys.out, newPlanView(plan), func(w io.Writer) error { _, err := io.WriteString(w, plan.String()); return err })
			}
			fmt.Fprintf(a.sys.err, "%s\n", plan)
			if err := b.prepare(limits); err != nil {
				return err
			}
			defer b.release()
			res, err := restorer.Run(cmd.Context(), q, plan)
			b.shown.end()
			if err != nil {
				return b.withFindings(err)
			}
			return out.print(a.sys.out, newRestoreView(cluster.dataDir, res), func(w io.Writer) error { return restoreTable(w, cluster.dataDir, res) })
		},
	}
	flags := cmd.Flags()
	from.add(flags, "", "the store")
	target.add(cmd)
	cluster.add(flags)
	out.add(flags)
	flags.BoolVar(&overwrite, "overwrite", false, "replace an existing data directory of an etcd; it is kept aside until the new one is complete, and removed then. A directory with other files is refused")
	flags.BoolVar(&history, "keep-history", false, "keep every revision the snapshots hold instead of compacting at the restored one")
	flags.Var(&bump, "bump-revision", "raise the revision afterwards, so that watchers list again instead of going back in time: 0, a number, or auto")
	flags.BoolVar(&compacted, "mark-compacted", true, "with --bump-revision: mark everything before the bump as compacted")
	flags.Var(&target.lastKnown, "last-known-revision", "for --bump-revision=auto: a revision known to have existed beyond what the bucket tells")
	flags.Int64Var(&quota, "embedded-etcd-quota-bytes", 8<<30, "backend quota of the etcd that will run on it: a NOSPACE alarm is cleared when the result is smaller")
	flags.IntVar(&fetchers, "max-fetchers", 6, "deltas fetched and decoded at the same time; each takes about 10 MB")
	limits.addWith(flags, "directory for unpacked and spilled data, made if need be; default: beside the data directory")
	limits.addExclusions(flags)
	flags.StringVar(&newLineage, "new-lineage", "", "id of the history that begins here, 32 hexadecimal digits; default: a new one. The same for every member of a cluster")
	flags.BoolVar(&dryRun, "dry-run", false, "print the plan and stop")
	acceptWithoutEffect(flags, "nothing is sent to an etcd while restoring", "max-txn-ops", "max-request-bytes", "max-call-send-message-size")
	acceptWithoutEffect(flags, "a digest that does not match is never a good restore", "skip-hash-check")
	flags.Lookup("skip-hash-check").NoOptDefVal = "true"
	acceptWithoutEffect(flags, "history is compacted at the restored revision unless --keep-history is given", "auto-compaction-mode", "auto-compaction-retention")
	return cmd
}

// lineage is the id to begin the restored history with. All members of a cluster that is restored
// member by member must be given the same one and the same token.
func (f *clusterFlags) lineage(given string) (snapshot.LineageID, error) {
	names := map[string]bool{} // a member with several peer URLs is named several times
	for _, m := range strings.Split(f.cluster, ",") {
		name, _, _ := strings.Cut(m, "=")
		names[strings.TrimSpace(name)] = true
	}
	many := len(names) > 1
	switch {
	case given != "":
		if b, err := hex.DecodeString(given); err != nil || len(b) != 16 {
			return "", &usageError{fmt.Errorf("--new-lineage %q is not 32 hexadecimal digits", given)}
		}
	case many:
		return "", &usageError{fmt.Errorf("--initial-cluster names several members: give each of their restores the same --new-lineage and --initial-cluster-token, for example --new-lineage=%s", datadir.NewLineageID())}
	default:
		return datadir.NewLineageID(), nil
	}
	if many && f.token == "" {
		return "", &usageError{fmt.Errorf("--initial-cluster names several members: give each of their restores the same --initial-cluster-token")}
	}
	return snapshot.LineageID(given), nil
}

// planView is a plan in JSON.
type planView struct {
	Lineage  snapshot.Lineage  `json:"lineage"`
	Base     string            `json:"base"`
	Deltas   []string          `json:"deltas"`
	End      snapshot.Revision `json:"end"`
	EndTime  time.Time         `json:"endTime,omitzero"` // an upper bound of when end was received
	Newest   snapshot.Revision `json:"newest"`
	Bytes    int64             `json:"bytes"`
	BumpBy   int64             `json:"bumpBy,omitempty"`
	Notes    []string          `json:"notes,omitempty"`
	Warnings []string          `json:"warnings,omitempty"`
}

func newPlanView(p restorer.Plan) planView {
	v := planView{Lineage: p.Lineage, Base: p.Base.Name().String(), Deltas: []string{}, End: p.End, EndTime: p.EndTime.UTC(), Newest: p.Newest, Bytes: p.Bytes, BumpBy: p.BumpBy, Notes: p.Notes, Warnings: p.Warnings}
	for _, d := range p.Deltas {
		v.Deltas = append(v.Deltas, d.Name().String())
	}
	return v
}

// restoreView is what a restore did, in JSON.
type restoreView struct {
	DataDir         string            `json:"dataDir"`
	Plan            planView          `json:"plan"`
	Revision        snapshot.Revision `json:"revision"`
	CompactRevision snapshot.Revision `json:"compactRevision"`
	Reached         reachedView       `json:"reached"`
	Keys            int64             `json:"keys"`
	Events          int64             `json:"events"`
	HashKV          snapshot.HashKV   `json:"hashKV"`
	BaseHashChecked bool              `json:"baseHashChecked"`
	DatabaseBytes   int64             `json:"databaseBytes"`
	SpilledBytes    int64             `json:"spilledBytes"`
	LeasesRestored  []string          `json:"leasesRestored,omitempty"` // ids as etcdctl prints them: many programs read JSON's numbers as floating point
	LeasesMade      []string          `json:"leasesMade,omitempty"`
	AlarmsCleared   []string          `json:"alarmsCleared,omitempty"`
	AlarmsKept      []string          `json:"alarmsKept,omitempty"`
	AuthEnabled     bool              `json:"authEnabled"`
	Lineage         snapshot.Lineage  `json:"lineage"`
	Damaged         []replay.Damage   `json:"damaged,omitempty"`
	Replaced        *datadir.Contents `json:"replaced,omitempty"` // what was there before, and is removed; absent: nothing
	Seconds         float64           `json:"seconds"`
}

// reachedView is the moment in the backup that a restore reached.
type reachedView struct {
	Revision snapshot.Revision `json:"revision"`         // without the bump
	Time     time.Time         `json:"time,omitzero"`    // when it was received; absent: unknown
	UpTo     bool              `json:"upTo,omitempty"`   // Time is an upper bound: it was received by then
	Target   string            `json:"target,omitempty"` // what was asked for; absent: the newest state
}

// reached prefers the time that a delta recorded to the bound that the plan has.
func reached(r *restorer.Result) reachedView {
	v := reachedView{Revision: r.Restored.Reached, Time: r.Restored.LastReceived.UTC()}
	if r.Restored.LastReceived.IsZero() {
		v.Time, v.UpTo = r.Plan.EndTime.UTC(), true
	}
	if !r.Plan.Target.IsLatest() {
		v.Target = r.Plan.Target.String()
	}
	return v
}

// String is the moment for people.
func (v reachedView) String() string {
	s := fmt.Sprintf("revision %d", v.Revision)
	switch {
	case v.Time.IsZero():
		s += ", received at an unknown time"
	case v.UpTo:
		s += ", received by " + v.Time.Format(time.RFC3339Nano)
	default:
		s += ", received at " + v.Time.Format(time.RFC3339Nano)
	}
	if v.Target != "" {
		s += "; the target is " + v.Target
	}
	return s
}

func newRestoreView(dir string, r *restorer.Result) restoreView {
	d := r.Restored
	return restoreView{DataDir: dir, Plan: newPlanView(r.Plan), Revision: d.Revision, CompactRevision: d.CompactRevision, Reached: reached(r), Keys: d.Keys, Events: d.Events,
		HashKV: d.HashKV, BaseHashChecked: d.BaseHashKVChecked, DatabaseBytes: d.DatabaseBytes, SpilledBytes: d.SpilledBytes,
		LeasesRestored: leaseNames(d.LeasesFound), LeasesMade: leaseNames(d.LeasesMade), AlarmsCleared: d.AlarmsCleared, AlarmsKept: d.AlarmsKept,
		AuthEnabled: d.AuthEnabled, Lineage: r.Lineage, Damaged: r.Damaged, Replaced: d.Replaced, Seconds: r.Took.Seconds()}
}

func restoreTable(w io.Writer, dir string, r *restorer.Result) error {
	d := r.Restored
	fmt.Fprintf(w, "restored  %s in %s\n", dir, r.Took.Round(time.Millisecond))
	rows := [][]string{
		{"revision", fmt.Sprint(d.Revision)},
		{"reached", reached(r).String()},
		{"keys", fmt.Sprint(d.Keys)},
		{"events", fmt.Sprintf("%d replayed, %.0f per second", d.Events, float64(d.Events)/max(r.Took.Seconds(), 0.001))},
		{"database", bytesString(d.DatabaseBytes)},
		{"spilled", bytesString(d.SpilledBytes)},
		{"verified", verified(r)},
		{"lineage", fmt.Sprintf("%s, left %s after revision %d", r.Lineage.ID, orUnnamed(r.Lineage.Parent), r.Lineage.Fork)},
	}
	if len(d.LeasesFound) > 0 {
		rows = append(rows, []string{"leases", fmt.Sprintf("%d restored with the time to live that deltas recorded", len(d.LeasesFound))})
	}
	if note := d.LeaseNote(); note != "" {
		rows = append(rows, []string{"leases", note})
	}
	for _, alarm := range d.AlarmsCleared {
		rows = append(rows, []string{"alarm", alarm + " cleared: the database is below its quota"})
	}
	for _, alarm := range d.AlarmsKept {
		rows = append(rows, []string{"alarm", alarm + " kept"})
	}
	if d.AuthEnabled {
		rows = append(rows, []string{"auth", "enabled; users and roles are those of " + r.Plan.Base.Name().String() + ", and later changes are lost"})
	}
	if d.Replaced != nil {
		rows = append(rows, []string{"replaced", d.Replaced.String()})
	}
	for _, x := range r.Damaged {
		rows = append(rows, []string{"damaged", x.Object + ": " + x.Reason})
	}
	return columns(w, rows)
}

// leaseNames are ids as etcdctl prints them.
func leaseNames(ids []int64) []string {
	var names []string
	for _, id := range ids {
		names = append(names, fmt.Sprintf("%016x", id))
	}
	return names
}

func verified(r *restorer.Result) string {
	s := "digests, no gap, every key's history, every page"
	if r.Restored.BaseHashKVChecked {
		s += ", HashKV of the full as etcd recorded it"
	}
	return fmt.Sprintf("%s; HashKV is now %d", s, r.Restored.HashKV.Hash)
}

func orUnnamed(id snapshot.LineageID) string {
	if id == "" {
		return "the unnamed lineage"
	}
	return string(id)
}
