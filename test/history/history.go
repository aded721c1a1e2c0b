// Package history keeps the truth about an etcd while a test or demonstration writes to it: every event
// of every revision, from an unfiltered watch of its own, independent of anything that makes
// backups. From that it tells what the key space was at any revision, and what differs in a
// restored etcd.
package history

import (
	"bytes"
	"context"
	"fmt"
	"sort"
	"sync"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// History records the events of an etcd from its first revision on.
type History struct {
	mu     sync.Mutex
	grown  *sync.Cond
	events []*mvccpb.Event
	last   int64
	err    error
	cancel context.CancelFunc
	done   chan struct{}
}

// Record starts to record. Nothing may have been compacted yet.
func Record(c *clientv3.Client) *History {
	ctx, cancel := context.WithCancel(context.Background())
	h := &History{cancel: cancel, done: make(chan struct{}), last: 1}
	h.grown = sync.NewCond(&h.mu)
	watch := c.Watch(clientv3.WithRequireLeader(ctx), "\x00", clientv3.WithFromKey(), clientv3.WithRev(2), clientv3.WithFragment())
	go func() {
		defer close(h.done)
		for r := range watch {
			h.mu.Lock()
			if err := r.Err(); err != nil && ctx.Err() == nil {
				h.err = err
			}
			for _, e := range r.Events {
				h.events = append(h.events, (*mvccpb.Event)(e))
				h.last = e.Kv.ModRevision
			}
			h.grown.Broadcast()
			h.mu.Unlock()
		}
		h.mu.Lock()
		if h.err == nil {
			h.err = fmt.Errorf("the watch of the history ended")
		}
		h.grown.Broadcast()
		h.mu.Unlock()
	}()
	return h
}

// Stop ends the recording; what was recorded stays.
func (h *History) Stop() {
	h.cancel()
	<-h.done
}

// Reach waits until everything up to revision rev is recorded.
func (h *History) Reach(rev int64) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for h.last < rev {
		if h.err != nil {
			return fmt.Errorf("recorded up to revision %d of %d: %w", h.last, rev, h.err)
		}
		h.grown.Wait()
	}
	return nil
}

// Last is the last revision recorded.
func (h *History) Last() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last
}

// At is the key space at revision rev, sorted by key.
func (h *History) At(rev int64) []*mvccpb.KeyValue {
	h.mu.Lock()
	defer h.mu.Unlock()
	live := map[string]*mvccpb.KeyValue{}
	for _, e := range h.events {
		if e.Kv.ModRevision > rev {
			break
		}
		if e.Type == mvccpb.DELETE {
			delete(live, string(e.Kv.Key))
		} else {
			live[string(e.Kv.Key)] = e.Kv
		}
	}
	out := make([]*mvccpb.KeyValue, 0, len(live))
	for _, kv := range live {
		out = append(out, kv)
	}
	sort.Slice(out, func(i, j int) bool { return bytes.Compare(out[i].Key, out[j].Key) < 0 })
	return out
}

// Read lists the whole key space of an etcd at rev (0: now), in pages.
func Read(ctx context.Context, c *clientv3.Client, rev int64) (kvs []*mvccpb.KeyValue, at int64, err error) {
	for key := "\x00"; ; {
		r, err := c.Get(ctx, key, clientv3.WithFromKey(), clientv3.WithLimit(2000), clientv3.WithRev(rev))
		if err != nil {
			return nil, 0, err
		}
		if rev == 0 {
			rev = r.Header.Revision
		}
		kvs = append(kvs, r.Kvs...)
		if !r.More {
			return kvs, rev, nil
		}
		key = string(r.Kvs[len(r.Kvs)-1].Key) + "\x00"
	}
}

// Diff tells the first few differences between two key spaces, both sorted by key, in words.
// Equal means equal keys, values, create and mod revisions, versions and leases.
func Diff(got, want []*mvccpb.KeyValue) []string {
	const enough = 10
	var out []string
	note := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	i, j := 0, 0
	for (i < len(got) || j < len(want)) && len(out) < enough {
		switch {
		case j == len(want) || i < len(got) && bytes.Compare(got[i].Key, want[j].Key) < 0:
			note("key %q is there and should not be", got[i].Key)
			i++
		case i == len(got) || bytes.Compare(got[i].Key, want[j].Key) > 0:
			note("key %q is missing", want[j].Key)
			j++
		default:
			g, w := got[i], want[j]
			if g.CreateRevision != w.CreateRevision || g.ModRevision != w.ModRevision || g.Version != w.Version || g.Lease != w.Lease {
				note("key %q: create %d mod %d version %d lease %x, want %d %d %d %x", g.Key, g.CreateRevision, g.ModRevision, g.Version, g.Lease,
					w.CreateRevision, w.ModRevision, w.Version, w.Lease)
			} else if !bytes.Equal(g.Value, w.Value) {
				note("key %q: value differs", g.Key)
			}
			i, j = i+1, j+1
		}
	}
	return out
}
