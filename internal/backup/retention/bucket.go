package retention

import (
	"cmp"
	"slices"
	"time"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
)

// Bucket is what is known of the objects below a prefix.
type Bucket struct {
	Listing  timeline.Listing
	Timeline timeline.Timeline // of that Listing
	// Locks are what the store told about versions of snapshots, chunks and manifests. A
	// version that is missing here, or nil, is protected. Delete markers have no lock.
	Locks map[timeline.Ref]*immutability.Retention
	// Proofs are the chains that were read whole, in any order. What is not older than the newest of
	// its lineage stays, so without one nothing is deleted.
	Proofs []Proof
}

// item is everything stored under the name of one snapshot.
type item struct {
	key     snapshot.Key
	lineage int                // index in the timeline; -1: the timeline does not know it
	snap    *timeline.Snapshot // nil: no version of it is left
	usable  bool

	others    []timeline.Object // versions that do not count, newest first, then markers
	chunks    []timeline.Object
	manifests []timeline.StoredManifest // markers first, then newest first
	size      int64                     // of the snapshot's versions, in bytes

	gone     bool     // the policy lets it go
	policy   []Reason // why it does, or why it does not
	property Reason   // what forbids that it goes, if anything does
}

func (it *item) name() snapshot.Name { return it.key.Name }
func (it *item) created() time.Time  { return it.key.Name.CreatedAt() }
func (it *item) isFull() bool        { return it.key.Name.Kind == snapshot.Full }

// goes reports whether the item is to be deleted as far as no lock protects it.
func (it *item) goes() bool { return it.gone && it.property == "" }

// drop lets the item go; a reason to keep it is forgotten.
func (it *item) drop(why Reason) {
	if !it.gone {
		it.gone, it.policy = true, nil
	}
	it.policy = append(it.policy, why)
}

// keep records why the policy keeps the item.
func (it *item) keep(why Reason) {
	it.gone = false
	it.policy = append(it.policy, why)
}

// protect forbids that the item goes. The first property to say so is the one that is told.
func (it *item) protect(why Reason) {
	if it.property == "" {
		it.property = why
	}
}

// stream is a full with the deltas up to the next full. The first stream of a lineage begins
// with its first object, whatever that is: deltas without a full are led by the oldest.
type stream struct {
	head   *item
	deltas []*item // in the order of snapshot.Compare
}

// all are the objects of the stream, the head first.
func (s stream) all() []*item { return append([]*item{s.head}, s.deltas...) }

// history is one lineage.
type history struct {
	timeline.Lineage
	items   map[snapshot.Key]*item
	streams []stream             // oldest first
	missing []*item              // known by a manifest or a marker only
	fulls   []*timeline.Snapshot // those that can be used, by how far they reach
	index   timeline.Links       // of the deltas that can be used
	base    *item                // the full of the newest restorable chain; nil: nothing can be restored
	links   []*item              // the deltas of that chain
	// left: a newer lineage has a restorable chain, and something that was written since the last
	// of this one, so this one may go altogether.
	left bool
	last time.Time // of its writes

	proven    *proven            // the newest chain that is; nil: none
	succeeded bool               // left, and the lineage that took its place has a proven chain
	ask       snapshot.LineageID // whose newest chain is to be read so that more can be deleted
}

// findChain looks for the newest chain that can be restored.
func (h *history) findChain() {
	for i := range h.Snapshots {
		if s := &h.Snapshots[i]; s.Full() && s.Usable() {
			h.fulls = append(h.fulls, s)
		}
	}
	if len(h.fulls) == 0 {
		return
	}
	slices.SortFunc(h.fulls, func(a, b *timeline.Snapshot) int { return timeline.CompareBases(*a, *b) })
	h.index = h.Links()
	newest := h.fulls[len(h.fulls)-1]
	h.base = h.items[newest.Key]
	for _, link := range h.index.Follow(newest.Last) {
		h.links = append(h.links, h.items[link.Key])
	}
}

