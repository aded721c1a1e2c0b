package snapshotter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"golang.org/x/sync/errgroup"

	"druid.internal/druid/internal/backup/snapshot"
)

// The limits of what is asked about leases, and recorded.
const (
	leasePace     = time.Second     // how often new leases are asked about while their delta grows
	leaseParallel = 32              // requests at a time: enough for ten thousand leases a second, and no more load than a few clients
	leaseWait     = 5 * time.Second // how long a delta waits for answers at most
	leaseBatch    = 1000            // leases in a record, and those that the events of a delta may refer to: its manifest is bounded
	leaseRefresh  = 128             // leases that are asked about again beside each delta
	leaseBytes    = 48 << 10        // records in one manifest, as JSON; see snapshot.MaxManifestSize
	maxLeases     = 1 << 20         // leases that are followed
)

// leases learns which leases etcd has, for the records in the manifests of deltas. etcd's watch
// shows only the ids that keys are attached to. So each of these is asked about after it was seen, and
// beside every delta the leases are listed, to find those without keys and those that ended:
//
//	watch ──ids──> pending ──┐
//	                         ├──ask──> found (what a chain does not know yet) ──> manifest of the next delta
//	list of all leases ──────┘
//
// Safe for concurrent use.
type leases struct {
	asking chan struct{} // holds a token while etcd is asked

	mu      sync.Mutex
	pending map[int64]struct{}     // a key was attached since etcd was asked
	known   map[int64]int64        // granted seconds of what was found so far
	next    int64                  // where the scan of all leases goes on, in the order of CompareLeases
	scanned bool                   // the scan has come to the end once: what exists is known
	late    bool                   // etcd did not answer in time for the last delta
	found   []snapshot.LeaseRecord // not handed out: of leases that keys are attached to,
	beside  []snapshot.LeaseRecord // and of all others
}

func newLeases() *leases {
	return &leases{asking: make(chan struct{}, 1), pending: map[int64]struct{}{}, known: map[int64]int64{}}
}

// see notes the leases that events refer to.
func (l *leases) see(events []*mvccpb.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range events {
		if e.Type == mvccpb.PUT && e.Kv.Lease != 0 && len(l.pending) < maxLeases {
			l.pending[e.Kv.Lease] = struct{}{}
		}
	}
}

// learnLeases asks about leases while deltas grow, because some end before their delta does.
func (n *session) learnLeases(ctx context.Context) error {
	pace := time.NewTicker(leasePace)
	defer pace.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-pace.C:
		}
		if !n.leases.waits() {
			continue
		}
		if err := n.askLeases(ctx, leaseWait, nil); err != nil {
			n.log.Debug("the times to live of leases are not known yet", "error", err)
		}
	}
}

func (l *leases) waits() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.pending) > 0
}

// leaseRecords are the records for a delta that ends at last and refers to the leases ids. Asking for
// them takes at most half the period of deltas, and hardly any time if the delta before waited in vain: many may
// be due. It is no condition: what etcd does not answer in time is recorded as unknown, and asked again
// for the next delta.
func (n *session) leaseRecords(ctx context.Context, ids []int64, last snapshot.Revision) []snapshot.LeaseRecord {
	wait := leasePace / 4
	if !n.leases.late { // only whoever uploads deltas uses it
		wait = min(max(n.cfg.DeltaPeriod/2, wait), leaseWait)
	}
	err := n.askLeases(ctx, wait, func(ctx context.Context, m Member) error {
		if err := n.leases.ask(ctx, m, ids); err != nil {
			return err
		}
		return n.leases.scan(ctx, m)
	})
	n.leases.late = err != nil
	records, unknown := n.leases.take(ids, last)
	switch {
	case unknown > 0:
		n.log.Warn("etcd did not answer for how long some leases were granted; a restore of this delta has their keys live on, unless a later one tells", "leases", unknown, "revision", int64(last), "error", err)
	case err != nil:
		n.log.Debug("not all leases could be asked about", "error", err)
	}
	return records
}

// askLeases calls what while it asks, and then asks about the leases that wait.
func (n *session) askLeases(ctx context.Context, wait time.Duration, what func(context.Context, Member) error) error {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	select {
	case n.leases.asking <- struct{}{}:
		defer func() { <-n.leases.asking }()
	case <-ctx.Done():
		return ctx.Err()
	}
	m, err := n.cfg.Connect(ctx)
	if err != nil {
		return err
	}
	if what != nil {
		return what(ctx, m)
	}
	l := n.leases
	l.mu.Lock()
	ids := slices.Collect(maps.Keys(l.pending))
	l.mu.Unlock()
	return l.ask(ctx, m, ids)
}

