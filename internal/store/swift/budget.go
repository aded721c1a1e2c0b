package swift

import "context"

// budget bounds the bytes held in buffers, whose sizes grow during a long upload. It is
// acquired from one goroutine and released from many.
type budget struct {
	total    int64
	free     int64
	returned chan int64
}

// maxBuffers is more than are ever held at once.
const maxBuffers = 1 << 10

func newBudget(total int64) *budget {
	return &budget{total: total, free: total, returned: make(chan int64, maxBuffers)}
}

// acquire waits until n bytes are free. A single buffer may be larger than the whole budget;
// it is then the only one.
func (b *budget) acquire(ctx context.Context, n int64) error {
	for b.free < min(n, b.total) {
		select {
		case m := <-b.returned:
			b.free += m
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	b.free -= n
	return nil
}

func (b *budget) release(n int64) { b.returned <- n }
