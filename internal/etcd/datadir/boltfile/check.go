package boltfile

import "fmt"

// Check walks every page of every bucket: that each is referred to once, that elements lie
// inside of their pages and keys are in order. It takes one bit of memory per page.
//
// With allUsed, pages that belong to nothing are an error too. That holds for files of a Writer;
// in a file that etcd wrote they are free pages.
func (r *Reader) Check(allUsed bool) error {
	return r.CheckEach(allUsed, nil)
}

// CheckEach is Check that hands every record to fn on the way, bucket by bucket.
func (r *Reader) CheckEach(allUsed bool, fn func(bucket string, k, v []byte) error) error {
	used := make([]uint64, r.pages/64+1)
	count := uint64(2) // the meta pages
	visit := func(id uint64, p []byte) error {
		for n := uint64(len(p) / r.pageSize); n > 0; n-- {
			if used[id/64]&(1<<(id%64)) != 0 {
				return fmt.Errorf("%w: page %d is used twice", ErrCorrupt, id)
			}
			used[id/64] |= 1 << (id % 64)
			id++
			count++
		}
		return nil
	}
	if err := r.walk(r.root, walkOptions{buckets: true, visit: visit}, nil); err != nil {
		return err
	}
	for _, name := range r.names {
		each := func(k, v []byte) error { return nil }
		if fn != nil {
			each = func(k, v []byte) error { return fn(name, k, v) }
		}
		b := r.buckets[name]
		var err error
		if b.inline != nil {
			if len(b.inline) >= pageHeader && le.Uint16(b.inline[8:]) != leafPage {
				return fmt.Errorf("%w: bucket %q: the inline page is not a leaf", ErrCorrupt, name)
			}
			err = b.Each(nil, each)
		} else {
			err = r.walk(b.root, walkOptions{visit: visit}, each)
		}
		if err != nil {
			return err
		}
	}
	if r.freelist != noFreelist {
		p, err := r.page(r.freelist)
		if err != nil {
			return err
		}
		if le.Uint16(p[8:]) != freelistPage {
			return fmt.Errorf("%w: page %d is not the free list", ErrCorrupt, r.freelist)
		}
		if err := visit(r.freelist, p); err != nil {
			return err
		}
	}
	if allUsed && count != r.pages {
		return fmt.Errorf("%w: %d of %d pages belong to nothing", ErrCorrupt, r.pages-count, r.pages)
	}
	return nil
}
