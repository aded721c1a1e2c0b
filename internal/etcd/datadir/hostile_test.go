package datadir

import (
	"bytes"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/etcd/codec"
)

// large is a native delta of one event with a value of so many zeros, at a revision.
func large(t *testing.T, at int64, size int) []byte {
	t.Helper()
	d, err := codec.NewDelta(codec.DeltaOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Discard()
	ev := &mvccpb.Event{Kv: &mvccpb.KeyValue{Key: []byte("k"), Value: make([]byte, size), CreateRevision: 2, ModRevision: at, Version: at - 1}}
	if err := d.Append(time.Unix(1000, 0), []*mvccpb.Event{ev}); err != nil {
		t.Fatal(err)
	}
	sealed, err := d.Seal(time.Unix(2000, 0), snapshot.Manifest{})
	if err != nil {
		t.Fatal(err)
	}
	defer sealed.Close()
	body, err := io.ReadAll(sealed.Reader())
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// growing counts the deltas that hold more memory than usual.
type growing struct {
	mu        sync.Mutex
	now, most int
}

type grown struct {
	*codec.DeltaReader
	by *growing
	is *bool
}

func (r grown) Close() error {
	r.by.mu.Lock()
	if *r.is {
		r.by.now--
	}
	r.by.mu.Unlock()
	return r.DeltaReader.Close()
}

func (g *growing) delta(body []byte, at snapshot.Revision) Delta {
	return Delta{Name: "Incr", First: at, Last: at, Open: func(o codec.ReaderOptions) (Records, error) {
		is, grow := new(bool), o.Grow
		o.Grow = func(n int) error {
			err := grow(n)
			g.mu.Lock()
			defer g.mu.Unlock()
			if err == nil && !*is {
				*is = true
				g.now++
				g.most = max(g.most, g.now)
			}
			return err
		}
		r, err := codec.NewDeltaReader(bytes.NewReader(body), snapshot.Zstd, o)
		if err != nil {
			return nil, err
		}
		return grown{r, g, is}, nil
	}}
}

func TestOneDeltaAtATimeTakesMuchMemory(t *testing.T) {
	var g growing
	var deltas []Delta
	for i := range int64(12) {
		deltas = append(deltas, g.delta(large(t, 2+i, 12<<20), snapshot.Revision(2+i)))
	}
	r, err := Rebuild(t.Context(), Source{Deltas: deltas}, Options{MemoryLimit: 32 << 20, Parallel: 12}, filepath.Join(t.TempDir(), "out"))
	if err != nil || r.Reached != 13 {
		t.Fatalf("%+v, %v; want revision 13", r, err)
	}
	// The next one may begin while the last records of the one before wait to be used.
	if g.most == 0 || g.most > 2 {
		t.Errorf("%d deltas held much memory at the same time, want one, and the next", g.most)
	}
}

func TestAnEventBeyondTheMemoryLimitIsRefusedAndNotDamage(t *testing.T) {
	body := large(t, 2, 100<<20)
	if len(body) > 64<<10 {
		t.Fatalf("the delta has %d bytes, want a few", len(body))
	}
	var g growing
	_, err := Rebuild(t.Context(), Source{Deltas: []Delta{g.delta(body, 2)}}, Options{MemoryLimit: 64 << 20}, filepath.Join(t.TempDir(), "out"))
	if !errors.Is(err, codec.ErrTooLarge) || !strings.Contains(err.Error(), "raise the memory limit to 80") || errors.Is(err, codec.ErrMalformed) {
		t.Errorf("got %v, want ErrTooLarge with the limit that is enough", err)
	}
	r, err := Rebuild(t.Context(), Source{Deltas: []Delta{g.delta(body, 2)}}, Options{MemoryLimit: 1 << 30}, filepath.Join(t.TempDir(), "out"))
	if err != nil || r.Reached != 2 {
		t.Errorf("with enough memory: %+v, %v", r, err)
	}
	flipped := bytes.Clone(body)
	flipped[len(flipped)-20] ^= 1
	if _, err := Rebuild(t.Context(), Source{Deltas: []Delta{g.delta(flipped, 2)}}, Options{MemoryLimit: 64 << 20}, filepath.Join(t.TempDir(), "out")); !errors.Is(err, codec.ErrDigest) && !errors.Is(err, codec.ErrTruncated) {
		t.Errorf("got %v of a damaged delta, want damage", err)
	}
}
