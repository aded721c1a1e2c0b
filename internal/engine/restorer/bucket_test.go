package restorer

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"

	"druid.internal/druid/internal/engine/catalog"
	"druid.internal/druid/internal/engine/enginetest"
	"druid.internal/druid/internal/engine/replay"
	"druid.internal/druid/internal/etcd/datadir"
	"druid.internal/druid/internal/store"
)

// request restores what s holds, with its history, into a directory of the test.
func request(t *testing.T, s store.Store) (Request, error) {
	t.Helper()
	c, err := catalog.Read(context.Background(), s, enginetest.Prefix, catalog.Options{})
	if err != nil {
		return Request{}, err
	}
	return Request{
		From:        replay.Options{Store: s, Timeline: c.Timeline, Log: slog.New(slog.DiscardHandler)},
		KeepHistory: true,
		Dir:         filepath.Join(t.TempDir(), "data"),
		Member:      datadir.Membership{Name: "default", InitialCluster: "default=http://127.0.0.1:2380", Token: "t"},
		NewLineage:  "ffffffffffffffffffffffffffffffff",
		MemoryLimit: datadir.MinMemoryLimit,
	}, nil
}

func restore(t *testing.T, s store.Store, change func(*Request)) (*Result, error) {
	t.Helper()
	q, err := request(t, s)
	if err != nil {
		return nil, err
	}
	if change != nil {
		change(&q)
	}
	plan, err := Decide(q)
	if err != nil {
		return nil, err
	}
	return Run(context.Background(), q, plan)
}
