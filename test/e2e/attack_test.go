package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"druid.internal/druid/test/sites"
	"druid.internal/druid/test/stores"
)

// attack is what somebody with the credentials of the cluster does to one object of a backup.
type attack struct {
	do func(h hands, key string) error

	refused func(k sites.Kind) bool   // by the store, of what it locks
	finding func(k sites.Kind) string // in the next listing, where it is not refused
}

// attacks are the three ways to harm what exists: to overwrite, to hide, to destroy.
var attacks = map[string]attack{
	"an overwrite": {
		do:      func(h hands, key string) error { return h.raw.Overwrite(h.t.Context(), key, []byte("pay")) },
		refused: func(k sites.Kind) bool { return k.Whole },
		finding: func(sites.Kind) string { return "versions" },
	},
	"a deletion by name": {
		do:      func(h hands, key string) error { return h.raw.Hide(h.t.Context(), key) },
		refused: func(k sites.Kind) bool { return !k.Markers },
		finding: func(sites.Kind) string { return "marker" },
	},
	"a deletion of the version": {
		do: func(h hands, key string) error {
			var err error
			for _, v := range h.versions(key) {
				if e := h.raw.Delete(h.t.Context(), v); e != nil {
					err = e
				}
			}
			return err
		},
		refused: func(sites.Kind) bool { return true },
	},
}

// TestAttacksOnALockedBackupFailOrChangeNothingThatARestoreReads attacks every object, as each role whose
// credentials lie in the cluster and as an owner who may do more than those, in every kind of bucket that locks.
func TestAttacksOnALockedBackupFailOrChangeNothingThatARestoreReads(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 131, 60)
	w.useLocal(t.TempDir())
	last := w.backup(100)
	origin := w.place
	for _, name := range sites.Names() {
		s := fleet.Get(t, name)
		for _, kind := range s.Kinds() {
			if !kind.Locks {
				continue
			}
			for what, a := range attacks {
				t.Run(fmt.Sprintf("%s to %s, %s", what, name, kind.Name), func(t *testing.T) {
					t.Parallel()
					on := *w
					on.t = t
					bucket := on.useBucket(s, kind, sites.Owner)
					on.copyFrom(origin).succeeds("copy")
					before := handsOn(t, s, bucket, sites.Owner).versions("")
					for _, who := range []sites.Who{sites.Writer, sites.Extender, sites.Collector, sites.Owner} {
						on.attacked(s, bucket, kind, a, who)
					}
					on.unharmed(s, bucket, before, last)
				})
			}
		}
	}
}

// attacked lets somebody attack every object. A writer may be refused for want of rights where
// a lock would not refuse.
func (w *world) attacked(s sites.Site, bucket string, kind sites.Kind, a attack, who sites.Who) {
	t := w.t
	t.Helper()
	h := handsOn(t, s, bucket, who)
	keys := handsOn(t, s, bucket, sites.Owner).keys()
	harmed := 0
	for _, key := range keys {
		err := a.do(h, key)
		if err == nil {
			harmed++
		} else if who == sites.Owner && !a.refused(kind) {
			t.Errorf("the owner is refused: %v", err)
		}
	}
	if a.refused(kind) && harmed > 0 {
		t.Errorf("%d of %d objects could be attacked", harmed, len(keys))
	}
	l := w.list()
	for _, snap := range slices.Concat(l.all("Full"), l.all("Incr")) {
		switch {
		case harmed > 0 && !l.found(a.finding(kind), snap.Name):
			t.Errorf("of %s there is no finding %s among\n%+v", snap.Name, a.finding(kind), l.Findings)
		case harmed == 0 && who == sites.Writer && l.found("", snap.Name):
			t.Errorf("nothing happened to %s, and there are findings\n%+v", snap.Name, l.Findings)
		}
	}
}

