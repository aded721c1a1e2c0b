package extender_test

import (
	"crypto/sha256"
	"errors"
	"strings"
	"testing"
	"time"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/engine/enginetest"
	"druid.internal/druid/internal/engine/extender"
	"druid.internal/druid/internal/store/storetest"
)

// A broken member wrote bytes that are no database as the final full, with a manifest that fits them: nothing is due, and whoever wants
// to know reads it all the same.
func TestWhatIsKeptIsReadIfThatIsWantedAlwaysAlthoughNothingIsDue(t *testing.T) {
	for name, p := range map[string]storetest.Profile{"in place": inPlace(), "hold": holding(), "copy": copying()} {
		for _, verify := range []extender.Verify{extender.VerifyFirst, extender.VerifyAlways} {
			s := asleep(t, p, full)
			s.Clock.Advance(time.Minute)
			r, err := s.try(s.Memory, keeping(full), func(q *extender.Request) { q.Every, q.Verify = day, verify })
			if err != nil || r.Kept.Problem != "" || r.Kept.Whole != (verify == extender.VerifyAlways) {
				t.Errorf("%s, read %s: of what is good it tells %+v, %v", name, verify, r.Kept, err)
			}
		}
		file := database(t, enginetest.MustName(full).Last, "a value")
		of := enginetest.MustName(full).Last
		for what, content := range map[string]string{
			"no archive":               "no database at all",
			"no database":              packed(t, []byte(strings.Repeat("garbage!", 512))),
			"half of one":              packed(t, file[:len(file)/2]),
			"one of a former revision": packed(t, database(t, of-1, "a value")),
		} {
			s := asleep(t, p)
			s.object(full, content)
			s.Clock.Advance(time.Minute)
			r, err := s.try(s.Memory, keeping(full), func(q *extender.Request) { q.Every, q.Verify = day, extender.VerifyAlways })
			understood := what != "half of one" // of which the digests are right
			if r.Kept == nil || r.Kept.Whole || (err != nil) != understood || (r.Kept.Problem != "") != understood || (r.Kept.Unproven != "") == understood {
				t.Errorf("%s: of what is %s it tells %+v, %v", name, what, r.Kept, err)
			}
		}
	}
}

// The manifest of a full tells the last revision that is in it, which may be a later one than that of its name.
func TestAFullThatLacksWhatItsManifestTellsIsDamaged(t *testing.T) {
	s, of := asleep(t, inPlace()), enginetest.MustName(full)
	b := []byte(packed(t, database(t, of.Last, "a value")))
	enginetest.Put(t, s.Memory, enginetest.Key(of), b)
	m := snapshot.Manifest{Version: 1, Snapshot: full, Lineage: lineage, Digest: sha256.Sum256(b), Size: int64(len(b)), ContentSize: int64(len(b)), LastRevision: of.Last + 1}
	enginetest.Put(t, s.Memory, manifestOf(full), m.Encode())
	r, err := s.try(s.Memory, keeping(full), func(q *extender.Request) { q.Verify = extender.VerifyAlways })
	if err == nil || r.Kept.Whole || !strings.Contains(r.Kept.Problem, "older than expected") {
		t.Errorf("it tells %+v, %v", r.Kept, err)
	}
}

// It would be read each time, and the locks would end all the same.
func TestARunThatIsNotToldForHowLongReadsNothing(t *testing.T) {
	forever := inPlace()
	forever.Period = 0
	s := asleep(t, forever, full)
	r, err := s.try(s.Memory, keeping(full), func(q *extender.Request) { q.Verify = extender.VerifyAlways })
	if !errors.Is(err, extender.ErrNoPeriod) || r.Kept == nil || r.Kept.Whole || r.Kept.Protection.Objects > 0 || r.BytesRead > 0 {
		t.Errorf("it tells %+v, %v", r.Kept, err)
	}
}

// Whoever may write puts a full of a child history there, of a lower revision: a restore of the newest state would use it.
func TestAChildHistoryOfALowerRevisionIsTold(t *testing.T) {
	s := asleep(t, inPlace(), full)
	s.Clock.Advance(time.Hour)
	n := enginetest.MustName(enginetest.FullName(5, 600))
	b := s.body(enginetest.Key(enginetest.MustName(full)))
	enginetest.Put(s.T, s.Memory, enginetest.Key(n), b)
	m := snapshot.Manifest{Version: 1, Snapshot: n.String(), Lineage: snapshot.Lineage{ID: "fedcba9876543210fedcba9876543210", Parent: lineage.ID, Fork: 4},
		Digest: sha256.Sum256(b), Size: int64(len(b)), ContentSize: int64(len(b)), LastRevision: n.Last}
	enginetest.Put(s.T, s.Memory, manifestOf(n.String()), m.Encode())
	if r, err := s.try(s.Memory, keeping(full)); r.Base != n.String() || !strings.Contains(r.Kept.Newer, n.String()) {
		t.Errorf("a restore of the newest state uses %q, and of that it tells %+v, %v", r.Base, r.Kept, err)
	}
}
