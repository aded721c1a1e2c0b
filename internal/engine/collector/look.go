package collector

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/backup/retention"
	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/engine/catalog"
	"druid.internal/druid/internal/store"
)

// needsLocks is the remedy where locks are not told.
const needsLocks = "the collector needs the right to read locks (S3: s3:GetObjectRetention and s3:GetObjectLegalHold)"

// look reads the catalog, asks for the locks that matter and decides.
//
//	list ─> decide ─> ask about the locks of what ought to go ─> decide again
//
// On stores that list locks the second round has nothing to ask, and with Options.LocksLast next
// to nothing. What the policy wants does not depend on locks, so no others have to be asked
// about, nor those again of which told knows: before it is deleted each is asked about anyway.
func (c *Collector) look(ctx context.Context, told map[timeline.Ref]*immutability.Retention) (Plan, error) {
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
	if unknown := decided.Unknown(); len(unknown) > 0 {
		var later []timeline.Ref
		if c.opts.LocksLast {
			later, unknown = single(decided, unknown)
		}
		untold, err := c.ask(ctx, unknown, plan.locks)
		if err != nil {
			return Plan{}, err
		}
		maps.Copy(bucket.Locks, plan.locks)
		if untold > 0 {
			plan.Notes = append(plan.Notes, fmt.Sprintf("of %d versions the store does not tell the lock, so they count as protected; %s", untold, needsLocks))
		}
		for _, ref := range later {
			bucket.Locks[ref] = &immutability.Retention{Mode: immutability.ModeNone} // supposed, and not among plan.locks
		}
		if decided, err = c.decide(bucket, now); err != nil {
			return Plan{}, err
		}
	}
	plan.Plan = decided
	plan.see(cat)
	return plan, nil
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
