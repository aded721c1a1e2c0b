package datadir

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/hosttest"
)

func TestThreeRestoredMembersFormOneCluster(t *testing.T) {
	h := makeHistory(t, 33, 60, 60, false)
	names := []string{"etcd-0", "etcd-1", "etcd-2"}
	var peers []url.URL
	var cluster []string
	for _, n := range names {
		u := url.URL{Scheme: "http", Host: hosttest.Own() + ":2380"}
		peers = append(peers, u)
		cluster = append(cluster, n+"="+u.String())
	}
	root := t.TempDir()
	var wantCluster uint64
	members := map[uint64]bool{}
	for i, n := range names {
		src := Source{Base: reader(h.base), BaseName: "base", Deltas: []Delta{deltaOf("d", between(h.records, h.baseRev+1, h.last))}}
		r, err := Restore(context.Background(), src, Options{}, Target{Dir: filepath.Join(root, n),
			Member: Membership{Name: n, InitialCluster: strings.Join(cluster, ","), Token: "three", PeerURLs: []string{peers[i].String()}}})
		if err != nil {
			t.Fatal(err)
		}
		gotCluster, gotMember, err := WALIdentity(filepath.Join(root, n))
		if err != nil || gotCluster != r.ClusterID || gotMember != r.MemberID {
			t.Errorf("ids %x %x in the log, %x %x reported, %v", gotCluster, gotMember, r.ClusterID, r.MemberID, err)
		}
		if i == 0 {
			wantCluster = r.ClusterID
		}
		if r.ClusterID != wantCluster || members[r.MemberID] {
			t.Errorf("member %d: cluster %x, want %x; member id %x", i, r.ClusterID, wantCluster, r.MemberID)
		}
		members[r.MemberID] = true
	}
	db, err := OpenDir(filepath.Join(root, "etcd-1"))
	if err != nil {
		t.Fatal(err)
	}
	state, err := db.State()
	if err != nil {
		t.Fatal(err)
	}
	db.Close()
	if len(state.Voters) != 3 || len(state.Members) != 3 || state.ConsistentIndex != 3 || state.Term != 1 {
		t.Errorf("state %+v, want 3 voters, 3 members, index 3 in term 1", state)
	}
	var etcds []*embed.Etcd
	for i, n := range names {
		cfg := embed.NewConfig()
		cfg.Dir, cfg.Name = filepath.Join(root, n), n
		cfg.LogLevel, cfg.LogOutputs = "panic", []string{filepath.Join(root, n+".log")}
		any := url.URL{Scheme: "http", Host: "127.0.0.1:0"}
		cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{peers[i]}, []url.URL{peers[i]}
		cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{any}, []url.URL{any}
		cfg.InitialCluster = strings.Join(cluster, ",")
		cfg.UnsafeNoFsync = true
		e, err := embed.StartEtcd(cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		etcds = append(etcds, e)
	}
	for i, e := range etcds {
		select {
		case <-e.Server.ReadyNotify():
		case <-time.After(time.Minute):
			t.Fatalf("member %d is not ready", i)
		}
		c := v3client.New(e.Server)
		s := &server{Etcd: e, c: c}
		if diff := cmp.Diff(h.listing, s.listing(t)); diff != "" {
			t.Errorf("member %d (-source +restored):\n%s", i, diff)
		}
		if uint64(e.Server.Cluster().ID()) != wantCluster {
			t.Errorf("member %d is in cluster %x", i, e.Server.Cluster().ID())
		}
		c.Close()
	}
	c := v3client.New(etcds[2].Server)
	defer c.Close()
	if p, err := c.Put(context.Background(), "new", "value"); err != nil || p.Header.Revision != int64(h.last)+1 {
		t.Errorf("put: %+v, %v", p, err)
	}
}

func TestImpossibleMembershipsAreRefused(t *testing.T) {
	for name, m := range map[string]Membership{
		"no name":               {InitialCluster: "a=http://127.0.0.1:1"},
		"not in the cluster":    {Name: "b", InitialCluster: "a=http://127.0.0.1:1"},
		"no cluster":            {Name: "a"},
		"not a URL":             {Name: "a", InitialCluster: "a=127.0.0.1"},
		"other peer URLs":       {Name: "a", InitialCluster: "a=http://127.0.0.1:1", PeerURLs: []string{"http://127.0.0.1:2"}},
		"two with the same URL": {Name: "a", InitialCluster: "a=http://127.0.0.1:1,b=http://127.0.0.1:1"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			if _, err := Restore(context.Background(), lifeSource(), Options{}, Target{Dir: dir, Member: m}); !errors.Is(err, ErrMembership) {
				t.Errorf("%v, want ErrMembership", err)
			}
			if len(siblings(t, dir)) > 0 {
				t.Error("something was written")
			}
		})
	}
}

