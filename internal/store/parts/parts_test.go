package parts

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
)

const size = 1000

var limits = Limits{Parallel: 3, Count: 20, What: "block"}

func stream(t *testing.T, r io.Reader) *Stream {
	t.Helper()
	s, err := Begin(t.Context(), r, size)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func content(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i * 7 / 5)
	}
	return b
}

func TestWholeIsWhatFitsIntoOnePart(t *testing.T) {
	for _, n := range []int{0, 1, size - 1, size} {
		all, fits := stream(t, iotest.OneByteReader(bytes.NewReader(content(n)))).Whole()
		if !fits || !bytes.Equal(all, content(n)) {
			t.Errorf("of %d bytes: %d, fits %v", n, len(all), fits)
		}
	}
	if _, fits := stream(t, bytes.NewReader(content(size+1))).Whole(); fits {
		t.Error("one byte more than a part fits")
	}
}

func TestPartsComeBackInTheirOrder(t *testing.T) {
	for _, n := range []int{size + 1, 2 * size, 2*size + 1, 7*size + 13, limits.Count * size} {
		for name, r := range map[string]io.Reader{
			"at once":           bytes.NewReader(content(n)),
			"one byte at once":  iotest.OneByteReader(bytes.NewReader(content(n))),
			"the end with data": iotest.DataErrReader(bytes.NewReader(content(n))),
		} {
			// The first part waits for the third: an order of arrival would be wrong.
			third := make(chan struct{})
			if n <= 2*size {
				close(third)
			}
			got, err := Send(t.Context(), stream(t, r), limits, func(_ context.Context, number int, part []byte) ([]byte, error) {
				switch number {
				case 1:
					<-third
				case 3:
					close(third)
				}
				if len(part) != size && number != (n+size-1)/size {
					t.Errorf("part %d of %d bytes has %d", number, n, len(part))
				}
				return bytes.Clone(part), nil
			})
			if err != nil || !bytes.Equal(bytes.Join(got, nil), content(n)) {
				t.Errorf("%d bytes, %s: %d parts, %v", n, name, len(got), err)
			}
		}
	}
}

func TestOnePartTooMany(t *testing.T) {
	_, err := Send(t.Context(), stream(t, bytes.NewReader(content(limits.Count*size+1))), limits, func(context.Context, int, []byte) (int, error) { return 0, nil })
	if err == nil || err.Error() != "the object is larger than 20 blocks of 1000 bytes, raise --min-chunk-size" {
		t.Error(err)
	}
}

func TestTheFirstErrorEndsAllOthers(t *testing.T) {
	broken := errors.New("broken")
	var under atomic.Int32
	var calls atomic.Int32
	_, err := Send(t.Context(), stream(t, bytes.NewReader(content(10*size))), limits, func(ctx context.Context, _ int, _ []byte) (int, error) {
		under.Add(1)
		defer under.Add(-1)
		if int(calls.Add(1)) == limits.Parallel { // the others are under way
			return 0, broken
		}
		<-ctx.Done()
		return 0, ctx.Err()
	})
	if !errors.Is(err, broken) || !strings.HasPrefix(err.Error(), "block ") {
		t.Error(err)
	}
	if n := calls.Load(); int(n) != limits.Parallel {
		t.Errorf("%d parts were sent, of which %d before the first error", n, limits.Parallel)
	}
	if n := under.Load(); n != 0 {
		t.Errorf("%d calls are under way after Send has returned", n)
	}
}

func TestMemoryIsThatOfTheBuffers(t *testing.T) {
	var mu sync.Mutex
	seen := map[*byte]bool{}
	_, err := Send(t.Context(), stream(t, bytes.NewReader(content(20*size))), limits, func(_ context.Context, _ int, part []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		seen[&part[0]] = true
		return 0, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(seen) > limits.Parallel+1 {
		t.Errorf("20 parts were in %d buffers, of %d", len(seen), limits.Parallel+1)
	}
}

func TestNoMoreAtOnceThanAllowed(t *testing.T) {
	var now, most atomic.Int32
	full := make(chan struct{})
	var once sync.Once
	_, err := Send(t.Context(), stream(t, bytes.NewReader(content(20*size))), limits, func(context.Context, int, []byte) (int, error) {
		n := now.Add(1)
		defer now.Add(-1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		if n == int32(limits.Parallel) {
			once.Do(func() { close(full) })
		}
		<-full // until as many are under way as may be
		return 0, nil
	})
	if err != nil || most.Load() != int32(limits.Parallel) {
		t.Errorf("%d at once, of %d: %v", most.Load(), limits.Parallel, err)
	}
}

func TestABrokenStream(t *testing.T) {
	broken := errors.New("broken")
	for _, n := range []int{0, 1, size, 2*size - 1} {
		if _, err := Begin(t.Context(), io.MultiReader(bytes.NewReader(content(n)), iotest.ErrReader(broken)), size); !errors.Is(err, broken) {
			t.Errorf("after %d bytes: %v", n, err)
		}
	}
	s := stream(t, io.MultiReader(bytes.NewReader(content(5*size+1)), iotest.ErrReader(broken)))
	_, err := Send(t.Context(), s, limits, func(context.Context, int, []byte) (int, error) { return 0, nil })
	if !errors.Is(err, broken) || !strings.HasPrefix(err.Error(), "read the body: ") {
		t.Error(err)
	}
}

func TestTheStreamEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	endless := bytes.NewReader(content(1 << 20))
	s, err := Begin(ctx, endless, size)
	if err != nil {
		t.Fatal(err)
	}
	many := Limits{Parallel: 3, Count: 1 << 20, What: "part"}
	_, err = Send(ctx, s, many, func(_ context.Context, number int, _ []byte) (int, error) {
		if number == 5 {
			cancel()
		}
		return 0, nil
	})
	if !errors.Is(err, context.Canceled) || endless.Len() == 0 {
		t.Errorf("%v, %d bytes left", err, endless.Len())
	}
	if _, err := Begin(ctx, strings.NewReader("late"), size); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestAfterTheEnd sees that a stream is not read again once it has ended: some readers block.
func TestAfterTheEnd(t *testing.T) {
	r := &onceEnded{r: bytes.NewReader(content(3 * size))}
	if _, err := Send(t.Context(), stream(t, r), limits, func(context.Context, int, []byte) (int, error) { return 0, nil }); err != nil {
		t.Error(err)
	}
	if r.again {
		t.Error("the stream was read after its end")
	}
}

type onceEnded struct {
	r            io.Reader
	ended, again bool
}

func (o *onceEnded) Read(p []byte) (int, error) {
	o.again = o.again || o.ended
	n, err := o.r.Read(p)
	o.ended = o.ended || err == io.EOF
	return n, err
}
