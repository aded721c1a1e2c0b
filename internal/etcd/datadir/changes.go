package datadir

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	"go.etcd.io/etcd/server/v3/etcdserver/api/snap"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
)

// changeLog is what the raft snapshot and the write-ahead log of a data directory tell about its
// members.
type changeLog struct {
	start   raftpb.Snapshot // the raft snapshot from which etcd would start; empty: from the beginning
	changes []change        // all of the log, by index
	commit  uint64
}

// change is one entry of the log that changes the membership.
type change struct {
	index uint64
	raftpb.ConfChange
}

// readChanges reads the whole write-ahead log once, in a stream.
func readChanges(ctx context.Context, dir string) (changeLog, error) {
	names, err := filepath.Glob(filepath.Join(dir, "member", "wal", "*.wal"))
	if err != nil {
		return changeLog{}, err
	}
	slices.Sort(names)
	var files []fileutil.FileReader
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			return changeLog{}, err
		}
		defer f.Close()
		files = append(files, fileutil.NewFileReader(f))
	}
	log, snapshots, err := decodeChanges(ctx, wal.NewDecoder(files...))
	if err != nil {
		return log, fmt.Errorf("the write-ahead log of %s: %w", dir, err)
	}
	log.start, err = newestSnapshot(filepath.Join(dir, "member", "snap"), snapshots, log.commit)
	return log, err
}

func decodeChanges(ctx context.Context, d wal.Decoder) (log changeLog, snapshots []walpb.Snapshot, err error) {
	for n := 0; ; n++ {
		if n%4096 == 0 && ctx.Err() != nil {
			return log, nil, context.Cause(ctx)
		}
		var rec walpb.Record
		err := d.Decode(&rec)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return log, snapshots, nil // a torn end is normal after a power failure: etcd cuts it off
		}
		if err != nil {
			return log, nil, err
		}
		switch rec.Type {
		case wal.CrcType:
			if sum := d.LastCRC(); sum != 0 && rec.Validate(sum) != nil {
				return log, nil, wal.ErrCRCMismatch
			}
			d.UpdateCRC(rec.Crc)
		case wal.StateType:
			var s raftpb.HardState
			if err := s.Unmarshal(rec.Data); err != nil {
				return log, nil, err
			}
			log.commit = s.Commit
		case wal.SnapshotType:
			var s walpb.Snapshot
			if err := s.Unmarshal(rec.Data); err != nil {
				return log, nil, err
			}
			snapshots = append(snapshots, s)
		case wal.EntryType:
			if err := log.add(rec.Data); err != nil {
				return log, nil, err
			}
		}
	}
}

// add notes an entry if it changes the membership. A later entry with the same index replaces
// the one before and all that followed it.
func (l *changeLog) add(data []byte) error {
	var e raftpb.Entry
	if err := e.Unmarshal(data); err != nil {
		return err
	}
	for n := len(l.changes); n > 0 && l.changes[n-1].index >= e.Index; n-- {
		l.changes = l.changes[:n-1]
	}
	if e.Type != raftpb.EntryConfChange {
		return nil
	}
	c := change{index: e.Index}
	if err := c.Unmarshal(e.Data); err != nil {
		return err
	}
	l.changes = append(l.changes, c)
	return nil
}

// newestSnapshot is the raft snapshot from which etcd would start: the newest file that can be
// read and that the log knows. Unlike etcd's own reader it renames nothing.
func newestSnapshot(dir string, known []walpb.Snapshot, commit uint64) (raftpb.Snapshot, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.snap"))
	if err != nil {
		return raftpb.Snapshot{}, err
	}
	slices.Sort(names)
	slices.Reverse(names) // TERM-INDEX.snap in hexadecimal digits of one length
	for _, name := range names {
		s, err := snap.Read(zap.NewNop(), name)
		if err != nil {
			continue
		}
		m := s.Metadata
		if m.Index <= commit && slices.ContainsFunc(known, func(k walpb.Snapshot) bool { return k.Index == m.Index && k.Term == m.Term }) {
			return *s, nil
		}
	}
	return raftpb.Snapshot{}, nil
}

// promotes reports whether the entry makes a learner a voter.
func (c change) promotes() bool {
	var ctx membership.ConfigChangeContext
	return c.Type == raftpb.ConfChangeAddNode && json.Unmarshal(c.Context, &ctx) == nil && ctx.IsPromote
}

// roster is the members as one of the two records tells them.
type roster struct {
	members map[uint64]membership.RaftAttributes
	removed map[uint64]bool
}

// apply changes the roster as etcd does: what is not possible is ignored.
func (r roster) apply(c change) error {
	if r.removed[c.NodeID] {
		return nil
	}
	m, there := r.members[c.NodeID]
	switch c.Type {
	case raftpb.ConfChangeRemoveNode:
		if there {
			delete(r.members, c.NodeID)
			r.removed[c.NodeID] = true
		}
	case raftpb.ConfChangeAddNode, raftpb.ConfChangeAddLearnerNode:
		var ctx membership.ConfigChangeContext
		if err := json.Unmarshal(c.Context, &ctx); err != nil {
			return fmt.Errorf("entry %d of the write-ahead log: %w", c.index, err)
		}
		switch {
		case ctx.IsPromote && there:
			m.IsLearner = false
			r.members[c.NodeID] = m
		case !ctx.IsPromote && !there && !r.takes(ctx.PeerURLs, c.NodeID):
			r.members[c.NodeID] = ctx.RaftAttributes
		}
	case raftpb.ConfChangeUpdateNode:
		var to membership.Member
		if err := json.Unmarshal(c.Context, &to); err != nil {
			return fmt.Errorf("entry %d of the write-ahead log: %w", c.index, err)
		}
		if there && !r.takes(to.PeerURLs, c.NodeID) {
			m.PeerURLs = to.PeerURLs
			r.members[c.NodeID] = m
		}
	}
	return nil
}

