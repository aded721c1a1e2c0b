package dbstream

import (
	"container/heap"
	"encoding/binary"
	"errors"
	"fmt"
)

// The walker finds the last revision in a database file that passes by once. A search would go
//
//	meta page -> root of the buckets -> bucket "key" -> last child -> ... -> last record
//
// but the pages pass in file order, so the path is known only at the end. The walker therefore
// notes, for every page that could be on it, the one thing the search would take from it, and
// walks the notes afterwards.
//
// Taking the largest revision seen in any page would be wrong. Pages that are free in this file
// may be written by etcd while they are being streamed, and then hold revisions that the file's
// own tree does not contain. Only pages reached from the meta page count.
//
// Notes stay few: the file must contain revision min, so a leaf whose last record is older
// cannot be the last leaf; of those one bit remembers that they were understood. The revision
// of an etcd is the larger of its last record and the revision it was compacted at, because a
// compaction may remove the last record if that is a tombstone (before etcd 3.5.16).
type walker struct {
	min    int64
	broken error // why no answer is possible

	pageSize int64 // 0 until the first meta page was seen
	txid     uint64
	root     uint64 // of the tree of buckets

	at     int64  // file offset behind the bytes taken so far
	page   []byte // the unfinished page, or the beginning of the file
	wanted reads  // pieces of large pages still to come

	leaves  map[uint64]int64                    // leaves of "key": main revision of the last record
	aged    bits                                // leaves of "key" that end before min
	inner   map[uint64]uint64                   // inner pages of "key": last child
	dirs    map[uint64][len(names)]uint64       // inner pages of the tree of buckets: child that may have the name
	buckets map[uint64][len(names)]bucketRecord // leaves of the tree of buckets
	metas   map[uint64]int64                    // leaves of "meta": revision of the last compaction
}

// The two buckets of interest, as indexes of names.
const (
	keyBucket = iota
	metaBucket
)

var names = [...]string{keyBucket: "key", metaBucket: "meta"}

// bucketRecord is what a leaf of the tree of buckets says about one bucket.
type bucketRecord struct {
	found bool
	root  uint64 // 0: the bucket is small and lies within the leaf
	value int64  // if so: the main revision of its last record, or of the last compaction
}

// maxDepth bounds a walk; trees of etcd have a depth of 5 or less. smallPage bounds a leaf of the
// tree of buckets, maxPage any page: etcd has no value near it.
const (
	maxDepth  = 64
	smallPage = 256 << 10
	maxPage   = 1 << 31
)

var errTooOld = errors.New("the last revision is older than expected")

// maxNotes bounds each kind of note. A stream that exceeds it is still good, only its last
// revision stays unknown.
const maxNotes = 2 << 20

func newWalker(min int64) *walker {
	return &walker{
		min:    min,
		leaves: map[uint64]int64{}, inner: map[uint64]uint64{}, metas: map[uint64]int64{},
		dirs: map[uint64][len(names)]uint64{}, buckets: map[uint64][len(names)]bucketRecord{},
	}
}

func (w *walker) fail(format string, args ...any) {
	*w = walker{broken: fmt.Errorf("the last revision cannot be told: "+format, args...)}
}

// write takes the next bytes of the file, without the trailer.
func (w *walker) write(p []byte) {
	if w.broken != nil {
		return
	}
	if w.pageSize == 0 {
		need := pageHeadSize + metaSize - len(w.page)
		n := min(need, len(p))
		w.page = append(w.page, p[:n]...)
		p = p[n:]
		if n < need {
			return
		}
		if w.pageSize = metaPageSize(w.page); w.pageSize == 0 {
			w.fail("%w", ErrNoDatabase)
			return
		}
	}
	for len(p) > 0 && w.broken == nil {
		n := min(int(w.pageSize)-len(w.page), len(p))
		w.page = append(w.page, p[:n]...)
		p = p[n:]
		if len(w.page) == int(w.pageSize) {
			w.take(w.page)
			w.page = w.page[:0]
		}
	}
}

