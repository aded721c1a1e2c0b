package gcs_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"druid.internal/druid/internal/backup/retention"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/engine/catalog"
	"druid.internal/druid/internal/engine/collector"
	"druid.internal/druid/internal/engine/enginetest"
	"druid.internal/druid/internal/engine/replay"
	"druid.internal/druid/internal/engine/restorer"
	"druid.internal/druid/internal/engine/verifier"
	"druid.internal/druid/internal/etcd/datadir"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/test/stores"
)

// components is of how many objects the original composes a full here.
const components = 3

// asTheOriginal uploads a bucket of the original as it does itself: a full in several objects,
// composed to one; the components stay. It returns their keys.
func asTheOriginal(t *testing.T, s store.Store) (chunks []string) {
	t.Helper()
	from := enginetest.Original(t)
	var all []store.Object
	if err := from.List(t.Context(), "", func(o store.Object) error { all = append(all, o); return nil }); err != nil {
		t.Fatal(err)
	}
	for _, o := range all {
		body := content(t, from, o.Version)
		if !strings.Contains(o.Key, "/Full-") {
			overwrite(t, s, o.Key, body)
			continue
		}
		var sources []map[string]any
		size := len(body)/components + 1
		for i := range components {
			key := fmt.Sprintf("%s/%010d", o.Key, i+1)
			overwrite(t, s, key, body[i*size:min((i+1)*size, len(body))])
			chunks = append(chunks, key)
			sources = append(sources, map[string]any{"name": key})
		}
		path := "/storage/v1/b/" + bucketOf(s) + "/o/" + url.PathEscape(o.Key) + "/compose"
		if _, err := server.Do(t.Context(), http.MethodPost, path, map[string]any{"destination": map[string]any{}, "sourceObjects": sources}); err != nil {
			t.Fatal(err)
		}
	}
	return chunks
}

// Under a policy the components of the original's composed objects are locked for as long as
// everything else, and cost as much. They hinder nothing, and go when they may.
func TestComponentsOfTheOriginalsUploadsHinderNothingAndAreCollected(t *testing.T) {
	for name, b := range map[string]stores.GCSBucket{
		"versioned": {Policy: 24 * time.Hour, Versioned: true}, "not versioned": {Policy: 24 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, options(newBucket(t, b)))
			chunks := asTheOriginal(t, s)
			wantRestorable(t, s)

			keep := collector.Options{Prefix: enginetest.Prefix, Now: server.Shim.Now,
				Policy: retention.Policy{Method: retention.LimitBased, MaxBackups: 1},
				Prove: func(ctx context.Context, tl timeline.Timeline, id snapshot.LineageID) (retention.Proof, []string, error) {
					return verifier.Prove(ctx, verifier.Request{ScratchDir: t.TempDir(), From: replay.Options{Store: s, Timeline: tl, Lineage: &id}})
				}}
			blocked := collect(t, s, keep)
			if n := blocked.Total(collector.Deleted).Objects; n != 0 {
				t.Errorf("%d objects were deleted under their lock: %+v", n, blocked.Outcomes)
			}
			if all := below(t, s, enginetest.Prefix); len(all) != len(chunks)+3 {
				t.Errorf("%d objects are left", len(all))
			}
			server.Shim.Advance(25 * time.Hour)
			gone := collect(t, s, keep)
			if n := gone.Total(collector.Deleted).Objects; n != len(chunks) {
				t.Errorf("%d objects were deleted, want the %d components: %+v", n, len(chunks), gone.Outcomes)
			}
			for _, o := range below(t, s, enginetest.Prefix) {
				for _, key := range chunks {
					if o.Key == key {
						t.Errorf("%s is still there", key)
					}
				}
			}
			wantRestorable(t, s)
		})
	}
}

// collect plans and executes.
func collect(t *testing.T, s interface {
	store.Reader
	store.Deleter
}, o collector.Options) collector.Report {
	t.Helper()
	c := collector.New(s, s, o)
	plan, err := c.Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	report, err := c.Execute(t.Context(), plan)
	if err != nil {
		t.Fatal(err)
	}
	var table bytes.Buffer
	if err := plan.WriteTable(&table); err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + table.String())
	return report
}

// wantRestorable restores the newest state and compares it with what etcd told.
func wantRestorable(t *testing.T, s store.Store) {
	t.Helper()
	c, err := catalog.Read(t.Context(), s, enginetest.Prefix, catalog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range c.Timeline.Findings {
		if f.Severity != timeline.Info {
			t.Errorf("finding: %s", f)
		}
	}
	q := restorer.Request{
		From:        replay.Options{Store: s, Timeline: c.Timeline, Log: slog.New(slog.NewTextHandler(io.Discard, nil))},
		KeepHistory: true,
		Dir:         filepath.Join(t.TempDir(), "data"),
		Member:      datadir.Membership{Name: "default", InitialCluster: "default=http://127.0.0.1:2380", Token: "t"},
		NewLineage:  "ffffffffffffffffffffffffffffffff",
		MemoryLimit: datadir.MinMemoryLimit,
	}
	plan, err := restorer.Decide(q)
	if err != nil {
		t.Fatal(err)
	}
	r, err := restorer.Run(t.Context(), q, plan)
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Restored.HashKV.Hash; got != enginetest.WantHash(t) {
		t.Errorf("the restored state has the hash %d, want %d", got, enginetest.WantHash(t))
	}
}
