package fetch

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand"
	"testing"
	"testing/iotest"

	"druid.internal/druid/internal/store"
)

// oneObject serves content, cutting every stream short by cut bytes and failing the n-th open.
type oneObject struct {
	store.Reader
	content []byte
	cut     int64
	fail    error
}

func (o *oneObject) Open(_ context.Context, _ store.Version, off, n int64) (io.ReadCloser, error) {
	if o.fail != nil && off > 0 {
		return nil, o.fail
	}
	end := int64(len(o.content))
	if n >= 0 {
		end = min(end, off+n)
	}
	r := io.Reader(bytes.NewReader(o.content[off : end-o.cut]))
	if o.cut > 0 {
		r = io.MultiReader(r, iotest.ErrReader(io.ErrUnexpectedEOF))
	}
	return io.NopCloser(iotest.HalfReader(r)), nil
}

func random(n int) []byte {
	b := make([]byte, n)
	rand.New(rand.NewSource(1)).Read(b)
	return b
}

func TestAnObjectIsReadWholeHoweverItIsRequested(t *testing.T) {
	for _, size := range []int{0, 1, 99, 100, 101, 1000, 1234} {
		for _, parallel := range []int{0, 1, 2, 5} {
			content := random(size)
			counted := 0
			r, err := Open(context.Background(), &oneObject{content: content}, store.Version{Key: "k"}, Options{
				Size: int64(size), Digest: sha256.Sum256(content), Parallel: parallel, RangeBytes: 100, OnRead: func(n int) { counted += n }})
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(r)
			if err != nil || !bytes.Equal(got, content) || counted != size {
				t.Errorf("%d bytes in %d streams: got %d bytes, counted %d, %v", size, parallel, len(got), counted, err)
			}
			r.Close()
		}
	}
}

func TestWhatIsNotWhatWasWrittenIsNotRead(t *testing.T) {
	content := random(1000)
	other := random(1000)
	other[999] ^= 1
	lost := errors.New("connection lost")
	for name, c := range map[string]struct {
		store *oneObject
		opts  Options
		want  error
	}{
		"another content":           {&oneObject{content: other}, Options{Size: 1000, Digest: sha256.Sum256(content)}, ErrDamaged},
		"another content in ranges": {&oneObject{content: other}, Options{Size: 1000, Digest: sha256.Sum256(content), Parallel: 3}, ErrDamaged},
		"too short":                 {&oneObject{content: content[:999]}, Options{Size: 1000}, ErrDamaged},
		"too long":                  {&oneObject{content: content}, Options{Size: 999}, ErrDamaged},
		"a stream that ends early":  {&oneObject{content: content, cut: 1}, Options{Size: 1000}, io.ErrUnexpectedEOF},
		"a range that ends early":   {&oneObject{content: content, cut: 1}, Options{Size: 1000, Parallel: 2}, io.ErrUnexpectedEOF},
		"a range that fails":        {&oneObject{content: content, fail: lost}, Options{Size: 1000, Parallel: 4}, lost},
	} {
		t.Run(name, func(t *testing.T) {
			c.opts.RangeBytes = 100
			r, err := Open(context.Background(), c.store, store.Version{Key: "k"}, c.opts)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			if _, err := io.ReadAll(r); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}

func TestACancelledReadIsNotTheEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	r, err := Open(ctx, &oneObject{content: random(1000)}, store.Version{Key: "k"}, Options{Size: 1000, Parallel: 2, RangeBytes: 100})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := io.ReadFull(r, make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := io.ReadAll(r); !errors.Is(err, context.Canceled) && err != nil {
		t.Errorf("got %v, want that it was cancelled", err)
	} else if err == nil {
		t.Error("the cancelled read ended as if it were whole")
	}
}

func TestNoBufferIsKeptOnceTheEndWasRead(t *testing.T) {
	r, err := Open(context.Background(), &oneObject{content: random(1000)}, store.Version{Key: "k"}, Options{Size: 1000, Parallel: 3, RangeBytes: 100})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := io.Copy(io.Discard, r); err != nil {
		t.Fatal(err)
	}
	src := r.(*proven).src.(*ranges)
	if kept := len(src.free); kept > 0 || src.whole != nil || len(src.cur) > 0 {
		t.Errorf("%d buffers are kept", kept)
	}
}

// Restores read several deltas at the same time, and most are small.
func TestASmallObjectNeedsNoBuffers(t *testing.T) {
	for size, want := range map[int]bool{199: false, 200: false, 201: true} {
		r, err := Open(context.Background(), &oneObject{content: random(size)}, store.Version{Key: "k"}, Options{Size: int64(size), Parallel: 3, RangeBytes: 100})
		if err != nil {
			t.Fatal(err)
		}
		if _, got := r.(*proven).src.(*ranges); got != want {
			t.Errorf("%d bytes in ranges of 100: split is %v, want %v", size, got, want)
		}
		r.Close()
	}
}
