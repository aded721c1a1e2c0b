package s3_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/s3"
	"druid.internal/druid/test/stores"
)

// noise is n bytes that do not repeat.
func noise(n int64, seed byte) io.Reader {
	return io.LimitReader(rand.NewChaCha8([32]byte{seed}), n)
}

// crowd counts who is inside at once, and lets nobody through before full of them are, or all
// that are expected have come.
type crowd struct {
	full int64

	inside, most atomic.Int64
	open         sync.Once
	opened       chan struct{}
}

func newCrowd(full int64) *crowd { return &crowd{full: full, opened: make(chan struct{})} }

func (c *crowd) enter() {
	now := c.inside.Add(1)
	for seen := c.most.Load(); now > seen && !c.most.CompareAndSwap(seen, now); seen = c.most.Load() {
	}
	if now == c.full {
		c.open.Do(func() { close(c.opened) })
	}
	<-c.opened
}

func (c *crowd) leave() { c.inside.Add(-1) }

// ledger is a stream that counts what was read of it and not yet acknowledged, which is what
// must be in memory.
type ledger struct {
	r                        io.Reader
	limit                    int64
	full                     chan struct{} // closed when limit is held for the first time
	once                     sync.Once
	read, acknowledged, most atomic.Int64
}

func (l *ledger) Read(p []byte) (int, error) {
	n, err := l.r.Read(p)
	held := l.read.Add(int64(n)) - l.acknowledged.Load()
	l.most.Store(max(l.most.Load(), held)) // one reader
	if held >= l.limit {
		l.once.Do(func() { close(l.full) })
	}
	return n, err
}

