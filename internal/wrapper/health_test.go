package wrapper

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestProbesAreToldWhatWasSeenLast(t *testing.T) {
	bad := errors.New("seen")
	for name, c := range map[string]struct {
		happens             func(h *health, pass func(time.Duration))
		wantReady, wantLive string // empty: yes
	}{
		"nothing was started":            {func(*health, func(time.Duration)) {}, "the process starts", ""},
		"the sidecar restores for a day": {func(h *health, pass func(time.Duration)) { h.waits("restoring"); pass(24 * time.Hour) }, "restoring", ""},
		"etcd was started just now":      {func(h *health, _ func(time.Duration)) { h.runs() }, "waits for a leader", ""},
		"etcd answers":                   {func(h *health, _ func(time.Duration)) { h.runs(); h.sawCluster(nil); h.sawLocal(nil) }, "", ""},
		"the quorum was lost an hour ago": {func(h *health, pass func(time.Duration)) {
			h.runs()
			pass(time.Hour)
			h.sawCluster(bad)
			h.sawLocal(nil)
		}, "seen", ""},
		"local reads fail":              {func(h *health, pass func(time.Duration)) { h.runs(); pass(stuckAfter - 1); h.sawLocal(bad) }, "waits for a leader", ""},
		"local reads fail for too long": {func(h *health, pass func(time.Duration)) { h.runs(); pass(stuckAfter); h.sawLocal(bad) }, "waits for a leader", "for 10m0s: seen"},
		"a local read never comes back": {func(h *health, pass func(time.Duration)) { h.runs(); pass(stuckAfter) }, "waits for a leader", "for 10m0s"},
		"a local read came back":        {func(h *health, pass func(time.Duration)) { h.runs(); pass(stuckAfter); h.sawLocal(nil); pass(1) }, "waits for a leader", ""},
		"etcd stops for long": {func(h *health, pass func(time.Duration)) {
			h.runs()
			h.sawCluster(nil)
			pass(time.Hour)
			h.waits("stops")
		}, "stops", ""},
		"another etcd runs": {func(h *health, pass func(time.Duration)) {
			h.runs()
			h.sawLocal(bad)
			pass(stuckAfter)
			h.waits("stops")
			h.runs()
		}, "waits for a leader", ""},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
			h := newHealth(func() time.Time { return now })
			c.happens(h, func(d time.Duration) { now = now.Add(d) })
			check := func(what string, got error, want string) {
				if (got == nil) != (want == "") || got != nil && !strings.Contains(got.Error(), want) {
					t.Errorf("%s: %v, want %q", what, got, want)
				}
			}
			check("ready", h.readiness(), c.wantReady)
			check("live", h.liveness(), c.wantLive)
		})
	}
}
