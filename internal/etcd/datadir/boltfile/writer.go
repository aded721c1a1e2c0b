package boltfile

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
)

// PageSize of written files, in bytes.
const PageSize = 4096

// leafTarget is how many bytes a leaf is filled up to. Leaves of several pages waste less than
// single ones: three records of 1 KiB leave a quarter of a 4 KiB page empty.
const leafTarget = 4 * PageSize

// minChildren keeps every branch at two children or more, as bolt does.
const minChildren = 2

// Writer writes a new database file in one sequential pass: buckets one after the other, the
// keys of each ascending. Its memory is a few buffers and one branch page per level.
//
//	w.Begin("key"); w.Put(k1, v1); w.Put(k2, v2); w.Begin("meta"); ...; w.Finish()
type Writer struct {
	out   *output
	next  uint64 // number of the next page
	leaf  node
	above []node // branches under construction, the lowest level first
	done  []child
	name  string
	open  bool
	prev  []byte
	err   error
}

// node is a page under construction: its keys and values, one after the other.
type node struct {
	items []item
	data  []byte
}

type item struct {
	key, value uint32 // sizes
	child      uint64 // of a branch
	flags      uint32
}

// child is a finished page, by its first key. Of buckets: the root page, by name.
type child struct {
	key  []byte
	page uint64
}

func (n *node) size() int { return pageHeader + len(n.items)*element + len(n.data) }

func (n *node) reset() { n.items, n.data = n.items[:0], n.data[:0] }

// NewWriter writes to f from its beginning. The caller syncs and closes f after Finish. It calls
// before, if set, before it writes so many bytes; an error of that ends the writing.
func NewWriter(f *os.File, before func(n int64) error) *Writer {
	w := &Writer{out: newOutput(f, before), next: 2}
	w.out.write(make([]byte, 2*PageSize)) // the metas come last: until then the file is invalid
	return w
}

// Begin starts the next bucket. Any order of buckets will do.
func (w *Writer) Begin(bucket string) {
	w.end()
	w.name, w.open, w.prev = bucket, true, w.prev[:0]
}

// Put adds one record. Key and value are copied. Errors come out of Finish, too.
func (w *Writer) Put(key, value []byte) error {
	if w.err != nil {
		return w.err
	}
	switch {
	case !w.open:
		w.err = errors.New("put outside of a bucket")
	case len(w.leaf.items)+len(w.above) > 0 && string(key) <= string(w.prev):
		w.err = fmt.Errorf("key %x does not follow %x", key, w.prev)
	case len(key) == 0 || len(key) > 32<<10 || uint64(len(value)) > 1<<31-2:
		w.err = fmt.Errorf("impossible sizes: key of %d bytes, value of %d", len(key), len(value))
	default:
		w.err = w.out.failed()
	}
	if w.err != nil {
		return w.err
	}
	if len(w.leaf.items) > 0 && w.leaf.size()+element+len(key)+len(value) > leafTarget {
		w.endLeaf()
	}
	w.prev = append(w.prev[:0], key...)
	w.leaf.items = append(w.leaf.items, item{key: uint32(len(key)), value: uint32(len(value))})
	w.leaf.data = append(append(w.leaf.data, key...), value...)
	return nil
}

// Written is the number of bytes written so far.
func (w *Writer) Written() int64 { return int64(w.next) * PageSize }

// Abort ends the writing without a valid file.
func (w *Writer) Abort() {
	if w.err == nil {
		w.err = errors.New("aborted")
	}
	w.out.close()
}

// Finish writes the root bucket and the meta pages, which make the file valid.
func (w *Writer) Finish() error {
	w.end()
	defer w.out.close()
	if w.err != nil {
		return w.err
	}
	for i := range w.done { // few: sort by insertion
		for j := i; j > 0 && string(w.done[j].key) < string(w.done[j-1].key); j-- {
			w.done[j], w.done[j-1] = w.done[j-1], w.done[j]
		}
	}
	var root node
	for i, b := range w.done {
		if i > 0 && string(b.key) == string(w.done[i-1].key) {
			return fmt.Errorf("bucket %q was written twice", b.key)
		}
		root.items = append(root.items, item{key: uint32(len(b.key)), value: bucketHeader, flags: bucketEntry})
		root.data = append(root.data, b.key...)
		root.data = le.AppendUint64(root.data, b.page)
		root.data = le.AppendUint64(root.data, 0)
	}
	rootID := w.emit(&root, leafPage)
	freelist := w.emit(&node{}, freelistPage)
	metas := make([]byte, 2*PageSize)
	for i := range 2 {
		p := metas[i*PageSize:]
		le.PutUint64(p, uint64(i))
		le.PutUint16(p[8:], metaPage)
		m := p[pageHeader:][:metaBytes]
		le.PutUint32(m, magic)
		le.PutUint32(m[4:], version)
		le.PutUint32(m[8:], PageSize)
		le.PutUint64(m[16:], rootID)
		le.PutUint64(m[32:], freelist)
		le.PutUint64(m[40:], w.next)
		le.PutUint64(m[48:], uint64(i))
		sum := fnv.New64a()
		sum.Write(m[:56])
		le.PutUint64(m[56:], sum.Sum64())
	}
	if err := w.out.close(); err != nil {
		return err
	}
	if n, err := w.out.file.WriteAt(metas, 0); err != nil {
		return err
	} else if n != len(metas) {
		return io.ErrShortWrite
	}
	return nil
}

