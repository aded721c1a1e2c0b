package agent

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"druid.internal/druid/internal/agent/status"
	"druid.internal/druid/internal/agentapi"
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

// TestNoProofFillsTheVolumeThatEtcdIsOn: what etcd cannot write any more ends it.
func TestNoProofFillsTheVolumeThatEtcdIsOn(t *testing.T) {
	for name, c := range map[string]struct {
		free uint64
		etcd *agentapi.Etcd
		err  error
		want string
	}{
		"enough":                         {2*1_000_000_000 + 2*leastRoom, &agentapi.Etcd{DBSize: 1_200_000_000, DBSizeInUse: 800_000_000}, nil, ""},
		"not enough":                     {2*1_000_000_000 + 2*leastRoom - 1, &agentapi.Etcd{DBSize: 1_200_000_000, DBSizeInUse: 800_000_000}, nil, "2127 MB are free where a proof unpacks, and 2128 MB are needed"},
		"etcd does not answer":           {0, nil, nil, ""},
		"the directory is not there":     {0, &agentapi.Etcd{DBSize: 1_200_000_000, DBSizeInUse: 800_000_000}, errors.New("no such directory"), ""},
		"a database of etcd that is new": {3 * leastRoom, &agentapi.Etcd{DBSize: 20_000, DBSizeInUse: 16_000}, nil, ""},
	} {
		r := &room{board: status.New("m-0", time.Now, slog.New(slog.DiscardHandler))}
		r.board.Update(func(m *agentapi.Member) { m.Etcd = c.etcd })
		err := r.forProof(func() (uint64, uint64, error) { return c.free, 0, c.err })
		if (err != nil) != (c.want != "") || err != nil && (!errors.Is(err, datadir.ErrNoRoom) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
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