// newest is the newest stream; nil if there is none.
func (h *history) newest() *stream {
	if len(h.streams) == 0 {
		return nil
	}
	return &h.streams[len(h.streams)-1]
}

// contents are the objects of a bucket, ordered for deciding.
type contents struct {
	histories []*history // newest lineage first
	loose     []*item    // chunks whose snapshot is not there, and what the timeline does not know
}

// sort puts the objects of a bucket where they belong.
func (b Bucket) sort() *contents {
	var (
		c     contents
		items = make(map[snapshot.Key]*item, len(b.Listing.Objects))
		order = make([]*item, 0, len(b.Listing.Objects))
	)
	at := func(k snapshot.Key) *item {
		k = k.Snapshot()
		it := items[k]
		if it == nil {
			it = &item{key: k, lineage: -1}
			items[k], order = it, append(order, it)
		}
		return it
	}
	restorable, written := false, time.Time{} // newer lineages: whether they can be restored, and their last write
	for i, lineage := range b.Timeline.Lineages {
		last := lineage.LastWrite()
		h := &history{Lineage: lineage, items: items, left: restorable && !last.After(written), last: last}
		c.histories = append(c.histories, h)
		for j := range lineage.Snapshots {
			s := &lineage.Snapshots[j]
			it := at(s.Key)
			it.lineage, it.snap, it.usable = i, s, s.Usable()
			if n := len(h.streams); n == 0 || it.isFull() {
				h.streams = append(h.streams, stream{head: it})
			} else {
				h.streams[n-1].deltas = append(h.streams[n-1].deltas, it)
			}
		}
		for _, s := range lineage.Missing {
			it := at(s.Key)
			it.lineage = i
			h.missing = append(h.missing, it)
		}
		h.findChain()
		h.prove(b.Proofs, i)
		if h.base != nil {
			restorable = true
			if last.After(written) {
				written = last
			}
		}
	}
	c.succeed()
	seen := make(map[timeline.Ref]bool, len(b.Listing.Objects)+len(b.Listing.Manifests)) // a listing may return something twice
	for _, o := range b.Listing.Objects {
		if seen[o.Ref] {
			continue
		}
		seen[o.Ref] = true
		it := at(o.Key)
		switch {
		case o.Key.Object == snapshot.ChunkObject:
			it.chunks = append(it.chunks, o)
			continue
		case it.snap != nil && o.Ref == it.snap.Ref && !o.Marker:
		default:
			it.others = append(it.others, o)
		}
		it.size += o.Size
	}
	for _, m := range b.Listing.Manifests {
		ref := timeline.Ref{Key: m.Key, Version: m.Version}
		if seen[ref] {
			continue
		}
		seen[ref] = true
		it := at(m.Key)
		it.manifests = append(it.manifests, m)
	}
	for _, it := range order {
		it.arrange()
		if it.lineage < 0 {
			c.loose = append(c.loose, it)
		}
	}
	slices.SortFunc(c.loose, func(a, b *item) int {
		return cmp.Or(cmp.Compare(a.created().Unix(), b.created().Unix()), cmp.Compare(a.key.String(), b.key.String()))
	})
	return &c
}

// arrange puts what belongs to the item into the order in which it is deleted.
func (it *item) arrange() {
	slices.SortFunc(it.others, func(a, b timeline.Object) int {
		return cmp.Or(markersLast(a.Marker, b.Marker), b.Modified.Compare(a.Modified), cmp.Compare(a.Version, b.Version))
	})
	slices.SortFunc(it.manifests, func(a, b timeline.StoredManifest) int {
		return cmp.Or(-markersLast(a.Marker, b.Marker), b.Modified.Compare(a.Modified), cmp.Compare(a.Version, b.Version))
	})
	slices.SortFunc(it.chunks, func(a, b timeline.Object) int {
		return cmp.Or(cmp.Compare(a.Key.Chunk, b.Key.Chunk), markersLast(a.Marker, b.Marker), cmp.Compare(a.Version, b.Version))
	})
}

func markersLast(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}
