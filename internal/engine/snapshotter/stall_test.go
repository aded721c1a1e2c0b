package snapshotter

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/engine/enginetest"
	"druid.internal/druid/internal/etcd/codec"
	"druid.internal/druid/internal/etcd/member"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/storetest"
)

// streaming is a member that sends content.
type streaming struct {
	Member
	content io.Reader
}

func (m streaming) Snapshot(context.Context) (io.ReadCloser, string, error) {
	return io.NopCloser(m.content), "3.6.0", nil
}

// database is that of a full of upstream, at revision 204.
func database(t *testing.T) []byte {
	t.Helper()
	s := enginetest.Native(t)
	packed, err := s.Open(t.Context(), store.Version{Key: enginetest.Key(enginetest.Full204)}, 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	r, err := codec.Decompress(packed, snapshot.Zstd)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	content, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// paced sends a piece of the content every so often, and blocks after a number of pieces until ctx ends.
type paced struct {
	ctx    context.Context
	r      io.Reader
	every  time.Duration
	pieces int // -1: all
}

func (p *paced) Read(b []byte) (int, error) {
	if p.pieces == 0 {
		<-p.ctx.Done()
		return 0, p.ctx.Err()
	}
	p.pieces--
	time.Sleep(p.every)
	return p.r.Read(b[:min(len(b), 1<<10)])
}

// slowStore reads the whole body at once, as a store does that sends large parts, and sends it slowly.
type slowStore struct {
	store.Store
	every  time.Duration
	pieces int // so many movements
	stalls bool
}

func (s slowStore) Put(ctx context.Context, key string, body io.Reader, opts store.PutOptions) (store.Object, error) {
	content, err := io.ReadAll(body)
	if err != nil {
		return store.Object{}, err
	}
	for range s.pieces {
		select {
		case <-time.After(s.every):
		case <-ctx.Done():
			return store.Object{}, ctx.Err()
		}
		store.Progress(ctx)(len(content) / s.pieces)
	}
	if s.stalls {
		<-ctx.Done()
		return store.Object{}, ctx.Err()
	}
	return s.Store.Put(ctx, key, bytes.NewReader(content), opts)
}

func TestFullThatMovesMayTakeLongerThanTheTimeout(t *testing.T) {
	content := database(t)
	name := enginetest.Full204
	for title, c := range map[string]struct {
		etcd  time.Duration // between two pieces
		store slowStore
		want  string // part of the error; empty: the full is stored
	}{
		"etcd is slow":      {etcd: 50 * time.Second},
		"the store is slow": {store: slowStore{every: 50 * time.Second, pieces: 20}},
		"the store stops":   {store: slowStore{every: 50 * time.Second, pieces: 20, stalls: true}, want: "nothing moved to the store for 1m0s"},
		"the store takes nothing at all": {store: slowStore{stalls: true},
			want: "check the store and the network, or raise --etcd-snapshot-timeout (spec.backup.etcdSnapshotTimeout)"},
		"etcd is too slow": {etcd: 61 * time.Second, want: "nothing moved from etcd for 1m0s, after 0 of "},
	} {
		t.Run(title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				memory := storetest.NewMemory(storetest.S3Like())
				c.store.Store = memory
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				n := &session{Snapshotter: &Snapshotter{cfg: Config{Store: c.store, StreamTimeout: time.Minute, Now: time.Now}}}
				began := time.Now()
				_, err := n.stream(ctx, streaming{content: &paced{ctx, bytes.NewReader(content), c.etcd, -1}}, member.Status{DBSize: int64(len(content))}, name)
				if c.want == "" {
					if took := time.Since(began); err != nil || took < 2*time.Minute {
						t.Errorf("%v after %s, want a full that took longer than the timeout", err, took)
					}
					return
				}
				var stall *StallError
				if !errors.As(err, &stall) || !strings.Contains(err.Error(), c.want) || !errors.Is(err, context.DeadlineExceeded) || len(memory.Versions(enginetest.Key(name))) > 0 {
					t.Errorf("%v, want a stall with %q, and nothing stored", err, c.want)
				}
			})
		})
	}
}

func TestStallNamesBytesAndRate(t *testing.T) {
	err := (&StallError{Name: enginetest.Full204, Timeout: time.Minute, Read: 10_000_000, Total: 200_000_000, Sent: 9_000_000, Took: 70 * time.Second}).Error()
	for _, want := range []string{enginetest.Full204.String(), "10000000 of 200000000 bytes", "1000000 bytes per second", "9000000 bytes sent", "--etcd-snapshot-timeout"} {
		if !strings.Contains(err, want) {
			t.Errorf("%q does not contain %q", err, want)
		}
	}
}
