package collector

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/backup/retention"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/engine/catalog"
	"druid.internal/druid/internal/store"
)

// needsLocks is the remedy where locks are not told.
const needsLocks = "the collector needs the right to read locks (S3: s3:GetObjectRetention and s3:GetObjectLegalHold)"

// look reads the catalog, asks for the locks that matter, reads the chains whose proof is missing and
// decides.
//
//	list ─> decide ─> ask about the locks of what ought to go ─> decide again
//	                  prove what must remain, if Plan looks   ─> decide again
//
// On stores that list locks the second round has nothing to ask, and with Options.LocksLast next
// to nothing. What the policy wants does not depend on locks, so no others have to be asked
// about, nor those again of which told knows: before it is deleted each is asked about anyway.
func (c *Collector) look(ctx context.Context, told map[timeline.Ref]*immutability.Retention, proofs []retention.Proof, prove proveFunc) (Plan, error) {
	cat, err := catalog.Read(ctx, c.store, c.opts.Prefix, catalog.Options{
		Parallel: c.opts.Parallel,
		Progress: func(p catalog.Progress) { c.opts.Progress("look", int64(p.Read), int64(p.ToRead)) },
	})
	if err != nil {
		return Plan{}, err
	}
	if err := c.owns(cat.Owner); err != nil {
		return Plan{}, err
	}
	now, err := c.clock(ctx, cat)
	if err != nil {
		return Plan{}, err
	}
	plan := Plan{Location: c.store.Capabilities().Location, Prefix: c.opts.Prefix, locks: map[timeline.Ref]*immutability.Retention{}}
	maps.Copy(plan.locks, told)
	bucket := retention.Bucket{
		Listing:  cat.Listing,
		Timeline: cat.Timeline,
		Locks:    maps.Clone(plan.locks),
		Proofs:   proofs,
	}
	for ref, o := range cat.Objects.All() {
		if o.Retention != nil {
			bucket.Locks[ref] = o.Retention
		}
	}
	decided, err := c.decide(bucket, now)
	if err != nil {
		return Plan{}, err
	}
	unknown, later := decided.Unknown(), []timeline.Ref(nil)
	if c.opts.LocksLast {
		later, unknown = single(decided, unknown)
		for _, ref := range later {
			bucket.Locks[ref] = &immutability.Retention{Mode: immutability.ModeNone} // supposed, and not among plan.locks
		}
	}
	if len(unknown)+len(later) > 0 {
		if decided, err = c.decideLocked(ctx, &plan, bucket, unknown, now); err != nil {
			return Plan{}, err
		}
	}
	if prove != nil && len(decided.Unproven()) > 0 {
		// A chain is not read for what is locked anyway.
		for _, ref := range later {
			delete(bucket.Locks, ref)
		}
		if decided, err = c.decideLocked(ctx, &plan, bucket, later, now); err != nil {
			return Plan{}, err
		}
		if decided, err = c.prove(ctx, &plan, &bucket, decided, prove, now); err != nil {
			return Plan{}, err
		}
	}
	plan.proofs = bucket.Proofs
	plan.Plan, plan.Waiting = decided, decided.Waiting()
	plan.see(cat)
	return plan, nil
}

// decideLocked asks about the locks of unknown and decides with the answers.
func (c *Collector) decideLocked(ctx context.Context, plan *Plan, bucket retention.Bucket, unknown []timeline.Ref, now time.Time) (retention.Plan, error) {
	untold, err := c.ask(ctx, unknown, plan.locks)
	if err != nil {
		return retention.Plan{}, err
	}
	maps.Copy(bucket.Locks, plan.locks)
	if untold > 0 {
		plan.Notes = append(plan.Notes, fmt.Sprintf("of %d versions the store does not tell the lock, so they count as protected; %s", untold, needsLocks))
	}
	return c.decide(bucket, now)
}

// proveFunc is the type of Options.Prove.
type proveFunc = func(context.Context, timeline.Timeline, snapshot.LineageID) (retention.Proof, []string, error)

// prove reads the newest chain of each lineage whose proof lets more go, and decides with the proofs.
func (c *Collector) prove(ctx context.Context, plan *Plan, bucket *retention.Bucket, decided retention.Plan, prove proveFunc, now time.Time) (retention.Plan, error) {
	tried := map[snapshot.LineageID]bool{}
	for {
		next := slices.DeleteFunc(decided.Unproven(), func(id snapshot.LineageID) bool { return tried[id] })
		if len(next) == 0 {
			return decided, nil
		}
		tried[next[0]] = true
		p, notes, err := prove(ctx, bucket.Timeline, next[0])
		if err != nil {
			return decided, fmt.Errorf("prove the newest chain of %s: %w", timeline.Title(next[0]), err)
		}
		plan.Notes = append(plan.Notes, notes...)
		if p.ReadAt.IsZero() {
			continue
		}
		bucket.Proofs = append(bucket.Proofs, p)
		if decided, err = c.decide(*bucket, now); err != nil {
			return decided, err
		}
	}
}

