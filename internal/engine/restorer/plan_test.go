package restorer

import (
	"math"
	"testing"

	"druid.internal/druid/internal/backup/snapshot"
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
