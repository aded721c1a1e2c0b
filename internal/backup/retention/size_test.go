package retention

import (
	"runtime"
	"testing"
	"time"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
)

// TestDecidingCostsMemoryByTheObject: a bucket with many fulls, between which all deltas are
// kept, must not cost memory by their product. It counts allocated bytes, which do not depend on
// the machine.
func TestDecidingCostsMemoryByTheObject(t *testing.T) {
	perObject := func(fulls int) float64 {
		var l timeline.Listing
		add := func(n snapshot.Name) {
			n.Compression = snapshot.Gzip
			l.Objects = append(l.Objects, timeline.Object{Ref: timeline.Ref{Key: snapshot.SnapshotKey("p", n)}, Size: 1, Modified: n.CreatedAt(), Latest: true})
		}
		rev, now := snapshot.Revision(1), int64(1700000000)
		for range fulls {
			add(snapshot.Name{Kind: snapshot.Full, Last: rev, Created: now})
			for range 20 {
				rev, now = rev+10, now+20
				add(snapshot.Name{Kind: snapshot.Delta, Start: rev - 9, Last: rev, Created: now})
			}
		}
		b := Bucket{Listing: l, Timeline: timeline.Build(l), Locks: map[timeline.Ref]*immutability.Retention{}}
		p := Policy{Keep: Counts{Last: 7}, DeltaRetention: 7 * day}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := Decide(b, p, time.Unix(now, 0), time.Minute); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		return float64(after.TotalAlloc-before.TotalAlloc) / float64(len(l.Objects))
	}
	few, many := perObject(8), perObject(160)
	if many > 2*few {
		t.Errorf("%.0f bytes per object with 160 fulls, %.0f with 8", many, few)
	}
}
