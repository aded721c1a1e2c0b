package collector

import (
	"testing"

	"druid.internal/druid/internal/backup/retention"
	"druid.internal/druid/internal/engine/enginetest"
)

func TestThePlanForManyObjectsIsSmall(t *testing.T) {
	const n = 100_000
	allocated, live := enginetest.Memory(t, func() any {
		c := New(enginetest.Shelf{Snapshots: n, PerFull: 100}, nil,
			Options{Prefix: enginetest.Prefix, Policy: retention.Policy{Method: retention.LimitBased, MaxBackups: 100}})
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
