package datadir

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/membershippb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/raft/v3/raftpb"
)

type marshaler interface{ Marshal() ([]byte, error) }

func marshalled(t testing.TB, m marshaler) []byte {
	t.Helper()
	b, err := m.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func FuzzLogSegment(f *testing.F) {
	dir := written(f)
	paths, err := filepath.Glob(filepath.Join(dir, "member", "wal", "*.wal"))
	if err != nil || len(paths) != 1 {
		f.Fatal(paths, err)
	}
	b, err := os.ReadFile(paths[0])
	if err != nil {
		f.Fatal(err)
	}
	b = bytes.TrimRight(b, "\x00")
	f.Add(b, 0, []byte{})
	f.Add(b, len(b)/2, []byte{0xff})
	f.Add(b[:len(b)-5], 70, []byte{})
	f.Add(append(bytes.Clone(b), make([]byte, 1000)...), len(b)-20, make([]byte, 600))
	f.Fuzz(func(t *testing.T, b []byte, at int, patch []byte) {
		b = bytes.Clone(b)
		if at >= 0 && at < len(b) {
			copy(b[at:], patch)
		}
		path := filepath.Join(t.TempDir(), filepath.Base(paths[0]))
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		l := raftLog{segments: []segment{{path: path, size: int64(len(b))}}}
		err := l.read(context.Background(), func(int64) {})
		var d *damage
		if err != nil && !errors.As(err, &d) {
			t.Fatal(err)
		}
		if err == nil && l.torn != nil && (l.torn.offset <= 0 || l.torn.offset > int64(len(b))) {
			t.Errorf("torn at %d of %d", l.torn.offset, len(b))
		}
		if err == nil && l.first > 0 && l.writesAfter(0) > int64(l.last-l.first+1) {
			t.Errorf("%d writes in %d to %d", l.writesAfter(0), l.first, l.last)
		}
	})
}

// What is said of a request without unmarshalling it is what unmarshalling says.
func FuzzRequest(f *testing.F) {
	for _, r := range requests() {
		f.Add(marshalled(f, r.request))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		e := entryHead{kind: raftpb.EntryNormal, term: 1, index: 1, data: b}
		effect, _, ok := effectOf(e)
		var r etcdserverpb.InternalRaftRequest
		if !ok || r.Unmarshal(b) != nil {
			return
		}
		if r.V2 == nil && (r.Put != nil || r.DeleteRange != nil || r.Txn != nil || r.LeaseRevoke != nil) != (effect == write) {
			t.Errorf("%v: effect %d", r, effect)
		}
	})
}

func FuzzStoredRecord(f *testing.F) {
	for _, kv := range []mvccpb.KeyValue{{}, {Key: []byte("k")}, {Key: []byte("k"), Value: []byte("v"), CreateRevision: 3, ModRevision: 1 << 40, Version: 9, Lease: -5}} {
		f.Add(marshalled(f, &kv))
	}
	f.Add([]byte{0x10, 5, 0x10, 6})
	f.Fuzz(func(t *testing.T, b []byte) {
		s, ok := plainStored(b)
		if !ok {
			return
		}
		var kv mvccpb.KeyValue
		if err := kv.Unmarshal(b); err != nil {
			t.Fatalf("%x: %+v is called plain, and etcd says %v", b, s, err)
		}
		want := stored{key: kv.Key, create: kv.CreateRevision, mod: kv.ModRevision, version: kv.Version, lease: kv.Lease}
		if !bytes.Equal(s.key, want.key) || s.create != want.create || s.mod != want.mod || s.version != want.version || s.lease != want.lease {
			t.Errorf("%x: %+v, want %+v", b, s, want)
		}
	})
}

func FuzzSnapshotFile(f *testing.F) {
	f.Add([]byte{8, 1, 18, 2, 3, 4})
	f.Fuzz(func(t *testing.T, b []byte) {
		path := filepath.Join(t.TempDir(), "s.snap")
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		var d *damage
		if s, err := readSnapFile(path); err != nil && (!errors.As(err, &d) || s != nil) {
			t.Error(s, err)
		}
	})
}

type requestCase struct {
	request marshaler
	want    effect
	member  Member
}

