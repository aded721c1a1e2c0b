package extender_test

import (
	"context"
	"crypto/sha256"
	"io"
	"strings"
	"testing"
	"time"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/engine/enginetest"
	"druid.internal/druid/internal/engine/extender"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/storetest"
)

// copyOf is the manifest of a copy of the only full, as a run writes it for a name.
func (s sleeper) copyOf(name string) snapshot.Manifest {
	s.T.Helper()
	m, err := snapshot.ParseManifest(enginetest.MustName(full), s.body(manifestOf(full)))
	if err != nil {
		s.T.Fatal(err)
	}
	m.Snapshot, m.CopiedFrom = name, full
	return m
}

// survives lives through days in which somebody plants something, runs keep the full by its name, and whatever no lock keeps is deleted;
// and says what they told. At each moment a full of the history is locked that has the bytes and the revisions.
func (s sleeper) survives(days int, plant func(i int)) (newer string) {
	s.T.Helper()
	genuine := s.body(enginetest.Key(enginetest.MustName(full)))
	told := func(q *extender.Request) { q.Digest = sha256.Sum256(genuine) }
	for i := range days {
		s.Clock.Advance(day)
		plant(i)
		r, err := s.try(s.wrapped(), keeping(full), told)
		if r.Kept.Problem != "" || !r.Kept.Protection.Protected() {
			s.T.Fatalf("day %d: %v, kept %+v", i, err, r.Kept)
		}
		if r.Kept.Newer != "" {
			newer = r.Kept.Newer
		}
		s.deletes()
		found := false
		l, _ := s.Catalog(prefix).Timeline.Lineage(lineage.ID)
		for _, f := range l.Snapshots {
			n := f.Name()
			found = found || n.Kind == snapshot.Full && n.Last == 10 && n.Compression == snapshot.Gzip && f.Usable() && string(s.body(f.Key.String())) == string(genuine)
		}
		if !found {
			s.T.Fatalf("day %d: no full is left: %q; kept %+v", i, s.names(), r.Kept)
		}
	}
	return newer
}

// Whoever may write plants manifests that look as if a run had begun a copy and died: what is copied to the name that they
// tell has to be a copy that is of use.
func TestAPlantedManifestDoesNotCaptureTheCopies(t *testing.T) {
	for phrase, c := range map[string]struct {
		name   func(i int) string
		change func(*snapshot.Manifest)
		told   bool
	}{
		"of a delta":          {func(i int) string { return enginetest.DeltaName(1, i+2, i+2) }, func(m *snapshot.Manifest) { m.LastRevision = enginetest.MustName(m.Snapshot).Last }, true},
		"of another revision": {func(i int) string { return enginetest.FullName(20, 60*24*(i+1)) }, func(m *snapshot.Manifest) { m.LastRevision = 20 }, true},
		"of another packing": {func(i int) string { return strings.TrimSuffix(enginetest.FullName(10, 60*24*(i+1)), ".gz") + ".zst" },
			func(*snapshot.Manifest) {}, true},
		"of an earlier time":     {func(i int) string { return enginetest.FullName(10, -i-1) }, func(*snapshot.Manifest) {}, true},
		"of the distant future":  {func(i int) string { return enginetest.FullName(10, 60*24*3650+i) }, func(*snapshot.Manifest) {}, false},
		"of another history":     {func(i int) string { return enginetest.FullName(10, 60*24*(i+1)-5) }, func(m *snapshot.Manifest) { m.Lineage.ID = "fedcba9876543210fedcba9876543210" }, true},
		"with a parent":          {func(i int) string { return enginetest.FullName(10, 60*24*(i+1)-5) }, func(m *snapshot.Manifest) { m.Lineage.Parent = "fedcba9876543210fedcba9876543210" }, true},
		"that is as it ought to": {func(i int) string { return enginetest.FullName(10, 60*24*(i+1)-5) }, func(*snapshot.Manifest) {}, false},
	} {
		t.Run(phrase, func(t *testing.T) {
			s := asleep(t, copying(), full)
			like := s.copyOf("")
			newer := s.survives(12, func(i int) {
				m := like
				m.Snapshot = c.name(i)
				c.change(&m)
				enginetest.Put(t, s.Memory, manifestOf(m.Snapshot), m.Encode())
			})
			if (newer != "") != c.told {
				t.Errorf("told %q", newer)
			}
		})
	}
}

