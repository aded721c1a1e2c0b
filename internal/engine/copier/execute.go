package copier

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/store"
)

// maxFailures is how many objects may fail before a copy gives up: it can be run again, and a
// store that fails this often will not do better with the next thousand.
const maxFailures = 5

// Execute carries out plan. Objects are copied several at a time, but none before the full it
// needs, and none after one of its stream that failed: what has arrived is restorable.
//
// Objects that vanish from the source are reported, and are an error (ErrVanished) only if
// without them the newest chain ends earlier. The report is complete also when there is an
// error; running again continues.
func (c *Copier) Execute(ctx context.Context, plan Plan) (Report, error) {
	report := Report{From: plan.From, To: plan.To}
	if !plan.made || plan.From != place(c.from.Store, c.from.Prefix) || plan.To != place(c.to.Store, c.to.Prefix) {
		return report, errors.New("copy: the plan was not made by this copier")
	}
	x := &execution{c: c, plan: plan, items: make([]Item, len(plan.Steps)), done: make([]chan struct{}, len(plan.Steps)),
		broken: map[int]string{}, total: plan.work()}
	_, inside := store.As[store.Copier](c.to.Store)
	x.serverSide.Store(inside)
	for i, s := range plan.Steps {
		x.items[i] = Item{From: s.From, To: s.To, State: None, Size: s.Size, Why: "not reached"}
		x.done[i] = make(chan struct{})
	}
	err := x.run(ctx)
	for i, item := range x.items {
		if item.State == None { // what was reached is recorded already
			err = errors.Join(err, c.opts.State.set(item.To, x.entry(i)))
		}
	}
	err = errors.Join(err, c.opts.State.save())
	if err == nil {
		err = x.recheck(ctx)
	}
	if err == nil {
		err = x.vanished()
	}
	report.Items = x.items
	if err != nil {
		return report, fmt.Errorf("copy from %s to %s: %w", plan.From, plan.To, err)
	}
	return report, nil
}

// execution is one run of Execute.
type execution struct {
	c    *Copier
	plan Plan
	// done[i] is closed when items[i] is settled; nobody else reads or writes it before.
	items      []Item
	done       []chan struct{}
	serverSide atomic.Bool
	total      int64
	copied     atomic.Int64 // bytes

	mu       sync.Mutex
	failures []error
	broken   map[int]string // streams, by the step of their full, of which an object failed
}

func (x *execution) run(ctx context.Context) error {
	g, each := errgroup.WithContext(ctx)
	g.SetLimit(x.c.opts.Parallel)
	for i := range x.plan.Steps {
		if each.Err() != nil {
			break
		}
		g.Go(func() error { return x.step(each, i) })
	}
	err := g.Wait()
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.failures) > 0 {
		return errors.Join(err, summary(x.failures))
	}
	if err == nil {
		err = ctx.Err()
	}
	return err
}

// summary makes one error of the failures of some objects. Conflicts carry their own remedy:
// running it again meets them again.
func summary(failures []error) error {
	var conflicts, others []error
	for _, err := range failures {
		if errors.Is(err, ErrConflict) {
			conflicts = append(conflicts, err)
		} else {
			others = append(others, err)
		}
	}
	switch {
	case len(conflicts) == 0:
		return fmt.Errorf("%d objects could not be copied, run it again to continue; the first: %w", len(others), others[0])
	case len(others) == 0:
		return fmt.Errorf("%d objects could not be copied; the first: %w", len(conflicts), conflicts[0])
	}
	return fmt.Errorf("%d objects could not be copied; %d of them would fail again, the first: %w; run it again for the others, the first: %w",
		len(failures), len(conflicts), conflicts[0], others[0])
}

func (x *execution) givenUp() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.failures) >= maxFailures
}

