package extender_test

import (
	"crypto/sha256"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/engine/catalog"
	"druid.internal/druid/internal/engine/enginetest"
	"druid.internal/druid/internal/engine/extender"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/storetest"
)

// forged is a name with the revision of the final full and a later time.
var forged = enginetest.FullName(10, 600)

// further is one that goes further.
var further = enginetest.FullName(11, 600)

func keeping(name string) func(*extender.Request) {
	return func(q *extender.Request) { q.Keep = enginetest.MustName(name) }
}

// copyClaim writes what passes for a copy of a full: with a manifest that names it, and has its digest or the forged bytes'.
func (s sleeper) copyClaim(name, of, content string, digest snapshot.Digest) {
	s.T.Helper()
	n := enginetest.MustName(name)
	enginetest.Put(s.T, s.Memory, enginetest.Key(n), []byte(content))
	m := snapshot.Manifest{Version: 1, Snapshot: name, Lineage: lineage, Digest: digest, Size: int64(len(content)), ContentSize: int64(len(content)), LastRevision: n.Last, CopiedFrom: of}
	enginetest.Put(s.T, s.Memory, snapshot.SnapshotKey(prefix, n).Manifest().String(), m.Encode())
}

// body is what a key holds.
func (s sleeper) body(key string) []byte {
	s.T.Helper()
	r, err := s.Open(s.T.Context(), s.Versions(key)[0].Version, 0, -1)
	if err != nil {
		s.T.Fatal(err)
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		s.T.Fatal(err)
	}
	return b
}

// deletes has everything deleted that no lock keeps but what is spared, as whoever has the writer's credentials can.
func (s sleeper) deletes(spared ...string) {
	for ref, o := range s.Catalog(prefix).Objects.All() {
		spare := o.Marker
		for _, name := range spared {
			spare = spare || strings.Contains(ref.Key.String(), name)
		}
		if !spare {
			_ = s.Delete(s.T.Context(), store.Version{Key: ref.Key.String(), ID: ref.Version})
		}
	}
}

func manifestOf(name string) string {
	return snapshot.SnapshotKey(prefix, enginetest.MustName(name)).Manifest().String()
}

func (s sleeper) exclude(key string) {
	s.T.Helper()
	if err := s.SetTag(s.T.Context(), s.Versions(key)[0].Version, catalog.ExcludeTag, "true"); err != nil {
		s.T.Fatal(err)
	}
}

// ofLineage writes a full of another history.
func (s sleeper) ofLineage(id snapshot.LineageID, name, content string) {
	s.T.Helper()
	n := enginetest.MustName(name)
	enginetest.Put(s.T, s.Memory, enginetest.Key(n), []byte(content))
	m := snapshot.Manifest{Version: 1, Snapshot: name, Lineage: snapshot.Lineage{ID: id}, Digest: sha256.Sum256([]byte(content)), Size: int64(len(content)), LastRevision: n.Last}
	enginetest.Put(s.T, s.Memory, manifestOf(name), m.Encode())
}

// holds says whether the bytes are under some name that is locked.
func (s sleeper) holds(content []byte) bool {
	for ref, o := range s.Catalog(prefix).Objects.All() {
		if o.Marker || ref.Key.Object != snapshot.SnapshotObject {
			continue
		}
		if string(s.body(ref.Key.String())) == string(content) && o.Retention.Protected(s.Clock.Now(), 0).Protected {
			return true
		}
	}
	return false
}

// Whoever may write puts a newer full beside the final one of a cluster that sleeps, and deletes whatever he can.
func TestTheNamedFullOutlivesANewerOne(t *testing.T) {
	for name, p := range map[string]storetest.Profile{"in place": inPlace(), "hold": holding(), "copy": copying()} {
		t.Run(name, func(t *testing.T) {
			for _, named := range []bool{false, true} {
				s := asleep(t, p, full)
				genuine := s.body(enginetest.Key(enginetest.MustName(full)))
				s.Clock.Advance(time.Hour)
				s.full(forged, "what an attacker likes")
				for i := range 40 {
					s.Clock.Advance(day)
					if !named {
						s.extend()
					} else if r := s.extend(keeping(full)); r.Kept == nil || !r.Kept.Protection.Protected() || i == 0 && !strings.Contains(r.Kept.Newer, forged) || len(r.Warnings) > 0 {
						t.Fatalf("day %d: warnings %q, kept %+v", i, r.Warnings, r.Kept)
					}
					s.deletes("Manifest-" + full)
				}
				if s.holds(genuine) != named {
					t.Errorf("named %t: the bytes of the final full are locked: %t", named, !named)
				}
			}
		})
	}
}

