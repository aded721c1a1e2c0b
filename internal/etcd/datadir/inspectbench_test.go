package datadir

import (
	"context"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"druid.internal/druid/internal/etcd/codec"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
)

// BenchmarkInspect compares an inspection with only reading the files: DATADIR_EVENTS=2000000 for a
// database of 2 GiB.
func BenchmarkInspect(b *testing.B) {
	dir := filepath.Join(b.TempDir(), "data")
	events := benchEvents(b)
	kinds := []kind{{"key", 100, events * 4, 1024, true}} // hardly any is overwritten
	if _, err := Restore(context.Background(), Source{Deltas: generate(b, kinds, events, 7000, codec.Native)}, Options{}, Target{Dir: dir, Member: solo}); err != nil {
		b.Fatal(err)
	}
	appendPuts(b, dir, events/10)
	files := func(fn func(path string)) {
		if err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				fn(path)
			}
			return err
		}); err != nil {
			b.Fatal(err)
		}
	}
	size := int64(0)
	files(func(path string) {
		st, err := os.Stat(path)
		if err != nil {
			b.Fatal(err)
		}
		size += st.Size()
	})
	b.Run("only reading", func(b *testing.B) {
		b.SetBytes(size)
		cpu := cpuSeconds()
		defer func() { b.ReportMetric((cpuSeconds()-cpu)*1e3/float64(b.N), "cpu-ms/op") }()
		buffer := make([]byte, 1<<20)
		for b.Loop() {
			files(func(path string) {
				f, err := os.Open(path)
				if err != nil {
					b.Fatal(err)
				}
				defer f.Close()
				if _, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{f}, buffer); err != nil {
					b.Fatal(err)
				}
			})
		}
	})
	for _, mode := range []Mode{Full, Sanity} {
		b.Run(string(mode), func(b *testing.B) {
			b.SetBytes(size)
			b.ReportAllocs()
			cpu := cpuSeconds()
			defer func() { b.ReportMetric((cpuSeconds()-cpu)*1e3/float64(b.N), "cpu-ms/op") }()
			for b.Loop() {
				if i := inspected(b, dir, mode); i.State != Valid {
					b.Fatal(i.Why)
				}
			}
		})
	}
}

// appendPuts adds so many requests of 1 KiB to the log of a restored directory.
func appendPuts(b *testing.B, dir string, n int) {
	i := inspected(b, dir, Sanity)
	w, err := wal.Open(zap.NewNop(), filepath.Join(dir, "member", "wal"), walpb.Snapshot{Index: i.LastIndex, Term: i.Term})
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close()
	w.SetUnsafeNoFsync()
	if _, _, _, err := w.ReadAll(); err != nil {
		b.Fatal(err)
	}
	request := etcdserverpb.InternalRaftRequest{Header: &etcdserverpb.RequestHeader{ID: 1}, Put: &etcdserverpb.PutRequest{Key: []byte("key"), Value: make([]byte, 1024)}}
	data, err := request.Marshal()
	if err != nil {
		b.Fatal(err)
	}
	for k := range uint64(n) {
		index := i.LastIndex + 1 + k
		if err := w.Save(raftpb.HardState{Term: i.Term, Vote: i.MemberID, Commit: index}, []raftpb.Entry{{Term: i.Term, Index: index, Data: data}}); err != nil {
			b.Fatal(err)
		}
	}
}
