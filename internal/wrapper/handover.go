package wrapper

import (
	"cmp"
	"context"
	"expvar"
	"log/slog"
	"slices"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/tracker"
)

// handOverWithin bounds the search for another leader before etcd stops.
const handOverWithin = 10 * time.Second

// handOver gives the leadership to the voter that is furthest, if this member has it. Without it
// the others would notice only after an election timeout that there is no leader. When it returns
// another member leads, or none could be found in time, which must not keep etcd from stopping.
func handOver(ctx context.Context, s *etcdserver.EtcdServer, log *slog.Logger) {
	self := uint64(s.MemberID())
	if s.Lead() != self {
		return
	}
	candidates := successors(self, voters(s), progress(self))
	if len(candidates) == 0 {
		return
	}
	// A transfer that was not completed after an election timeout is given up by the leader.
	share := 2 * time.Duration(s.Cfg.ElectionTicks*int(s.Cfg.TickMs)) * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, handOverWithin)
	defer cancel()
	for _, to := range candidates {
		if ctx.Err() != nil {
			break
		}
		started := time.Now()
		bounded, cancel := context.WithTimeout(ctx, share)
		err := s.MoveLeader(bounded, self, to)
		cancel()
		if err == nil {
			log.Info("leadership was handed over", "to", types.ID(to).String(), "took", time.Since(started).String())
			return
		}
		log.Warn("leadership was not handed over", "to", types.ID(to).String(), "error", err)
		if lead := s.Lead(); lead != self {
			return // lost meanwhile: somebody else leads or will be elected
		}
	}
	log.Warn("nobody could take the leadership: the others will elect a leader once they notice")
}

func voters(s *etcdserver.EtcdServer) (ids []uint64) {
	for _, m := range s.Cluster().Members() {
		if !m.IsLearner {
			ids = append(ids, uint64(m.ID))
		}
	}
	return ids
}

// progress is how far the members are as the leader self sees them; nil: not known. etcd shows it
// only among the variables of the process, of the server that was started last.
func progress(self uint64) map[uint64]tracker.Progress {
	f, ok := expvar.Get("raft.status").(expvar.Func)
	if !ok {
		return nil
	}
	s, ok := f().(raft.Status)
	if !ok || s.ID != self {
		return nil
	}
	return s.Progress
}

// successors orders the voters other than self: those that answer first, of them those with the
// longest log.
func successors(self uint64, voters []uint64, seen map[uint64]tracker.Progress) []uint64 {
	others := slices.DeleteFunc(slices.Clone(voters), func(id uint64) bool { return id == self })
	slices.SortStableFunc(others, func(a, b uint64) int {
		pa, pb := seen[a], seen[b]
		if pa.RecentActive != pb.RecentActive {
			if pa.RecentActive {
				return -1
			}
			return 1
		}
		return cmp.Or(-cmp.Compare(pa.Match, pb.Match), cmp.Compare(a, b))
	})
	return others
}
