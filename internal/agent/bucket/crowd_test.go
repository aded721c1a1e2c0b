package bucket

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"druid.internal/druid/internal/engine/catalog"
	"druid.internal/druid/internal/engine/enginetest"
	"druid.internal/druid/internal/store"
)

// crowded lists n forged objects before those of the store, and then fails with an error, if any.
type crowded struct {
	store.Reader
	n    int
	key  string // a format for one number
	size int64
	err  error
}

func (c crowded) List(ctx context.Context, prefix string, fn func(store.Object) error) error {
	for i := range c.n {
		if err := ctx.Err(); err != nil {
			return err
		}
		o := store.Object{Version: store.Version{Key: prefix + "/v2/" + fmt.Sprintf(c.key, i), ID: "v"}, Size: c.size, Modified: time.Unix(2000, 0), Latest: true}
		if err := fn(o); err != nil {
			return err
		}
	}
	if c.err != nil {
		return c.err
	}
	return c.Reader.List(ctx, prefix, fn)
}

const (
	junk  = "A-%09d"
	fulls = "Full-00000000-%08d-1000.xyz"
)

// slow is a clock by which each look at it takes a second.
func slow() func() time.Time {
	at := time.Unix(0, 0)
	return func() time.Time { at = at.Add(time.Second); return at }
}

func TestGoodDataDoNotWaitForACrowdedBucket(t *testing.T) {
	good := enginetest.Native(t)
	want, err := Look(t.Context(), good, enginetest.Prefix, nil)
	if err != nil {
		t.Fatal(err)
	}
	lost := fmt.Errorf("list: %w", store.ErrUnreachable)
	for name, c := range map[string]struct {
		store   store.Reader
		now     func() time.Time
		wantErr error
	}{
		"many objects, in time":           {crowded{good, 150_000, junk, 0, nil}, time.Now, nil},
		"few objects of a slow store":     {crowded{good, 1000, junk, 0, nil}, slow(), nil},
		"many objects of a slow store":    {crowded{good, 2 * crowd, junk, 0, nil}, slow(), ErrCrowded},
		"more snapshots than are held":    {crowded{good, catalog.MaxObjects + 1, fulls, 1, nil}, time.Now, ErrCrowded},
		"an outage after a few objects":   {crowded{good, 10, junk, 0, lost}, slow(), store.ErrUnreachable},
		"an outage after many objects":    {crowded{good, crowd + 1, junk, 0, lost}, time.Now, store.ErrUnreachable},
		"an outage from the first moment": {crowded{good, 0, junk, 0, lost}, slow(), store.ErrUnreachable},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := LookBriefly(t.Context(), c.store, enginetest.Prefix, nil, c.now)
			if !errors.Is(err, c.wantErr) || errors.Is(err, ErrCrowded) != (c.wantErr == ErrCrowded) {
				t.Fatalf("got %v, want %v", err, c.wantErr)
			}
			if err == nil && (got.Newest != want.Newest || got.Reach != want.Reach || got.Lineage != want.Lineage) {
				t.Errorf("got revision %d of %s, want %d of %s", got.Newest, got.Lineage.ID, want.Newest, want.Lineage.ID)
			}
		})
	}
}
