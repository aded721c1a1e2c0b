package backup

import (
	"context"
	"errors"
	"testing"
	"time"

	"druid.internal/druid/internal/etcd/datadir"
)

func TestWorkEndsBeforeEtcdLacksRoom(t *testing.T) {
	const keep = 100 << 20
	failed := errors.New("the store failed")
	for name, c := range map[string]struct {
		free int64
		work func(context.Context) error
		want error
	}{
		"half of it is used":           {keep/2 - 1, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, datadir.ErrNoRoom},
		"enough is free":               {keep, func(context.Context) error { return nil }, nil},
		"another failure":              {keep, func(context.Context) error { return failed }, failed},
		"complete while half was used": {keep/2 - 1, func(ctx context.Context) error { <-ctx.Done(); return nil }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := works{leader: &Leader{cfg: Config{KeepFree: keep, Free: func() (int64, error) { return c.free, nil },
				Wait: func(ctx context.Context, _ time.Duration) error { return ctx.Err() }}}}
			if err := w.inRoom(t.Context(), c.work); !errors.Is(err, c.want) || c.want == nil && err != nil {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}
