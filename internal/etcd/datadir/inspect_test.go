package datadir

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// inspected is what Inspect finds, in a mode.
func inspected(t testing.TB, dir string, mode Mode) Inspection {
	t.Helper()
	i, err := Inspect(context.Background(), dir, mode, nil)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// copyDir copies a data directory as it is at this moment, file by file.
func copyDir(t testing.TB, from string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "data")
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return to
}

func TestADirectoryOfARunningEtcdIsBusyAndAStoppedOneIsValid(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s := startEtcd(t, dir)
	if _, err := s.c.Put(context.Background(), "k", "v"); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []Mode{Sanity, Full} {
		if _, err := Inspect(context.Background(), dir, mode, nil); !errors.Is(err, ErrBusy) {
			t.Errorf("%s while etcd runs: %v, want ErrBusy", mode, err)
		}
	}
	member, cluster := uint64(s.Server.MemberID()), uint64(s.Server.Cluster().ID())
	s.stop()
	for _, mode := range []Mode{Sanity, Full} {
		i := inspected(t, dir, mode)
		if i.State != Valid || i.Revision != 2 || i.AtMost != 2 || i.MemberID != member || i.ClusterID != cluster {
			t.Errorf("%s: %+v, want Valid at revision 2, member %x of %x", mode, i, member, cluster)
		}
		if self, ok := i.Self(); !ok || self.Name != "default" || i.MembershipDiffers != "" {
			t.Errorf("%s: member %+v; %s", mode, self, i.MembershipDiffers)
		}
	}
	rev, err := Settle(context.Background(), dir)
	if err != nil || rev != 2 {
		t.Errorf("settled at %d, %v, want 2", rev, err)
	}
	if i := inspected(t, dir, Full); i.State != Valid || i.Revision != 2 {
		t.Errorf("after Settle: %+v", i)
	}
}

func TestANewEtcdLeavesABlankDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	if i := inspected(t, dir, Full); i.State != Missing {
		t.Errorf("before: %+v, want Missing", i)
	}
	s := startEtcd(t, dir)
	s.stop()
	if i := inspected(t, dir, Full); i.State != Blank || i.LastIndex == 0 || i.MemberID == 0 {
		t.Errorf("after: %+v, want Blank", i)
	}
}