// takes reports whether another member than id has one of the peer URLs.
func (r roster) takes(urls []string, id uint64) bool {
	for other, m := range r.members {
		if other != id && slices.ContainsFunc(m.PeerURLs, func(u string) bool { return slices.Contains(urls, u) }) {
			return true
		}
	}
	return false
}

// oldNode is a node of etcd's version 2 store, as the data of a raft snapshot hold it.
type oldNode struct {
	Value    string
	Children map[string]*oldNode
}

func (n *oldNode) child(path ...string) *oldNode {
	for _, name := range path {
		if n == nil {
			return nil
		}
		n = n.Children[name]
	}
	return n
}

// rosterOf reads the members from the version 2 store in a raft snapshot, by which etcd 3.5 goes.
func rosterOf(s raftpb.Snapshot) (roster, error) {
	r := roster{map[uint64]membership.RaftAttributes{}, map[uint64]bool{}}
	if len(s.Data) == 0 {
		return r, nil
	}
	fail := func(err error) (roster, error) {
		return r, fmt.Errorf("the members in raft snapshot %d: %w", s.Metadata.Index, err)
	}
	var store struct{ Root *oldNode }
	if err := json.Unmarshal(s.Data, &store); err != nil {
		return fail(err)
	}
	if removed := store.Root.child("0", "removed_members"); removed != nil {
		for name := range removed.Children {
			id, err := types.IDFromString(name)
			if err != nil {
				return fail(err)
			}
			r.removed[uint64(id)] = true
		}
	}
	members := store.Root.child("0", "members")
	if members == nil || len(members.Children) == 0 {
		return fail(errors.New("there is none"))
	}
	for name, n := range members.Children {
		id, err := types.IDFromString(name)
		if err != nil {
			return fail(err)
		}
		attributes := n.child("raftAttributes")
		if attributes == nil {
			return fail(fmt.Errorf("member %s has no attributes", name))
		}
		var m membership.RaftAttributes
		if err := json.Unmarshal([]byte(attributes.Value), &m); err != nil {
			return fail(fmt.Errorf("member %s: %w", name, err))
		}
		r.members[uint64(id)] = m
	}
	return r, nil
}

// compareMembership brings both records up to the last entry that is applied and compares them.
// It returns what etcd corrects as it starts.
func compareMembership(dir string, s State, removed map[uint64]bool, log changeLog) (mends []string, err error) {
	old, err := rosterOf(log.start)
	if err != nil {
		return nil, err
	}
	now := roster{map[uint64]membership.RaftAttributes{}, removed}
	for _, m := range s.Members {
		now.members[m.ID] = membership.RaftAttributes{PeerURLs: m.PeerURLs, IsLearner: m.Learner}
	}
	promoted := map[uint64]bool{} // as etcd notices when it starts: in the snapshot or by an entry
	for id, m := range old.members {
		promoted[id] = !m.IsLearner
	}
	// The log's commit index is not written for its own sake and may lag behind.
	for _, c := range log.changes {
		if c.index > max(log.commit, s.ConsistentIndex) {
			break
		}
		if c.index > log.start.Metadata.Index {
			if err := old.apply(c); err != nil {
				return nil, err
			}
			promoted[c.NodeID] = promoted[c.NodeID] || c.promotes()
		}
		if c.index > s.ConsistentIndex {
			if err := now.apply(c); err != nil {
				return nil, err
			}
		}
	}
	mends, differences := old.compare(now, promoted)
	if len(differences) > 0 {
		return mends, fmt.Errorf("%s: %w: %s: start every member once with etcd %s or a later 3.5, which corrects this, one after the other, and then again with this version",
			dir, ErrMembershipDiffers, strings.Join(differences, ", "), firstSafe)
	}
	return mends, nil
}

// compare tells what the database (now) has other than the raft snapshot with its log (r).
// Where those were promoted by what etcd reads as it starts, it corrects the database.
func (r roster) compare(now roster, promoted map[uint64]bool) (mends, differences []string) {
	ids := map[uint64]bool{}
	for id := range r.members {
		ids[id] = true
	}
	for id := range now.members {
		ids[id] = true
	}
	for _, id := range sortedIDs(ids) {
		a, inOld := r.members[id]
		b, inNow := now.members[id]
		slices.Sort(a.PeerURLs)
		slices.Sort(b.PeerURLs)
		switch {
		case !inOld && r.removed[id]:
			differences = append(differences, fmt.Sprintf("member %x was removed and is still in the database", id))
		case !inOld:
			differences = append(differences, fmt.Sprintf("member %x is in the database only", id))
		case !inNow:
			differences = append(differences, fmt.Sprintf("member %x is missing in the database", id))
		case a.IsLearner && !b.IsLearner:
			differences = append(differences, fmt.Sprintf("member %x is a learner, in the database a voter", id))
		case !slices.Equal(a.PeerURLs, b.PeerURLs):
			differences = append(differences, fmt.Sprintf("member %x has the peer URLs %q, in the database %q", id, a.PeerURLs, b.PeerURLs))
		case now.removed[id]:
			differences = append(differences, fmt.Sprintf("member %x is among the removed ones in the database too", id))
		case !a.IsLearner && b.IsLearner && !promoted[id]:
			differences = append(differences, fmt.Sprintf("member %x is a voter, in the database a learner that was never promoted", id))
		case !a.IsLearner && b.IsLearner:
			mends = append(mends, fmt.Sprintf("member %x is a voter, in the database a learner", id))
		}
	}
	return mends, differences
}

func sortedIDs(set map[uint64]bool) []uint64 {
	var ids []uint64
	for id := range set {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}
