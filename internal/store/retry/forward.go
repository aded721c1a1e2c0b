package retry

import (
	"context"
	"fmt"
	"time"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/store"
)

// What may simply be done again: reading about a version, and changes that leave the same
// state when they are made twice.

// Stat implements store.Reader.
func (s *Store) Stat(ctx context.Context, v store.Version) (o store.Object, err error) {
	err = s.do(ctx, "stat", v.String(), func() (err error) {
		o, err = s.inner.Stat(ctx, v)
		return err
	})
	return o, err
}

// Delete implements store.Deleter.
func (s *Store) Delete(ctx context.Context, v store.Version) error {
	return again(ctx, s, "delete", v.String(), func(d store.Deleter) error { return d.Delete(ctx, v) })
}

// Extend implements store.Extender.
func (s *Store) Extend(ctx context.Context, v store.Version, until time.Time) (r immutability.Retention, err error) {
	err = again(ctx, s, "extend", v.String(), func(e store.Extender) (err error) {
		r, err = e.Extend(ctx, v, until)
		return s.maySettle(ctx, v, err)
	})
	return r, err
}

// SetHold implements store.Holder.
func (s *Store) SetHold(ctx context.Context, v store.Version, on bool) error {
	return again(ctx, s, "hold", v.String(), func(h store.Holder) error { return s.maySettle(ctx, v, h.SetHold(ctx, v, on)) })
}

// SetTag implements store.Tagger.
func (s *Store) SetTag(ctx context.Context, v store.Version, key, value string) error {
	return again(ctx, s, "tag", v.String(), func(t store.Tagger) error { return s.maySettle(ctx, v, t.SetTag(ctx, v, key, value)) })
}

// Inspect implements store.Inspector.
func (s *Store) Inspect(ctx context.Context) (b store.Bucket, err error) {
	err = again(ctx, s, "inspect", s.Capabilities().Location, func(i store.Inspector) (err error) {
		b, err = i.Inspect(ctx)
		return err
	})
	return b, err
}

// again does something with the capability C of the store behind s.
func again[C any](ctx context.Context, s *Store, op, key string, fn func(C) error) error {
	c, ok := store.As[C](s.inner)
	if !ok {
		return fmt.Errorf("%s %s: %w", op, key, store.ErrUnsupported)
	}
	return s.do(ctx, op, key, func() error { return fn(c) })
}