// If nothing is newer it costs what it cost.
func TestANamedFullThatIsTheNewestCostsNothingMore(t *testing.T) {
	for name, p := range map[string]storetest.Profile{"in place": inPlace(), "hold": holding(), "copy": copying()} {
		t.Run(name, func(t *testing.T) {
			var calls [2]int
			for i, change := range []func(*extender.Request){func(*extender.Request) {}, keeping(full)} {
				s := asleep(t, p, full)
				s.Clock.Advance(3 * day)
				f := storetest.NewFaulty(s.Memory)
				r, err := s.try(f, change)
				if err != nil || len(r.Objects) != 2 {
					t.Fatalf("%+v, %v", r, err)
				}
				calls[i] = len(f.Calls())
				if k := r.Kept; k != nil && (k.Name != full || k.End != 10 || k.Newer != "" || k.Problem != "" || k.Protection != r.Protection || name == "in place" && r.Changes != 2) {
					t.Errorf("%+v, kept %+v", r, k)
				}
			}
			if calls[0] != calls[1] {
				t.Errorf("%d calls, and %d with a name", calls[0], calls[1])
			}
		})
	}
}

// A name that nothing has is told like a fall-back, and what is newest is kept all the same.
func TestANamedFullThatIsGoneIsToldAndTheNewestIsKept(t *testing.T) {
	for phrase, c := range map[string]struct {
		lose func(sleeper, string)
		why  string
	}{
		"it never was": {func(s sleeper, key string) {
			s.Lose(s.Versions(key)[0].Version)
			s.Lose(s.Versions(manifestOf(full))[0].Version)
		}, "gone"},
		"its manifest alone is left":    {func(s sleeper, key string) { s.Lose(s.Versions(key)[0].Version) }, "gone"},
		"it is excluded":                {func(s sleeper, key string) { s.exclude(key) }, "excluded"},
		"its bytes have changed":        {func(s sleeper, key string) { s.Flip(s.Versions(key)[0].Version, 30) }, "malformed"},
		"it is as long as it never was": {func(s sleeper, key string) { s.Truncate(s.Versions(key)[0].Version, 30) }, "not the ones its manifest describes"},
	} {
		t.Run(phrase, func(t *testing.T) {
			older := enginetest.FullName(7, -600)
			s := asleep(t, inPlace(), older, full)
			c.lose(s, enginetest.Key(enginetest.MustName(full)))
			s.Clock.Advance(3 * day)
			r, err := s.try(s.Memory, keeping(full))
			if !errors.Is(err, extender.ErrNotKept) || r.Kept.Name != "" || !strings.Contains(r.Kept.Problem, full) || !strings.Contains(r.Kept.Problem, c.why) || r.Kept.Newer != "" {
				t.Errorf("%v; %+v", err, r.Kept)
			}
			if r.Base != older || !r.Protection.Until.Equal(s.Clock.Now().Add(period)) || len(r.Damaged) != 1 {
				t.Errorf("what is newest: %+v", r)
			}
		})
	}
}

// What is newer may be damaged, or of another history, or such that nobody can ask for its lock.
func TestNothingNewerKeepsTheNamedFullFromBeingKept(t *testing.T) {
	for phrase, c := range map[string]struct {
		write func(sleeper)
		newer string
	}{
		"garbage": {func(s sleeper) { s.object(forged, strings.Repeat("chance", 500)) }, forged},
		"bytes of another": {func(s sleeper) {
			s.full(forged, "x")
			s.Flip(s.Versions(enginetest.Key(enginetest.MustName(forged)))[0].Version, 30)
		}, forged},
		"a manifest alone": {func(s sleeper) {
			s.full(enginetest.FullName(11, 600), "x")
			s.Lose(s.Versions(enginetest.Key(enginetest.MustName(enginetest.FullName(11, 600))))[0].Version)
		}, enginetest.FullName(11, 600)},
		"another history":    {func(s sleeper) { s.ofLineage("fedcba9876543210fedcba9876543210", forged, "other") }, ""},
		"a copy of its name": {func(s sleeper) { s.copyClaim(forged, full, "other", sha256.Sum256([]byte("other"))) }, forged},
		"without any manifest": {func(s sleeper) {
			enginetest.Put(s.T, s.Memory, enginetest.Key(enginetest.MustName(further)), []byte("chance"))
		}, further},
	} {
		t.Run(phrase, func(t *testing.T) {
			s := asleep(t, inPlace(), full)
			s.Clock.Advance(3 * day)
			c.write(s)
			s.Clock.Advance(time.Hour)
			r, err := s.try(s.Memory, keeping(full))
			want := s.Clock.Now().Add(period)
			if k := r.Kept; k.Name != full || !k.Protection.Until.Equal(want) || k.Problem != "" || k.Newer == "" || !strings.Contains(k.Newer, c.newer) {
				t.Errorf("%+v, %v", k, err)
			}
			if got := s.locked(enginetest.Key(enginetest.MustName(full))).Until; !got.Equal(want) {
				t.Errorf("locked until %s, want %s", got, want)
			}
		})
	}
}