func TestPartsInMemoryAndUnderWayAreBounded(t *testing.T) {
	const parallel, size, count, rest = 3, 6 << 20, 11, 12_345
	for name, on := range both {
		t.Run(name, func(t *testing.T) {
			s, gate := on(t).gated(t, stores.Versioned, func(o *s3.Options) { o.PartSize, o.ParallelParts = size, parallel })
			body := &ledger{limit: (parallel + 1) * size, full: make(chan struct{})}
			want := sha256.New()
			body.r = io.TeeReader(noise(count*size+rest, 1), want)
			parts := newCrowd(parallel)
			var mu sync.Mutex
			var sizes []int64
			gate.Watch(func(r *http.Request) {
				if !r.URL.Query().Has("partNumber") {
					return
				}
				parts.enter()
				<-body.full // nothing is sent on before as much is held as may be
				mu.Lock()
				sizes = append(sizes, r.ContentLength)
				mu.Unlock()
			}, func(r *http.Request) {
				if r.URL.Query().Has("partNumber") {
					parts.leave()
					body.acknowledged.Add(r.ContentLength)
				}
			})
			o, err := s.Put(t.Context(), "a/key", body, store.PutOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if most := body.most.Load(); most > body.limit {
				t.Errorf("up to %d bytes were read and not acknowledged, want at most %d", most, body.limit)
			}
			if most := parts.most.Load(); most != parallel {
				t.Errorf("up to %d parts were under way at once, want %d", most, parallel)
			}
			slices.Sort(sizes)
			if wantSizes := append([]int64{rest}, slices.Repeat([]int64{size}, count)...); !slices.Equal(sizes, wantSizes) {
				t.Errorf("the parts have %v bytes, want %v", sizes, wantSizes)
			}
			if got := sha256.Sum256(content(t, s, o.Version)); !bytes.Equal(got[:], want.Sum(nil)) {
				t.Error("what is there is not what was written")
			}
		})
	}
}

func TestALargeObjectIsCopiedInsideTheServerInParts(t *testing.T) {
	const copyPart, parallel, size = 5 << 20, 2, 17<<20 + 3
	for name, on := range both {
		t.Run(name, func(t *testing.T) {
			server := on(t)
			target, gate := server.gated(t, stores.Lockable, func(o *s3.Options) { o.CopyPartSize, o.ParallelParts = copyPart, parallel })
			there := server.options(server.newBucket(t, stores.Versioned))
			there.Endpoint = gate.Endpoint
			source := open(t, there)
			want, err := io.ReadAll(noise(size, 2))
			if err != nil {
				t.Fatal(err)
			}
			src, err := source.Put(t.Context(), "from/a key+", bytes.NewReader(want), store.PutOptions{})
			if err != nil {
				t.Fatal(err)
			}
			// Neither what was written over it nor a marker is what was asked for.
			server.overwrite(t, source, src.Key, []byte("forged"))
			server.hide(t, source, src.Key)

			copies := newCrowd(parallel)
			var mu sync.Mutex
			var ranges []string
			gate.Watch(func(r *http.Request) {
				if r.URL.Query().Has("partNumber") {
					copies.enter()
					mu.Lock()
					ranges = append(ranges, r.Header.Get("X-Amz-Copy-Source-Range"))
					mu.Unlock()
				}
			}, func(r *http.Request) {
				if r.URL.Query().Has("partNumber") {
					copies.leave()
				}
			})
			lock := immutability.Retention{Mode: immutability.ModeCompliance, Until: time.Now().Add(time.Hour).Truncate(time.Second)}
			o, err := target.Copy(t.Context(), source, src.Version, "to/key", store.PutOptions{Retention: &lock})
			if err != nil {
				t.Fatal(err)
			}
			slices.Sort(ranges)
			wantRanges := []string{"bytes=0-5242879", "bytes=10485760-15728639", "bytes=15728640-17825794", "bytes=5242880-10485759"}
			if !slices.Equal(ranges, wantRanges) {
				t.Errorf("the ranges are %v, want %v", ranges, wantRanges)
			}
			if most := copies.most.Load(); most != parallel {
				t.Errorf("up to %d copies were under way at once, want %d", most, parallel)
			}
			if o.Size != size || !bytes.Equal(content(t, target, o.Version), want) {
				t.Errorf("the copy of %d bytes is not the source", o.Size)
			}
			st, err := target.Stat(t.Context(), o.Version)
			if err != nil {
				t.Fatal(err)
			}
			if !st.Retention.Covers(lock) || st.Retention == nil {
				t.Errorf("the copy's lock is %+v, want %+v", st.Retention, lock)
			}
			if left := server.uploadsOf(t, bucketOf(target)); len(left) > 0 {
				t.Errorf("uploads %v are left", left)
			}
		})
	}
}

// Between the look at the source and the last part of the copy another writer may replace it,
// where no versions are kept. The copy must not be half of each.
func TestASourceThatIsReplacedWhileItIsCopiedIsNoCopy(t *testing.T) {
	const copyPart, size = 5 << 20, 12 << 20
	for name, on := range both {
		for when, after := range map[string]int64{"before the first part": 0, "between two parts": 1} {
			t.Run(fmt.Sprint(name, " ", when), func(t *testing.T) {
				server := on(t)
				s, gate := server.gated(t, stores.Unversioned, func(o *s3.Options) { o.CopyPartSize, o.ParallelParts = copyPart, 1 })
				first, err := io.ReadAll(noise(size, 3))
				if err != nil {
					t.Fatal(err)
				}
				src, err := s.Put(t.Context(), "a/source", bytes.NewReader(first), store.PutOptions{})
				if err != nil {
					t.Fatal(err)
				}
				forged := bytes.Repeat([]byte("forged, and of the same size"), size)[:size]
				var parts atomic.Int64 // one at a time
				gate.Watch(func(r *http.Request) {
					if r.URL.Query().Has("partNumber") && parts.Add(1) == after+1 {
						server.overwrite(t, s, src.Key, forged)
					}
				}, nil)
				o, err := s.Copy(t.Context(), s, src.Version, "a/copy", store.PutOptions{})
				if err == nil {
					t.Errorf("Copy succeeded with %+v", o)
				}
				if errors.Is(err, store.ErrExists) || errors.Is(err, store.ErrUnknownOutcome) {
					t.Errorf("Copy = %v, which says something else", err)
				}
				if parts.Load() <= after {
					t.Fatal("nothing was replaced")
				}
				if _, err := s.Stat(t.Context(), store.Version{Key: "a/copy"}); !errors.Is(err, store.ErrNotFound) {
					t.Errorf("Stat of the copy = %v, want %v", err, store.ErrNotFound)
				}
				if left := server.uploadsOf(t, bucketOf(s)); len(left) > 0 {
					t.Errorf("uploads %v are left", left)
				}
			})
		}
	}
}
