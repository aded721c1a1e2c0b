package agent

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"druid.internal/druid/internal/agent/status"
	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/etcd/datadir"
)

const (
	// leastRoom is by how much etcd's log grows at a time. An etcd that cannot have that ends, with
	// less than that free.
	leastRoom = 64_000_000
	// keepFree is what proofs and compactions leave of the volume.
	keepFree = 2 * leastRoom
	// roomInterval is how often the volume is asked.
	roomInterval = 10 * time.Second
)

// room tells the board while the volume has none. It tells the limit and not what is free, which
// would be another message at every look.
type room struct {
	of    func() (free, size uint64, err error) // in bytes
	board *status.Board
	log   *slog.Logger

	failed string // how the last look did
}

// run looks until ctx ends.
func (r *room) run(ctx context.Context) error {
	tick := time.NewTicker(roomInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			r.look()
		}
	}
}

// forProof says why a database cannot be restored beside etcd's: the full is unpacked, as large as the database, and what is
// in use of it is written anew, and etcd's log must be able to grow meanwhile. nil: it can, or that is not known.
func (r *room) forProof(scratch func() (free, size uint64, err error)) error {
	free, _, err := scratch()
	e := r.board.Get().Etcd
	if err != nil || e == nil {
		return nil
	}
	if need := uint64(e.DBSize) + uint64(e.DBSizeInUse) + keepFree; free < need {
		return fmt.Errorf("%w: %d MB are free where a proof unpacks, and %d MB are needed, for the database, what is in use of it and etcd's log; enlarge the volume, or defragment",
			datadir.ErrNoRoom, free/1_000_000, need/1_000_000)
	}
	return nil
}

// look asks once. What was told stays if the volume does not answer.
func (r *room) look() {
	free, size, err := r.of()
	if err != nil {
		if r.failed != err.Error() {
			r.log.Warn("whether the volume is full cannot be told", "error", err)
		}
		r.failed = err.Error()
		return
	}
	r.failed = ""
	full := ""
	if free < leastRoom {
		full = fmt.Sprintf("less than %d MB of the volume's %d MB are free, and etcd ends when its log cannot grow by that", leastRoom/1_000_000, size/1_000_000)
	}
	r.board.Update(func(m *agentapi.Member) {
		if m.VolumeFull != full {
			r.log.Info("the room on the volume changed", "free", free, "size", size, "full", full != "")
		}
		m.VolumeFull = full
	})
}
