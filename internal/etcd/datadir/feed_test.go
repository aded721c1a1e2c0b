package datadir

import (
	"context"
	"io"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"druid.internal/druid/internal/etcd/codec"
)

// noRecords is a delta without content.
type noRecords struct{}

func (noRecords) Next() (*codec.Batch, error) { return nil, io.EOF }
func (noRecords) Leases() []codec.Lease       { return nil }
func (noRecords) Close() error                { return nil }

func TestDeltasAreOpenedAndUnpackedOnlySoFarAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const count, parallel = 20, 6
		var mu sync.Mutex
		opened, unpacked := 0, 0
		deltas := slices.Repeat([]Delta{{Name: "delta", Open: func(o codec.ReaderOptions) (Records, error) {
			mu.Lock()
			opened++
			mu.Unlock()
			err := o.Wait()
			mu.Lock()
			defer mu.Unlock()
			unpacked++
			return noRecords{}, err
		}}}, count)
		seeds := newSeeds()
		f := newFeed(t.Context(), deltas, &seeds, parallel, 1<<20)
		defer f.close()
		for i := range count {
			synctest.Wait()
			mu.Lock()
			if want := min(i+runtime.GOMAXPROCS(0), count-1) + 1; unpacked > want {
				t.Errorf("while delta %d is in use %d are unpacked, want at most %d", i, unpacked, want)
			}
			if want := min(i+parallel, count-1) + 1; opened > want {
				t.Errorf("while delta %d is in use %d are open or were, want at most %d", i, opened, want)
			}
			if unpacked <= i {
				t.Errorf("delta %d is waited for and not unpacked", i)
			}
			mu.Unlock()
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
			return noRecords{}, err
		}}}, 20)
		seeds := newSeeds()
		f := newFeed(t.Context(), deltas, &seeds, 2*runtime.GOMAXPROCS(0), 1<<20)
		synctest.Wait()
		f.close()
		if !slices.Contains(got, context.Canceled) {
			t.Errorf("nothing that waited for its turn heard of the end: %v", got)
		}
	})
}
