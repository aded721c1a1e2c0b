package backup

import (
	"context"
	"fmt"

	"druid.internal/druid/internal/backup/retention"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/engine/collector"
	"druid.internal/druid/internal/store"
)

// collect lets go of what the policy lets go, once the prefix is known to be ours.
func (t *term) collect(ctx context.Context) error {
	if _, err := t.ours(); err != nil {
		return err
	}
	return t.letGo(ctx, t.store, t.cfg.Prefix, nil)
}

// letGo collects below a prefix, unless somebody else writes the backups by now: an idle etcd has nothing to upload, so that nobody would
// have noticed. Snapshots that stay says so of are left alone.
func (t *term) letGo(ctx context.Context, from *renewing, prefix string, stays func(snapshot.Name) bool) error {
	if err := t.snapshotter().StillOwner(ctx); err != nil {
		return err
	}
	if err := from.ready(ctx); err != nil {
		return err
	}
	deleter, _ := store.As[store.Deleter](from)
	c := collector.New(from, deleter, collector.Options{Prefix: prefix, Policy: t.cfg.Policy, LocksLast: true, Now: t.cfg.Now, Parallel: requests, Log: t.log})
	plan, err := c.Plan(ctx)
	if err != nil {
		return err
	}
	for _, note := range plan.Notes {
		t.log.Warn("collection does not know everything", "store", from.role, "note", note)
	}
	for i, d := range plan.Decisions {
		if stays != nil && d.Action == retention.Delete && stays(d.Ref.Key.Name) {
			plan.Decisions[i].Action = retention.Keep
		}
	}
	if len(plan.Deletions()) == 0 {
		t.log.Debug("there is nothing to collect", "store", from.role, "summary", plan.Summary())
		return nil
	}
	report, err := c.Execute(ctx, plan)
	t.tally(report)
	t.log.Info("collected", "store", from.role, "deleted", report.Total(collector.Deleted).Objects, "bytes", report.Total(collector.Deleted).Bytes,
		"blocked", report.Total(collector.Blocked).Objects, "spared", report.Total(collector.Spared).Objects, "failed", report.Total(collector.Failed).Objects)
	return err
}

// tally counts what was tried, by the original's kinds.
func (t *term) tally(r collector.Report) {
	type class struct {
		kind string
		ok   bool
	}
	counts := map[class]int{}
	for _, o := range r.Outcomes {
		kind := map[retention.Kind]string{retention.Full: string(snapshot.Full), retention.Delta: string(snapshot.Delta), retention.Chunk: "Chunk"}[o.Kind]
		switch {
		case kind == "":
		case o.Result == collector.Deleted:
			counts[class{kind, true}]++
		case o.Result == collector.Failed:
			counts[class{kind, false}]++
		}
	}
	for c, n := range counts {
		t.cfg.Metrics.Collected(c.kind, c.ok, n)
	}
}

// names are the snapshots below a prefix. Final ones count by the name without that, because
// copies may have lost it.
func names(ctx context.Context, s store.Reader, prefix string) (map[snapshot.Name]bool, error) {
	all := map[snapshot.Name]bool{}
	err := s.List(ctx, prefix, func(o store.Object) error {
		if key, err := snapshot.ParseKey(prefix, o.Key); err == nil && !o.Marker && key.Object == snapshot.SnapshotObject {
			all[bare(key.Name)] = true
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list what is below %q: %w", prefix, err)
	}
	return all, nil
}

func bare(n snapshot.Name) snapshot.Name {
	n.Final = false
	return n
}
