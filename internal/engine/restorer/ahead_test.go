package restorer

import (
	"bytes"
	"errors"
	"io"
	"path/filepath"
	"testing"

	"druid.internal/druid/internal/backup/restoreplan"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/engine/enginetest"
	"druid.internal/druid/internal/engine/replay"
	"druid.internal/druid/internal/etcd/codec"
	"druid.internal/druid/internal/etcd/datadir"
	"druid.internal/druid/internal/store"
)

// fullAt makes a full whose content ends at the revision, and tells when that was received.
func fullAt(t *testing.T, s store.Store, revision snapshot.Revision) ([]byte, datadir.Report) {
	t.Helper()
	return fullWith(t, s, datadir.Options{TargetRevision: revision, KeepHistory: true})
}

func fullWith(t *testing.T, s store.Store, o datadir.Options) ([]byte, datadir.Report) {
	t.Helper()
	revision := o.TargetRevision
	q, err := request(t, s)
	if err != nil {
		t.Fatal(err)
	}
	q.From.Target = restoreplan.AtRevision(revision)
	plan, err := Decide(q)
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "db")
	var report datadir.Report
	if err := replay.Once(t.Context(), q.From, plan.Plan, func(p restoreplan.Plan, src datadir.Source) error {
		r, err := datadir.Rebuild(t.Context(), src, o, out)
		if err == nil {
			report = *r
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	r, _, err := datadir.NewSnapshotReader(out)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return b, report
}

func gzipped(t *testing.T, b []byte) []byte {
	t.Helper()
	r, err := codec.Compress(bytes.NewReader(b), snapshot.Gzip)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	packed, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return packed
}

// The full of revision 204 went on until revision 500 while it was streamed, and nothing but its
// content tells. A time before that must not bring back what came later.
func TestAFullAheadOfTheTargetTimeIsNotRestored(t *testing.T) {
	m := enginetest.Original(t)
	_, at300 := fullAt(t, m, 300)
	ahead, at500 := fullAt(t, m, 500)
	if !at300.LastReceived.Before(at500.LastReceived) {
		t.Fatalf("revision 300 was received at %s, 500 at %s", at300.LastReceived, at500.LastReceived)
	}
	older := enginetest.Full204
	older.Compression = snapshot.Gzip
	named := older
	named.Created++
	if named.CreatedAt().After(at300.LastReceived) {
		t.Fatalf("the full is named after %s", at300.LastReceived)
	}
	enginetest.Put(t, m, enginetest.Key(named), gzipped(t, ahead))
	attempt := func(m store.Store) (*Result, error) {
		return restore(t, m, func(q *Request) { q.From.Target = restoreplan.AtTime(at300.LastReceived) })
	}
	res, err := attempt(m)
	if err != nil {
		t.Fatal(err)
	}
	if last := res.Restored.LastReceived; last.After(at300.LastReceived) || res.Restored.Reached < 300 || res.Plan.Base.Name() != older {
		t.Errorf("restored revision %d of %s from %s, want the state of %s", res.Restored.Reached, last, res.Plan.Base.Name(), at300.LastReceived)
	}
	if len(res.Damaged) > 0 {
		t.Errorf("a full that is ahead of its name was called damaged: %v", res.Damaged)
	}
	m.Lose(only(t, m, older.String()))
	var noWay *restoreplan.NoWayError
	if res, err := attempt(m); !errors.As(err, &noWay) {
		t.Errorf("without the older full: got %v, %v, want that there is no way", res, err)
	}
	// The latest state does not care.
	if res, err := restore(t, m, nil); err != nil || res.Restored.Reached != 871 || res.Restored.HashKV.Hash != enginetest.WantHash(t) {
		t.Errorf("the latest state: %+v, %v", res, err)
	}
}
