package backup

import (
	"context"
	"errors"
	"testing"

	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/backup/retention"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/storetest"
)

// collecting is a sidecar that collects only when a test asks for it, after three fulls.
func collecting(t *testing.T, change func(*Config)) (*etcds, *storetest.Memory, *sidecar) {
	t.Helper()
	e, bucket := newEtcds(t, 1), memory()
	cfg := e.config(0, to(bucket))
	cfg.CollectEvery, cfg.Policy = 0, retention.Policy{Method: retention.LimitBased, MaxBackups: 1}
	change(&cfg)
	sc := run(t, cfg)
	for range 3 {
		e.put(3)
		full(t, sc)
	}
	return e, bucket, sc
}

// waiting is how many objects the last collection kept for lack of a proof.
func (s *sidecar) waiting() float64 {
	n, _ := s.metric("etcdbr_snapshot_gc_unproven_objects", "store=primary")
	return n
}

func TestCollectionKeepsTheLastGoodChainWhenTheNewestFullIsDamaged(t *testing.T) {
	t.Parallel()
	e, bucket, sc := collecting(t, func(*Config) {})
	chain, _ := look(t, bucket, prefix).Timeline.Lineages[0].NewestChain()
	bucket.Flip(store.Version{Key: chain.Base.Key.String(), ID: chain.Base.Version}, -40)
	if err := sc.term().collect(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := countFulls(t, bucket, prefix); n < 2 {
		t.Errorf("%d fulls are left, want the damaged one and the one before", n)
	}
	if sc.waiting() == 0 {
		t.Error("the metric shows no object that waits for a proof")
	}
	until(t, "that the chain is broken is told", func() bool {
		s := sc.board.now().Snapshots
		return s != nil && s.Proof != nil && s.Proof.Result == agentapi.ProofBroken
	})
	last := e.put(3)
	full(t, sc)
	if err := sc.term().collect(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := countFulls(t, bucket, prefix); n != 1 || sc.waiting() != 0 {
		t.Errorf("%d fulls are left and %v objects wait, want the new full alone", n, sc.waiting())
	}
	whole(t, bucket, last)
}

// What a sidecar has proven lets go what precedes it, and nothing newer, also in a later term.
func TestCollectionUsesTheLastProof(t *testing.T) {
	t.Parallel()
	e, bucket, sc := collecting(t, func(c *Config) { c.Room = func() error { return errors.New("7 MB are free") } })
	if err := sc.term().collect(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := countFulls(t, bucket, prefix); n < 3 || sc.waiting() == 0 {
		t.Fatalf("without a proof, and without room for one, %d fulls are left and %v objects wait", n, sc.waiting())
	}
	if _, err := sc.Verify(t.Context()); err != nil {
		t.Fatal(err)
	}
	until(t, "the newest chain is proven", func() bool { return operation(sc, "verify").Status == agentapi.Success })
	proven, _ := look(t, bucket, prefix).Timeline.Lineages[0].NewestChain()
	e.put(3)
	full(t, sc)
	if err := sc.term().collect(t.Context()); err != nil {
		t.Fatal(err)
	}
	fulls := map[snapshot.Name]bool{}
	for _, o := range look(t, bucket, prefix).Listing.Objects {
		if o.Key.Name.Kind == snapshot.Full {
			fulls[o.Key.Name] = true
		}
	}
	if len(fulls) != 2 || !fulls[proven.Base.Name()] {
		t.Errorf("left are %v, want %s, which was proven, and the newer one", fulls, proven.Base.Name())
	}
}

// A proof in memory ends with the process: a new one reads before it deletes.
func TestRestartedSidecarReadsBeforeItDeletes(t *testing.T) {
	t.Parallel()
	_, bucket, sc := collecting(t, func(*Config) {})
	if _, err := sc.Verify(t.Context()); err != nil {
		t.Fatal(err)
	}
	until(t, "the newest chain is proven", func() bool { return operation(sc, "verify").Status == agentapi.Success })
	if got := sc.Leader.store.proofs.all(); len(got) != 1 {
		t.Fatalf("%d proofs are remembered, want 1", len(got))
	}
	faulty := storetest.NewFaulty(bucket)
	other := newRenewing("primary", to(faulty), sc.cfg)
	if got := other.proofs.all(); len(got) != 0 {
		t.Fatalf("%d proofs are known at the start, want none", len(got))
	}
	if err := sc.term().letGo(context.Background(), other, prefix, nil); err != nil {
		t.Fatal(err)
	}
	if faulty.Count(storetest.OpOpen) == 0 || len(other.proofs.all()) != 1 || countFulls(t, bucket, prefix) != 1 {
		t.Errorf("%d reads, %d proofs and %d fulls; want that the chain was read and one full is left",
			faulty.Count(storetest.OpOpen), len(other.proofs.all()), countFulls(t, bucket, prefix))
	}
}
