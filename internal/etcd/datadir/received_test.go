package datadir

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"druid.internal/druid/internal/etcd/datadir/boltfile"
	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/server/v3/etcdserver/api/snap"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v2store"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
)

// edit changes the database file at path; nil values remove.
func edit(t testing.TB, path, bucket string, records map[string][]byte) {
	t.Helper()
	db, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.Update(func(tx *bolt.Tx) error {
		b := tx.Bucket([]byte(bucket))
		for k, v := range records {
			if v == nil {
				err = errors.Join(err, b.Delete([]byte(k)))
			} else {
				err = errors.Join(err, b.Put([]byte(k), v))
			}
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

func number(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// receive makes dir look as if the leader had sent a snapshot a hundred entries ahead and etcd had
// been killed before it took the database over. It returns the index of the snapshot.
func receive(t *testing.T, dir string, recorded bool) uint64 {
	t.Helper()
	i := inspected(t, dir, Sanity)
	index, lg := i.LastIndex+100, zap.NewNop()
	snaps := filepath.Join(dir, "member", "snap")
	b, err := os.ReadFile(databasePath(dir))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(receivedPath(dir, index), b, 0o600); err != nil {
		t.Fatal(err)
	}
	edit(t, receivedPath(dir, index), metaBucket, map[string][]byte{consistentIndex: number(index)})
	edit(t, receivedPath(dir, index), keyBucket, map[string][]byte{
		string(appendRevision(nil, 50, 0, false)): {0x0a, 1, 'n', 0x10, 50, 0x18, 50, 0x20, 1, 0x2a, 1, 'v'}})
	state := raftpb.ConfState{Voters: i.Voters}
	data, err := v2store.New("/0", "/1").SaveNoCopy()
	if err != nil {
		t.Fatal(err)
	}
	if err := snap.New(lg, snaps).SaveSnap(raftpb.Snapshot{Data: data, Metadata: raftpb.SnapshotMetadata{Index: index, Term: i.Term, ConfState: state}}); err != nil {
		t.Fatal(err)
	}
	if !recorded {
		return index
	}
	w, err := wal.Open(lg, filepath.Join(dir, "member", "wal"), walpb.Snapshot{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if _, _, _, err := w.ReadAll(); err != nil {
		t.Fatal(err)
	}
	if err := w.SaveSnapshot(walpb.Snapshot{Index: index, Term: i.Term, ConfState: &state}); err != nil {
		t.Fatal(err)
	}
	if err := w.Save(raftpb.HardState{Term: i.Term, Vote: i.MemberID, Commit: index}, nil); err != nil {
		t.Fatal(err)
	}
	return index
}

func written(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	s := startEtcd(t, dir)
	for _, k := range []string{"a", "b", "c"} {
		if _, err := s.c.Put(context.Background(), k, "v"); err != nil {
			t.Fatal(err)
		}
	}
	s.stop()
	return dir
}

func TestADatabaseThatWasReceivedAndNotTakenOverCounts(t *testing.T) {
	dir := written(t)
	before := inspected(t, dir, Full)
	index := receive(t, dir, true)
	for _, mode := range []Mode{Sanity, Full} {
		i := inspected(t, dir, mode)
		if i.State != Valid || i.Revision != 50 || i.AtMost != 50 || i.AppliedIndex != index || i.LastIndex != index || i.Received != receivedPath(dir, index) {
			t.Errorf("%s: %+v, want revision 50 at entry %d", mode, i, index)
		}
		if len(i.Voters) != 1 || len(i.Membership) != 1 || i.MembershipDiffers != "" {
			t.Errorf("%s: members %+v, voters %x; %s", mode, i.Membership, i.Voters, i.MembershipDiffers)
		}
	}
	if b, err := os.ReadFile(receivedPath(dir, index)); err != nil {
		t.Fatal(err)
	} else {
		broken := copyDir(t, dir)
		for _, page := range livePages(t, receivedPath(copyDir(t, dir), index)) {
			if page > 1 {
				clear(b[page*4096+16:][:16]) // the first element of the page
			}
		}
		if err := os.WriteFile(receivedPath(broken, index), b, 0o600); err != nil {
			t.Fatal(err)
		}
		if i := inspected(t, broken, Full); i.State != Invalid || !strings.Contains(i.Why, "snap.db") {
			t.Errorf("a damaged one: %s %q", i.State, i.Why)
		}
	}
	gone := copyDir(t, dir)
	if err := os.Remove(receivedPath(gone, index)); err != nil {
		t.Fatal(err)
	}
	if i := inspected(t, gone, Sanity); i.State != Invalid || !strings.Contains(i.Why, "is missing") {
		t.Errorf("without the file: %s %q, want Invalid", i.State, i.Why)
	}
	if _, err := startedInChild(t, gone); err == nil {
		t.Error("without the file etcd starts all the same")
	}
	behind := copyDir(t, dir)
	edit(t, receivedPath(behind, index), metaBucket, map[string][]byte{consistentIndex: number(index - 1)})
	if i := inspected(t, behind, Sanity); i.State != Invalid || !strings.Contains(i.Why, "before the snapshot") {
		t.Errorf("one that is behind its snapshot: %s %q, want Invalid", i.State, i.Why)
	}
	if rev, err := Settle(context.Background(), dir); err != nil || rev != 50 {
		t.Errorf("settled at %d, %v, want 50", rev, err)
	}
	if i := inspected(t, dir, Full); i.State != Valid || i.Revision != 50 || i.Received != "" || before.Revision != 4 {
		t.Errorf("after Settle: %+v", i)
	}
}

// A crash between the file and the record of a snapshot leaves the file alone.
func TestASnapshotThatTheLogDoesNotKnowDoesNotCount(t *testing.T) {
	dir := written(t)
	want := inspected(t, dir, Sanity)
	receive(t, dir, false)
	got := inspected(t, dir, Sanity)
	if got.State != Valid || got.Revision != want.Revision || got.LastIndex != want.LastIndex || got.Received != "" {
		t.Errorf("%+v, want %+v", got, want)
	}
	if _, err := startedInChild(t, dir); err != nil {
		t.Errorf("etcd does not start: %v", err)
	}
}

func TestASnapshotFileThatIsDamagedIsPassedOverOnlyIfTheLogReachesBack(t *testing.T) {
	dir := written(t)
	receive(t, dir, true)
	snaps, err := filepath.Glob(filepath.Join(dir, "member", "snap", "*.snap"))
	if err != nil || len(snaps) != 1 {
		t.Fatal(snaps, err)
	}
	b, err := os.ReadFile(snaps[0])
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.WriteFile(snaps[0], b, 0o600); err != nil {
		t.Fatal(err)
	}
	if i := inspected(t, dir, Sanity); i.State != Invalid {
		t.Errorf("%s, want Invalid: the entries up to the snapshot are nowhere", i.State)
	}
	if left, err := os.ReadFile(snaps[0]); err != nil || string(left) != string(b) {
		t.Errorf("the damaged file was changed: %v", err)
	}
}

func TestDataOfOtherReleasesAreToldApart(t *testing.T) {
	for name, c := range map[string]struct {
		bucket  string
		records map[string][]byte
		want    Condition
		why     string
	}{
		"3.6":                     {metaBucket, nil, Valid, ""},
		"3.5":                     {metaBucket, map[string][]byte{storageVersion: nil}, Valid, ""},
		"3.4":                     {metaBucket, map[string][]byte{storageVersion: nil, raftTerm: nil, raftConfState: nil}, TooOld, "etcd 3.5"},
		"3.7":                     {metaBucket, map[string][]byte{storageVersion: []byte("3.7.0")}, TooNew, "later release"},
		"a cluster of 4.0":        {clusterBucket, map[string][]byte{clusterVersion: []byte("4.0.0")}, TooNew, "later release"},
		"a cluster of 3.5":        {clusterBucket, map[string][]byte{clusterVersion: []byte("3.5.0")}, Valid, ""},
		"an index of three bytes": {metaBucket, map[string][]byte{consistentIndex: {1, 2, 3}}, Invalid, "3 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := written(t)
			edit(t, databasePath(dir), c.bucket, c.records)
			if i := inspected(t, dir, Full); i.State != c.want || !strings.Contains(i.Why, c.why) {
				t.Errorf("%s %q, want %s and %q", i.State, i.Why, c.want, c.why)
			}
			if c.want != Valid {
				if _, err := Settle(context.Background(), dir); !errors.Is(err, ErrNotValid) {
					t.Errorf("Settle: %v, want ErrNotValid", err)
				}
			}
		})
	}
}

// etcd would end its process on such a log.
func TestALogThatLacksWhatItCallsCommittedIsInvalid(t *testing.T) {
	dir := written(t)
	i := inspected(t, dir, Sanity)
	w, err := wal.Open(zap.NewNop(), filepath.Join(dir, "member", "wal"), walpb.Snapshot{})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := w.ReadAll(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Save(raftpb.HardState{Term: i.Term, Vote: i.MemberID, Commit: i.LastIndex + 1}, nil), w.Close()); err != nil {
		t.Fatal(err)
	}
	if i := inspected(t, dir, Sanity); i.State != Invalid || !strings.Contains(i.Why, "is committed") {
		t.Errorf("%s %q, want Invalid", i.State, i.Why)
	}
	if _, err := startedInChild(t, dir); err == nil {
		t.Error("etcd starts all the same")
	}
}

func TestRecordsThatEtcdCannotReadAreFound(t *testing.T) {
	key := string(appendRevision(nil, 7, 1, false))
	gone := string(appendRevision(nil, 7, 1, true))
	kv := func(create, mod, version byte) []byte {
		return []byte{0x0a, 1, 'k', 0x10, create, 0x18, mod, 0x20, version, 0x2a, 1, 'v'}
	}
	for name, c := range map[string]struct {
		bucket, key string
		value       []byte
		ok          bool
	}{
		"a record":                      {keyBucket, key, kv(3, 7, 2), true},
		"a deletion":                    {keyBucket, gone, []byte{0x0a, 1, 'k'}, true},
		"a bump":                        {keyBucket, key, nil, true},
		"a field of a later release":    {keyBucket, key, append(kv(3, 7, 2), 0x78, 1), true},
		"of another revision":           {keyBucket, key, kv(3, 6, 2), false},
		"created later":                 {keyBucket, key, kv(8, 7, 2), false},
		"never created":                 {keyBucket, key, kv(0, 7, 2), false},
		"of version 0":                  {keyBucket, key, kv(3, 7, 0), false},
		"without a key":                 {keyBucket, key, []byte{0x10, 3, 0x18, 7, 0x20, 2}, false},
		"cut":                           {keyBucket, key, kv(3, 7, 2)[:11], false},
		"a revision of wrong size":      {keyBucket, key[:16], kv(3, 7, 2), false},
		"a deletion with a revision":    {keyBucket, gone, kv(3, 7, 2), false},
		"a deletion of nothing":         {keyBucket, gone, nil, false},
		"a number for a key":            {keyBucket, key, []byte{0x08, 1, 0x10, 3, 0x18, 7, 0x20, 2}, false},
		"a lease":                       {leaseBucket, "12345678", []byte{8, 1, 16, 60}, true},
		"a lease with a short name":     {leaseBucket, "1234567", []byte{8, 1, 16, 60}, false},
		"a lease that is none":          {leaseBucket, "12345678", []byte{0xff}, false},
		"a member":                      {membersBucket, "1f", []byte(`{"id":31,"peerURLs":["http://a"]}`), true},
		"a member with another id":      {membersBucket, "1f", []byte(`{"id":30}`), false},
		"a member that is none":         {membersBucket, "1f", []byte(`{"id":31`), false},
		"a user that is none":           {authUsersBucket, "u", []byte{0xff}, false},
		"a role that is none":           {authRolesBucket, "r", []byte{0xff}, false},
		"anything in an unknown bucket": {"later", "k", []byte{0xff}, true},
	} {
		if err := checkRecord(c.bucket, []byte(c.key), c.value); (err == nil) != c.ok || err != nil && !errors.Is(err, boltfile.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