// take looks at one page of the file.
func (w *walker) take(page []byte) {
	id := uint64(w.at / w.pageSize)
	w.at += w.pageSize
	for w.broken == nil && len(w.wanted) > 0 && w.wanted[0].next < w.at {
		w.read(page, heap.Pop(&w.wanted).(*read))
	}
	if w.broken != nil {
		return
	}
	if id < 2 {
		w.meta(page)
		return
	}
	// A page that is free, or the inside of a large one, usually does not carry its own
	// number. If by chance it does, its note is never reached from the root.
	h := readHead(page)
	if h.id != id || h.length(w.pageSize) > maxPage {
		return
	}
	switch h.flags {
	case branchPage:
		w.branch(h, page)
	case leafPage:
		w.leaf(h, page)
	}
	if n := len(w.leaves) + len(w.inner) + len(w.dirs) + len(w.buckets) + len(w.metas) + len(w.wanted); n > maxNotes {
		w.fail("the file has more than %d pages of interest", maxNotes)
	}
}

// read moves what the page at hand has of r, and comes back to r when more has come.
func (w *walker) read(page []byte, r *read) {
	n := min(int64(cap(r.buf)-len(r.buf)), w.at-r.next)
	from := r.next - (w.at - w.pageSize)
	r.buf = append(r.buf, page[from:from+n]...)
	r.next += n
	if len(r.buf) == cap(r.buf) {
		r.then(page, r.buf)
		return
	}
	heap.Push(&w.wanted, r)
}

// want calls then with n bytes of the file from offset off, which is not before the page at
// hand, and with the page at hand by then.
func (w *walker) want(page []byte, off, n int64, then func(page, piece []byte)) {
	r := &read{next: off, buf: make([]byte, 0, n), then: then}
	if off < w.at {
		w.read(page, r)
		return
	}
	heap.Push(&w.wanted, r)
}

func (w *walker) meta(page []byte) {
	if metaPageSize(page) != w.pageSize {
		return // one of the two is enough
	}
	m := page[pageHeadSize:]
	if txid := binary.LittleEndian.Uint64(m[48:]); w.root == 0 || txid > w.txid {
		w.root, w.txid = binary.LittleEndian.Uint64(m[16:]), txid
	}
}

// branch notes an inner page.
func (w *walker) branch(h head, page []byte) {
	last, ok := branchElement(page, h, h.count-1)
	if !ok {
		return
	}
	if _, is := mainRevision(last.key); is {
		w.inner[h.id] = last.child
		return
	}
	var note [len(names)]uint64
	for i := range h.count {
		e, ok := branchElement(page, h, i)
		if !ok {
			return
		}
		for b, name := range names {
			if i == 0 || string(e.key) <= name {
				note[b] = e.child
			}
		}
	}
	w.dirs[h.id] = note
}

// leaf notes an outer page, perhaps after more of it has come.
func (w *walker) leaf(h head, page []byte) {
	start, length := w.at-w.pageSize, h.length(w.pageSize)
	at := int64(pageHeadSize + elementSize*(h.count-1))
	if h.count == 0 {
		w.leaves[h.id] = 0
		return
	}
	if at+elementSize > length {
		return
	}
	// The tree of buckets, or a bucket with short keys: small, and looked at as a whole.
	if e := leafHead(page[pageHeadSize:]); e.flags&bucketFlag != 0 || !isRevisionSize(e.ksize) {
		if length <= smallPage {
			w.want(page, start, length, func(_, all []byte) { w.small(h, all) })
		}
		return
	}
	w.want(page, start+at, elementSize, func(page, b []byte) {
		e := leafHead(b)
		key := at + int64(e.pos)
		if !isRevisionSize(e.ksize) || int64(e.pos) < elementSize || key+int64(e.ksize) > length {
			return
		}
		w.want(page, start+key, revisionSize, func(_, k []byte) {
			switch main, ok := mainRevision(k); {
			case !ok:
			case main < w.min:
				w.aged.set(h.id)
			default:
				w.leaves[h.id] = main
			}
		})
	})
}

