package linear_test

import (
	"context"
	"errors"
	"flag"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"druid.internal/druid/test/linear"
	"druid.internal/druid/test/stores"
)

const checkTime = 5 * time.Minute

// load is many clients at an etcd; through may stand between a client and it.
func load(t *testing.T, e *stores.Etcd, operations int, through func(clientv3.KV) clientv3.KV) linear.Load {
	return linear.Load{Clients: 16, Keys: 24, Operations: operations, Prefix: "/linear/", Seed: 1,
		Connect: func(int) (clientv3.KV, error) {
			c, err := clientv3.New(clientv3.Config{Endpoints: e.Endpoints(), DialTimeout: 10 * time.Second})
			if err != nil {
				return nil, err
			}
			t.Cleanup(func() { c.Close() })
			if through == nil {
				return c, nil
			}
			return through(c), nil
		}}
}

var operations = flag.Int("operations", 40_000, "how many are checked of the etcd whose leader is killed")

// TestManyOperationsAreLinearizableThoughALeaderIsKilled is the etcd that everything
// else is measured by.
func TestManyOperationsAreLinearizableThoughALeaderIsKilled(t *testing.T) {
	e := stores.RunEtcd(t, stores.EtcdOptions{Members: 3})
	r := linear.NewRecorder()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	want := *operations
	killed := make(chan error, 1)
	go func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for r.Count() < want/2 {
			select {
			case <-ctx.Done():
				killed <- context.Cause(ctx)
				return
			case <-tick.C:
			}
		}
		leader := leaderOf(ctx, e)
		for leader == nil && ctx.Err() == nil { // there may be an election just now
			leader = leaderOf(ctx, e)
		}
		if leader == nil {
			killed <- context.Cause(ctx)
			return
		}
		leader.Kill()
		killed <- leader.Start(ctx)
	}()
	if err := load(t, e, want, nil).Run(ctx, r); err != nil {
		t.Fatal(err)
	}
	if err := <-killed; err != nil {
		t.Fatal(err)
	}
	ops := r.Operations()
	if n := linear.Acknowledged(ops); n < want {
		t.Errorf("%d operations were answered, want %d", n, want)
	}
	begun := time.Now()
	if err := linear.Check(ops, checkTime); err != nil {
		t.Fatal(err)
	}
	stall, _ := linear.Stall(ops)
	t.Logf("%d operations, %d without an answer, no write for %s; checked in %s", len(ops), len(ops)-linear.Acknowledged(ops), stall, time.Since(begun))
}

func leaderOf(ctx context.Context, e *stores.Etcd) *stores.Member {
	for _, m := range e.Members {
		c, err := clientv3.New(clientv3.Config{Endpoints: []string{m.Endpoint}, DialTimeout: 10 * time.Second})
		if err != nil {
			continue
		}
		s, err := c.Status(ctx, m.Endpoint)
		c.Close()
		if err == nil && s.Leader == s.Header.MemberId {
			return m
		}
	}
	return nil
}

// forgetful acknowledges one write in 50 that it keeps to itself. Once would do were each key read
// again before somebody writes it: a loss that nobody saw is no violation.
type forgetful struct {
	clientv3.KV
	writes *atomic.Int64
}

func (f forgetful) Put(ctx context.Context, key, value string, opts ...clientv3.OpOption) (*clientv3.PutResponse, error) {
	r, err := f.KV.Put(ctx, key, value, opts...)
	if err != nil || f.writes.Add(1)%50 != 0 {
		return r, err
	}
	// The write is taken back before it is acknowledged.
	if _, err := f.KV.Delete(ctx, key); err != nil {
		return nil, err
	}
	return r, nil
}

func TestALostWriteIsCaught(t *testing.T) {
	e := stores.RunEtcd(t, stores.EtcdOptions{})
	var writes atomic.Int64
	r := linear.NewRecorder()
	if err := load(t, e, 10_000, func(kv clientv3.KV) clientv3.KV { return forgetful{kv, &writes} }).Run(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	violated(t, linear.Check(r.Operations(), checkTime))
}

// stale answers one read in 500 with what was true a while ago.
type stale struct {
	clientv3.KV
	reads *atomic.Int64
	from  string
}

func (s stale) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	now, err := s.KV.Get(ctx, key, opts...)
	if err != nil || s.reads.Add(1)%500 != 0 {
		return now, err
	}
	old, err := s.KV.Get(ctx, key, append(opts, clientv3.WithRev(now.Header.Revision-200))...)
	if err != nil {
		return nil, err
	}
	if s.from == "a follower that is behind" {
		old.Header.Revision = now.Header.Revision - 200
	}
	return old, nil
}

func TestAStaleReadIsCaught(t *testing.T) {
	for _, from := range []string{"a follower that is behind", "a server that lies about its revision"} {
		t.Run(from, func(t *testing.T) {
			e := stores.RunEtcd(t, stores.EtcdOptions{})
			var reads atomic.Int64
			r := linear.NewRecorder()
			if err := load(t, e, 20_000, func(kv clientv3.KV) clientv3.KV { return stale{kv, &reads, from} }).Run(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			violated(t, linear.Check(r.Operations(), checkTime))
		})
	}
}

func violated(t *testing.T, err error) {
	t.Helper()
	v := (*linear.Violation)(nil)
	if !errors.As(err, &v) {
		t.Fatalf("Check: %v, want a violation", err)
	}
	if !strings.Contains(v.Error(), "client ") {
		t.Errorf("the violation names no operation: %v", v)
	}
}
