package backup

import (
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/engine/snapshotter"
	"druid.internal/druid/internal/store"
)

// Full takes a full snapshot now and returns when it is in the bucket. While the store is down it
// waits until ctx ends. See snapshotter.Snapshotter.TakeFull. Errors: agentapi.ErrNotLeader, as
// of all of these; agentapi.ErrRefused if the prefix has another owner.
func (l *Leader) Full(ctx context.Context, final bool) (agentapi.Snapshot, error) {
	return l.full(ctx, func(s *snapshotter.Snapshotter) (snapshotter.Taken, error) { return s.TakeFull(ctx, final) })
}

// Final is Full for a final one with a purpose. See snapshotter.Snapshotter.TakeFinal.
func (l *Leader) Final(ctx context.Context, purpose string) (agentapi.Snapshot, error) {
	return l.full(ctx, func(s *snapshotter.Snapshotter) (snapshotter.Taken, error) { return s.TakeFinal(ctx, purpose) })
}

func (l *Leader) full(ctx context.Context, take func(*snapshotter.Snapshotter) (snapshotter.Taken, error)) (agentapi.Snapshot, error) {
	var taken snapshotter.Taken
	err := l.during(ctx, func(t *term) (err error) {
		taken, err = take(t.snapshotter())
		return err
	})
	if err != nil {
		return agentapi.Snapshot{}, err
	}
	return l.stored(ctx, taken), nil
}

// Delta uploads what is not in the bucket and returns the delta with the last of it; nil: there was
// nothing.
func (l *Leader) Delta(ctx context.Context) (*agentapi.Snapshot, error) {
	var taken *snapshotter.Taken
	err := l.during(ctx, func(t *term) (err error) {
		taken, err = t.snapshotter().TakeDelta(ctx)
		return err
	})
	if err != nil || taken == nil {
		return nil, err
	}
	s := l.stored(ctx, *taken)
	return &s, nil
}

// Latest is the newest full and the deltas that continue it; both empty if there is none.
func (l *Leader) Latest(ctx context.Context) (agentapi.LatestSnapshots, error) {
	if _, err := l.leading(); err != nil {
		return agentapi.LatestSnapshots{}, err
	}
	cat, err := l.read(ctx, &l.reported)
	if err != nil {
		return agentapi.LatestSnapshots{}, fmt.Errorf("read what the bucket holds: %w", err)
	}
	for _, lineage := range cat.Timeline.Lineages {
		chain, ok := lineage.NewestChain()
		if !ok {
			continue
		}
		refs := objectsOf(chain)
		locks, _ := l.locksOf(cat, refs)
		all := make([]*agentapi.Snapshot, len(refs))
		for i, ref := range refs {
			s := described(ref, locks[i])
			all[i] = &s
		}
		return agentapi.LatestSnapshots{FullSnapshot: all[0], DeltaSnapshots: all[1:]}, nil
	}
	return agentapi.LatestSnapshots{}, nil
}

// Timeline is what the bucket holds, chain by chain.
func (l *Leader) Timeline(ctx context.Context) (agentapi.Timeline, error) {
	if _, err := l.leading(); err != nil {
		return agentapi.Timeline{}, err
	}
	cat, err := l.read(ctx, &l.reported)
	if err != nil {
		return agentapi.Timeline{}, fmt.Errorf("read what the bucket holds: %w", err)
	}
	return agentapi.NewTimeline(cat.Timeline), nil
}

// during does something in the present term. Its errors are those of agentapi where there is one: what
// fails because the term ended is agentapi.ErrNotLeader.
func (l *Leader) during(ctx context.Context, do func(*term) error) error {
	t, err := l.leading()
	if err != nil {
		l.look(ctx)
		t, err = l.leading()
	}
	if err != nil {
		return err
	}
	err = do(t)
	if errors.Is(err, snapshotter.ErrStopped) {
		if t.ctx.Err() != nil {
			return fmt.Errorf("%w any more: %w", agentapi.ErrNotLeader, err)
		}
		t.mu.Lock()
		if t.ended != nil && !errors.Is(err, t.ended) {
			err = fmt.Errorf("%w: %w", err, t.ended)
		}
		t.mu.Unlock()
	}
	switch {
	case errors.Is(err, snapshotter.ErrOwned):
		return fmt.Errorf("%w: %w", agentapi.ErrRefused, err)
	case errors.Is(err, errMinority):
		return fmt.Errorf("%w: %w", agentapi.ErrUnavailable, err)
	}
	return err
}

// stored describes a snapshot that was just uploaded. What the store does not tell now is left out.
func (l *Leader) stored(ctx context.Context, t snapshotter.Taken) agentapi.Snapshot {
	ref := timeline.Ref{Key: t.Key}
	o, err := l.store.Stat(ctx, store.Version{Key: t.Key.String()})
	if err != nil {
		l.log.Warn("the store does not tell about the snapshot it took", "name", t.Key.Name.String(), "error", err)
	}
	ref.Version = o.ID // of an error: none
	s := described(ref, o.Retention)
	s.Size, s.ContentRevision, s.Digest, s.Suspect = o.Size, int64(t.Manifest.LastRevision), t.Manifest.Digest.String(), t.Manifest.Suspect
	if t.Reused {
		s.AgeSeconds = int64(age(o, s.CreatedOn, l.cfg.Now()).Seconds())
	}
	return s
}

// age is how long ago a snapshot that is there already was taken. The store may tell by its own clock. The moment in the name may be
// later than it was, by the clock of another sidecar: where nothing else is known it counts as taken long ago.
func age(o store.Object, named, now time.Time) time.Duration {
	by := now.Sub(named)
	switch {
	case !o.ServerTime.IsZero() && !o.Modified.IsZero():
		return max(by, o.ServerTime.Sub(o.Modified), 0)
	case by < 0:
		return time.Hour
	}
	return by
}

// described puts a snapshot into the original's form.
func described(ref timeline.Ref, lock *immutability.Retention) agentapi.Snapshot {
	n := ref.Key.Name
	s := agentapi.Snapshot{
		CreatedOn: n.CreatedAt(), Kind: string(n.Kind), SnapDir: ref.Key.Dir, SnapName: n.String(), Prefix: path.Join(string(ref.Key.Prefix), string(ref.Key.Layout)),
		CompressionSuffix: string(n.Compression), StartRevision: int64(n.Start), LastRevision: int64(n.Last), IsFinal: n.Final,
	}
	if n.Kind == snapshot.Full {
		s.StartRevision = 0
	}
	if ref.Version != "" {
		s.VersionID = &ref.Version
	}
	if lock != nil && lock.Mode.Locks() {
		s.ImmutableUntil, s.Inferred, s.Mode = lock.Until, lock.Inferred, lock.Mode.String()
	}
	return s
}

// Taking: a full is being taken from the own etcd.
func (l *Leader) Taking() bool {
	t := l.term()
	return t != nil && t.snapshotter().Standing().Taking
}
