package kube

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"druid.internal/druid/internal/agentapi"
)

func TestAnAPIServerThatRefusesIsAskedRarelyAndLoggedOnce(t *testing.T) {
	refusing := func(code int, header ...string) func(*server) {
		return func(s *server) {
			s.fault = func(*http.Request) *http.Response { return answer(code, "no", header...) }
		}
	}
	for phrase, c := range map[string]struct {
		spoil func(*server)
		mend  func(*server)
		want  Situation
	}{
		"it does not answer":       {func(s *server) { s.lost = errors.New("connection refused") }, nil, Unreachable},
		"it is overloaded":         {refusing(429, "Retry-After", "20"), nil, Throttled},
		"it has trouble":           {refusing(500), nil, Failing},
		"it is starting":           {refusing(503), nil, Failing},
		"the token is not good":    {refusing(401), nil, Denied},
		"the Role is too narrow":   {refusing(403), nil, Forbidden},
		"it does not take a field": {refusing(422), nil, Invalid},
		"the objects are not there": {func(s *server) { s.lease, s.member = nil, nil }, func(s *server) {
			fresh := newServer()
			s.lease, s.member = fresh.lease, fresh.member
		}, Missing},
	} {
		t.Run(phrase, func(t *testing.T) {
			s := newServer()
			c.spoil(s)
			story(t, s, working(), func(sc *sidecar) {
				pass(10 * time.Minute)
				// With waits of 8 seconds at least, once they have grown, and 30 of the other line.
				if n := len(s.calls); n < 20 || n > 100 {
					t.Errorf("%d requests in ten minutes", n)
				}
				if n := sc.logged("situation=" + string(c.want)); n != 2 {
					t.Errorf("logged %d times, want once for each object:\n%v", n, sc.lines)
				}
				if sc.answered["lease "+string(c.want)] == 0 || sc.answered["member "+string(c.want)] == 0 {
					t.Errorf("counted as %v, want %s", sc.answered, c.want)
				}
				s.change(func() {
					s.fault, s.lost = nil, nil
					if c.mend != nil {
						c.mend(s)
					}
				})
				pass(37 * time.Second)
				if s.lease.Spec.HolderIdentity == "" || s.status().State != "Started" {
					t.Errorf("after the recovery the Lease is %+v and the status %+v", s.lease, s.status())
				}
				if n := sc.logged("takes what it is told"); n != 2 {
					t.Errorf("the recovery is logged %d times, want once for each object", n)
				}
			})
		})
	}
}

func TestAServerThatHangsDelaysNothingElse(t *testing.T) {
	s := newServer()
	story(t, s, working(), func(c *sidecar) {
		s.forget()
		s.change(func() { s.hang = "status" })
		c.update(func(m *agentapi.Member) { m.BackupLeader = true })
		pass(time.Minute)
		if n := s.count("PATCH", "lease"); n != 6 {
			t.Errorf("%d heartbeats while the other request hangs, want 6", n)
		}
		if n := s.count("PATCH", "status"); n < 2 || n > 6 {
			t.Errorf("%d attempts of the other request, want one after the other, each for ten seconds", n)
		}
		if n := c.logged("no answer within 10s"); n != 1 {
			t.Errorf("the timeout is logged %d times, want once", n)
		}
	})
}

func TestAnotherClockIsTold(t *testing.T) {
	s := newServer()
	s.ahead = -2 * time.Minute
	story(t, s, working(), func(c *sidecar) {
		pass(time.Minute)
		if c.ahead < 119*time.Second || c.ahead > 121*time.Second {
			t.Errorf("the clock is ahead by %v, want two minutes", c.ahead)
		}
		if n := c.logged("clock here differs"); n != 1 {
			t.Errorf("logged %d times, want once", n)
		}
		s.change(func() { s.ahead = 0 })
		pass(time.Minute)
		if n := c.logged("agrees with"); n != 1 {
			t.Errorf("that it agrees again is logged %d times, want once", n)
		}
	})
}

func TestWaitsGrowToABound(t *testing.T) {
	for failures, want := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 5: 16 * time.Second, 6: 30 * time.Second, 9: 30 * time.Second, 1 << 30: 30 * time.Second} {
		if got := backoff(failures, 30*time.Second, 0.5); got != want {
			t.Errorf("after %d failures %v, want %v", failures, got, want)
		}
		if low, high := backoff(failures, 30*time.Second, 0), backoff(failures, 30*time.Second, 1); low != want*8/10 || high != want*12/10 {
			t.Errorf("after %d failures from %v to %v, want a fifth around %v", failures, low, high, want)
		}
	}
}

func TestAServerThatHangsDelaysTheEndBySeconds(t *testing.T) {
	for _, object := range []string{"member", "status"} {
		synctest.Test(t, func(t *testing.T) {
			s, c := newServer(), &sidecar{member: working(), answered: map[string]int{}}
			s.hang = object
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() {
				ended <- Run(ctx, Options{Server: "https://10.0.0.1:443", Client: &http.Client{Transport: s}, Namespace: "ns", Member: "main-0", Heartbeat: 10 * time.Second, State: c.state})
			}()
			pass(time.Minute)
			stop()
			began := time.Now()
			if err := <-ended; err != nil || time.Since(began) > parting {
				t.Errorf("requests about the %s hang: it ended after %v with %v, want within %v", object, time.Since(began), err, parting)
			}
		})
	}
}
