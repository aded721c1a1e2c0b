package linear

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Load is many clients at once, each with a connection of its own, that do random but reproducible
// operations on few keys, so that they meet.
type Load struct {
	Connect    func(client int) (clientv3.KV, error) // called once for each client
	Clients    int
	Operations int           // answered ones of all clients together; 0: until ctx ends
	Keys       int           // that they share
	Prefix     string        // of the keys
	Size       int           // bytes of a value at least
	Timeout    time.Duration // how long a client waits for an answer; 0: 5 s
	Pace       time.Duration // a client asks once in that time at most; 0: as soon as it is answered
	Seed       int64
}

// DefaultTimeout is how long a client waits for an answer.
const DefaultTimeout = 5 * time.Second

// againAfter is the pause of a client whose last request was not answered.
const againAfter = 20 * time.Millisecond

// Run lets the clients loose and returns when the operations are done or ctx ended, which is no
// error if there was no number of operations to reach. Whatever was recorded is in r in any case.
func (l Load) Run(ctx context.Context, r *Recorder) error {
	if l.Clients < 1 || l.Keys < 1 || l.Connect == nil {
		return errors.New("a load needs clients, keys and a way to connect")
	}
	if l.Timeout == 0 {
		l.Timeout = DefaultTimeout
	}
	var done atomic.Int64
	var clients sync.WaitGroup
	errs := make([]error, l.Clients)
	for i := range l.Clients {
		clients.Go(func() {
			kv, err := l.Connect(i)
			if err != nil {
				errs[i] = fmt.Errorf("client %d: %w", i, err)
				return
			}
			w := &worker{load: l, client: r.Client(i, kv), rand: rand.New(rand.NewSource(l.Seed + int64(i)*7919)), done: &done}
			w.run(ctx)
		})
	}
	clients.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if l.Operations > 0 && done.Load() < int64(l.Operations) {
		return fmt.Errorf("%d of %d operations were answered: %w", done.Load(), l.Operations, context.Cause(ctx))
	}
	return nil
}

// worker is one client at work.
type worker struct {
	load   Load
	client *Client
	rand   *rand.Rand
	done   *atomic.Int64
	wrote  int
	known  map[string]int64 // the mod revisions it saw last, for swaps
}

func (w *worker) run(ctx context.Context) {
	w.known = map[string]int64{}
	pace := func() {}
	if w.load.Pace > 0 {
		tick := time.NewTicker(w.load.Pace)
		defer tick.Stop()
		pace = func() {
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	}
	for ctx.Err() == nil && (w.load.Operations == 0 || w.done.Load() < int64(w.load.Operations)) {
		o, err := w.step(ctx)
		if err == nil {
			w.done.Add(1)
			w.learn(o)
			pace()
			continue
		}
		// One lost answer is a question; many in a row would only make the record undecidable.
		w.recover(ctx, o.Key)
	}
}

// step does one random operation.
func (w *worker) step(ctx context.Context) (Operation, error) {
	ctx, cancel := context.WithTimeout(clientv3.WithRequireLeader(ctx), w.load.Timeout)
	defer cancel()
	key := fmt.Sprintf("%s%04d", w.load.Prefix, w.rand.Intn(w.load.Keys))
	switch x := w.rand.Intn(100); {
	case x < 40:
		return w.client.Get(ctx, key)
	case x < 70:
		return w.client.Put(ctx, key, w.value())
	case x < 92:
		return w.client.Swap(ctx, key, w.known[key], w.value())
	}
	return w.client.Delete(ctx, key)
}

// value is unlike all others of the record.
func (w *worker) value() string {
	w.wrote++
	v := fmt.Sprintf("%d.%d", w.client.id, w.wrote)
	return v + strings.Repeat(".", max(0, w.load.Size-len(v)))
}

func (w *worker) learn(o Operation) {
	switch {
	case o.Wrote() && o.Kind == Delete:
		w.known[o.Key] = 0
	case o.Wrote():
		w.known[o.Key] = o.Revision
	case o.Kind != Delete:
		w.known[o.Key] = o.Mod
	}
}

// recover reads until there is an answer.
func (w *worker) recover(ctx context.Context, key string) {
	tick := time.NewTicker(againAfter)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		attempt, cancel := context.WithTimeout(clientv3.WithRequireLeader(ctx), w.load.Timeout)
		o, err := w.client.Get(attempt, key)
		cancel()
		if err == nil {
			w.done.Add(1)
			w.learn(o)
			return
		}
	}
}
