package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/engine/compactor"
	"druid.internal/druid/internal/engine/replay"
	"druid.internal/druid/internal/etcd/codec"
)

func (a *app) compactCommand() *cobra.Command {
	var (
		from            storeFlags
		packing         compressionFlags
		out             outputFlag
		limits          replayFlags
		mode, retention string
		lineage         targetFlags
		fetchers        int
	)
	cmd := &cobra.Command{
		Use:   "compact",
		Short: "Replay the bucket into one new full in the bucket",
		Long: `Replay the bucket into one new full in the bucket, so that a restore reads one object instead
of a full and thousands of deltas. No etcd runs and nothing is deleted. If no delta follows the newest full
there is nothing to do.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			keep, err := compactor.ParseHistory(mode, retention)
			if err != nil {
				return &usageError{err}
			}
			compression, err := packing.build(codec.Native)
			if err != nil {
				return err
			}
			b, err := a.openReplay(cmd.Context(), from, lineage, limits)
			if err != nil {
				return err
			}
			if err := b.prepare(limits); err != nil {
				return err
			}
			defer b.release()
			res, err := compactor.Compact(cmd.Context(), compactor.Request{
				From: b.from,
				Into: b.store, Prefix: from.prefix, Keep: keep, Compression: compression,
				ScratchDir: limits.scratch, KeepFree: keepFree, MemoryLimit: int64(limits.memory), Parallel: fetchers, Writer: writer(), Now: time.Now,
			})
			b.shown.end()
			if err != nil {
				return b.withFindings(err)
			}
			return out.print(a.sys.out, newCompactView(res), func(w io.Writer) error { return compactTable(w, res) })
		},
	}
	flags := cmd.Flags()
	from.add(flags, "", "the store")
	from.addLock(flags)
	packing.add(cmd)
	out.add(flags)
	flags.StringVar(&mode, "auto-compaction-mode", "periodic", "how --auto-compaction-retention is meant: periodic or revision")
	flags.StringVar(&retention, "auto-compaction-retention", "30m", "history that stays readable: a duration or hours, or with mode revision a number of revisions; 0: none")
	flags.Var(&lineage.acceptLossTo, "accept-loss-to", "allow the result to end before the newest known revision, but not before this `REVISION`")
	flags.Var(&lineage.lineage, "lineage", "compact this lineage `ID` instead of the newest; unnamed: snapshots without one")
	limits.add(flags)
	flags.IntVar(&fetchers, "max-fetchers", 6, "deltas fetched and decoded at the same time; each takes about 10 MB")
	acceptWithoutEffect(flags, "no etcd runs during a compaction", "max-txn-ops", "max-request-bytes", "max-call-send-message-size", "embedded-etcd-quota-bytes",
		"etcd-connection-timeout", "etcd-snapshot-timeout", "etcd-defrag-timeout", "data-dir", "defragment")
	acceptWithoutEffect(flags, "snapshot leases are replaced by what the sidecar reports", "full-snapshot-lease-name", "delta-snapshot-lease-name", "enable-snapshot-lease-renewal", "metrics-scrape-wait-duration")
	flags.Lookup("defragment").NoOptDefVal = "true"
	flags.Lookup("enable-snapshot-lease-renewal").NoOptDefVal = "true"
	return cmd
}

// writer is how manifests name this program.
func writer() string { return "etcdbrctl " + version }

type compactView struct {
	Snapshot   string            `json:"snapshot,omitempty"` // absent: there was nothing to do
	Base       string            `json:"base"`
	Deltas     int               `json:"deltas"`
	Revision   snapshot.Revision `json:"revision"`
	Events     int64             `json:"events"`
	Keys       int64             `json:"keys"`
	Dropped    int64             `json:"dropped"` // superseded records
	ReadBytes  int64             `json:"readBytes"`
	Size       int64             `json:"size"`
	LeasesMade []string          `json:"leasesMade,omitempty"`
	Damaged    []replay.Damage   `json:"damaged,omitempty"`
	CompactRev snapshot.Revision `json:"compactRevision"`
	Seconds    float64           `json:"seconds"`
}

func newCompactView(r *compactor.Result) compactView {
	v := compactView{Base: r.Plan.Base.Name().String(), Deltas: len(r.Plan.Deltas), Revision: r.Plan.End, Damaged: r.Damaged, ReadBytes: replay.Bytes(r.Plan)}
	if !r.Nothing() {
		v.Snapshot, v.Revision, v.Size = r.Name.String(), r.Manifest.LastRevision, r.Manifest.Size
		v.Events, v.Keys, v.Dropped, v.CompactRev = r.Replayed.Events, r.Replayed.Keys, r.Replayed.RecordsDropped, r.Replayed.CompactRevision
		v.LeasesMade, v.Seconds = leaseNames(r.Replayed.LeasesMade), r.Took.Seconds()
	}
	return v
}

func compactTable(w io.Writer, r *compactor.Result) error {
	if r.Nothing() {
		what := "no delta follows"
		if len(r.Damaged) > 0 {
			what = "no delta that can be read follows"
		}
		fmt.Fprintf(w, "nothing to do: %s %s\n", what, r.Plan.Base.Name())
		return nil
	}
	fmt.Fprintf(w, "stored    %s in %s\n", r.Name, r.Took.Round(time.Millisecond))
	rows := [][]string{
		{"from", fmt.Sprintf("%s and %d deltas, %s", r.Plan.Base.Name(), len(r.Plan.Deltas), bytesString(replay.Bytes(r.Plan)))},
		{"size", bytesString(r.Manifest.Size)},
		{"revision", fmt.Sprintf("%d, history from %d on", r.Manifest.LastRevision, r.Replayed.CompactRevision)},
		{"keys", fmt.Sprint(r.Replayed.Keys)},
		{"events", fmt.Sprintf("%d replayed, %d superseded records dropped", r.Replayed.Events, r.Replayed.RecordsDropped)},
	}
	if note := r.Replayed.LeaseNote(); note != "" {
		rows = append(rows, []string{"leases", note})
	}
	for _, d := range r.Damaged {
		rows = append(rows, []string{"damaged", d.Object + ": " + d.Reason})
	}
	return columns(w, rows)
}
