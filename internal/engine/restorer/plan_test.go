package restorer

import (
	"math"
	"testing"

	"druid.internal/druid/internal/backup/restoreplan"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/engine/replay"
	"druid.internal/druid/internal/etcd/datadir"
)

func TestAnAutomaticBumpAlwaysLeadsBeyondTheLastKnownRevision(t *testing.T) {
	for _, lowest := range []snapshot.Revision{1, 871, 1 << 40} {
		for _, known := range []snapshot.Revision{0, 871, 900_000_000, 5_000_000_000, 1 << 53, datadir.MaxRevision, math.MaxInt64} {
			by := Bump{Auto: true}.revisions(lowest, known)
			if by < minAutoBump || by < int64(known-lowest) {
				t.Errorf("from %d with %d known: the bump is %d", lowest, known, by)
			}
		}
	}
}

// Whoever writes backups, or is a member, can name any number. With it no restore could be beyond it.
func TestARevisionThatNoClusterReachesIsNotBelieved(t *testing.T) {
	full := func(last snapshot.Revision, excluded bool) timeline.Snapshot {
		return timeline.Snapshot{Last: last, Object: timeline.Object{Excluded: excluded}}
	}
	for phrase, c := range map[string]struct {
		bucket []timeline.Snapshot
		told   snapshot.Revision
		known  snapshot.Revision
		warns  bool
	}{
		"all as it should be":              {[]timeline.Snapshot{full(900, false), full(5_000_000_000, true)}, 1000, 5_000_000_000, false},
		"one of the bucket":                {[]timeline.Snapshot{full(900, false), full(math.MaxInt64, true)}, 1000, 1000, true},
		"the one that was told":            {[]timeline.Snapshot{full(900, false)}, math.MaxInt64, 900, true},
		"as far as a cluster may have got": {[]timeline.Snapshot{full(100+maxGap, false)}, 0, 100 + maxGap, false},
	} {
		p := restoreplan.Plan{}
		p.Base.Last = 100
		q := Request{Bump: Bump{Auto: true}, LastKnown: c.told, From: replay.Options{Timeline: timeline.Timeline{Lineages: []timeline.Lineage{{Snapshots: c.bucket[:1], Missing: c.bucket[1:]}}}}}
		got := q.complete(p)
		if got.LastKnown != c.known || (len(got.Warnings) > 0) != c.warns || int64(got.LastKnown) > 100+got.BumpBy || got.BumpBy > datadir.MaxRevision-100 {
			t.Errorf("%s: %d is known, the bump is %d, warnings %q; want %d", phrase, got.LastKnown, got.BumpBy, got.Warnings, c.known)
		}
	}
}

func TestBumpsReadBackAsTheyPrint(t *testing.T) {
	for _, s := range []string{"0", "1000000000", "4611686018427387904", "auto"} {
		if b, err := ParseBump(s); err != nil || b.String() != s {
			t.Errorf("%s reads as %s, %v", s, b, err)
		}
	}
	for _, s := range []string{"", "-1", "1e9", "4611686018427387905", "9223372036854775807", "9223372036854775808"} {
		if b, err := ParseBump(s); err == nil {
			t.Errorf("%q reads as %s", s, b)
		}
	}
}
