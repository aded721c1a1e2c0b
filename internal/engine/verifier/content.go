package verifier

import (
	"context"
	"fmt"

	"druid.internal/druid/internal/backup/restoreplan"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/etcd/datadir"
)

// HashMismatch is the finding that deltas lead to another content than that of the full after them.
const HashMismatch timeline.Code = "hash-mismatch"

// content is what a full was found to hold. A full is a copy of etcd's own database, so the deltas
// that lead to it must lead to the same content:
//
//	full 100 ── delta 101-150 ── delta 151-200 ── content at 200
//	                                                  = ?
//	                                              full 200
//
// A watch that lacked an event is found this way, where revisions and digests show nothing.
type content struct {
	lineage snapshot.LineageID
	name    string
	hash    snapshot.HashKV
	keys    int64
	suspect bool
}

// comparable reports whether the content of p at the revision of the full can be compared with it.
// Without a live key etcd's hash includes what a compaction has not removed yet.
func (x *content) comparable(p restoreplan.Plan) bool {
	return x.keys > 0 && len(p.Deltas) > 0 && p.End >= x.hash.Revision && p.StopRevision == 0 && p.StopTime.IsZero()
}

// compare sets in c whether p, which was rebuilt at path, leads to the content next.
func (q Request) compare(ctx context.Context, c *Chain, p restoreplan.Plan, next content, path string) error {
	db, err := datadir.OpenDB(path)
	if err != nil {
		return err
	}
	defer db.Close()
	if db.CompactRevision() != next.hash.CompactRevision || db.Revision() < next.hash.Revision {
		return nil // p begins with less history than next has
	}
	got, _, err := db.HashKV(ctx, next.hash.Revision, q.MemoryLimit, q.ScratchDir)
	if err != nil {
		return err
	}
	c.Next = next.name
	if got == next.hash {
		return nil
	}
	c.OK, c.Code, c.Reason = false, HashMismatch, mismatch(p, next, got)
	return nil
}

// mismatch names the deltas that do not lead to next.
func mismatch(p restoreplan.Plan, next content, got snapshot.HashKV) string {
	first, last := p.Deltas[0], p.Deltas[len(p.Deltas)-1]
	deltas := fmt.Sprintf("%s does not lead", first.Name())
	if len(p.Deltas) > 1 {
		deltas = fmt.Sprintf("%s to %s (%d deltas) do not lead", first.Name(), last.Name(), len(p.Deltas))
	}
	text := fmt.Sprintf("%s to what etcd held at revision %d: the HashKV there is %d, and %d in %s", deltas, got.Revision, got.Hash, next.hash.Hash, next.name)
	if m := first.Manifest; m != nil && m.EtcdVersion != "" {
		text += fmt.Sprintf("; they were watched on etcd %s", m.EtcdVersion)
	}
	if next.suspect {
		text += "; the members of the cluster differed when that full was taken"
	}
	return text + fmt.Sprintf("; restores to revisions %d to %d may lack or repeat changes: restore to revision %d or later, and exclude these deltas if no state between is needed",
		first.From, got.Revision-1, got.Revision)
}
