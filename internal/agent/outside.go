package agent

import (
	"context"
	"log/slog"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"druid.internal/druid/internal/agent/config"
	"druid.internal/druid/internal/agent/initialize"
	"druid.internal/druid/internal/agent/memberconf"
	"druid.internal/druid/internal/etcd/member"
)

// outside is the cluster outside that the members join. It is followed in the sidecar's configuration
// file, so that no etcd is restarted when the last of its members has gone.
type outside struct {
	path    string // empty: it does not change
	log     *slog.Logger
	content []byte
	current atomic.Pointer[config.ExistingCluster]
}

func openOutside(path string, first config.ExistingCluster, log *slog.Logger) *outside {
	o := &outside{path: path, log: log}
	o.current.Store(&first)
	if path != "" {
		o.content, _ = os.ReadFile(path) // it was read a moment ago; if not, that is a change
	}
	return o
}

// get is the cluster as it could be read last.
func (o *outside) get() config.ExistingCluster { return *o.current.Load() }

// endpoints are its client URLs.
func (o *outside) endpoints() []string { return o.get().Endpoints }

// facts are what initialization is told; nil: there is no such cluster.
func (o *outside) facts() *initialize.Outside {
	c := o.get()
	if !c.Some() {
		return nil
	}
	f := &initialize.Outside{Endpoints: c.Endpoints}
	for _, m := range c.Members {
		f.Members = append(f.Members, memberconf.Peer{Name: m.Name, PeerURLs: m.PeerURLs})
	}
	return f
}

// has says whether a listed member is one of its.
func (o *outside) has(p member.Peer) bool {
	return slices.ContainsFunc(o.get().Members, func(m config.ExistingMember) bool {
		return p.Name != "" && p.Name == m.Name || slices.ContainsFunc(p.PeerURLs, func(u string) bool { return slices.Contains(m.PeerURLs, u) })
	})
}

// run calls changed whenever the file names another cluster, or none any more, until ctx ends. A file
// that cannot be used leaves the former cluster in use, and is told.
func (o *outside) run(ctx context.Context, changed func()) error {
	if o.path == "" {
		return nil
	}
	tick := time.NewTicker(templateInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if o.look() {
			changed()
		}
	}
}

// look says whether the file names another cluster than before.
func (o *outside) look() bool {
	b, err := os.ReadFile(o.path)
	if err != nil || string(b) == string(o.content) {
		return false // Kubernetes replaces it by a rename: it is back in a moment
	}
	o.content = b
	next, err := config.Parse(b)
	if err == nil {
		err = next.ExistingCluster.Check()
	}
	if err != nil {
		o.log.Error("the configuration file has changed and cannot be used; the cluster outside stays what it was", "file", o.path, "error", err)
		return false
	}
	if before := o.get(); same(before, next.ExistingCluster) {
		return false
	}
	o.current.Store(&next.ExistingCluster)
	if next.ExistingCluster.Some() {
		o.log.Info("another cluster outside is to be joined", "endpoints", next.ExistingCluster.Endpoints)
	} else {
		o.log.Info("no cluster outside is to be joined any more: the wanted members are all there shall be")
	}
	return true
}

func same(a, b config.ExistingCluster) bool {
	return slices.Equal(a.Endpoints, b.Endpoints) && slices.EqualFunc(a.Members, b.Members, func(x, y config.ExistingMember) bool {
		return x.Name == y.Name && slices.Equal(x.PeerURLs, y.PeerURLs)
	})
}
