package datadir

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.etcd.io/raft/v3/raftpb"
)

// oldMember is a data directory as etcd 3.5 leaves it: a sole member whose cluster saw members
// come and go. Where the last changes are depends on when etcd wrote a raft snapshot.
type oldMember struct {
	dir string
	id  uint64
}

func makeOldMember(t *testing.T, snapshotCount uint64, batch time.Duration) oldMember {
	t.Helper()
	m := oldMember{dir: filepath.Join(t.TempDir(), "data")}
	cfg := embed.NewConfig()
	cfg.Dir, cfg.Name = m.dir, "default"
	cfg.LogLevel, cfg.LogOutputs = "panic", []string{filepath.Join(t.TempDir(), "log")}
	cfg.UnsafeNoFsync = true
	cfg.TickMs, cfg.ElectionMs = 10, 50
	cfg.SnapshotCount = snapshotCount
	cfg.BackendBatchInterval = batch
	any, _ := url.Parse("http://127.0.0.1:0")
	cfg.ListenPeerUrls, cfg.ListenClientUrls = []url.URL{*any}, []url.URL{*any}
	cfg.AdvertisePeerUrls, cfg.AdvertiseClientUrls = []url.URL{*any}, []url.URL{*any}
	cfg.InitialCluster = "default=http://127.0.0.1:0"
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		t.Fatal(err)
	}
	<-e.Server.ReadyNotify()
	c := v3client.New(e.Server)
	ctx := t.Context()
	put := func(n int) {
		for i := range n {
			if _, err := c.Put(ctx, fmt.Sprint("key-", i), "v"); err != nil {
				t.Fatal(err)
			}
		}
	}
	learner := func(url string) uint64 {
		added, err := c.MemberAddAsLearner(ctx, []string{url})
		if err != nil {
			t.Fatal(err)
		}
		return added.Member.ID
	}
	put(15)
	gone := learner("http://127.0.0.1:1")
	put(15)
	if _, err := c.MemberRemove(ctx, gone); err != nil {
		t.Fatal(err)
	}
	stays := learner("http://127.0.0.1:2")
	if _, err := c.MemberUpdate(ctx, stays, []string{"http://127.0.0.1:3"}); err != nil {
		t.Fatal(err)
	}
	put(3)
	m.id = uint64(e.Server.MemberID())
	if batch > time.Minute { // as after a crash: the database is behind the log
		from := m.dir
		m.dir = filepath.Join(t.TempDir(), "copy")
		if err := os.CopyFS(m.dir, os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
	}
	c.Close()
	e.Close()
	m.change(t, asOf35)
	return m
}

// change writes to the database.
func (m oldMember) change(t *testing.T, do func(*bolt.Tx) error) {
	t.Helper()
	db, err := bolt.Open(databasePath(m.dir), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.Update(do); err != nil {
		t.Fatal(err)
	}
}

// record changes the record of a member in the database.
func (m oldMember) record(tx *bolt.Tx, change func(*membership.Member)) error {
	b, key := tx.Bucket([]byte("members")), []byte(types.ID(m.id).String())
	var r membership.Member
	if err := json.Unmarshal(b.Get(key), &r); err != nil {
		return err
	}
	change(&r)
	v, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return b.Put([]byte(r.ID.String()), v)
}

// ways are where the last changes of the membership are.
var ways = map[string]struct {
	snapshotCount uint64
	batch         time.Duration
}{
	"all in the log":              {10000, 10 * time.Millisecond},
	"some in a raft snapshot":     {10, 10 * time.Millisecond},
	"the database is behind":      {10000, time.Hour},
	"behind, and snapshots taken": {10, time.Hour},
}

func TestDataWhoseRecordsAgreeAreUpgraded(t *testing.T) {
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			m := makeOldMember(t, way.snapshotCount, way.batch)
			log, err := readChanges(t.Context(), m.dir)
			if err != nil {
				t.Fatal(err)
			}
			state, _, err := members(databasePath(m.dir))
			if err != nil {
				t.Fatal(err)
			}
			last := log.changes[len(log.changes)-1].index
			if behind := state.ConsistentIndex < last; behind != (way.batch > time.Minute) {
				t.Fatalf("the database is at %d, the last change at %d", state.ConsistentIndex, last)
			}
			if taken := log.start.Metadata.Index > 0; taken != (way.snapshotCount == 10) {
				t.Fatalf("the raft snapshot is at %d", log.start.Metadata.Index)
			}
			before := listFiles(t, m.dir)
			got, err := CheckUpgrade(t.Context(), m.dir)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(Upgrade{From: "3.5"}, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, listFiles(t, m.dir)); diff != "" {
				t.Errorf("files changed:\n%s", diff)
			}
			s := startEtcd(t, m.dir)
			if got := s.revision(t); got != 34 {
				t.Errorf("revision %d after the upgrade", got)
			}
		})
	}
}

