package backup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/backup/retention"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/engine/catalog"
	"druid.internal/druid/internal/engine/collector"
	"druid.internal/druid/internal/engine/replay"
	"druid.internal/druid/internal/engine/verifier"
	"druid.internal/druid/internal/etcd/datadir"
	"druid.internal/druid/internal/store"
)

// collect lets go of what the policy lets go, once the prefix is known to be ours.
func (t *term) collect(ctx context.Context) error {
	if _, err := t.ours(); err != nil {
		return err
	}
	return t.letGo(ctx, t.store, t.cfg.Prefix, nil)
}

// letGo collects below a prefix, unless another cluster writes the backups by now, which an idle etcd with nothing to upload would
// not notice otherwise. Snapshots for which stays returns true are kept.
func (t *term) letGo(ctx context.Context, from *renewing, prefix snapshot.Prefix, stays func(snapshot.Name) bool) error {
	if err := t.snapshotter().StillOwner(ctx); err != nil {
		return err
	}
	if err := from.ready(ctx); err != nil {
		return err
	}
	deleter, _ := store.As[store.Deleter](from)
	opts := collector.Options{Prefix: prefix, Policy: t.cfg.Policy, LocksLast: true, Proofs: from.proofs.all(), Prove: t.prover(from),
		Now: t.cfg.Now, Parallel: requests, Log: t.log}
	if stays != nil {
		opts.Only = func(s timeline.Snapshot) bool { return !stays(s.Name()) }
	}
	c := collector.New(from, deleter, opts)
	plan, err := c.Plan(ctx)
	if err != nil {
		return err
	}
	for _, note := range plan.Notes {
		t.log.Warn("collection is incomplete", "store", from.role, "note", note)
	}
	t.cfg.Metrics.CollectionWaits(from.role, plan.Waiting.Objects)
	if n := plan.Waiting; n.Objects > 0 {
		t.log.Warn("collection waits for a proof of the newest chain", "store", from.role, "objects", n.Objects, "bytes", n.Bytes)
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

// prover reads the newest chain of a store for a collection that waits for its proof. At most one chain is read at a time,
// and only where there is room for two databases.
func (t *term) prover(from *renewing) func(context.Context, timeline.Timeline, snapshot.LineageID) (retention.Proof, []string, error) {
	return func(ctx context.Context, tl timeline.Timeline, lineage snapshot.LineageID) (retention.Proof, []string, error) {
		if t.cfg.Room != nil {
			if err := t.cfg.Room(); err != nil {
				return retention.Proof{}, []string{fmt.Sprintf("no chain is read before the collection: %v", err)}, nil
			}
		}
		select {
		case t.works.slot <- struct{}{}:
			defer func() { <-t.works.slot }()
		case <-ctx.Done():
			return retention.Proof{}, nil, ctx.Err()
		}
		var p retention.Proof
		var notes []string
		err := t.works.inRoom(ctx, func(ctx context.Context) (err error) {
			p, notes, err = verifier.Prove(ctx, verifier.Request{
				From:       replay.Options{Store: from, Timeline: tl, Lineage: &lineage, ReadAhead: readAhead, Log: t.log},
				ScratchDir: t.cfg.ScratchDir, KeepFree: t.cfg.KeepFree, MemoryLimit: t.cfg.ReplayMemory, Parallel: 1,
			})
			return err
		})
		if errors.Is(err, datadir.ErrNoRoom) {
			return retention.Proof{}, append(notes, err.Error()), nil
		}
		if err != nil {
			return p, notes, err
		}
		if !p.ReadAt.IsZero() {
			from.proofs.add(p)
		}
		if len(notes) > 0 && from == t.store {
			t.works.proved(agentapi.Proof{Result: agentapi.ProofBroken, Base: t.base(), Message: notes[0]})
		}
		return p, notes, nil
	}
}

// proofs are the last chains of a store that were read whole. They outlive terms, because each names the versions it is about.
type proofs struct {
	mu   sync.Mutex
	last []retention.Proof
}

// maxProofs bounds them: one for each lineage of a prefix is enough.
const maxProofs = 8

func (p *proofs) add(proof retention.Proof) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = append(p.last, proof)
	p.last = p.last[max(0, len(p.last)-maxProofs):]
}

func (p *proofs) all() []retention.Proof {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.last)
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
func names(ctx context.Context, s store.Reader, prefix snapshot.Prefix) (map[snapshot.Name]bool, error) {
	all := map[snapshot.Name]bool{}
	err := s.List(ctx, string(prefix), func(o store.Object) error {
		if key, err := snapshot.ParseKey(prefix, o.Key); err == nil && !o.Marker && key.Object == snapshot.SnapshotObject {
			all[bare(key.Name)] = true
		}
		if len(all) > catalog.MaxObjects {
			return fmt.Errorf("%w: more than %d snapshots", catalog.ErrFlooded, catalog.MaxObjects)
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
