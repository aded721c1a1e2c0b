package snapshotter

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"go.etcd.io/etcd/server/v3/embed"

	"druid.internal/druid/internal/etcd/datadir"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/storetest"
)

// A lineage file names the history of the data beside it. That of another etcd would let the snapshotter
// write as the owner of its prefix, and would be overwritten.
func TestDataDirectoryOfAnotherEtcdIsRefused(t *testing.T) {
	t.Parallel()
	cfg := embed.NewConfig()
	cfg.Dir, cfg.InitialClusterToken = filepath.Join(t.TempDir(), "data"), "another"
	e, other, s := newEtcd(t), runEtcd(t, cfg), storetest.NewMemory(storetest.S3Like())

	own := config(other, s)
	own.Data = DataDir(cfg.Dir)
	first := start(t, own)
	first.full(false)
	first.stop()
	file := filepath.Join(cfg.Dir, datadir.IdentityFile)
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	objects := count(t, s)

	wrong := config(e, s)
	wrong.Data = DataDir(cfg.Dir)
	second := start(t, wrong)
	<-second.done
	if !errors.Is(second.err, ErrOtherData) {
		t.Errorf("Run = %v, want %v", second.err, ErrOtherData)
	}
	if after, err := os.ReadFile(file); err != nil || string(after) != string(before) {
		t.Errorf("the lineage file of the other etcd became %q, %v; want %q", after, err, before)
	}
	if n := count(t, s); n != objects {
		t.Errorf("there are %d objects, want %d as before", n, objects)
	}
}

func count(t *testing.T, s store.Reader) (n int) {
	t.Helper()
	if err := s.List(t.Context(), "", func(store.Object) error { n++; return nil }); err != nil {
		t.Fatal(err)
	}
	return n
}