func TestARestoredDirectoryHasRecordsThatAgree(t *testing.T) {
	m := oldMember{dir: filepath.Join(t.TempDir(), "data")}
	mustRestore(t, lifeSource(), Options{}, m.dir)
	m.change(t, asOf35)
	if got, err := CheckUpgrade(t.Context(), m.dir); err != nil || got.From != "3.5" || len(got.Mends) > 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

func listFiles(t *testing.T, dir string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil {
			i, ierr := d.Info()
			files, err = append(files, fmt.Sprint(path, i.Size(), i.ModTime())), ierr
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestDataWhoseRecordsOfTheMembersDifferAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		harm func(oldMember, *bolt.Tx) error
		want string
	}{
		"a zombie": {func(m oldMember, tx *bolt.Tx) error {
			return m.record(tx, func(r *membership.Member) { r.ID, r.PeerURLs = 0xabc, []string{"http://127.0.0.1:9"} })
		}, "member abc is in the database only"},
		"a removed member that is still there": {func(m oldMember, tx *bolt.Tx) error {
			k, _ := tx.Bucket([]byte("members_removed")).Cursor().First()
			id, err := types.IDFromString(string(k))
			if err != nil {
				return err
			}
			return m.record(tx, func(r *membership.Member) { r.ID, r.PeerURLs = id, []string{"http://127.0.0.1:9"} })
		}, "was removed and is still in the database"},
		"a member that is missing": {func(m oldMember, tx *bolt.Tx) error {
			return tx.Bucket([]byte("members")).Delete([]byte(types.ID(m.id).String()))
		}, "is missing in the database"},
		"a member that is removed and there": {func(m oldMember, tx *bolt.Tx) error {
			return tx.Bucket([]byte("members_removed")).Put([]byte(types.ID(m.id).String()), []byte("removed"))
		}, "among the removed ones"},
		"other peer URLs": {func(m oldMember, tx *bolt.Tx) error {
			return m.record(tx, func(r *membership.Member) { r.PeerURLs = []string{"http://127.0.0.1:9"} })
		}, `in the database ["http://127.0.0.1:9"]`},
		"a learner that votes": {func(m oldMember, tx *bolt.Tx) error {
			return tx.Bucket([]byte("members")).ForEach(func(k, v []byte) error {
				if !strings.Contains(string(v), `"isLearner":true`) {
					return nil
				}
				return tx.Bucket([]byte("members")).Put(k, []byte(strings.Replace(string(v), `"isLearner":true`, `"isLearner":false`, 1)))
			})
		}, "is a learner, in the database a voter"},
	} {
		for way, w := range map[string]uint64{"all in the log": 10000, "some in a raft snapshot": 10} {
			t.Run(name+", "+way, func(t *testing.T) {
				m := makeOldMember(t, w, 10*time.Millisecond)
				m.change(t, func(tx *bolt.Tx) error { return c.harm(m, tx) })
				_, err := CheckUpgrade(t.Context(), m.dir)
				if !errors.Is(err, ErrMembershipDiffers) || !strings.Contains(fmt.Sprint(err), c.want) || !strings.Contains(fmt.Sprint(err), "3.5.26") {
					t.Errorf("%v, want %q and a remedy", err, c.want)
				}
			})
		}
	}
}

// etcd 3.5 before 3.5.20 forgot to write promotions to the database. That etcd corrects this is
// why it is not refused.
func TestAForgottenPromotionIsCorrectedByEtcd(t *testing.T) {
	forget := func(t *testing.T, m oldMember) (Upgrade, error) {
		m.change(t, func(tx *bolt.Tx) error { return m.record(tx, func(r *membership.Member) { r.IsLearner = true }) })
		return CheckUpgrade(t.Context(), m.dir)
	}
	m := makeOldMember(t, 10, 10*time.Millisecond)
	got, err := forget(t, m)
	if err != nil || len(got.Mends) != 1 || !strings.Contains(got.Mends[0], "is a voter, in the database a learner") {
		t.Fatalf("%+v, %v", got, err)
	}
	s := startEtcd(t, m.dir)
	if s.Server.IsLearner() {
		t.Error("still a learner")
	}
	if _, err := s.c.Put(t.Context(), "new", "v"); err != nil {
		t.Error(err)
	}
	// Without a raft snapshot etcd would see the promotion in the log only, and there was none.
	if got, err := forget(t, makeOldMember(t, 10000, 10*time.Millisecond)); !errors.Is(err, ErrMembershipDiffers) || !strings.Contains(err.Error(), "never promoted") {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestDataOfOtherVersionsAreRefusedWithTheWayOut(t *testing.T) {
	set := func(bucket, key, value string) func(*bolt.Tx) error {
		return func(tx *bolt.Tx) error { return tx.Bucket([]byte(bucket)).Put([]byte(key), []byte(value)) }
	}
	for name, c := range map[string]struct {
		change func(*bolt.Tx) error
		from   string
		want   error
		remedy string
	}{
		"3.4":                      {func(tx *bolt.Tx) error { return tx.Bucket([]byte("meta")).Delete([]byte("term")) }, "3.4", ErrTooOld, "etcd 3.5.26"},
		"3.6 in its first seconds": {set("cluster", "clusterVersion", "3.0.0"), "3.5", nil, ""},
		"half way up to 3.5":       {set("cluster", "clusterVersion", "3.4.0"), "3.4", ErrTooOld, "etcd 3.5.26"},
		"3.6 without its storage":  {set("cluster", "clusterVersion", "3.6.0"), "3.6", nil, ""},
		"3.6":                      {set("meta", "storageVersion", "3.6.0"), "3.6", nil, ""},
		"3.7":                      {set("meta", "storageVersion", "3.7.0"), "3.7", ErrTooNew, "newer version"},
		"on the way to 3.7":        {set("cluster", "clusterVersion", "3.7.0"), "3.7", ErrTooNew, "newer version"},
		"3.10":                     {set("meta", "storageVersion", "3.10.0"), "3.10", ErrTooNew, "newer version"},
	} {
		t.Run(name, func(t *testing.T) {
			m := makeOldMember(t, 10000, 10*time.Millisecond)
			m.change(t, c.change)
			got, err := CheckUpgrade(t.Context(), m.dir)
			if got.From != c.from || !errors.Is(err, c.want) || err != nil && !strings.Contains(err.Error(), c.remedy) {
				t.Errorf("%+v, %v; want %v with %q", got, err, c.want, c.remedy)
			}
		})
	}
}

func TestADirectoryWithoutDataCanBeStartedAndABusyOneNot(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	if got, err := CheckUpgrade(t.Context(), dir); err != nil || got.From != "" {
		t.Errorf("%+v, %v", got, err)
	}
	s := startEtcd(t, dir)
	if _, err := CheckUpgrade(t.Context(), dir); !errors.Is(err, ErrBusy) {
		t.Errorf("%v, want ErrBusy", err)
	}
	s.stop()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	m := makeOldMember(t, 10000, 10*time.Millisecond)
	if _, err := CheckUpgrade(ctx, m.dir); err == nil || !strings.Contains(err.Error(), "enough") {
		t.Errorf("%v, want the cause of the end", err)
	}
}

// A snapshot that the leader sent is on the disk before it takes the place of the database.
func TestAReceivedSnapshotCountsBeforeItIsInPlace(t *testing.T) {
	m := makeOldMember(t, 10, 10*time.Millisecond)
	log, err := readChanges(t.Context(), m.dir)
	if err != nil {
		t.Fatal(err)
	}
	index := log.start.Metadata.Index
	if index == 0 {
		t.Fatal("there is no raft snapshot")
	}
	db := databasePath(m.dir)
	received := filepath.Join(filepath.Dir(db), fmt.Sprintf("%016x.snap.db", index))
	b, err := os.ReadFile(db)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(received, b, 0o600); err != nil {
		t.Fatal(err)
	}
	// The database is of long ago, and knows a member that is gone.
	m.change(t, func(tx *bolt.Tx) error {
		if err := tx.Bucket([]byte("meta")).Put([]byte("consistent_index"), []byte{0, 0, 0, 0, 0, 0, 0, 1}); err != nil {
			return err
		}
		return m.record(tx, func(r *membership.Member) { r.ID, r.PeerURLs = 0xabc, []string{"http://127.0.0.1:9"} })
	})
	if got, err := CheckUpgrade(t.Context(), m.dir); err != nil {
		t.Errorf("%+v, %v", got, err)
	}
	if err := os.Remove(received); err != nil {
		t.Fatal(err)
	}
	if _, err := CheckUpgrade(t.Context(), m.dir); err == nil || !strings.Contains(err.Error(), filepath.Base(received)) {
		t.Errorf("%v, want the name of the missing file", err)
	}
}

func FuzzRosterOf(f *testing.F) {
	f.Add([]byte(`{"Root":{"Path":"/","Children":{"0":{"Path":"/0","Children":{"members":{"Path":"/0/members","Children":{"8e9e05c52164694d":{"Path":"/0/members/8e9e05c52164694d","Children":{"raftAttributes":{"Path":"/0/members/8e9e05c52164694d/raftAttributes","Value":"{\"peerURLs\":[\"http://localhost:2380\"]}"}}}}}}}}},"WatcherHub":{"EventHistory":{"Queue":{}}}}`))
	f.Add([]byte(`{}`))
	f.Add([]byte(`{"Root":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := rosterOf(raftpb.Snapshot{Data: data})
		if err == nil && len(data) > 0 && len(r.members) == 0 {
			t.Error("neither members nor an error")
		}
	})
}

func FuzzChanges(f *testing.F) {
	change := raftpb.ConfChange{Type: raftpb.ConfChangeAddLearnerNode, NodeID: 7, Context: []byte(`{"id":7,"peerURLs":["http://127.0.0.1:1"],"isLearner":true}`)}
	data, err := change.Marshal()
	if err != nil {
		f.Fatal(err)
	}
	entry := raftpb.Entry{Type: raftpb.EntryConfChange, Index: 3, Data: data}
	seed, err := entry.Marshal()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed, seed)
	f.Fuzz(func(t *testing.T, a, b []byte) {
		var log changeLog
		for _, data := range [][]byte{a, b} {
			if log.add(data) != nil {
				return
			}
		}
		r := roster{map[uint64]membership.RaftAttributes{}, map[uint64]bool{}}
		for i, c := range log.changes {
			if i > 0 && c.index <= log.changes[i-1].index {
				t.Error("out of order")
			}
			if r.apply(c) != nil {
				return
			}
		}
	})
}

// asOf35 leaves out what only etcd 3.6 writes.
func asOf35(tx *bolt.Tx) error {
	return errors.Join(tx.Bucket([]byte("meta")).Delete([]byte("storageVersion")),
		tx.Bucket([]byte("cluster")).Put([]byte("clusterVersion"), []byte("3.5.0")))
}
