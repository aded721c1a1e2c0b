package snapshotter

import (
	"strings"
	"testing"

	"druid.internal/druid/internal/engine/catalog"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/storetest"
)

// TestDeltasThatContinueNothingWaitForAFull makes every full fail while deltas are cut quickly:
// at the first start, and after etcd has forgotten revisions. Not one delta may appear that
// nothing in the bucket leads to, or a crash now would leave a newest revision nobody can restore.
func TestDeltasThatContinueNothingWaitForAFull(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(*testing.T, *etcd, *storetest.Memory){
		"an empty bucket": func(*testing.T, *etcd, *storetest.Memory) {},
		"forgotten revisions": func(t *testing.T, e *etcd, s *storetest.Memory) {
			r := start(t, config(e, s))
			e.put(10)
			r.full(false)
			if err := r.stop(); err != nil {
				t.Fatal(err)
			}
			e.compact(e.put(20))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, s := newEtcd(t), memory()
			prepare(t, e, s)
			f := storetest.NewFaulty(s)
			failed := make(chan struct{}, 100)
			f.Hook(func(op storetest.Op, key string, phase storetest.Phase) {
				if op == storetest.OpPut && strings.Contains(key, "/Full-") && phase == storetest.Before {
					select {
					case failed <- struct{}{}:
					default:
					}
				}
			})
			f.Inject(storetest.Fail(store.ErrUnreachable).On(storetest.OpPut, "/Full-").For(3))
			cfg := config(e, f)
			cfg.DeltaLimit = 1 // every response is a delta of its own
			r := start(t, cfg)
			for range 3 {
				<-failed
				e.put(10)
			}
			last := e.revision()
			until(t, s, "everything after the full", func(c *catalog.Catalog) bool {
				l, chain, ok := newest(c)
				return ok && chain.End == last && l.Newest == last && chain.Gap == nil
			})
			if err := r.stop(); err != nil {
				t.Fatal(err)
			}
			for i, c := range f.Calls() {
				if c.Op == storetest.OpPut && strings.Contains(c.Key, "/Incr-") {
					fullsBefore := 0
					for _, p := range f.Calls()[:i] {
						if p.Op == storetest.OpPut && strings.Contains(p.Key, "Manifest-Full-") {
							fullsBefore++
						}
					}
					if fullsBefore == 0 {
						t.Errorf("%s was uploaded before a full and its manifest", c.Key)
					}
				}
			}
			if name == "an empty bucket" { // else etcd cannot tell any more what was
				wantRestorable(t, e, s, last)
			}
		})
	}
}

// A full that takes long, or fails and is tried again, keeps no delta from the bucket.
func TestDeltasGoOnWhileAFullIsUploadedAndRetried(t *testing.T) {
	t.Parallel()
	e, s := newEtcd(t), memory()
	f := storetest.NewFaulty(s)
	r := start(t, config(e, f))
	e.put(10)
	r.full(false)
	began, release := make(chan struct{}, 100), make(chan struct{})
	f.Hook(func(op storetest.Op, key string, phase storetest.Phase) {
		if op == storetest.OpPut && strings.Contains(key, "/Full-") && phase == storetest.Before {
			began <- struct{}{}
			<-release
		}
	})
	f.Inject(storetest.Fail(store.ErrUnreachable).On(storetest.OpPut, "/Full-").For(1))
	n, err := r.session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	n.wantFull("the test wants one")
	for range 2 {
		<-began // first the one that fails, then its repetition
		last := e.put(10)
		until(t, s, "the changes made meanwhile are in the bucket", func(c *catalog.Catalog) bool {
			_, chain, ok := newest(c)
			return ok && chain.End >= last
		})
		release <- struct{}{}
	}
	close(release)
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
}
