package storetest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"druid.internal/druid/internal/store"
)

// noise is n bytes that do not compress and are the same for the same seed.
func noise(n int64, seed byte) io.Reader {
	var s [32]byte
	s[0] = seed
	return io.LimitReader(rand.NewChaCha8(s), n)
}

func noiseBytes(t *testing.T, n int64, seed byte) []byte {
	t.Helper()
	b, err := io.ReadAll(noise(n, seed))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// stream hides everything of a reader but Read, so that no provider learns its length, and
// notes the abuse of a body: closing it, or reading after Put has returned.
type stream struct {
	r        io.Reader
	closed   atomic.Int32
	returned atomic.Bool
	late     atomic.Int32
}

func (s *stream) Read(p []byte) (int, error) {
	if s.returned.Load() {
		s.late.Add(1)
		return 0, errors.New("read after Put returned")
	}
	return s.r.Read(p)
}

func (s *stream) Close() error {
	s.closed.Add(1)
	return nil
}

// errBody is the error of a body that fails.
var errBody = errors.New("the source broke")

// failing reads from r and then fails with errBody, or calls then first if it is set.
type failing struct {
	r    io.Reader
	then func()
}

func (f failing) Read(p []byte) (int, error) {
	n, err := f.r.Read(p)
	if err == io.EOF {
		if f.then != nil {
			f.then()
		}
		return n, errBody
	}
	return n, err
}

// put stores body and fails the test if that does not work.
func put(t *testing.T, s store.Store, key string, body []byte, opts store.PutOptions) store.Object {
	t.Helper()
	o, err := s.Put(t.Context(), key, bytes.NewReader(body), opts)
	if err != nil {
		t.Fatalf("Put(%s) = %v", key, err)
	}
	if o.Key != key || o.Size != int64(len(body)) {
		t.Fatalf("Put(%s) of %d bytes returned %+v", key, len(body), o)
	}
	return o
}

// putMany stores one byte under each key, a few at a time.
func putMany(t *testing.T, s store.Store, keys []string) {
	t.Helper()
	const workers = 8
	todo, failed := make(chan string), make(chan error, workers)
	for range workers {
		go func() {
			var first error
			for key := range todo {
				if first != nil {
					continue
				}
				_, first = s.Put(t.Context(), key, bytes.NewReader([]byte("x")), store.PutOptions{})
			}
			failed <- first
		}()
	}
	for _, key := range keys {
		todo <- key
	}
	close(todo)
	for range workers {
		if err := <-failed; err != nil {
			t.Fatal(err)
		}
	}
}

func read(t *testing.T, s store.Reader, v store.Version) []byte {
	t.Helper()
	return readRange(t, s, v, 0, -1)
}

func readRange(t *testing.T, s store.Reader, v store.Version, off, n int64) []byte {
	t.Helper()
	b, err := tryRead(t.Context(), s, v, off, n)
	if err != nil {
		t.Fatalf("reading %d bytes of %s from %d: %v", n, v, off, err)
	}
	return b
}

// tryRead reads a range to its end and returns the first error of Open, Read or Close.
func tryRead(ctx context.Context, s store.Reader, v store.Version, off, n int64) ([]byte, error) {
	r, err := s.Open(ctx, v, off, n)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(r)
	if cerr := r.Close(); err == nil {
		err = cerr
	}
	return b, err
}

func list(t *testing.T, s store.Reader, prefix string) []store.Object {
	t.Helper()
	var all []store.Object
	err := s.List(t.Context(), prefix, func(o store.Object) error {
		all = append(all, o)
		return nil
	})
	if err != nil {
		t.Fatalf("List(%q) = %v", prefix, err)
	}
	return all
}

func keysOf(all []store.Object) []string {
	keys := []string{}
	for _, o := range all {
		keys = append(keys, o.Key)
	}
	return keys
}

func stat(t *testing.T, s store.Reader, v store.Version) store.Object {
	t.Helper()
	o, err := s.Stat(t.Context(), v)
	if err != nil {
		t.Fatalf("Stat(%s) = %v", v, err)
	}
	return o
}

func deleter(t *testing.T, s store.Store) store.Deleter {
	t.Helper()
	d, ok := store.As[store.Deleter](s)
	if !ok {
		t.Fatalf("%T is no store.Deleter", s)
	}
	return d
}

func wantError(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s = %v, want %v", what, err, want)
	}
}

func wantKeys(t *testing.T, s store.Reader, prefix string, want ...string) {
	t.Helper()
	got := keysOf(list(t, s, prefix))
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("List(%q) shows %q, want %q", prefix, got, want)
	}
}

func digest(b []byte) string { return fmt.Sprintf("%d bytes %x", len(b), sha256.Sum256(b)) }

func wantBytes(t *testing.T, what string, got, want []byte) {
	t.Helper()
	if !bytes.Equal(got, want) {
		t.Errorf("%s is %s, want %s", what, digest(got), digest(want))
	}
}
