package boltfile

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"sort"

	"golang.org/x/sys/unix"
)

// Reader reads a database file through a shared mapping. Keys and values it hands out lie in
// that mapping: they are valid until Close and must not be changed. It may be used by several
// goroutines at the same time.
type Reader struct {
	file     *os.File
	data     []byte
	pageSize int
	pages    uint64 // high water mark: pages with a higher or equal number do not exist
	root     uint64
	freelist uint64
	txid     uint64
	buckets  map[string]Bucket
	names    []string
}

// Bucket is the tree of one top-level bucket.
type Bucket struct {
	r      *Reader
	root   uint64
	inline []byte // the only page, if the bucket lies inside of the root bucket
}

var le = binary.LittleEndian

// Open maps the file at path. The file must not shrink or change while it is open.
func Open(path string) (*Reader, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	r, err := NewReader(f)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

// NewReader maps the open file f and takes it over if it succeeds.
func NewReader(f *os.File) (*Reader, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if st.Size() < 2*512 || st.Size() != int64(int(st.Size())) {
		return nil, fmt.Errorf("%w: impossible size of %d bytes", ErrCorrupt, st.Size())
	}
	data, err := unix.Mmap(int(f.Fd()), 0, int(st.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map: %w", err)
	}
	r := &Reader{file: f, data: data}
	if err := r.load(); err != nil {
		unix.Munmap(data)
		return nil, err
	}
	return r, nil
}

// Close unmaps and closes the file.
func (r *Reader) Close() error {
	err := unix.Munmap(r.data)
	r.data = nil
	if cerr := r.file.Close(); err == nil {
		err = cerr
	}
	return err
}

// Size is the length of the file in bytes.
func (r *Reader) Size() int64 { return int64(len(r.data)) }

// Name is the path the file was opened with.
func (r *Reader) Name() string { return r.file.Name() }

// read reads bytes of the file without the mapping, for the sake of reading.
func (r *Reader) read(off, n int64) error {
	_, err := io.Copy(io.Discard, io.NewSectionReader(r.file, off, n))
	return err
}

// PageSize is the size of a page in bytes.
func (r *Reader) PageSize() int { return r.pageSize }

// Buckets are the names of the top-level buckets, sorted.
func (r *Reader) Buckets() []string { return r.names }

// Bucket finds a top-level bucket.
func (r *Reader) Bucket(name string) (Bucket, bool) {
	b, ok := r.buckets[name]
	return b, ok
}

// load finds the newest valid meta page and lists the buckets.
func (r *Reader) load() error {
	found := r.meta(0)
	if found {
		r.meta(r.pageSize)
	} else { // page 0 is torn: the size of a page, and so where page 1 is, has to be guessed
		for size := 512; size <= 64<<10 && !found; size *= 2 {
			found = r.meta(size)
		}
	}
	if !found {
		return fmt.Errorf("%w: no valid meta page", ErrCorrupt)
	}
	if r.pages > uint64(len(r.data)/r.pageSize) {
		return fmt.Errorf("%w: it has %d pages of %d bytes, but only %d bytes: the end is missing",
			ErrCorrupt, r.pages, r.pageSize, len(r.data))
	}
	r.buckets = map[string]Bucket{}
	return r.walk(r.root, walkOptions{buckets: true}, func(k, v []byte) error {
		b := Bucket{r: r, root: le.Uint64(v)}
		if b.root == 0 {
			b.inline = v[bucketHeader:]
		}
		r.buckets[string(k)] = b
		r.names = append(r.names, string(k))
		return nil
	})
}

// Begins reports whether first, the beginning of a file, has a meta page where a database may have
// one. It does not check that the page is valid.
func Begins(first []byte) bool {
	for at := 0; at+pageHeader+4 <= len(first) && at <= 64<<10; at = max(512, 2*at) {
		if le.Uint32(first[at+pageHeader:]) == magic {
			return true
		}
	}
	return false
}

// meta takes over the meta page at the offset if it is valid and newer than what is known.
func (r *Reader) meta(offset int) bool {
	if offset+pageHeader+metaBytes > len(r.data) {
		return false
	}
	m := r.data[offset+pageHeader:][:metaBytes]
	sum := fnv.New64a()
	sum.Write(m[:56])
	if le.Uint32(m) != magic || le.Uint32(m[4:]) != version || le.Uint64(m[56:]) != sum.Sum64() {
		return false
	}
	size, txid := int(le.Uint32(m[8:])), le.Uint64(m[48:])
	if size < 512 || size > 64<<10 || size&(size-1) != 0 {
		return false
	}
	if r.pageSize != 0 && (size != r.pageSize || txid < r.txid) {
		return false
	}
	r.pageSize, r.txid = size, txid
	r.root, r.freelist, r.pages = le.Uint64(m[16:]), le.Uint64(m[32:]), le.Uint64(m[40:])
	return true
}

// page is the whole page with the number id, its overflow included.
func (r *Reader) page(id uint64) ([]byte, error) {
	if id < 2 || id >= r.pages {
		return nil, fmt.Errorf("%w: reference to page %d of %d", ErrCorrupt, id, r.pages)
	}
	p := r.data[int(id)*r.pageSize:]
	if le.Uint64(p) != id {
		return nil, fmt.Errorf("%w: page %d says it is page %d", ErrCorrupt, id, le.Uint64(p))
	}
	n := uint64(le.Uint32(p[12:])) + 1
	if id+n > r.pages {
		return nil, fmt.Errorf("%w: page %d overflows the end", ErrCorrupt, id)
	}
	return p[: int(n)*r.pageSize : int(n)*r.pageSize], nil
}

// branch is the i-th element of a branch page.
func branch(p []byte, i int) (key []byte, child uint64, ok bool) {
	at := pageHeader + i*element
	if at+element > len(p) {
		return nil, 0, false
	}
	start := uint64(at) + uint64(le.Uint32(p[at:]))
	end := start + uint64(le.Uint32(p[at+4:]))
	if end > uint64(len(p)) {
		return nil, 0, false
	}
	return p[start:end:end], le.Uint64(p[at+8:]), true
}

// leaf is the i-th element of a leaf page.
func leaf(p []byte, i int) (key, value []byte, flags uint32, ok bool) {
	at := pageHeader + i*element
	if at+element > len(p) {
		return nil, nil, 0, false
	}
	start := uint64(at) + uint64(le.Uint32(p[at+4:]))
	mid := start + uint64(le.Uint32(p[at+8:]))
	end := mid + uint64(le.Uint32(p[at+12:]))
	if end > uint64(len(p)) {
		return nil, nil, 0, false
	}
	return p[start:mid:mid], p[mid:end:end], le.Uint32(p[at:]), true
}

// misplaced is the first of the n elements of a page whose content does not lie where it has to, or
// -1: behind the elements, one content after the other, without a gap. So elements that a page says
// it has and has not are found, and those that it has and does not tell of.
func misplaced(p []byte, n int, span func(e []byte) (offset, size uint64)) int {
	next := uint64(pageHeader + n*element)
	for i := range n {
		at := pageHeader + i*element
		if at+element > len(p) {
			return i
		}
		offset, size := span(p[at:])
		if uint64(at)+offset != next {
			return i
		}
		next += size
	}
	return -1
}

func branchSpan(e []byte) (offset, size uint64) {
	return uint64(le.Uint32(e)), uint64(le.Uint32(e[4:]))
}

func leafSpan(e []byte) (offset, size uint64) {
	return uint64(le.Uint32(e[4:])), uint64(le.Uint32(e[8:])) + uint64(le.Uint32(e[12:]))
}

// Each calls fn for every record with a key of at least from, in order; nil is the beginning.
// An error of fn ends the walk and is returned as it is.
func (b Bucket) Each(from []byte, fn func(k, v []byte) error) error {
	w := walkOptions{from: from}
	if b.inline != nil {
		return b.r.walkLeaf(b.inline, 0, w, new([]byte), fn)
	}
	return b.r.walk(b.root, w, fn)
}

// Last is the record with the highest key, nil if the bucket is empty.
func (b Bucket) Last() (k, v []byte, err error) {
	p, id := b.inline, b.root
	for depth := 0; ; depth++ {
		if b.inline == nil {
			if p, err = b.r.page(id); err != nil {
				return nil, nil, err
			}
		}
		if len(p) < pageHeader || depth > maxDepth {
			return nil, nil, fmt.Errorf("%w: page %d", ErrCorrupt, id)
		}
		n, ok := int(le.Uint16(p[10:])), false
		switch flags := le.Uint16(p[8:]); {
		case flags == leafPage && n == 0:
			return nil, nil, nil
		case flags == leafPage:
			k, v, _, ok = leaf(p, n-1)
			if !ok {
				return nil, nil, fmt.Errorf("%w: page %d: element %d is out of bounds", ErrCorrupt, id, n-1)
			}
			return k, v, nil
		case flags == branchPage && n > 0 && b.inline == nil:
			if _, id, ok = branch(p, n-1); !ok {
				return nil, nil, fmt.Errorf("%w: page %d: element %d is out of bounds", ErrCorrupt, id, n-1)
			}
		default:
			return nil, nil, fmt.Errorf("%w: page %d has flags %#x and %d elements", ErrCorrupt, id, flags, n)
		}
	}
}

// Get is the value of the key k, nil if there is none.
func (b Bucket) Get(k []byte) (value []byte, err error) {
	err = b.Each(k, func(found, v []byte) error {
		if string(found) == string(k) {
			value = v
		}
		return errStop
	})
	if err == errStop {
		err = nil
	}
	return value, err
}

type stop struct{}

func (stop) Error() string { return "stop" }

var errStop error = stop{}

type walkOptions struct {
	from    []byte
	buckets bool                            // the elements are buckets, not records
	visit   func(id uint64, p []byte) error // every page of the tree
	seen    *uint64                         // how many pages were walked, set by walk
}

func (r *Reader) walk(root uint64, w walkOptions, fn func(k, v []byte) error) error {
	w.seen = new(uint64)
	return r.walkPage(root, 0, w, nil, nil, new([]byte), fn)
}

// walkPage walks the subtree of the page id, whose keys lie in [low, high); nil is no bound.
// last is the key visited before.
func (r *Reader) walkPage(id uint64, depth int, w walkOptions, low, high []byte, last *[]byte, fn func(k, v []byte) error) error {
	p, err := r.page(id)
	if err != nil {
		return err
	}
	if depth > maxDepth {
		return fmt.Errorf("%w: page %d: the tree is deeper than %d", ErrCorrupt, id, maxDepth)
	}
	// Pages that refer to the same empty page break no order, and there may be 2^64 ways to it.
	if *w.seen++; *w.seen > r.pages {
		return fmt.Errorf("%w: page %d: the tree has more pages than the file", ErrCorrupt, id)
	}
	if w.visit != nil {
		if err := w.visit(id, p); err != nil {
			return err
		}
	}
	n := int(le.Uint16(p[10:]))
	switch flags := le.Uint16(p[8:]); flags {
	case leafPage:
		if n == 0 && depth > 0 {
			return fmt.Errorf("%w: page %d: empty leaf", ErrCorrupt, id)
		}
		if err := r.walkLeaf(p, id, w, last, fn); err != nil || n == 0 {
			return err
		}
		first, _, _, _ := leaf(p, 0)
		final, _, _, _ := leaf(p, n-1)
		if low != nil && string(first) < string(low) || high != nil && string(final) >= string(high) {
			return fmt.Errorf("%w: page %d: keys outside of what its parent says", ErrCorrupt, id)
		}
		return nil
	case branchPage:
		if n == 0 {
			return fmt.Errorf("%w: page %d: empty branch", ErrCorrupt, id)
		}
		if i := misplaced(p, n, branchSpan); i >= 0 {
			return fmt.Errorf("%w: page %d: element %d is not where it has to be", ErrCorrupt, id, i)
		}
		start := 0
		if w.from != nil { // the last child that begins at or before from
			start = sort.Search(n, func(i int) bool {
				k, _, ok := branch(p, i)
				return ok && string(k) > string(w.from)
			})
			start = max(start-1, 0)
		}
		for i := start; i < n; i++ {
			k, child, ok := branch(p, i)
			if !ok {
				return fmt.Errorf("%w: page %d: element %d is out of bounds", ErrCorrupt, id, i)
			}
			end := high
			if i+1 < n {
				if end, _, ok = branch(p, i+1); !ok || string(end) <= string(k) {
					return fmt.Errorf("%w: page %d: element %d is out of order", ErrCorrupt, id, i+1)
				}
			}
			if err := r.walkPage(child, depth+1, w, k, end, last, fn); err != nil {
				return err
			}
			w.from = nil
		}
		return nil
	default:
		return fmt.Errorf("%w: page %d in a tree has flags %#x", ErrCorrupt, id, flags)
	}
}

func (r *Reader) walkLeaf(p []byte, id uint64, w walkOptions, last *[]byte, fn func(k, v []byte) error) error {
	if len(p) < pageHeader {
		return fmt.Errorf("%w: inline bucket of %d bytes", ErrCorrupt, len(p))
	}
	n := int(le.Uint16(p[10:]))
	if i := misplaced(p, n, leafSpan); i >= 0 {
		return fmt.Errorf("%w: page %d: element %d is not where it has to be", ErrCorrupt, id, i)
	}
	for i := range n {
		k, v, flags, ok := leaf(p, i)
		switch {
		case !ok:
			return fmt.Errorf("%w: page %d: element %d is out of bounds", ErrCorrupt, id, i)
		case *last != nil && string(k) <= string(*last):
			return fmt.Errorf("%w: page %d: element %d is out of order", ErrCorrupt, id, i)
		case w.buckets && (flags&bucketEntry == 0 || len(v) < bucketHeader):
			return fmt.Errorf("%w: page %d: element %d is not a bucket", ErrCorrupt, id, i)
		case !w.buckets && flags != 0:
			return fmt.Errorf("%w: page %d: element %d is a nested bucket, which etcd does not have", ErrCorrupt, id, i)
		}
		*last = k
		if w.from != nil && string(k) < string(w.from) {
			continue
		}
		if fn == nil {
			continue
		}
		if err := fn(k, v); err != nil {
			return err
		}
	}
	return nil
}
