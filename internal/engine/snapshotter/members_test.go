package snapshotter

import (
	"testing"
	"time"

	"druid.internal/druid/internal/engine/catalog"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/storetest"
)

// TestMembersOfAClusterAgreeOnALineage has one member begin a lineage and lose the leadership
// before it could upload anything, as happens while a cluster starts. Another member, which has
// data and a file of its own, begins; then the first one leads again.
func TestMembersOfAClusterAgreeOnALineage(t *testing.T) {
	t.Parallel()
	for name, owner := range map[string]string{"no owner is configured": "", "an owner is configured": "uid"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, s := newEtcd(t), memory()
			e.put(5)
			broken := storetest.NewFaulty(s)
			broken.Inject(storetest.Fail(store.ErrUnreachable).On(storetest.OpPut, "/Full-"))
			first := config(e, broken)
			first.Data, first.Owner, first.Grace = &memoryIdentity{}, owner, time.Millisecond
			r := start(t, first)
			until(t, s, "the prefix has an owner", func(c *catalog.Catalog) bool { return c.Owner != nil })
			if err := r.stop(); err != nil {
				t.Fatal(err)
			}
			second := first
			second.Store, second.Data = s, &memoryIdentity{}
			first.Store = s
			for i, cfg := range []Config{second, first, second, first} {
				r := start(t, cfg)
				r.full(false) // fails the test if the member is refused
				e.put(5)
				r.delta()
				if err := r.stop(); err != nil {
					t.Fatal(err)
				}
				if n := len(read(t, s).Timeline.Lineages); n != 1 {
					t.Fatalf("after turn %d there are %d lineages, want 1", i, n)
				}
			}
			wantRestorable(t, e, s, e.revision())
		})
	}
}
