package agent

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"druid.internal/druid/internal/agent/status"
	"druid.internal/druid/internal/etcd/datadir"
)

func TestAFullVolumeIsToldUntilThereIsRoom(t *testing.T) {
	const full = "less than 64 MB of the volume's 1000 MB are free, and etcd ends when its log cannot grow by that"
	r := &room{board: status.New("main-0", time.Now, nil), log: slog.New(slog.DiscardHandler)}
	for _, look := range []struct {
		name string
		free uint64
		err  error
		want string
	}{
		{"as much is free as etcd needs", leastRoom, nil, ""},
		{"less is free", leastRoom - 1, nil, full},
		{"the volume does not answer", 0, errors.New("input/output error"), full},
		{"nothing is free", 0, nil, full},
		{"it has grown", leastRoom, nil, ""},
	} {
		r.of = func() (uint64, uint64, error) { return look.free, 1_000_000_000, look.err }
		r.look()
		if got := r.board.Get().VolumeFull; got != look.want {
			t.Errorf("%s: the member says %q, want %q", look.name, got, look.want)
		}
	}
}

func TestARealVolumeTellsItsRoom(t *testing.T) {
	free, size, err := datadir.Room(t.TempDir())
	if err != nil || size == 0 || free > size {
		t.Errorf("%d of %d bytes are free (%v)", free, size, err)
	}
	if _, _, err := datadir.Room(t.TempDir() + "/none"); err == nil {
		t.Error("a directory that is not there has room")
	}
}