// Whatever is written can be made so that reading it fails, as with a key that nobody has.
func TestAStoreThatDoesNotTellOfWhatIsNewerIsNoHindrance(t *testing.T) {
	s := asleep(t, inPlace(), full)
	s.full(forged, "what an attacker likes")
	s.Clock.Advance(3 * day)
	f := storetest.NewFaulty(s.Memory)
	f.Inject(storetest.Fail(errDead).On(storetest.OpOpen, enginetest.Key(enginetest.MustName(forged))).Always())
	r, err := s.try(f, keeping(full))
	if !errors.Is(err, errDead) || !r.Kept.Protection.Until.Equal(s.Clock.Now().Add(period)) || !strings.Contains(r.Kept.Newer, forged) {
		t.Errorf("%v, %+v", err, r.Kept)
	}
}

// The object that has its name may be another one by now: the oldest with the digest of the manifest counts.
func TestTheOldestVersionOfTheNamedFullIsKept(t *testing.T) {
	s := asleep(t, inPlace(), full)
	key := enginetest.Key(enginetest.MustName(full))
	first := s.Versions(key)[0]
	s.Clock.Advance(time.Hour)
	s.Overwrite(key, []byte("chance"))
	s.Clock.Advance(3 * day)
	r := s.extend(keeping(full))
	for _, v := range s.Versions(key) {
		if v.ID == first.ID && !v.Retention.Until.Equal(s.Clock.Now().Add(period)) {
			t.Errorf("%+v, kept %+v", v, r.Kept)
		}
	}
}

// On stores where copies are made: what passes for a copy has the digest in its manifest, and a later end than what is good.
func TestACopyIsReadBeforeWhatItReplacesIsLetGo(t *testing.T) {
	s := asleep(t, copying(), full)
	genuine := s.body(enginetest.Key(enginetest.MustName(full)))
	for i := range 40 {
		s.Clock.Advance(day)
		name := enginetest.FullName(10, 24*60*(i+1)+7)
		s.copyClaim(name, full, strings.Repeat("x", len(genuine)), sha256.Sum256(genuine))
		r, err := s.try(s.Memory, keeping(full))
		if err != nil && !errors.Is(err, extender.ErrFellBack) || r.Kept.Problem != "" {
			t.Fatalf("day %d: %v, %+v", i, err, r.Kept)
		}
		s.deletes("Manifest-")
		if !s.holds(genuine) {
			t.Fatalf("day %d: the bytes of the final full are locked no longer", i)
		}
	}
}

// Once its lock has ended it can be replaced, with a manifest of its own: its digest tells.
func TestANamedFullIsKnownByItsDigest(t *testing.T) {
	s := asleep(t, copying(), full)
	key := enginetest.Key(enginetest.MustName(full))
	genuine := s.body(key)
	digest := func(q *extender.Request) { q.Digest = sha256.Sum256(genuine) }
	for i := range 20 {
		s.Clock.Advance(day)
		s.deletes()
		if len(s.Versions(key)) == 0 {
			s.full(full, "what an attacker likes")
		}
		r, err := s.try(s.Memory, keeping(full), digest)
		if r.Kept.Problem != "" || !s.holds(genuine) {
			t.Fatalf("day %d: %v, %+v", i, err, r.Kept)
		}
	}
}

// What is newer and belongs to no chain was not read, so nobody knows whether it is damaged; and it is told once.
func TestANewerOneOfNoHistoryIsToldOnceAndNotAsDamage(t *testing.T) {
	planted := enginetest.FullName(9999, 600)
	for phrase, keep := range map[string]func(*extender.Request){"with a name": keeping(full), "without": func(*extender.Request) {}} {
		s := asleep(t, inPlace(), full)
		s.Clock.Advance(3 * day)
		enginetest.Put(t, s.Memory, enginetest.Key(enginetest.MustName(planted)), []byte("without a manifest"))
		var log strings.Builder
		r, err := s.try(s.Memory, keep, func(q *extender.Request) { q.Log = slog.New(slog.NewTextHandler(&log, nil)) })
		if !errors.Is(err, extender.ErrFellBack) || r.Base != full || len(r.Damaged) > 0 || len(r.Warnings) > 0 {
			t.Errorf("%s: %v, base %s, damaged %v, warnings %q", phrase, err, r.Base, r.Damaged, r.Warnings)
		}
		if want := planted + " of the unnamed lineage, which was written later without a manifest, and goes to revision 9999"; r.PassedOver != want || r.Kept != nil && r.Kept.Newer != want {
			t.Errorf("%s: it tells %q, kept %+v, want %q", phrase, r.PassedOver, r.Kept, want)
		}
		if strings.Count(log.String(), planted) != 1 {
			t.Errorf("%s: the log has\n%s", phrase, log.String())
		}
	}
}
