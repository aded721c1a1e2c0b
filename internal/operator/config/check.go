package config

import (
	"errors"
	"fmt"
	"time"
)

// check looks at the bounds of every setting, and then at what two of them say together.
func (o *origin) check(c Config, rows []setting) {
	for _, s := range rows {
		if o.bad[s.path] {
			continue
		}
		if err := s.value.check(); err != nil {
			o.bad[s.path] = true
			o.add(o.at(s), err)
		}
	}
	byPath := make(map[string]setting, len(rows))
	for _, s := range rows {
		byPath[s.path] = s
	}
	for _, r := range rules {
		if r.applies != nil && !r.applies(c) {
			continue
		}
		names, usable := make([]string, len(r.paths)), true
		for i, path := range r.paths {
			names[i] = o.name(byPath[path])
			usable = usable && !o.bad[path]
		}
		if !usable {
			continue
		}
		o.add(o.at(byPath[r.paths[0]]), r.broken(c, names))
	}
}

// rule is about settings that must fit each other.
type rule struct {
	paths   []string // the first is where the problem is reported
	applies func(Config) bool
	broken  func(c Config, names []string) error
}

// jitter is by how much Kubernetes' client stretches the time between two attempts at the lease.
const jitter = 1.2

var rules = []rule{
	{
		paths: []string{"clientConnection.burst", "clientConnection.qps"},
		broken: func(c Config, names []string) error {
			if c.ClientConnection.QPS > 0 && c.ClientConnection.Burst == 0 {
				return fmt.Errorf("0 allows no request at all: give at least 1, or -1 to %s for no limit", names[1])
			}
			return nil
		},
	},
	{
		paths:   []string{"leaderElection.leaseDuration", "leaderElection.renewDeadline"},
		applies: func(c Config) bool { return c.LeaderElection.Enabled },
		broken: func(c Config, names []string) error {
			if l := c.LeaderElection; l.LeaseDuration <= l.RenewDeadline {
				return fmt.Errorf("%s is not longer than %s, %s: two operators could work at once; give more", short(l.LeaseDuration), names[1], short(l.RenewDeadline))
			}
			return nil
		},
	},
	{
		paths:   []string{"leaderElection.renewDeadline", "leaderElection.retryPeriod"},
		applies: func(c Config) bool { return c.LeaderElection.Enabled },
		broken: func(c Config, names []string) error {
			l := c.LeaderElection
			if least := time.Duration(jitter * float64(l.RetryPeriod)); l.RenewDeadline <= least {
				return fmt.Errorf("%s leaves no time for a second attempt: give more than %s, which is %g times %s", short(l.RenewDeadline), short(least), jitter, names[1])
			}
			return nil
		},
	},
	{
		paths:   []string{"leaderElection.resourceName"},
		applies: func(c Config) bool { return c.LeaderElection.Enabled },
		broken: func(c Config, _ []string) error {
			if c.LeaderElection.ResourceName == "" {
				return errors.New("the Lease needs a name: leave the setting out for druid-leader-election")
			}
			return nil
		},
	},
	{
		paths:   []string{"controllers.compaction.concurrentSyncs", "controllers.compaction.enabled"},
		applies: func(c Config) bool { return c.Controllers.Compaction.Enabled },
		broken: func(c Config, names []string) error {
			if c.Controllers.Compaction.ConcurrentSyncs == 0 {
				return fmt.Errorf("0 leaves nobody to do what %s asks for: give at least 1", names[1])
			}
			return nil
		},
	},
	{
		paths: []string{"webhooks.etcdComponentProtection.reconcilerServiceAccountFQDN", "webhooks.etcdComponentProtection.serviceAccountInfo.name"},
		broken: func(c Config, names []string) error {
			p := c.Webhooks.EtcdComponentProtection
			if p.ReconcilerServiceAccountFQDN != "" && p.ServiceAccountInfo != (ServiceAccountInfo{}) {
				return fmt.Errorf("the operator's account is given twice: keep %s and its namespace alone", names[1])
			}
			return nil
		},
	},
	{
		paths: []string{"webhooks.etcdComponentProtection.serviceAccountInfo.name", "webhooks.etcdComponentProtection.serviceAccountInfo.namespace"},
		broken: func(c Config, names []string) error {
			if i := c.Webhooks.EtcdComponentProtection.ServiceAccountInfo; (i.Name == "") != (i.Namespace == "") {
				return fmt.Errorf("belongs together with %s: give both or none", names[1])
			}
			return nil
		},
	},
	{
		paths: []string{"images.all", "images.wrapper", "images.sidecar", "images.init"},
		broken: func(c Config, _ []string) error {
			if i := c.Images; i.All == "" && (i.Wrapper == "" || i.Sidecar == "" || i.Init == "") {
				return errors.New("no image is named for some containers: give it, or each of the three others")
			}
			return nil
		},
	},
	apart("server.metrics.port", "server.health.port", func(s Server) (a, b Listener) { return s.Metrics, s.Health }, nil),
	apart("server.metrics.port", "server.webhooks.port", func(s Server) (a, b Listener) { return s.Metrics, s.Webhooks.Listener }, webhooksAreServed),
	apart("server.health.port", "server.webhooks.port", func(s Server) (a, b Listener) { return s.Health, s.Webhooks.Listener }, webhooksAreServed),
	apart("server.profiling.port", "server.metrics.port", func(s Server) (a, b Listener) { return s.Profiling.Listener, s.Metrics }, profilesAreServed),
	apart("server.profiling.port", "server.health.port", func(s Server) (a, b Listener) { return s.Profiling.Listener, s.Health }, profilesAreServed),
	apart("server.profiling.port", "server.webhooks.port", func(s Server) (a, b Listener) { return s.Profiling.Listener, s.Webhooks.Listener },
		func(c Config) bool { return webhooksAreServed(c) && profilesAreServed(c) }),
}

func webhooksAreServed(c Config) bool { return c.Webhooks.EtcdComponentProtection.Enabled }
func profilesAreServed(c Config) bool { return c.Server.Profiling.Enabled }

// apart is the rule that two listeners do not want the same port of the same address.
func apart(first, second string, of func(Server) (a, b Listener), applies func(Config) bool) rule {
	return rule{
		paths:   []string{first, second},
		applies: applies,
		broken: func(c Config, names []string) error {
			a, b := of(c.Server)
			if a.Port == b.Port && (a.BindAddress == b.BindAddress || a.BindAddress == "" || b.BindAddress == "") {
				return fmt.Errorf("%d is also %s: give another port", a.Port, names[1])
			}
			return nil
		},
	}
}
