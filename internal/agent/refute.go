package agent

import (
	"context"
	"fmt"
	"time"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/etcd/datadir"
	"druid.internal/druid/internal/etcd/member"
)

// refuteTimeout bounds the comparison, in which every member reads its whole key space.
const refuteTimeout = 5 * time.Minute

// refuted compares data on which no etcd runs with the other members of their cluster. They are
// given up only if so many voters agree among themselves on something else that these are a
// majority of the cluster without this member.
func (s *sidecar) refuted(ctx context.Context, data datadir.Inspection) string {
	ctx, cancel := context.WithTimeout(ctx, refuteTimeout)
	defer cancel()
	own, err := s.hashOf(ctx, data)
	if err != nil {
		s.Log.Warn("etcd's check for corruption refused the data, which cannot be compared", "error", err)
		return ""
	}
	list, err := s.etcd.Members(ctx)
	if err != nil || list.ClusterID != data.ClusterID {
		s.Log.Warn("etcd's check for corruption refused the data, and their cluster cannot be asked", "error", err)
		return ""
	}
	hashes := map[uint64]snapshot.HashKV{}
	for _, p := range list.Peers {
		if p.Learner || p.ID == data.MemberID {
			continue
		}
		if h, err := s.hashAt(ctx, p, own.Revision); err == nil {
			hashes[p.ID] = h
		}
	}
	why := outvoted(own, hashes, list.Voters())
	s.Log.Warn("compared data that etcd's check for corruption refused", "revision", int64(own.Revision), "hash", own.Hash, "others", len(hashes), "verdict", why)
	return why
}

func (s *sidecar) hashOf(ctx context.Context, data datadir.Inspection) (snapshot.HashKV, error) {
	db, err := datadir.OpenDir(s.templates.get().DataDir())
	if err != nil {
		return snapshot.HashKV{}, err
	}
	defer db.Close()
	h, _, err := db.HashKV(ctx, data.Revision, int64(s.Config.Restoration.MemoryLimit), s.Config.Restoration.TempSnapshotsDir)
	return h, err
}

func (s *sidecar) hashAt(ctx context.Context, p member.Peer, rev snapshot.Revision) (snapshot.HashKV, error) {
	node, _, err := s.etcd.Reach(ctx, p)
	if err != nil {
		return snapshot.HashKV{}, err
	}
	return node.HashKV(ctx, rev)
}

// outvoted says why own is not what a majority of the voters holds; empty: nothing shows that.
func outvoted(own snapshot.HashKV, others map[uint64]snapshot.HashKV, voters int) string {
	agree := map[snapshot.HashKV]int{}
	for _, h := range others {
		if h.Revision == own.Revision && h.CompactRevision == own.CompactRevision {
			agree[h]++
		}
	}
	for h, n := range agree {
		if h != own && n > voters/2 {
			return fmt.Sprintf("%d of %d members agree on the content at revision %d, and the data here are something else", n, voters, own.Revision)
		}
	}
	return ""
}
