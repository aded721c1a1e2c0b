package replay

import (
	"io"
	"sync"

	"druid.internal/druid/internal/engine/fetch"
)

// DefaultReadAhead is what ranged requests may hold when nothing is said: enough for several
// objects at full speed.
const DefaultReadAhead = 256 << 20

// minRangeBytes is the smallest range worth a request of its own.
const minRangeBytes = 1 << 20

// ahead shares a number of bytes among the objects that are open at a time. Each takes at most
// half of what is left, so the first, which is the one waited for, reads ahead farthest:
//
//	64 MB:  32 for the first, 16 for the second, 8 for the third, then single streams
type ahead struct {
	mu   sync.Mutex
	left int64
}

// take borrows for an object of size bytes that is to be read with so many requests at a time,
// and tells the size of a range. Nothing borrowed means one stream.
func (a *ahead) take(requests int, size int64) (share, rangeBytes int64) {
	if requests < 2 || size <= minRangeBytes {
		return 0, 0
	}
	buffers := int64(requests) + 1 // those under way and the one being read
	a.mu.Lock()
	defer a.mu.Unlock()
	rangeBytes = min(fetch.DefaultRangeBytes, a.left/2/buffers)
	if rangeBytes < minRangeBytes {
		return 0, 0
	}
	share = rangeBytes * buffers
	a.left -= share
	return share, rangeBytes
}

func (a *ahead) give(share int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.left += share
}

// borrower gives back what it borrowed when it is closed.
type borrower struct {
	io.ReadCloser
	giveBack func()
}

func (b *borrower) Close() error {
	defer b.giveBack()
	return b.ReadCloser.Close()
}
