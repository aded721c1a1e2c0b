// Package writers is clients of an etcd that write all the time and remember what they were told, for
// demonstrations: what they were told must be true whatever happens to the cluster.
//
// It judges nothing: package ledger says what is missing.
package writers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"druid.internal/druid/test/ledger"
)

// Prefix begins the keys, which nobody else writes. Clients is how many write at once.
const (
	Prefix  = "/demo/"
	Clients = 4
)

const (
	keysPer      = 250 // of each client, nobody else's
	valueSize    = 200
	everyNth     = 12 // request is a deletion
	answerWithin = 1500 * time.Millisecond
	pause        = 80 * time.Millisecond // between two requests of a client
)

// Writers is ready as its zero value. One at a time starts and stops them.
type Writers struct {
	Ledger ledger.Ledger

	cancel context.CancelFunc
	done   sync.WaitGroup
	turn   [Clients]int // requests of each client so far

	mu      sync.Mutex
	last    time.Time // when the newest write was acknowledged
	stalled time.Duration
	acked   int
}

// Start lets the clients write through c until Stop.
func (w *Writers) Start(ctx context.Context, c clientv3.KV) {
	ctx, w.cancel = context.WithCancel(ctx)
	w.Ledger.Prefix = Prefix
	w.mu.Lock()
	w.last = time.Now()
	w.mu.Unlock()
	for i := range Clients {
		w.done.Go(func() { w.write(ctx, c, i) })
	}
}

// Stop returns when no request is under way.
func (w *Writers) Stop() {
	if w.cancel != nil {
		w.cancel()
		w.done.Wait()
		w.cancel = nil
	}
}

func (w *Writers) write(ctx context.Context, c clientv3.KV, client int) {
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		w.turn[client]++
		w.once(ctx, c, client, w.turn[client])
	}
}

// once makes one request and enters the answer, or that there was none.
func (w *Writers) once(ctx context.Context, c clientv3.KV, client, turn int) {
	ctx, cancel := context.WithTimeout(clientv3.WithRequireLeader(ctx), answerWithin)
	defer cancel()
	key := fmt.Sprintf("%s%d/%03d", Prefix, client, turn*7%keysPer)
	if turn%everyNth == 0 {
		r, err := c.Delete(ctx, key)
		switch {
		case err != nil:
			w.Ledger.UnsureDelete(key)
		case r.Deleted > 0:
			w.Ledger.Delete(key, r.Header.Revision)
		}
		w.answered(err == nil)
		return
	}
	value := fmt.Sprintf("%d.%d", client, turn)
	value += strings.Repeat(".", valueSize-len(value))
	r, err := c.Put(ctx, key, value)
	if err != nil {
		w.Ledger.Unsure(key, value)
	} else {
		w.Ledger.Put(key, value, r.Header.Revision)
	}
	w.answered(err == nil)
}

func (w *Writers) answered(well bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !well {
		return
	}
	now := time.Now()
	w.stalled = max(w.stalled, now.Sub(w.last))
	w.last = now
	w.acked++
}

// Mark begins to measure stalls anew.
func (w *Writers) Mark() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stalled = 0
}

// Stall is the longest time since Mark without an acknowledged write, the present one included.
func (w *Writers) Stall() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return max(w.stalled, time.Since(w.last))
}

// EverAcknowledged is how many requests were, those that were given up later included.
func (w *Writers) EverAcknowledged() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.acked
}

// watchFor is how long a watch may take to tell anything.
const watchFor = 30 * time.Second

// ListsAnew says whether a client that watches from an old revision is told that it is too old; it gets events
// otherwise. An error says that neither was so, as when there is no leader.
func ListsAnew(ctx context.Context, w clientv3.Watcher, rev int64) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, watchFor)
	defer cancel()
	for r := range w.Watch(clientv3.WithRequireLeader(ctx), Prefix, clientv3.WithPrefix(), clientv3.WithRev(rev)) {
		switch err := r.Err(); {
		case errors.Is(err, rpctypes.ErrCompacted):
			return true, nil
		case err != nil:
			return false, err
		case len(r.Events) > 0:
			return false, nil
		}
	}
	return false, errors.New("the watch hangs")
}
