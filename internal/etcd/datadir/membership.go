package datadir

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	"go.etcd.io/etcd/server/v3/etcdserver/api/snap"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v2store"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
)

// Membership is the new cluster as one of its members sees it.
type Membership struct {
	Name           string   // of this member
	InitialCluster string   // NAME=PEERURL,NAME=PEERURL,... of all members, this one included
	Token          string   // initial cluster token
	PeerURLs       []string // this member's own; must be those of InitialCluster. Empty: taken from there
}

// Check tells whether the membership is possible: nil, or an error that wraps [ErrMembership].
func (m Membership) Check() error {
	_, err := m.records()
	return err
}

// membershipRecords is what a new membership puts into the database, and raft's first entries:
// one per member, all of them committed.
type membershipRecords struct {
	cluster   *membership.RaftCluster
	self      *membership.Member
	ids       []uint64
	records   map[string][]byte // of the members bucket
	confState []byte
	commit    uint64
}

// firstTerm is the raft term of a new cluster.
const firstTerm = 1

// records validates the membership and computes the ids as etcd does: from the peer URLs and
// the token.
func (m Membership) records() (*membershipRecords, error) {
	bad := func(format string, args ...any) (*membershipRecords, error) {
		return nil, fmt.Errorf("%w: %w", ErrMembership, fmt.Errorf(format, args...))
	}
	if m.Name == "" {
		return bad("the member has no name")
	}
	urls, err := types.NewURLsMap(m.InitialCluster)
	if err != nil {
		return bad("initial cluster %q: %w", m.InitialCluster, err)
	}
	own, ok := urls[m.Name]
	if !ok {
		return bad("initial cluster %q has no member %q", m.InitialCluster, m.Name)
	}
	seen := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(urls)) {
		for _, u := range urls[name].StringSlice() {
			if other := seen[u]; other != "" {
				return bad("%q and %q have the same peer URL %s", other, name, u)
			}
			seen[u] = name
		}
	}
	if len(m.PeerURLs) > 0 {
		peers, err := types.NewURLs(m.PeerURLs)
		if err != nil {
			return bad("peer URLs: %w", err)
		}
		if !slices.Equal(peers.StringSlice(), own.StringSlice()) {
			return bad("peer URLs %q of %s are %q in the initial cluster", peers.StringSlice(), m.Name, own.StringSlice())
		}
	}
	lg := zap.NewNop()
	cluster, err := membership.NewClusterFromURLsMap(lg, m.Token, urls)
	if err != nil {
		return bad("%w", err)
	}
	r := &membershipRecords{cluster: cluster, self: cluster.MemberByName(m.Name), records: map[string][]byte{}}
	for _, id := range cluster.MemberIDs() {
		record, err := json.Marshal(cluster.Member(id))
		if err != nil {
			return bad("%w", err)
		}
		r.ids = append(r.ids, uint64(id))
		r.records[id.String()] = record
	}
	r.commit = uint64(len(r.ids))
	r.confState, err = json.Marshal(raftpb.ConfState{Voters: r.ids})
	return r, err
}

// writeRaft makes the write-ahead log and the first raft snapshot below the member directory,
// synced. It takes 64 MiB, as etcd reserves whole segments, and for a moment twice that where that
// fits: etcd's library reserves the next segment meanwhile and gives up in silence on a full disk,
// so nothing else may be written before it is closed.
func (r *membershipRecords) writeRaft(member string) error {
	lg := zap.NewNop()
	metadata, err := (&etcdserverpb.Metadata{NodeID: uint64(r.self.ID), ClusterID: uint64(r.cluster.ID())}).Marshal()
	if err != nil {
		return err
	}
	logDir := filepath.Join(member, "wal")
	state := raftpb.ConfState{Voters: r.ids}
	if err := r.writeLog(logDir, metadata, &state); err != nil {
		return fmt.Errorf("write the write-ahead log: %w", err)
	}
	reserved, err := filepath.Glob(filepath.Join(logDir, "*.tmp"))
	if err != nil {
		return err
	}
	for _, f := range reserved { // what a full disk left of the next segment
		if err := os.Remove(f); err != nil {
			return err
		}
	}
	// etcd before 3.6 reads the members from here, in the form of its version 2 store.
	const clusterPrefix, keysPrefix = "/0", "/1"
	st := v2store.New(clusterPrefix, keysPrefix)
	r.cluster.Store(st)
	data, err := st.SaveNoCopy()
	if err != nil {
		return err
	}
	snapshot := raftpb.Snapshot{Data: data, Metadata: raftpb.SnapshotMetadata{Index: r.commit, Term: firstTerm, ConfState: state}}
	if err := snap.New(lg, filepath.Join(member, "snap")).SaveSnap(snapshot); err != nil {
		return fmt.Errorf("write the raft snapshot: %w", err)
	}
	return nil
}

// writeLog makes the write-ahead log in dir: the members one by one, and the mark of the first
// snapshot after them.
func (r *membershipRecords) writeLog(dir string, metadata []byte, state *raftpb.ConfState) error {
	var entries []raftpb.Entry
	for i, id := range r.ids {
		change := raftpb.ConfChange{Type: raftpb.ConfChangeAddNode, NodeID: id, Context: r.records[types.ID(id).String()]}
		data, err := change.Marshal()
		if err != nil {
			return err
		}
		entries = append(entries, raftpb.Entry{Type: raftpb.EntryConfChange, Term: firstTerm, Index: uint64(i + 1), Data: data})
	}
	w, err := wal.Create(zap.NewNop(), dir, metadata)
	if err != nil {
		return err
	}
	return errors.Join(
		w.Save(raftpb.HardState{Term: firstTerm, Vote: r.ids[0], Commit: r.commit}, entries),
		w.SaveSnapshot(walpb.Snapshot{Index: r.commit, Term: firstTerm, ConfState: state}),
		w.Close(),
	)
}

// WALIdentity reads the cluster and member ids from the write-ahead log of a data directory.
func WALIdentity(dir string) (clusterID, memberID uint64, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "member", "wal", "*.wal"))
	if err != nil {
		return 0, 0, err
	}
	if len(files) == 0 {
		return 0, 0, fmt.Errorf("%s: no write-ahead log: %w", dir, os.ErrNotExist)
	}
	slices.Sort(files)
	f, err := os.Open(files[0])
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	decoder := wal.NewDecoder(fileutil.NewFileReader(f))
	const head = 16 // the metadata is among the first records of every segment
	for range head {
		var rec walpb.Record
		if err := decoder.Decode(&rec); err != nil {
			return 0, 0, fmt.Errorf("%s: %w", files[0], err)
		}
		switch rec.Type {
		case wal.CrcType:
			decoder.UpdateCRC(rec.Crc)
		case wal.MetadataType:
			var m etcdserverpb.Metadata
			if err := m.Unmarshal(rec.Data); err != nil {
				return 0, 0, fmt.Errorf("%s: %w", files[0], err)
			}
			return m.ClusterID, m.NodeID, nil
		}
	}
	return 0, 0, fmt.Errorf("%s: no metadata among the first %d records", files[0], head)
}
