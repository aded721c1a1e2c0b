package datadir

import (
	"context"
	"io"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/etcd/codec"
)

// oneRecord is a delta with one record of so many bytes.
type oneRecord struct {
	left int
}

func (r *oneRecord) Next() (*codec.Batch, error) {
	if r.left == 0 {
		return nil, io.EOF
	}
	b := &codec.Batch{Records: []codec.Record{{Key: []byte("k"), Value: make([]byte, r.left)}}}
	r.left = 0
	return b, nil
}
func (*oneRecord) Leases() []snapshot.LeaseRecord { return nil }
func (*oneRecord) Close() error                   { return nil }

func TestDeltasAreUnpackedOnlySoFarAhead(t *testing.T) {
	const count, parallel, budget, size = 40, 6, 1 << 20, 1 << 18
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		unpacked := 0
		deltas := slices.Repeat([]Delta{{Name: "delta", Open: func(o codec.ReaderOptions) (Records, error) {
			err := o.Wait()
			mu.Lock()
			defer mu.Unlock()
			unpacked++
			return &oneRecord{size}, err
		}}}, count)
		seeds := newSeeds()
		f := newFeed(t.Context(), deltas, &seeds, parallel, budget, 0, 0)
		defer f.close()
		for i := range count {
			synctest.Wait()
			mu.Lock()
			// Those in use, those that fill half the budget, and one for each processor.
			if want := min(i+1+budget/2/size+2*runtime.GOMAXPROCS(0), count); unpacked > want {
				t.Errorf("while delta %d is in use %d are unpacked, want at most %d", i, unpacked, want)
			}
			if unpacked <= i {
				t.Errorf("delta %d is waited for and not unpacked", i)
			}
			mu.Unlock()
			p, err := f.next(t.Context(), i)
			if err != nil {
				t.Fatalf("delta %d: %v", i, err)
			}
			f.release(p)
			if _, err := f.next(t.Context(), i); err != io.EOF {
				t.Fatalf("delta %d: %v", i, err)
			}
		}
	})
}

func TestAFeedThatIsClosedWaitsForNoTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var got []error
		deltas := slices.Repeat([]Delta{{Name: "delta", Open: func(o codec.ReaderOptions) (Records, error) {
			err := o.Wait()
			mu.Lock()
			defer mu.Unlock()
			got = append(got, err)
			return &oneRecord{1 << 20}, err
		}}}, 20)
		seeds := newSeeds()
		f := newFeed(t.Context(), deltas, &seeds, 2*runtime.GOMAXPROCS(0), 1<<20, 0, 0)
		synctest.Wait()
		f.close()
		if !slices.Contains(got, context.Canceled) {
			t.Errorf("nothing that waited for its turn heard of the end: %v", got)
		}
	})
}