// step copies one object. An error ends the whole run; the failure of one object does not.
func (x *execution) step(ctx context.Context, i int) error {
	defer close(x.done[i])
	s, item := x.plan.Steps[i], &x.items[i]
	if s.full != i { // steps start in order, so its full is under way and needs no place of its own
		select {
		case <-x.done[s.full]:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if why := x.useless(i); why != "" {
		item.Why = why
		return nil
	}
	err := x.arrive(ctx, s, item)
	if err == nil && s.describe {
		err = x.putManifest(ctx, s)
	}
	switch {
	case err == nil:
		item.State, item.Why = Copied, ""
	case ctx.Err() != nil:
		item.Why = "interrupted"
		return ctx.Err()
	case errors.Is(err, errGone):
		item.State, item.Why = NotFound, err.Error()
	default:
		item.Why = err.Error()
		x.fail(s, err)
	}
	x.c.opts.Log.Debug("copy", "object", s.To, "state", string(item.State), "how", string(item.How), "why", item.Why)
	return x.c.opts.State.set(s.To, x.entry(i))
}

// useless tells why copying the i-th object would leave something that cannot be restored.
func (x *execution) useless(i int) string {
	s := x.plan.Steps[i]
	x.mu.Lock()
	why := x.broken[s.full]
	x.mu.Unlock()
	if why != "" {
		return why
	}
	if x.givenUp() {
		return "given up after too many failures"
	}
	if full := x.items[s.full]; s.full != i && full.State != Copied && !x.olderFull(s) {
		return full.From + ", which it continues, was not copied"
	}
	return ""
}

// olderFull reports whether a full before that of s was copied, which s may continue just as well.
func (x *execution) olderFull(s Step) bool {
	for i, before := range x.plan.Steps[:s.full] {
		if before.Lineage != s.Lineage || before.full != i {
			continue
		}
		select {
		case <-x.done[i]:
			if x.items[i].State == Copied {
				return true
			}
		default:
		}
	}
	return false
}

func (x *execution) fail(s Step, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.failures = append(x.failures, err)
	if x.broken[s.full] == "" {
		x.broken[s.full] = s.From + " before it was not copied"
	}
}

func (x *execution) entry(i int) Entry {
	s, item := x.plan.Steps[i], x.items[i]
	return Entry{State: item.State, Source: s.From, SourceVersion: s.Version, Version: item.Version, Size: item.Size, Modified: item.modified, Digest: item.Digest, Why: item.Why}
}

// recheck lists the destination once more: whatever was copied must be there, in its size.
func (x *execution) recheck(ctx context.Context) error {
	missing := map[string]int64{}
	for _, item := range x.items {
		if item.State == Copied {
			missing[item.To] = item.Size
		}
	}
	err := x.c.to.Store.List(ctx, string(x.c.to.Prefix), func(o store.Object) error {
		if size, wanted := missing[o.Key]; wanted && !o.Marker && o.Size == size {
			delete(missing, o.Key)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("list the destination again: %w", err)
	}
	for key := range missing {
		return fmt.Errorf("%d objects that were copied are not listed at the destination, for example %s: %w", len(missing), key, store.ErrNotFound)
	}
	return nil
}

// vanished is an error if, without what vanished, the newest chain of a lineage ends earlier.
func (x *execution) vanished() error {
	planned, arrived := map[snapshot.LineageID][]timeline.Snapshot{}, map[snapshot.LineageID][]timeline.Snapshot{}
	gone := map[snapshot.LineageID]string{}
	for i, s := range x.plan.Steps {
		planned[s.Lineage] = append(planned[s.Lineage], s.snap)
		switch x.items[i].State {
		case Copied:
			arrived[s.Lineage] = append(arrived[s.Lineage], s.snap)
		case NotFound:
			gone[s.Lineage] = s.From
		}
	}
	for id, example := range gone {
		want, got := reach(planned[id]), reach(arrived[id])
		if got < want {
			return fmt.Errorf("%w: of %s what was copied can be restored up to revision %d only, not %d; %s is gone, for example; run it again to copy what is there now",
				ErrVanished, timeline.Title(id), got, want, example)
		}
	}
	return nil
}

// reach is the last revision that can be restored from some snapshots of one lineage; 0: none.
func reach(list []timeline.Snapshot) snapshot.Revision {
	links := timeline.NewLinks(list, 0)
	for _, s := range slices.Backward(list) {
		if !s.Full() {
			continue
		}
		end := s.Last
		if chain := links.Follow(end); len(chain) > 0 {
			end = chain[len(chain)-1].To
		}
		return end
	}
	return 0
}