// end finishes the tree of the open bucket.
func (w *Writer) end() {
	if !w.open || w.err != nil {
		return
	}
	w.open = false
	if len(w.above) == 0 { // one leaf is the whole tree
		w.done = append(w.done, child{[]byte(w.name), w.emit(&w.leaf, leafPage)})
		w.leaf.reset()
		return
	}
	w.endLeaf()
	for level := 0; ; level++ {
		n := &w.above[level]
		if level == len(w.above)-1 && n.size() <= PageSize {
			w.done = append(w.done, child{[]byte(w.name), w.emit(n, branchPage)})
			break
		}
		if n.size() > PageSize {
			w.split(level, len(n.items)/2)
			n = &w.above[level]
		}
		w.split(level, len(n.items))
	}
	w.above = w.above[:0]
}

func (w *Writer) endLeaf() {
	if len(w.leaf.items) == 0 {
		return
	}
	key := append([]byte(nil), w.leaf.data[:w.leaf.items[0].key]...)
	id := w.emit(&w.leaf, leafPage)
	w.leaf.reset()
	w.add(0, key, id)
}

// add appends a child to the branch under construction at the level. A full branch is written
// only when enough children for one more have gathered, so that none is ever left with one.
func (w *Writer) add(level int, key []byte, page uint64) {
	if level == len(w.above) {
		w.above = append(w.above, node{})
	}
	n := &w.above[level]
	n.items = append(n.items, item{key: uint32(len(key)), child: page})
	n.data = append(n.data, key...)
	size, fits := pageHeader, 0
	if n.size() <= PageSize {
		return
	}
	for fits < len(n.items) && (size+element+int(n.items[fits].key) <= PageSize || fits < minChildren) {
		size += element + int(n.items[fits].key)
		fits++
	}
	if len(n.items)-fits >= minChildren {
		w.split(level, fits)
	}
}

// split writes the first count children of the branch at the level as a page of its own.
func (w *Writer) split(level, count int) {
	n := &w.above[level]
	bytes := 0
	for _, it := range n.items[:count] {
		bytes += int(it.key)
	}
	first := node{items: n.items[:count], data: n.data[:bytes]}
	key := append([]byte(nil), n.data[:n.items[0].key]...)
	id := w.emit(&first, branchPage)
	n.items = n.items[:copy(n.items, n.items[count:])]
	n.data = n.data[:copy(n.data, n.data[bytes:])]
	w.add(level+1, key, id)
}

// emit writes a page and returns its number.
func (w *Writer) emit(n *node, flags uint16) uint64 {
	size := n.size()
	pages := (size + PageSize - 1) / PageSize
	id := w.next
	w.next += uint64(pages)
	head := make([]byte, 0, 256)
	head = le.AppendUint64(head, id)
	head = le.AppendUint16(head, flags)
	head = le.AppendUint16(head, uint16(len(n.items)))
	head = le.AppendUint32(head, uint32(pages-1))
	pos := len(n.items) * element // from the element's header to its key
	for _, it := range n.items {
		if len(head)+element > cap(head) {
			w.out.write(head)
			head = head[:0]
		}
		if flags == branchPage {
			head = le.AppendUint32(head, uint32(pos))
			head = le.AppendUint32(head, it.key)
			head = le.AppendUint64(head, it.child)
		} else {
			head = le.AppendUint32(head, it.flags)
			head = le.AppendUint32(head, uint32(pos))
			head = le.AppendUint32(head, it.key)
			head = le.AppendUint32(head, it.value)
		}
		pos += int(it.key) + int(it.value) - element
	}
	w.out.write(head)
	w.out.write(n.data)
	w.out.zero(pages*PageSize - size)
	return id
}