// ask finds out about those of the leases that wait.
func (l *leases) ask(ctx context.Context, m Member, ids []int64) error {
	ids = slices.Clone(ids)
	for len(ids) > 0 {
		batch := make([]int64, 0, leaseBatch)
		l.mu.Lock()
		for len(ids) > 0 && len(batch) < leaseBatch {
			if _, waits := l.pending[ids[0]]; waits {
				batch = append(batch, ids[0])
				delete(l.pending, ids[0]) // a key that is attached from now on has it wait again
			}
			ids = ids[1:]
		}
		l.mu.Unlock()
		answers, rev, err := askEach(ctx, m, batch)
		l.mu.Lock()
		for _, id := range batch {
			if _, answered := answers[id]; !answered {
				l.pending[id] = struct{}{}
			}
		}
		l.found = l.record(l.found, rev, answers, nil)
		l.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

// askEach asks about leases, several at a time, until ctx ends. The answers are true at rev, but for
// leases that were revoked or granted since they were asked about. With an error there may be answers too.
func askEach(ctx context.Context, m Member, ids []int64) (answers map[int64]int64, rev snapshot.Revision, err error) {
	answers = make(map[int64]int64, len(ids))
	if len(ids) == 0 {
		return answers, 0, nil
	}
	var mu sync.Mutex
	var g errgroup.Group
	g.SetLimit(leaseParallel)
	for _, id := range ids {
		g.Go(func() error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			granted, _, err := m.LeaseTTL(ctx, id)
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			answers[id] = min(max(granted, snapshot.LeaseGone), snapshot.MaxLeaseTTL)
			return nil
		})
	}
	err = g.Wait()
	if len(answers) == 0 {
		return answers, 0, err
	}
	rev, revErr := m.Revision(ctx)
	if revErr != nil { // without it no answer is of use
		return nil, 0, errors.Join(err, revErr)
	}
	return answers, rev, err
}

// record adds to records what the answers of revision rev have that is not known. With between it
// holds all of the answers. The caller holds mu.
func (l *leases) record(records []snapshot.LeaseRecord, rev snapshot.Revision, answers map[int64]int64, between *snapshot.LeaseRange) []snapshot.LeaseRecord {
	r := snapshot.LeaseRecord{Revision: rev, Between: between}
	for _, id := range slices.SortedFunc(maps.Keys(answers), snapshot.CompareLeases) {
		ttl := answers[id]
		before, is := l.known[id]
		switch {
		case ttl == snapshot.LeaseGone && between != nil:
			delete(l.known, id)
			continue
		case ttl == snapshot.LeaseGone:
			delete(l.known, id)
		case is && ttl == before && between == nil:
			continue
		case len(l.known) < maxLeases || is:
			l.known[id] = ttl
		}
		r.States = append(r.States, snapshot.LeaseState{ID: id, TTL: ttl})
	}
	if len(r.States) == 0 && between == nil {
		return records
	}
	return append(records, r)
}

// scan lists all leases and asks about those that appeared, those that are missing, and some of the
// others: one may have been revoked and granted again under the same id. Before the scan has come to the
// end for the first time, it records all that it passes.
func (l *leases) scan(ctx context.Context, m Member) error {
	l.mu.Lock()
	full := len(l.beside) > 0 // the next delta has no room for more
	l.mu.Unlock()
	if full {
		return nil
	}
	if _, err := m.Revision(ctx); err != nil { // the list is what this member has applied, so it must not be behind
		return err
	}
	listed, err := m.Leases(ctx)
	if err != nil {
		return err
	}
	if len(listed) > maxLeases {
		return fmt.Errorf("etcd has %d leases, and no more than %d are followed", len(listed), maxLeases)
	}
	slices.SortFunc(listed, snapshot.CompareLeases)
	exists := make(map[int64]struct{}, len(listed))
	for _, id := range listed {
		exists[id] = struct{}{}
	}

	l.mu.Lock()
	page, between := l.page(listed)
	ask := slices.Clone(page)
	if l.scanned {
		for _, id := range listed {
			if _, is := l.known[id]; !is && len(ask) < leaseBatch {
				ask = append(ask, id)
			}
		}
	}
	for id := range l.known {
		if _, is := exists[id]; !is && len(ask) < 2*leaseBatch {
			ask = append(ask, id)
		}
	}
	l.mu.Unlock()

	answers, rev, err := askEach(ctx, m, ask)
	if err != nil {
		return err
	}
	if len(ask) == 0 {
		if rev, err = m.Revision(ctx); err != nil {
			return err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.scanned {
		passed := make(map[int64]int64, len(page))
		for _, id := range page {
			passed[id] = answers[id]
			delete(answers, id)
		}
		l.beside = l.record(l.beside, rev, passed, &between)
	}
	l.beside = l.record(l.beside, rev, answers, nil)
	l.turn(between[1])
	return nil
}

// page is what the scan passes next of the sorted ids, and from where to where it comes with them. The
// caller holds mu.
func (l *leases) page(ids []int64) ([]int64, snapshot.LeaseRange) {
	most := leaseBatch
	if l.scanned {
		most = leaseRefresh
	}
	at, _ := slices.BinarySearchFunc(ids, l.next, snapshot.CompareLeases)
	if len(ids)-at <= most {
		return ids[at:], snapshot.LeaseRange{l.next, -1} // -1 is the last one
	}
	page := ids[at : at+most]
	return page, snapshot.LeaseRange{l.next, page[most-1]}
}

// turn goes on behind the id last, or from the beginning. The caller holds mu.
func (l *leases) turn(last int64) {
	if l.next = last + 1; l.next == 0 {
		l.scanned = true
	}
}

// take hands out records for a delta that ends at last and refers to the leases ids: as many as fit into
// its manifest, first those of leases with keys. unknown is how many leases are recorded as such.
func (l *leases) take(ids []int64, last snapshot.Revision) (records []snapshot.LeaseRecord, unknown int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	doubt := snapshot.LeaseRecord{Revision: last}
	for _, id := range ids {
		if _, waits := l.pending[id]; waits && len(doubt.States) < leaseBatch {
			doubt.States = append(doubt.States, snapshot.LeaseState{ID: id, TTL: snapshot.LeaseUnknown})
			delete(l.known, id) // the next answer is recorded, whatever it is
		}
	}
	room := leaseBytes
	fit := func(from []snapshot.LeaseRecord) []snapshot.LeaseRecord {
		for len(from) > 0 {
			text, err := json.Marshal(from[0])
			if size := len(text) + 1; err != nil || size > room && len(records) > 0 {
				break
			} else {
				room -= size
			}
			records, from = append(records, from[0]), from[1:]
		}
		return from
	}
	if len(doubt.States) > 0 {
		fit([]snapshot.LeaseRecord{doubt})
	}
	l.found = fit(l.found)
	l.beside = fit(l.beside)
	return records, len(doubt.States)
}