// unharmed holds the bucket against what it was before, and restores.
func (w *world) unharmed(s sites.Site, bucket string, before []stores.RawVersion, last int64) {
	t := w.t
	t.Helper()
	h := handsOn(t, s, bucket, sites.Owner)
	for _, v := range before {
		v.Current = false
		if !slices.ContainsFunc(h.versions(v.Key), func(x stores.RawVersion) bool { x.Current = false; return x == v }) {
			t.Errorf("%+v is gone", v)
		}
	}
	dir, err := w.restore()
	if err != nil {
		t.Fatal(err)
	}
	w.check(dir, last)
	w.verifies()
}

// TestLocksCannotBeShortened has everybody try it who has credentials. Where a lock is one that its owner can lift, the
// same request does shorten it.
func TestLocksCannotBeShortened(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 133, 60)
	w.useLocal(t.TempDir())
	last := w.backup(60)
	origin := w.place
	for _, name := range sites.Names() {
		s := fleet.Get(t, name)
		for _, kind := range s.Kinds() {
			if !kind.Locks {
				continue
			}
			t.Run(name+", "+kind.Name, func(t *testing.T) {
				t.Parallel()
				on := *w
				on.t = t
				bucket := on.useBucket(s, kind, sites.Owner)
				on.copyFrom(origin).succeeds("copy")
				before := handsOn(t, s, bucket, sites.Owner).versions("")
				for who, said := range map[sites.Who]string{sites.Writer: "the writer", sites.Collector: "the collector", sites.Extender: "the extender", sites.Owner: "the owner"} {
					h := handsOn(t, s, bucket, who)
					raw, can := h.raw.(stores.Shortener)
					if !can {
						if kind.Loose {
							t.Errorf("nobody tried to shorten what can be lifted")
						}
						continue // a policy of the whole bucket, which no credentials of objects reach
					}
					// A policy of a whole container is changed by the management API, to which these credentials are nothing.
					// Azure knows one right to set policies of versions, whether that prolongs or, while they are not locked, shortens;
					// MinIO asks for no other one in governance mode.
					lifts := kind.Loose && kind != sites.LooseContainer && (who == sites.Owner || who == sites.Extender && (kind == sites.LevelLocked || kind == sites.Governance))
					for _, v := range before {
						if err := raw.Shorten(t.Context(), v); (err == nil) != lifts {
							t.Errorf("%s shortens the lock of %s: %v", said, v.Key, err)
						}
					}
				}
				if kind.Loose {
					return
				}
				h := handsOn(t, s, bucket, sites.Owner)
				for _, v := range before {
					if err := h.raw.Delete(t.Context(), v); err == nil {
						t.Errorf("%+v can be deleted", v)
					}
				}
				on.unharmed(s, bucket, before, last)
			})
		}
	}
}

// TestTheSameAttacksSucceedWhereNothingProtects is the proof that the test above can fail, and
// that a backup without protection is never restored wrongly.
func TestTheSameAttacksSucceedWhereNothingProtects(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 132, 60)
	w.useLocal(t.TempDir())
	w.backup(60)
	origin := w.place
	for _, name := range sites.Names() {
		for what, a := range attacks {
			t.Run(what+" to "+name, func(t *testing.T) {
				t.Parallel()
				s := fleet.Get(t, name)
				on := *w
				on.t = t
				bucket := on.useBucket(s, sites.Plain, sites.Owner)
				on.copyFrom(origin).succeeds("copy")
				h := handsOn(t, s, bucket, sites.Owner)
				for _, key := range h.keys() {
					if err := a.do(h, key); err != nil {
						t.Errorf("%s: %v", key, err)
					}
				}
				line := on.fails(4, "restore", slices.Concat([]string{"--data-dir=" + t.TempDir() + "/restored"}, alone)...)
				if strings.Contains(what, "overwrite") && len(on.list().Findings) == 0 {
					t.Errorf("everything is overwritten and nothing is found: %s", line)
				}
			})
		}
	}
}
