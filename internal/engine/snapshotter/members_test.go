package snapshotter

import (
	"strings"
	"sync"
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

// TestTwoMembersThatClaimAtOnceAgree has a second member of the cluster claim the prefix and write
// a full right before the first one claims it.
func TestTwoMembersThatClaimAtOnceAgree(t *testing.T) {
	t.Parallel()
	e, s := newEtcd(t), memory()
	e.put(5)
	second := config(e, s)
	second.Data = &memoryIdentity{}
	first := second
	first.Data = &memoryIdentity{}
	hooked := storetest.NewFaulty(s)
	var once sync.Once
	hooked.Hook(func(op storetest.Op, key string, phase storetest.Phase) {
		if op == storetest.OpPut && phase == storetest.Before && strings.Contains(key, "Owner-") {
			once.Do(func() {
				r := start(t, second)
				r.full(false)
				if err := r.stop(); err != nil {
					t.Error(err)
				}
			})
		}
	})
	first.Store = hooked
	for range 2 { // also when it has a file, and begins anew
		r := start(t, first)
		r.full(false)
		e.put(5)
		r.delta()
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
	}
	c := read(t, s)
	if n := len(c.Timeline.Lineages); n != 1 {
		t.Errorf("there are %d lineages, want 1", n)
	}
	for name, data := range map[string]IdentityFile{"first": first.Data, "second": second.Data} {
		if id, found, err := data.Load(); err != nil || !found || id.Owner != c.Owner.ID {
			t.Errorf("the %s member remembers %+v, %v, want the owner %s", name, id, err, c.Owner.ID)
		}
	}
	wantRestorable(t, e, s, e.revision())
}
