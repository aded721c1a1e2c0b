package retention

import (
	"math"
	"slices"
	"strings"
	"time"
)

// The original's garbage collection, written a second time: literally, from its description,
// with nothing of this package but the test. It is the measure for Decide on listings that
// the original handles well, and it keeps its flaws: Decide must explain each difference.

// oracleObject is one key of a listing as the original sees it.
type oracleObject struct {
	key         string
	full        bool
	chunk       bool
	start, last int64
	created     time.Time
	expiry      time.Time // zero: may be deleted at any time
}

type oraclePolicy struct {
	exponential    bool
	maxBackups     int
	deltaRetention time.Duration
	// prevLast is the last revision of the snapshot taken last; 0 if none was taken yet.
	prevLast int64
}

// oracleSort is the original's order; what it leaves open is settled by the key.
func oracleSort(list []oracleObject) {
	slices.SortFunc(list, func(a, b oracleObject) int {
		switch {
		case a.last != b.last:
			return int(a.last - b.last)
		case a.chunk != b.chunk:
			if a.chunk {
				return 1
			}
			return -1
		case !a.chunk && !a.created.Equal(b.created):
			return a.created.Compare(b.created)
		case a.start != b.start: // open in the original
			return int(b.start - a.start)
		}
		return strings.Compare(a.key, b.key)
	})
}

// oracle returns the keys that the original deletes.
func oracle(list []oracleObject, p oraclePolicy, now time.Time) map[string]bool {
	deleted := map[string]bool{}
	isDeletable := func(o oracleObject) bool {
		return o.expiry.IsZero() || now.After(o.expiry)
	}
	list = slices.Clone(list)
	oracleSort(list)

	// Chunks.
	for _, o := range list {
		if !o.chunk {
			continue
		}
		if p.prevLast == 0 || o.start > p.prevLast {
			continue
		}
		if isDeletable(o) {
			deleted[o.key] = true
		}
	}

	// Index 0 is taken for a full whatever it is.
	fullIdx := []int{0}
	for i := 1; i < len(list); i++ {
		if list[i].full && !list[i].chunk {
			fullIdx = append(fullIdx, i)
		}
	}
	if len(list) == 0 {
		return deleted
	}

	// deltaGC removes the deltas of one stream, which are the objects after its full.
	deltaGC := func(stream int) {
		end := len(list)
		if stream+1 < len(fullIdx) {
			end = fullIdx[stream+1]
		}
		for i := end - 1; i > fullIdx[stream]; i-- {
			o := list[i]
			if o.full || o.chunk {
				continue
			}
			if o.created.Before(now.Add(-p.deltaRetention)) && isDeletable(o) {
				deleted[o.key] = true
			}
		}
	}

	if !p.exponential {
		for i := 0; i < len(fullIdx)-1; i++ {
			deltaGC(i)
			if i < len(fullIdx)-p.maxBackups {
				if o := list[fullIdx[i]]; isDeletable(o) {
					deleted[o.key] = true
				}
			}
		}
		return deleted
	}

	now = now.UTC()
	eod := now.Truncate(24 * time.Hour).Add(23*time.Hour + 59*time.Minute + 59*time.Second)
	trackingWeek := 0
	for i := len(fullIdx) - 1; i > 0; i-- {
		snap, next := list[fullIdx[i]], list[fullIdx[i-1]]
		deltaGC(i - 1)
		age := eod.Sub(next.created)
		var threshold int
		if age < 24*time.Hour {
			if next.created.Hour() == now.Hour() {
				threshold = 0
			} else {
				threshold = 1
			}
		} else if age < 8*24*time.Hour {
			threshold = 24
		} else if age < 35*24*time.Hour {
			if trackingWeek == 0 {
				eod = eod.Add(-24 * time.Hour)
				trackingWeek = 1
			}
			threshold = 168
		} else {
			threshold = math.MaxInt32
		}
		hourChange := int(eod.Sub(next.created).Hours()) - int(eod.Sub(snap.created).Hours())
		dayChange := int(eod.Sub(next.created).Hours()/24) - int(eod.Sub(snap.created).Hours()/24)
		weekChange := int(eod.Sub(next.created).Hours()/168) - int(eod.Sub(snap.created).Hours()/168)
		if threshold == 0 || hourChange/threshold != 0 || dayChange*24/threshold != 0 || weekChange*168/threshold != 0 {
			continue
		}
		if isDeletable(next) {
			deleted[next.key] = true
		}
	}
	return deleted
}
