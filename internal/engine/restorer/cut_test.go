package restorer

import (
	"crypto/sha256"
	"errors"
	"testing"

	"druid.internal/druid/internal/backup/restoreplan"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/engine/enginetest"
	"druid.internal/druid/internal/etcd/datadir"
	"druid.internal/druid/internal/store/storetest"
)

// onlyFull871 is a bucket with nothing but the content as a full of revision 871, whose manifest
// tells where its history begins.
func onlyFull871(t *testing.T, content []byte, hash snapshot.HashKV) *storetest.Memory {
	t.Helper()
	m := storetest.NewMemory(storetest.S3Like())
	full := enginetest.MustName("Full-00000000-00000871-1795164966.gz")
	packed := gzipped(t, content)
	enginetest.Put(t, m, enginetest.Key(full), packed)
	manifest := snapshot.Manifest{Version: 1, Snapshot: full.String(), Digest: sha256.Sum256(packed), Size: int64(len(packed)), ContentSize: int64(len(content)),
		LastRevision: 871, HashKV: &hash}
	enginetest.Put(t, m, snapshot.SnapshotKey(enginetest.Prefix, full).Manifest().String(), manifest.Encode())
	return m
}

func TestARevisionIsCutOutOfTheHistoryOfALaterFull(t *testing.T) {
	source := enginetest.Original(t)
	content, report := fullAt(t, source, 871)
	m := onlyFull871(t, content, snapshot.HashKV{Revision: 871, CompactRevision: report.BaseCompactRevision, Hash: enginetest.WantHash(t)})
	for _, r := range []snapshot.Revision{2, 300, 856, 870} {
		to := func(q *Request) { q.From.Target = restoreplan.AtRevision(r) }
		got, err := restore(t, m, to)
		if err != nil {
			t.Fatal(err)
		}
		if got.Restored.Reached != r || got.Plan.End != r {
			t.Errorf("revision %d: restored %d, planned %d", r, got.Restored.Reached, got.Plan.End)
		}
		if r < 204 {
			continue // nothing else tells what it was
		}
		want, err := restore(t, source, to)
		if err != nil {
			t.Fatal(err)
		}
		if got.Restored.HashKV != want.Restored.HashKV {
			t.Errorf("revision %d: restored HashKV %+v, want %+v", r, got.Restored.HashKV, want.Restored.HashKV)
		}
	}
}

// The manifest says that the history goes back farther than it does.
func TestAHistoryThatBeginsTooLateIsNotCut(t *testing.T) {
	content, _ := fullWith(t, enginetest.Original(t), datadir.Options{TargetRevision: 871, CompactAt: 500})
	m := onlyFull871(t, content, snapshot.HashKV{Revision: 871, CompactRevision: 100})
	_, err := restore(t, m, func(q *Request) { q.From.Target = restoreplan.AtRevision(300) })
	var noWay *restoreplan.NoWayError
	if !errors.As(err, &noWay) || noWay.After.Last != 871 {
		t.Errorf("%v, want that there is no way, and the first full", err)
	}
	if res, err := restore(t, m, func(q *Request) { q.From.Target = restoreplan.AtRevision(500) }); err != nil || res.Restored.Reached != 500 {
		t.Errorf("where it begins: %+v, %v", res, err)
	}
}

func TestABumpIsCountedFromWhereTheHistoryIsCut(t *testing.T) {
	p := restoreplan.Plan{StopRevision: 100, End: 100}
	p.Base.Last = 2_000_000_000
	q := Request{Bump: Bump{Auto: true}, LastKnown: 2_000_000_000}
	if got, want := q.complete(p).BumpBy, q.Bump.revisions(100, 2_000_000_000); got != want {
		t.Errorf("bumped by %d, want %d", got, want)
	}
}
