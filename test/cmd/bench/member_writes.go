package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// The writers whose writes must not stall: few writes, so that what they wait for is not each other.
const (
	stallWriters  = 4
	stallPause    = 10 * time.Millisecond // of each writer between two writes
	stallPatience = 10 * time.Second      // with one write; etcd itself gives up after seven
)

// writers write without end, each with a client of its own that knows all members, and remember when
// they were answered. A writer does not wait for an answer before its next write: whether the members
// take writes is the question, and not what becomes of one that was sent to a member that died.
type writers struct {
	cancel  context.CancelFunc
	all     sync.WaitGroup
	clients []*clientv3.Client

	mu    sync.Mutex
	acked [stallWriters][]answer
}

// answer is one write that succeeded.
type answer struct{ asked, at time.Time }

// startWriters begins; dial connects one.
func startWriters(ctx context.Context, dial func() (*clientv3.Client, error)) (*writers, error) {
	w := &writers{}
	ctx, w.cancel = context.WithCancel(ctx)
	for i := range stallWriters {
		c, err := dial()
		if err != nil {
			w.stop()
			return nil, err
		}
		w.clients = append(w.clients, c)
		w.all.Go(func() { w.write(ctx, i, c) })
	}
	return w, nil
}

func (w *writers) write(ctx context.Context, i int, c *clientv3.Client) {
	value := strings.Repeat("x", valueBytes)
	tick := time.NewTicker(stallPause)
	defer tick.Stop()
	var under sync.WaitGroup
	defer under.Wait()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		under.Go(func() {
			try, cancel := context.WithTimeout(ctx, stallPatience)
			defer cancel()
			asked := time.Now()
			if _, err := c.Put(try, fmt.Sprintf("/stall/%d/%d", i, n%100), value); err != nil {
				return
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			w.acked[i] = append(w.acked[i], answer{asked, time.Now()})
		})
	}
}

func (w *writers) stop() {
	w.cancel()
	w.all.Wait()
	for _, c := range w.clients {
		c.Close()
	}
}

// stall is how long writes waited.
type stall struct {
	gap  time.Duration // no write of a writer was answered, at the worst
	slow time.Duration // the slowest write that succeeded took so long
}

func (s stall) String() string {
	return fmt.Sprintf("no write answered for %.2f s, the slowest took %.2f s", s.gap.Seconds(), s.slow.Seconds())
}

// during looks at the time while do went on, and until every writer was answered once more.
func (w *writers) during(ctx context.Context, do func(context.Context) error) (stall, error) {
	from := time.Now()
	if err := w.answered(ctx, from); err != nil {
		return stall{}, err
	}
	if err := do(ctx); err != nil {
		return stall{}, err
	}
	to := time.Now()
	if err := w.answered(ctx, to); err != nil {
		return stall{}, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return longest(w.acked[:], from), nil
}

// answered waits until every writer was, after a time.
func (w *writers) answered(ctx context.Context, after time.Time) error {
	return again(ctx, "every writer is answered", func(context.Context) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		for i, all := range w.acked {
			if len(all) == 0 || !all[len(all)-1].at.After(after) {
				return fmt.Errorf("writer %d is not", i)
			}
		}
		return nil
	})
}

// longest finds the longest waits from a time on.
func longest(acked [][]answer, from time.Time) (s stall) {
	for _, all := range acked {
		last := from
		for _, a := range all {
			if a.at.After(from) {
				s.gap, s.slow, last = max(s.gap, a.at.Sub(last)), max(s.slow, a.at.Sub(a.asked)), a.at
			}
		}
	}
	return s
}
