package timelinetest

import (
	"errors"
	"fmt"
	"math"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
)

// FromBytes makes a listing of arbitrary bytes, so that a fuzzer explores listings. Revisions
// are mostly below 64, so that objects meet; names, manifests and headers lie now and then. The
// same bytes give the same listing.
func FromBytes(data []byte) timeline.Listing {
	d := dice{data}
	var l timeline.Listing
	for len(d.rest) > 0 && len(l.Objects) < 200 {
		d.object(&l)
	}
	return l
}

type dice struct{ rest []byte }

// roll is a number in [0, n).
func (d *dice) roll(n int) int {
	if len(d.rest) == 0 {
		return 0
	}
	b := d.rest[0]
	d.rest = d.rest[1:]
	return int(b) % n
}

func (d *dice) once(in int) bool { return d.roll(in) == in-1 }

func (d *dice) object(l *timeline.Listing) {
	n := snapshot.Name{Kind: snapshot.Full, Last: snapshot.Revision(1 + d.roll(60)), Created: int64(1000 + d.roll(100))}
	if !d.once(3) {
		n.Kind = snapshot.Delta
		n.Start = n.Last
		n.Last += snapshot.Revision(d.roll(8))
	}
	if d.once(60) {
		n.Last = math.MaxInt64 - snapshot.Revision(d.roll(2))
	}
	if d.once(60) {
		n.Created = math.MaxInt64
	}
	if d.once(30) {
		n.Compression = ".lz4"
	}
	key := snapshot.SnapshotKey(Prefix, n)
	if d.once(20) {
		key.Layout, key.Dir = snapshot.V1, "Backup-1000"
	}
	digests := []snapshot.Digest{{}, Digest("a"), Digest("b")}
	for v := range 1 + d.roll(20)/18 {
		o := timeline.Object{
			Ref: timeline.Ref{Key: key, Version: fmt.Sprint(v)}, Size: int64(10 + d.roll(12)/11), Modified: n.CreatedAt(),
			Marker: d.once(20), Excluded: d.once(16), Digest: digests[max(0, d.roll(12)-9)],
		}
		if d.once(5) {
			o.Header = d.manifest(n)
		}
		if d.once(30) {
			o.Key.Object, o.Key.Chunk = snapshot.ChunkObject, "1"
		}
		if !d.once(25) {
			l.Objects = append(l.Objects, o)
		}
	}
	for v := range max(0, d.roll(12)-5) / 5 * (1 + d.roll(8)/7) {
		m := timeline.StoredManifest{Key: key.Manifest(), Version: fmt.Sprint(v), Modified: n.CreatedAt(), Marker: d.once(16)}
		if !m.Marker {
			m.Manifest = d.manifest(n)
			m.Manifest.Digest = digests[1+d.roll(6)/5]
		}
		if d.once(20) {
			m.Manifest, m.Err = nil, errors.New("unreadable")
		}
		l.Manifests = append(l.Manifests, m)
	}
	if d.once(40) {
		l.Foreign = append(l.Foreign, timeline.Foreign{Key: Prefix + "/v2/other"})
	}
}

func (d *dice) manifest(n snapshot.Name) *snapshot.Manifest {
	ids := []snapshot.LineageID{"", "A", "B", "C"}
	m := &snapshot.Manifest{
		Version: 1, Snapshot: n.String(), Size: 10, LastRevision: n.Last,
		Lineage: snapshot.Lineage{ID: ids[d.roll(4)], Parent: ids[d.roll(4)], Fork: snapshot.Revision(d.roll(30))},
	}
	if n.Kind == snapshot.Full && n.Last < 1000 {
		m.LastRevision += snapshot.Revision(d.roll(10))
	}
	if d.once(2) {
		m.Latest = n.CreatedAt()
		m.Earliest = m.Latest.Add(-Second("3").Sub(Second("0")))
	}
	switch d.roll(40) {
	case 39:
		m.LastRevision = math.MaxInt64
	case 38:
		m.LastRevision = -5
	case 37:
		m.Snapshot = "Full-00000000-00000007-1000"
	case 36:
		m.Latest = Second("100")
	case 35:
		m.Previous = Digest("b")
	case 34, 33, 32:
		m.HashKV = &snapshot.HashKV{Revision: m.LastRevision, CompactRevision: snapshot.Revision(d.roll(60) - 1)}
	}
	return m
}