// What passes for a copy is there whole: as a name that fits, a manifest, and an object that is locked for longer than what is good.
func TestAPlantedCopyIsNeverReliedOn(t *testing.T) {
	for phrase, c := range map[string]struct {
		content func(genuine []byte) []byte
		change  func(*snapshot.Manifest)
	}{
		"with other bytes":   {func(g []byte) []byte { return []byte(strings.Repeat("x", len(g))) }, func(*snapshot.Manifest) {}},
		"with fewer bytes":   {func(g []byte) []byte { return g[1:] }, func(*snapshot.Manifest) {}},
		"of another history": {func(g []byte) []byte { return g }, func(m *snapshot.Manifest) { m.Lineage.ID = "fedcba9876543210fedcba9876543210" }},
		"with a fork":        {func(g []byte) []byte { return g }, func(m *snapshot.Manifest) { m.Lineage.Parent, m.Lineage.Fork = "fedcba9876543210fedcba9876543210", 3 }},
	} {
		t.Run(phrase, func(t *testing.T) {
			for _, days := range []int{2, 4, 9} {
				p := copying()
				p.Period = time.Duration(days) * day
				s := asleep(t, p, full)
				genuine, like := s.body(enginetest.Key(enginetest.MustName(full))), s.copyOf("")
				newer := s.survives(30, func(i int) {
					m := like
					m.Snapshot = enginetest.FullName(10, 60*24*(i+1)-7)
					c.change(&m)
					enginetest.Put(t, s.Memory, enginetest.Key(enginetest.MustName(m.Snapshot)), c.content(genuine))
					enginetest.Put(t, s.Memory, manifestOf(m.Snapshot), m.Encode())
				})
				if newer == "" {
					t.Errorf("%d days: nobody was told", days)
				}
			}
		})
	}
}

// With weekly runs what is good can lapse a week after the last look at it.
func TestAPlantedCopyIsReadInTimeHoweverRareTheRuns(t *testing.T) {
	p := copying()
	p.Period = 12 * day
	s := asleep(t, p, full)
	genuine := s.body(enginetest.Key(enginetest.MustName(full)))
	for i := range 12 {
		s.Clock.Advance(6 * day)
		s.copyClaim(enginetest.FullName(10, 60*24*7*(i+1)-60), full, strings.Repeat("x", len(genuine)), sha256.Sum256(genuine))
		s.Clock.Advance(day)
		r, err := s.try(s.Memory, keeping(full), func(q *extender.Request) { q.Every = 7 * day })
		if r.Kept.Problem != "" || !s.holds(genuine) {
			t.Fatalf("week %d: %v, %+v", i, err, r.Kept)
		}
		s.deletes()
		if !s.holds(genuine) {
			t.Fatalf("week %d: the bytes of the final full are locked no longer", i)
		}
	}
}

// Once its lock has ended, the full can be replaced by another one that has no manifest to compare it with.
func TestANamedFullWithoutAManifestIsKnownByTheDigestThatWasTold(t *testing.T) {
	for way, profile := range ways() {
		s := asleep(t, profile(), full)
		digest := sha256.Sum256(s.body(enginetest.Key(enginetest.MustName(full))))
		s.Clock.Advance(period + time.Hour)
		s.deletes()
		s.full(full, "what an attacker likes")
		s.Lose(s.Versions(manifestOf(full))[0].Version)
		s.Clock.Advance(period - time.Hour)
		r, err := s.try(s.Memory, keeping(full), func(q *extender.Request) { q.Digest = digest })
		if r.Kept.Problem == "" || err == nil {
			t.Errorf("%s: %v, kept %+v", way, err, r.Kept)
		}
	}
}

// racer writes objects of the names of copies as soon as their manifests tell them.
type racer struct {
	*storetest.Memory
	left int
}

func (r *racer) Put(ctx context.Context, key string, body io.Reader, o store.PutOptions) (store.Object, error) {
	got, err := r.Memory.Put(ctx, key, body, o)
	if taken := strings.Replace(key, "/Manifest-", "/", 1); err == nil && taken != key && r.left > 0 {
		r.left--
		if _, err := r.Memory.Put(ctx, taken, strings.NewReader("chance"), o); err != nil {
			return got, err
		}
	}
	return got, err
}

func TestANameThatSomebodyTakesMeanwhileIsLeftToHim(t *testing.T) {
	for _, left := range []int{1, 2, 1000} {
		s := asleep(t, copying(), full)
		genuine := s.body(enginetest.Key(enginetest.MustName(full)))
		s.Clock.Advance(period - time.Hour)
		r, err := s.try(&racer{s.Memory, left}, keeping(full))
		if gaveUp := left > 2; (err != nil) != gaveUp {
			t.Errorf("%d names: %v", left, err)
		}
		end := s.Clock.Now().Add(period)
		if left > 2 {
			end = enginetest.Start.Add(period)
		}
		if !r.Kept.Protection.Until.Equal(end) || !s.holds(genuine) {
			t.Errorf("%d names: kept %+v", left, r.Kept)
		}
	}
}
