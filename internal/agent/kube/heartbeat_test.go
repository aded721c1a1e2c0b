package kube

import (
	"testing"
	"time"

	"druid.internal/druid/internal/agentapi"
)

func TestTheLeaseIsRenewedEveryHeartbeat(t *testing.T) {
	s := newServer()
	story(t, s, working(), func(*sidecar) {
		if got, want := s.lease.Spec.HolderIdentity, "4c37667312a3912b:cdf818194e3a8c32:Leader"; got != want {
			t.Errorf("the holder is %q, want %q", got, want)
		}
		if got := s.lease.Metadata.Annotations["member.etcd.gardener.cloud/tls-enabled"]; got != "true" {
			t.Errorf("TLS is %q, want true", got)
		}
		s.forget()
		pass(time.Minute)
		if n := s.count("PATCH", "lease"); n != 6 {
			t.Errorf("%d heartbeats in a minute, want 6", n)
		}
		if age := time.Since(s.lease.Spec.RenewTime.Time); age > time.Second {
			t.Errorf("the Lease is %v old", age)
		}
		if n := s.count("POST", "lease") + s.count("PUT", "lease"); n != 0 {
			t.Errorf("%d requests that could make a Lease", n)
		}
	})
}

func TestWhoTheHolderIs(t *testing.T) {
	for phrase, c := range map[string]struct {
		change func(*agentapi.Member)
		want   string
	}{
		"the leader":            {func(*agentapi.Member) {}, "4c37667312a3912b:cdf818194e3a8c32:Leader"},
		"a follower":            {func(m *agentapi.Member) { m.Etcd.Leader = "17" }, "4c37667312a3912b:cdf818194e3a8c32:Member"},
		"a learner":             {func(m *agentapi.Member) { m.Etcd.Leader, m.Etcd.Learner = "17", true }, "4c37667312a3912b:cdf818194e3a8c32:Member"},
		"nobody leads":          {func(m *agentapi.Member) { m.Etcd.Leader = "" }, ""},
		"etcd does not answer":  {func(m *agentapi.Member) { m.Etcd = nil }, ""},
		"the ids are not known": {func(m *agentapi.Member) { m.ID, m.ClusterID = "", "" }, ""},
	} {
		m := working()
		c.change(&m)
		if got := holderOf(m); got != c.want {
			t.Errorf("%s: %q, want %q", phrase, got, c.want)
		}
	}
}

func TestPeersAreSecureIfEtcdWasStartedSo(t *testing.T) {
	for phrase, c := range map[string]struct {
		urls   []string
		wanted bool
		want   bool
	}{
		"started with TLS":                   {[]string{"https://a:2380"}, false, true},
		"started without, and wanted with":   {[]string{"http://a:2380"}, true, false},
		"one address of two is in the clear": {[]string{"https://a:2380", "http://b:2380"}, true, false},
		"never started, wanted with TLS":     {nil, true, true},
		"never started, wanted without":      {nil, false, false},
	} {
		if got := securePeers(agentapi.Member{PeerURLs: c.urls, PeerTLSEnabled: c.wanted}); got != c.want {
			t.Errorf("%s: %t, want %t", phrase, got, c.want)
		}
	}
}

func TestWithoutALeaderTheLeaseIsNotRenewed(t *testing.T) {
	s := newServer()
	story(t, s, working(), func(c *sidecar) {
		c.update(func(m *agentapi.Member) { m.Etcd = &agentapi.Etcd{} })
		pass(time.Second)
		s.forget()
		pass(5 * time.Minute)
		if n := s.count("PATCH", "lease"); n != 0 {
			t.Errorf("%d heartbeats of a member without a leader", n)
		}
		c.update(func(m *agentapi.Member) { m.Etcd = &agentapi.Etcd{Leader: "17"} })
		pass(time.Second)
		if n := s.count("PATCH", "lease"); n != 1 || s.lease.Spec.HolderIdentity != "4c37667312a3912b:cdf818194e3a8c32:Member" {
			t.Errorf("%d heartbeats when there is one again, by %q", n, s.lease.Spec.HolderIdentity)
		}
		if n := c.logged("is not renewed"); n != 1 {
			t.Errorf("that it is not renewed is logged %d times", n)
		}
	})
}

func TestANewRoleIsToldAtOnce(t *testing.T) {
	s := newServer()
	story(t, s, working(), func(c *sidecar) {
		c.update(func(m *agentapi.Member) { m.Etcd = &agentapi.Etcd{Leader: "17"} })
		pass(time.Second)
		if got, want := s.lease.Spec.HolderIdentity, "4c37667312a3912b:cdf818194e3a8c32:Member"; got != want {
			t.Errorf("a second later the holder is %q, want %q", got, want)
		}
	})
}
