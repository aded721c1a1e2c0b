package collector

import (
	"testing"

	"druid.internal/druid/internal/backup/retention"
	"druid.internal/druid/internal/engine/catalog"
	"druid.internal/druid/internal/engine/enginetest"
)

func TestThePlanForManyObjectsIsSmall(t *testing.T) {
	const n = 100_000
	shelf := enginetest.Shelf{Snapshots: n, PerFull: 100}
	cat, err := catalog.Read(t.Context(), shelf, enginetest.Prefix, catalog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	proof, _, err := proveListed(t.Context(), cat.Timeline, cat.Timeline.Lineages[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	allocated, live := enginetest.Memory(t, func() any {
		c := New(shelf, nil,
			Options{Prefix: enginetest.Prefix, Policy: retention.Policy{Method: retention.LimitBased, MaxBackups: 100}, Proofs: []retention.Proof{proof}})
		p, err := c.Plan(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(p.Decisions) != n || len(p.Deletions()) < n/2 {
			t.Fatalf("%d decisions and %d deletions of %d objects", len(p.Decisions), len(p.Deletions()), n)
		}
		return p
	})
	if allocated > 11000*n || live > 1200*n {
		t.Errorf("%d bytes were allocated for each object and %d stay, want at most 11000 and 1200", allocated/n, live/n)
	}
}
