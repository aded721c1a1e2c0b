package boltfile

import (
	"errors"
	"hash/fnv"
	"os"
	"path/filepath"
	"testing"
)

// sharedPages is a file whose only bucket is a ladder of branches: each has two elements that
// lead to the same page below, and the last one leads to an empty leaf. There are as many ways
// down as 2 to the number of branches.
func sharedPages(branches int) []byte {
	b := make([]byte, (4+branches+1)*PageSize)
	page := func(id int, flags uint16, elements int) []byte {
		p := b[id*PageSize:][:PageSize]
		le.PutUint64(p, uint64(id))
		le.PutUint16(p[8:], flags)
		le.PutUint16(p[10:], uint16(elements))
		return p
	}
	root := page(2, leafPage, 1)
	le.PutUint32(root[16:], bucketEntry)
	le.PutUint32(root[20:], element)
	le.PutUint32(root[24:], 3)
	le.PutUint32(root[28:], bucketHeader)
	copy(root[32:], "key")
	le.PutUint64(root[35:], 4)
	page(3, freelistPage, 0)
	for i := range branches {
		p := page(4+i, branchPage, 2)
		for j := range 2 {
			e := p[pageHeader+j*element:]
			le.PutUint32(e, uint32((2-j)*element+j))
			le.PutUint32(e[4:], 1)
			le.PutUint64(e[8:], uint64(4+i+1))
			p[pageHeader+2*element+j] = byte('a' + j)
		}
	}
	page(4+branches, leafPage, 0)
	for id := range 2 {
		m := page(id, metaPage, 0)[pageHeader:][:metaBytes]
		le.PutUint32(m, magic)
		le.PutUint32(m[4:], version)
		le.PutUint32(m[8:], PageSize)
		le.PutUint64(m[16:], 2)
		le.PutUint64(m[32:], 3)
		le.PutUint64(m[40:], uint64(len(b)/PageSize))
		le.PutUint64(m[48:], uint64(id))
		sum := fnv.New64a()
		sum.Write(m[:56])
		le.PutUint64(m[56:], sum.Sum64())
	}
	return b
}

func TestPagesReferredToAgainAndAgainEndTheWalk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	if err := os.WriteFile(path, sharedPages(50), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b, is := r.Bucket("key")
	if !is {
		t.Fatal("there is no bucket")
	}
	if err := b.Each(nil, func(k, v []byte) error { return nil }); !errors.Is(err, ErrCorrupt) {
		t.Errorf("want ErrCorrupt of a walk through the bucket, got %v", err)
	}
	if _, err := b.Get([]byte("a")); !errors.Is(err, ErrCorrupt) {
		t.Errorf("want ErrCorrupt of a search, got %v", err)
	}
	if err := r.Check(true); !errors.Is(err, ErrCorrupt) {
		t.Errorf("want ErrCorrupt of a check, got %v", err)
	}
}
