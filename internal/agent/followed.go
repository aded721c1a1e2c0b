package agent

import (
	"context"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"druid.internal/druid/internal/agent/config"
	"druid.internal/druid/internal/agent/initialize"
	"druid.internal/druid/internal/agent/memberconf"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/etcd/member"
)

// followed is what the sidecar follows in its configuration file while it runs: the cluster outside that the members join,
// so that no etcd is restarted when the last of its members has gone, what a backup must reach to be restored,
// so that a member that waits for somebody to accept less goes on, beyond which revision a restore goes, whether a full is taken first, so that it is not
// any more when one is there, and whether others leave, so that one that was left begins.
type followed struct {
	path    string // empty: it does not change
	parse   config.Parser
	log     *slog.Logger
	current atomic.Pointer[config.Config]

	mu      sync.Mutex
	content []byte
	news    bool // the cluster outside is another one, and nobody was told
}

func follow(path string, first config.Config, parse config.Parser, log *slog.Logger) *followed {
	o := &followed{path: path, parse: parse, log: log}
	if parse == nil {
		o.parse = config.Parse
	}
	o.current.Store(&first)
	if path != "" {
		o.content, _ = os.ReadFile(path) // it was read a moment ago; if not, that is a change
	}
	return o
}

// outside is the cluster outside as it could be read last.
func (o *followed) outside() config.ExistingCluster { return o.current.Load().ExistingCluster }

// now is the content of the file at this moment. A member that decides how to begin reads etcd's file then too, which changes with it,
// and what was in this one two seconds ago may say the opposite.
func (o *followed) now() *config.Config {
	o.look()
	return o.current.Load()
}

// least is the revision that a backup must reach to be restored; 0: any.
func (o *followed) least() snapshot.Revision {
	return snapshot.Revision(o.now().Restoration.AtLeastRevision)
}

// lastKnown is a revision that clients may have seen, whatever the bucket tells; 0: none is known.
func (o *followed) lastKnown() snapshot.Revision {
	return snapshot.Revision(o.now().Restoration.LastKnownRevision)
}

// othersLeave: members that are not wanted any more may still run.
func (o *followed) othersLeave() bool { return o.now().Restoration.OthersLeave }

// fullFirst: whoever begins to make backups takes a full of his own first of all.
func (o *followed) fullFirst() bool { return o.current.Load().Snapshotter.FullFirst }

// endpoints are its client URLs.
func (o *followed) endpoints() []string { return o.outside().Endpoints }

// facts are what initialization is told; nil: there is no such cluster.
func (o *followed) facts() *initialize.Outside {
	c := o.now().ExistingCluster
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
func (o *followed) has(p member.Peer) bool {
	return slices.ContainsFunc(o.outside().Members, func(m config.ExistingMember) bool {
		return p.Name != "" && p.Name == m.Name || slices.ContainsFunc(p.PeerURLs, func(u string) bool { return slices.Contains(m.PeerURLs, u) })
	})
}

// run calls changed whenever the file names another cluster, or none any more, until ctx ends. A file
// that cannot be used leaves the former cluster in use, and is told.
func (o *followed) run(ctx context.Context, changed func()) error {
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
		o.look()
		if o.another() {
			changed()
		}
	}
}

// another says whether the file has named another cluster since the last call.
func (o *followed) another() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	news := o.news
	o.news = false
	return news
}

// look reads the file if it has changed.
func (o *followed) look() {
	o.mu.Lock()
	defer o.mu.Unlock()
	b, err := os.ReadFile(o.path)
	if o.path == "" || err != nil || string(b) == string(o.content) {
		return // Kubernetes replaces it by a rename: it is back in a moment
	}
	o.content = b
	next, err := o.parse(b)
	if err == nil {
		err = next.ExistingCluster.Check()
	}
	if err != nil {
		o.log.Error("the configuration file has changed and cannot be used; what is followed in it stays what it was", "file", o.path, "error", err)
		return
	}
	before := o.outside()
	o.current.Store(&next)
	if same(before, next.ExistingCluster) {
		return
	}
	o.news = true
	if next.ExistingCluster.Some() {
		o.log.Info("another cluster outside is to be joined", "endpoints", next.ExistingCluster.Endpoints)
	} else {
		o.log.Info("no cluster outside is to be joined any more: the wanted members are all there shall be")
	}
}

func same(a, b config.ExistingCluster) bool {
	return slices.Equal(a.Endpoints, b.Endpoints) && slices.EqualFunc(a.Members, b.Members, func(x, y config.ExistingMember) bool {
		return x.Name == y.Name && slices.Equal(x.PeerURLs, y.PeerURLs)
	})
}
