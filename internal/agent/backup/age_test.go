package backup

import (
	"testing"
	"time"

	"druid.internal/druid/internal/store"
)

// A final full is given again for the same purpose. How old it is decides whether another one is needed.
func TestTheAgeOfASnapshotIsNeverLessThanItIsByAnyClock(t *testing.T) {
	now := time.Unix(1764000000, 0)
	told := func(ago time.Duration) store.Object { return store.Object{Modified: now.Add(-ago), ServerTime: now} }
	for name, c := range map[string]struct {
		object store.Object
		named  time.Duration // before now
		want   time.Duration
	}{
		"by both":                                    {told(5 * time.Minute), 5 * time.Minute, 5 * time.Minute},
		"it was long under way":                      {told(time.Minute), 20 * time.Minute, 20 * time.Minute},
		"named by a clock that is ahead":             {told(15 * time.Minute), -10 * time.Minute, 15 * time.Minute},
		"the store tells nothing":                    {store.Object{}, 5 * time.Minute, 5 * time.Minute},
		"neither the store nor the name tells of it": {store.Object{}, -10 * time.Minute, time.Hour},
		"just now":                                   {told(0), 0, 0},
	} {
		if got := age(c.object, now.Add(-c.named), now); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