// owns is nil if the prefix is that of the owner who collects.
func (c *Collector) owns(is *catalog.OwnerRecord) error {
	switch {
	case c.opts.Owner == "":
		return nil
	case is == nil:
		return fmt.Errorf("%w: nobody has claimed it, and this is for %s", ErrNotOwner, c.opts.Owner)
	case is.Err != nil:
		return fmt.Errorf("%w: %w", ErrNotOwner, is.Err)
	case is.ID != c.opts.Owner:
		return fmt.Errorf("%w: it is %s, and this is for %s", ErrNotOwner, is.ID, c.opts.Owner)
	}
	return nil
}

// decide asks the policy, and keeps what is not to be touched whatever the policy lets go.
func (c *Collector) decide(b retention.Bucket, now time.Time) (retention.Plan, error) {
	p, err := retention.Decide(b, c.opts.Policy, now, margin)
	if err != nil || c.opts.Only == nil {
		return p, err
	}
	meant := map[string]bool{}
	for _, l := range b.Timeline.Lineages {
		for _, list := range [][]timeline.Snapshot{l.Snapshots, l.Missing} {
			for _, s := range list {
				meant[s.Key.String()] = c.opts.Only(s)
			}
		}
	}
	for _, d := range p.Decisions { // what the timeline does not know, as chunks alone
		if _, known := meant[d.Snapshot]; !known {
			meant[d.Snapshot] = c.opts.Only(timeline.Snapshot{Object: timeline.Object{Ref: timeline.Ref{Key: d.Ref.Key.Snapshot()}}})
		}
	}
	return p.Narrow(func(key string) bool { return meant[key] }), nil
}

// clock is the moment by which locks and ages are judged. The store tells its time in the
// answer about any object; without one there is nothing to judge.
func (c *Collector) clock(ctx context.Context, cat *catalog.Catalog) (time.Time, error) {
	local := c.opts.Now()
	for _, o := range cat.Listing.Objects {
		if o.Marker {
			continue
		}
		got, err := c.store.Stat(ctx, address(o.Ref))
		switch {
		case err == nil:
			return immutability.Clock{Server: got.ServerTime, Local: local}.ForDeletion(), nil
		case errors.Is(err, store.ErrForbidden):
			return immutability.Clock{Local: local}.ForDeletion(), nil
		case !errors.Is(err, store.ErrNotFound):
			return time.Time{}, fmt.Errorf("ask the store for its time: %w", err)
		}
	}
	return immutability.Clock{Local: local}.ForDeletion(), nil
}

// ask adds the locks of refs and returns of how many the store told nothing.
func (c *Collector) ask(ctx context.Context, refs []timeline.Ref, locks map[timeline.Ref]*immutability.Retention) (untold int, err error) {
	var mu sync.Mutex
	done := 0
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(c.opts.Parallel)
	for _, ref := range refs {
		g.Go(func() error {
			o, err := c.store.Stat(ctx, address(ref))
			if err != nil && !errors.Is(err, store.ErrForbidden) && !errors.Is(err, store.ErrNotFound) {
				return fmt.Errorf("ask about the lock of %s: %w", ref, err)
			}
			mu.Lock()
			defer mu.Unlock()
			if o.Retention != nil {
				locks[ref] = o.Retention
			} else if !errors.Is(err, store.ErrNotFound) {
				untold++
			}
			done++
			c.opts.Progress("locks", int64(done), int64(len(refs)))
			return nil
		})
	}
	err = g.Wait()
	return untold, err
}

// single parts the refs of snapshots that are stored as one version, with a manifest or without, from others.
func single(p retention.Plan, refs []timeline.Ref) (alone, others []timeline.Ref) {
	contents, manifests := map[string]int{}, map[string]int{}
	for _, d := range p.Decisions {
		switch d.Kind {
		case retention.Full, retention.Delta:
			contents[d.Snapshot]++
		case retention.Manifest:
			manifests[d.Snapshot]++
		default:
			contents[d.Snapshot] += 2 // whatever it is, it is something besides
		}
	}
	for _, ref := range refs {
		if s := ref.Key.Snapshot().String(); contents[s] == 1 && manifests[s] <= 1 {
			alone = append(alone, ref)
		} else {
			others = append(others, ref)
		}
	}
	return alone, others
}

// address is where the store keeps what ref names.
func address(ref timeline.Ref) store.Version {
	return store.Version{Key: ref.Key.String(), ID: ref.Version}
}