func requests() map[string]requestCase {
	header := &etcdserverpb.RequestHeader{ID: 7, Username: "u"}
	in := func(r etcdserverpb.InternalRaftRequest) marshaler { r.Header = header; return &r }
	return map[string]requestCase{
		"a put":             {in(etcdserverpb.InternalRaftRequest{Put: &etcdserverpb.PutRequest{Key: []byte("k")}}), write, Member{}},
		"an empty put":      {in(etcdserverpb.InternalRaftRequest{Put: &etcdserverpb.PutRequest{}}), write, Member{}},
		"a deletion":        {in(etcdserverpb.InternalRaftRequest{DeleteRange: &etcdserverpb.DeleteRangeRequest{Key: []byte("k")}}), write, Member{}},
		"a transaction":     {in(etcdserverpb.InternalRaftRequest{Txn: &etcdserverpb.TxnRequest{}}), write, Member{}},
		"a lease's end":     {in(etcdserverpb.InternalRaftRequest{LeaseRevoke: &etcdserverpb.LeaseRevokeRequest{ID: 3}}), write, Member{}},
		"a lease":           {in(etcdserverpb.InternalRaftRequest{LeaseGrant: &etcdserverpb.LeaseGrantRequest{ID: 3}}), other, Member{}},
		"a compaction":      {in(etcdserverpb.InternalRaftRequest{Compaction: &etcdserverpb.CompactionRequest{Revision: 3}}), other, Member{}},
		"a user":            {in(etcdserverpb.InternalRaftRequest{AuthUserAdd: &etcdserverpb.AuthUserAddRequest{Name: "n"}}), other, Member{}},
		"authentication on": {in(etcdserverpb.InternalRaftRequest{AuthEnable: &etcdserverpb.AuthEnableRequest{}}), other, Member{}},
		"a cluster version": {in(etcdserverpb.InternalRaftRequest{ClusterVersionSet: &membershippb.ClusterVersionSetRequest{Ver: "3.6.0"}}), effectless, Member{}},
		"a name": {in(etcdserverpb.InternalRaftRequest{ClusterMemberAttrSet: &membershippb.ClusterMemberAttrSetRequest{Member_ID: 0xabc,
			MemberAttributes: &membershippb.Attributes{Name: "etcd-0", ClientUrls: []string{"http://a"}}}}), effectless, Member{ID: 0xabc, Name: "etcd-0", ClientURLs: []string{"http://a"}}},
		"a name, as 3.5 writes it": {&etcdserverpb.Request{ID: 9, Method: "PUT", Path: "/0/members/8e9e05c52164694d/attributes", Val: `{"name":"etcd-1","clientURLs":["http://b"]}`},
			effectless, Member{ID: 0x8e9e05c52164694d, Name: "etcd-1", ClientURLs: []string{"http://b"}}},
		"a cluster version, as 3.5 writes it": {&etcdserverpb.Request{ID: 9, Method: "PUT", Path: "/0/version", Val: "3.5.0"}, effectless, Member{}},
		"a tick, as 3.4 writes it":            {&etcdserverpb.Request{ID: 9, Method: "SYNC", Time: 5}, effectless, Member{}},
		"a put of version 2":                  {&etcdserverpb.Request{ID: 9, Method: "PUT", Path: "/1/k", Val: "v"}, other, Member{}},
		"a put of version 2, wrapped":         {&etcdserverpb.InternalRaftRequest{ID: 1, V2: &etcdserverpb.Request{Method: "PUT", Path: "/0/version", Val: "3.5.0"}}, effectless, Member{}},
	}
}

func TestWhatARequestDoesIsToldFromItsFields(t *testing.T) {
	for name, c := range requests() {
		t.Run(name, func(t *testing.T) {
			got, m, ok := effectOf(entryHead{kind: raftpb.EntryNormal, term: 1, index: 4, data: marshalled(t, c.request)})
			if !ok || got != c.want {
				t.Errorf("effect %d, %t, want %d", got, ok, c.want)
			}
			if diff := cmp.Diff(c.member, m.member); diff != "" {
				t.Errorf("the member (-want +got):\n%s", diff)
			}
		})
	}
	for name, b := range map[string][]byte{"half a message": {0x22, 9, 1}, "a put that is a number": {0x20, 1}} {
		if _, _, ok := effectOf(entryHead{data: b}); ok {
			t.Errorf("%s is a request", name)
		}
	}
}

// logOf reads records as if they came from a segment.
func logOf(t *testing.T, records ...marshaler) (*raftLog, error) {
	t.Helper()
	l := &raftLog{}
	at := segment{path: "segment"}
	metadata := marshalled(t, &etcdserverpb.Metadata{NodeID: 1, ClusterID: 2})
	if err := errors.Join(l.take(at, logRecord{kind: wal.CrcType}), l.take(at, logRecord{kind: wal.MetadataType, data: metadata})); err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		kind := wal.EntryType
		switch r.(type) {
		case *raftpb.HardState:
			kind = wal.StateType
		case interface{ GetConfState() *raftpb.ConfState }:
			kind = wal.SnapshotType
		}
		if err := l.take(at, logRecord{kind: kind, data: marshalled(t, r)}); err != nil {
			return l, err
		}
	}
	return l, nil
}