// small notes a whole page that may be a leaf of the tree of buckets or of the bucket meta.
func (w *walker) small(h head, all []byte) {
	var note [len(names)]bucketRecord
	isDir := false
	for i := range h.count {
		e, ok := leafElement(all, h, i)
		if !ok {
			return
		}
		if e.flags&bucketFlag == 0 {
			continue
		}
		isDir = true
		for b, name := range names {
			if string(e.key) == name && len(e.value) >= bucketHeadSize {
				note[b] = bucketRecord{found: true, root: binary.LittleEndian.Uint64(e.value)}
				if note[b].root == 0 {
					note[b].value = inline(b, e.value[bucketHeadSize:])
				}
			}
		}
	}
	if isDir {
		w.buckets[h.id] = note
		return
	}
	if rev, ok := compaction(h, all); ok {
		w.metas[h.id] = rev
	}
}

// inline reads a bucket that lies within the leaf of the tree of buckets.
func inline(bucket int, page []byte) int64 {
	if len(page) < pageHeadSize {
		return 0
	}
	h := readHead(page)
	if bucket == metaBucket {
		rev, _ := compaction(h, page)
		return rev
	}
	e, ok := leafElement(page, h, h.count-1)
	if !ok {
		return 0
	}
	main, _ := mainRevision(e.key)
	return main
}

// compaction finds the revision of the last compaction in a leaf of the bucket meta. ok says
// that it is such a leaf: whatever else it holds, etcd keeps its consistent index there.
func compaction(h head, page []byte) (rev int64, ok bool) {
	for i := range h.count {
		e, good := leafElement(page, h, i)
		if !good {
			return 0, false
		}
		switch string(e.key) {
		case "consistent_index":
			ok = true
		case "scheduledCompactRev", "finishedCompactRev":
			if main, good := mainRevision(e.value); good {
				rev = max(rev, main)
			}
		}
	}
	return rev, ok
}

// last walks the notes from the root.
func (w *walker) last() (int64, error) {
	if w.broken != nil {
		return 0, w.broken
	}
	unknown := func(what string) (int64, error) {
		return 0, fmt.Errorf("the last revision cannot be told: %s was not understood", what)
	}
	if w.root == 0 {
		return unknown("the meta page")
	}
	key, ok := w.bucket(keyBucket)
	if !ok {
		return unknown("the tree of buckets")
	}
	compacted, ok := w.compacted()
	if !ok {
		return unknown("the bucket meta")
	}
	record := key.value
	if key.root != 0 {
		page := key.root
		for depth := 0; ; depth++ {
			next, is := w.inner[page]
			if !is {
				break
			}
			if depth > maxDepth {
				return unknown("the bucket key")
			}
			page = next
		}
		if record, ok = w.leaves[page]; !ok {
			if !w.aged.has(page) {
				return unknown("the bucket key")
			}
			if compacted < w.min {
				return 0, errTooOld
			}
		}
	}
	return max(1, record, compacted), nil // an etcd without any record is at revision 1
}

// bucket descends the tree of buckets to the leaf that must have the bucket.
func (w *walker) bucket(b int) (bucketRecord, bool) {
	page := w.root
	for range maxDepth {
		if leaf, is := w.buckets[page]; is {
			return leaf[b], leaf[b].found
		}
		next, is := w.dirs[page]
		if !is {
			return bucketRecord{}, false
		}
		page = next[b]
	}
	return bucketRecord{}, false
}

func (w *walker) compacted() (int64, bool) {
	meta, ok := w.bucket(metaBucket)
	if !ok || meta.root == 0 {
		return meta.value, ok
	}
	rev, ok := w.metas[meta.root]
	return rev, ok
}