// Leases live as long as they should, and no key lives for ever because its lease
// was not in the base.
func TestLeasesGrantedAfterTheBaseComeBack(t *testing.T) {
	ctx := context.Background()
	s := startEtcd(t, filepath.Join(t.TempDir(), "source"))
	w := s.watch()
	grant := func(ttl int64) clientv3.LeaseID {
		l, err := s.c.Grant(ctx, ttl)
		if err != nil {
			t.Fatal(err)
		}
		return l.ID
	}
	put := func(key string, l clientv3.LeaseID) {
		if _, err := s.c.Put(ctx, key, "v", clientv3.WithLease(l)); err != nil {
			t.Fatal(err)
		}
	}
	inBase, known, unknown, dropped, overwritten := grant(1111), clientv3.LeaseID(0), clientv3.LeaseID(0), clientv3.LeaseID(0), clientv3.LeaseID(0)
	put("base", inBase)
	base, at := s.snapshot(t), s.revision(t)
	known, unknown, dropped, overwritten = grant(2222), grant(3333), grant(4444), grant(5555)
	put("known", known)
	put("unknown", unknown)
	put("dropped", dropped)
	put("overwritten", overwritten)
	put("also in the base", inBase)
	if _, err := s.c.Put(ctx, "overwritten", "without a lease"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.c.Revoke(ctx, dropped); err != nil {
		t.Fatal(err)
	}
	last, want := s.revision(t), s.listing(t)
	records := recordsOf(t, collect(t, w, last), received)
	s.stop()
	for _, keep := range []bool{false, true} {
		dir := filepath.Join(t.TempDir(), "restored")
		r := mustRestore(t, Source{Base: reader(base), BaseName: "base", Deltas: []Delta{
			deltaOf("d", between(records, at+1, last), leasesAt(last, map[clientv3.LeaseID]int64{known: 2222}))}},
			Options{LeaseTTL: 777, KeepHistory: keep}, dir)
		if diff := cmp.Diff([]int64{int64(known)}, r.LeasesFound); diff != "" {
			t.Errorf("leases found (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]int64{int64(unknown)}, r.LeasesMade); diff != "" {
			t.Errorf("leases made (-want +got):\n%s", diff)
		}
		s := startEtcd(t, dir)
		if diff := cmp.Diff(want, s.listing(t)); diff != "" {
			t.Errorf("state (-source +restored):\n%s", diff)
		}
		for id, c := range map[clientv3.LeaseID]struct {
			ttl  int64
			keys int
		}{inBase: {1111, 2}, known: {2222, 1}, unknown: {snapshot.MaxLeaseTTL, 1}} {
			got, err := s.c.TimeToLive(ctx, id, clientv3.WithAttachedKeys())
			if err != nil || got.GrantedTTL != c.ttl || len(got.Keys) != c.keys {
				t.Errorf("lease %x: %+v, %v; want %d s and %d keys", id, got, err, c.ttl, c.keys)
			}
		}
		if _, err := s.c.Revoke(ctx, unknown); err != nil {
			t.Error(err)
		}
		if got, err := s.c.Get(ctx, "unknown"); err != nil || len(got.Kvs) > 0 {
			t.Errorf("the key outlives its lease: %v, %v", got, err)
		}
		s.stop()
	}
}

// leasesAt is a record of leases at a revision.
func leasesAt(rev snapshot.Revision, ttls map[clientv3.LeaseID]int64) snapshot.LeaseRecord {
	r := snapshot.LeaseRecord{Revision: rev}
	for id, ttl := range ttls {
		r.States = append(r.States, snapshot.LeaseState{ID: int64(id), TTL: ttl})
	}
	slices.SortFunc(r.States, func(a, b snapshot.LeaseState) int { return snapshot.CompareLeases(a.ID, b.ID) })
	return r
}

func TestHashKVOfADatabaseIsThatOfItsEtcd(t *testing.T) {
	for _, compacted := range []bool{false, true} {
		h := makeHistory(t, 41, 120, 1, compacted)
		path := filepath.Join(t.TempDir(), "db")
		if err := os.WriteFile(path, h.base[:len(h.base)-32], 0o600); err != nil {
			t.Fatal(err)
		}
		db, err := OpenDB(path)
		if err != nil {
			t.Fatal(err)
		}
		got, keys, err := db.HashKV(context.Background(), 0, 0, t.TempDir())
		if err != nil || got != h.baseHash {
			t.Errorf("compacted %v: HashKV %+v, %v; etcd's %+v", compacted, got, err, h.baseHash)
		}
		if want := int64(strings.Count(stateAt(h.events, h.baseRev), "\n")); keys != want {
			t.Errorf("%d keys, want %d", keys, want)
		}
		var wrong *TargetError
		if _, _, err := db.HashKV(context.Background(), db.Revision()+1, 0, t.TempDir()); !errors.As(err, &wrong) {
			t.Errorf("a future revision: %v", err)
		}
		if err := db.Check(context.Background()); err != nil {
			t.Error(err)
		}
		db.Close()
	}
}

func TestAnIdentityIsReplacedWhole(t *testing.T) {
	dir := t.TempDir()
	if _, err := ReadIdentity(dir); !errors.Is(err, ErrNoIdentity) {
		t.Errorf("%v, want ErrNoIdentity", err)
	}
	if err := os.Mkdir(filepath.Join(dir, "member"), 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		want := Identity{Lineage: snapshot.Lineage{ID: snapshot.LineageID(fmt.Sprint("id-", i)), Parent: "p", Fork: 7}, Owner: "o"}
		if err := WriteIdentity(dir, want); err != nil {
			t.Fatal(err)
		}
		got, err := ReadIdentity(dir)
		if err != nil || got != want {
			t.Errorf("%+v, %v; want %+v", got, err, want)
		}
	}
	if left := siblings(t, filepath.Join(dir, "member", "x")); len(left) != 1 {
		t.Errorf("%v is left over", left)
	}
	if err := WriteIdentity(dir, Identity{}); err == nil {
		t.Error("an identity without a lineage was written")
	}
	if err := os.WriteFile(filepath.Join(dir, IdentityFile), []byte(`{}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadIdentity(dir); err == nil || errors.Is(err, ErrNoIdentity) {
		t.Errorf("a file without a lineage: %v", err)
	}
}