func TestEntriesThatWereNeverCommittedAreReplaced(t *testing.T) {
	put := marshalled(t, &etcdserverpb.InternalRaftRequest{Header: &etcdserverpb.RequestHeader{ID: 1}, Put: &etcdserverpb.PutRequest{}})
	e := func(term, index uint64, data []byte) *raftpb.Entry {
		return &raftpb.Entry{Term: term, Index: index, Data: data}
	}
	conf := func(term, index uint64, c raftpb.ConfChange) *raftpb.Entry {
		return &raftpb.Entry{Term: term, Index: index, Type: raftpb.EntryConfChange, Data: marshalled(t, &c)}
	}
	l, err := logOf(t,
		e(1, 1, put), e(1, 2, put), &raftpb.HardState{Term: 1, Commit: 2},
		e(1, 3, put), conf(1, 4, raftpb.ConfChange{NodeID: 9}), e(1, 5, put), // of a leader that lost its office
		e(2, 3, nil), e(2, 4, put), &raftpb.HardState{Term: 2, Commit: 4})
	if err != nil {
		t.Fatal(err)
	}
	if l.first != 1 || l.last != 4 || l.writesAfter(0) != 3 || l.writesAfter(2) != 1 || l.writesAfter(4) != 0 || len(l.changes) != 0 {
		t.Errorf("%d to %d, %d, %d and %d writes, changes %v", l.first, l.last, l.writesAfter(0), l.writesAfter(2), l.writesAfter(4), l.changes)
	}
	for name, records := range map[string][]marshaler{
		"an entry that was committed":    {e(1, 1, put), e(1, 2, put), &raftpb.HardState{Term: 1, Commit: 2}, e(2, 2, put)},
		"an entry of an earlier term":    {e(3, 1, put), e(2, 2, put)},
		"a term that goes back":          {&raftpb.HardState{Term: 3}, &raftpb.HardState{Term: 2}},
		"a commit that goes back":        {&raftpb.HardState{Term: 3, Commit: 5}, &raftpb.HardState{Term: 3, Commit: 4}},
		"an entry without a number":      {e(1, 0, put)},
		"a change of nobody":             {conf(1, 1, raftpb.ConfChange{})},
		"a request that is none":         {e(1, 1, []byte{0xff})},
		"an entry of a kind unknown yet": {&raftpb.Entry{Term: 1, Index: 1, Type: raftpb.EntryConfChangeV2}},
	} {
		var d *damage
		if _, err := logOf(t, records...); !errors.As(err, &d) {
			t.Errorf("%s: %v, want damage", name, err)
		}
	}
}

func TestMembersAreFollowedThroughTheLog(t *testing.T) {
	put := func(index uint64, kind raftpb.ConfChangeType, id uint64, context string) memberEntry {
		c, ok := memberChange(index, marshalled(t, &raftpb.ConfChange{Type: kind, NodeID: id, Context: []byte(context)}))
		if !ok {
			t.Fatalf("entry %d is no change", index)
		}
		return c
	}
	changes := []memberEntry{
		put(1, raftpb.ConfChangeAddNode, 1, `{"id":1,"peerURLs":["http://a"]}`),
		{index: 2, named: true, member: Member{ID: 1, Name: "etcd-0", ClientURLs: []string{"http://c"}}},
		put(3, raftpb.ConfChangeAddLearnerNode, 2, `{"id":2,"peerURLs":["http://b"],"isLearner":true}`),
		put(4, raftpb.ConfChangeAddNode, 2, `{"id":2,"isPromote":true}`),
		put(5, raftpb.ConfChangeUpdateNode, 1, `{"id":1,"peerURLs":["https://a"]}`),
		put(6, raftpb.ConfChangeAddLearnerNode, 3, `{"id":3}`),
		put(7, raftpb.ConfChangeRemoveNode, 1, ``),
		{index: 8, named: true, member: Member{ID: 1, Name: "gone"}},
	}
	for name, c := range map[string]struct {
		upTo uint64
		want roles
	}{
		"none": {0, roles{}}, "a learner": {3, roles{[]uint64{1}, []uint64{2}}}, "promoted": {5, roles{[]uint64{1, 2}, nil}}, "one removed": {9, roles{[]uint64{2}, []uint64{3}}},
	} {
		if got := (roles{}).follow(changes, c.upTo); !got.equal(c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	two := []Member{{ID: 1, Name: "etcd-0", PeerURLs: []string{"https://a"}, ClientURLs: []string{"http://c"}}, {ID: 2, PeerURLs: []string{"http://b"}}}
	if diff := cmp.Diff(two, followMembers(nil, changes[:5], 0)); diff != "" {
		t.Errorf("from the beginning (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]Member{{ID: 2, PeerURLs: []string{"http://b"}}, {ID: 3, Learner: true}}, followMembers(two, changes, 5)); diff != "" {
		t.Errorf("after the fifth (-want +got):\n%s", diff)
	}
}
