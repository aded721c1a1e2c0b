package e2e

import (
	"net/http"
	"strings"
	"sync/atomic"

	"druid.internal/druid/test/faults"
	"druid.internal/druid/test/sites"
)

// moment is a place in a conversation with an object store: before or after the n-th request of
// a kind.
type moment struct {
	kind  string // what is done, see kindOf
	nth   int    // from 1
	after bool   // when the store has done it but nobody was told; else before the store hears of it
}

func (m moment) String() string {
	if m.after {
		return "after " + m.kind
	}
	return "before " + m.kind
}

// kindOf names what a request to a site does: list, put Full, stat Owner, part Full, …
func kindOf(s sites.Site, r *http.Request) string {
	q := s.Request(r)
	if q.Key == "" {
		return string(q.Does)
	}
	for _, part := range []string{"Manifest-", "Owner-", "Full-", "Incr-"} {
		if strings.Contains(q.Key, part) {
			return string(q.Does) + " " + strings.TrimSuffix(part, "-")
		}
	}
	return string(q.Does) + " object"
}

// assassin strikes at one moment of a conversation that goes through a gate.
type assassin struct {
	*faults.Gate
	site   sites.Site
	struck atomic.Bool
}

// arm says when to strike next, and how. From then on nothing passes until disarm.
func (a *assassin) arm(m moment, strike func()) {
	a.struck.Store(false)
	seen := 0
	a.Inject(faults.Fault{
		Match: func(r *http.Request) bool {
			if a.struck.Load() {
				return true
			}
			if kindOf(a.site, r) != m.kind {
				return false
			}
			seen++
			return seen == m.nth
		},
		Status: map[bool]int{false: http.StatusServiceUnavailable}[m.after],
		Lose:   m.after,
		Then: func() {
			if a.struck.CompareAndSwap(false, true) {
				strike()
			}
		},
	})
}
