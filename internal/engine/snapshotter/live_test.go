package snapshotter

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"

	"druid.internal/druid/internal/backup/restoreplan"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/engine/replay"
	"druid.internal/druid/internal/engine/restorer"
	"druid.internal/druid/internal/etcd/codec"
	"druid.internal/druid/internal/etcd/datadir"
	"druid.internal/druid/internal/store"
)

// liveState is everything that clients see of an etcd.
type liveState struct {
	Keys   []string
	Leases map[int64]leaseOf
	Users  map[string][]string // with their roles
	Roles  map[string][]string // with their permissions
	Auth   bool
	Alarms int
}

type leaseOf struct {
	Granted int64
	Keys    []string
}

// state reads e through its API, the keys at revision rev; 0: now.
func (e *etcd) state(rev snapshot.Revision) liveState {
	e.t.Helper()
	s := liveState{Leases: map[int64]leaseOf{}, Users: map[string][]string{}, Roles: map[string][]string{}}
	ctx, c := e.t.Context(), e.client
	must := func(err error) {
		if err != nil {
			e.t.Helper()
			e.t.Fatal(err)
		}
	}
	kvs, err := c.Get(ctx, "\x00", clientv3.WithFromKey(), clientv3.WithRev(int64(rev)))
	must(err)
	for _, kv := range kvs.Kvs {
		s.Keys = append(s.Keys, (*mvccpb.KeyValue)(kv).String())
	}
	leases, err := c.Leases(ctx)
	must(err)
	for _, l := range leases.Leases {
		ttl, err := c.TimeToLive(ctx, l.ID, clientv3.WithAttachedKeys())
		must(err)
		of := leaseOf{Granted: ttl.GrantedTTL}
		for _, k := range ttl.Keys {
			of.Keys = append(of.Keys, string(k))
		}
		slices.Sort(of.Keys)
		s.Leases[int64(l.ID)] = of
	}
	users, err := c.UserList(ctx)
	must(err)
	for _, name := range users.Users {
		u, err := c.UserGet(ctx, name)
		must(err)
		s.Users[name] = u.Roles
	}
	roles, err := c.RoleList(ctx)
	must(err)
	for _, name := range roles.Roles {
		r, err := c.RoleGet(ctx, name)
		must(err)
		for _, p := range r.Perm {
			s.Roles[name] = append(s.Roles[name], p.String())
		}
	}
	auth, err := c.AuthStatus(ctx)
	must(err)
	s.Auth = auth.Enabled
	alarms, err := c.AlarmList(ctx)
	must(err)
	s.Alarms = len(alarms.Alarms)
	return s
}

// restored is an etcd on what the bucket holds for the target.
func restored(t *testing.T, s store.Store, target restoreplan.Target) (*etcd, *restorer.Result) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "restored")
	q := restorer.Request{
		From: replay.Options{Store: s, Timeline: read(t, s).Timeline, Target: target, Log: slog.New(slog.DiscardHandler)},
		Dir:  dir, Member: datadir.Membership{Name: "default", InitialCluster: "default=http://127.0.0.1:2380", Token: "restored"},
		NewLineage: "ffffffffffffffffffffffffffffffff", MemoryLimit: datadir.MinMemoryLimit,
	}
	plan, err := restorer.Decide(q)
	if err != nil {
		t.Fatal(err)
	}
	result, err := restorer.Run(t.Context(), q, plan)
	if err != nil {
		t.Fatal(err)
	}
	cfg := embed.NewConfig()
	cfg.Dir = dir
	return runEtcd(t, cfg), result
}

// wantLeases compares the leases of live with those that come back.
func wantLeases(t *testing.T, live liveState, s store.Store, target restoreplan.Target) *restorer.Result {
	t.Helper()
	e, result := restored(t, s, target)
	defer e.close()
	if diff := cmp.Diff(live.Leases, e.state(0).Leases); diff != "" {
		t.Errorf("leases: -live +restored\n%s", diff)
	}
	return result
}

// eachFormat runs a test with both encodings of deltas.
func eachFormat(t *testing.T, test func(t *testing.T, cfg func(*etcd, store.Store) Config)) {
	for _, format := range []codec.Format{codec.Native, codec.V2JSON} {
		t.Run(string(format), func(t *testing.T) {
			t.Parallel()
			test(t, func(e *etcd, s store.Store) Config {
				c := config(e, s)
				c.Format, c.DeltaPeriod = format, time.Hour
				return c
			})
		})
	}
}

// writer does random requests and remembers what the leases were after each.
type writer struct {
	*etcd
	r        *rand.Rand
	leases   map[int64]int64 // granted seconds
	past     []leaseMoment
	compact  snapshot.Revision
	authDone bool // users and roles changed since the last full, and are in no delta
}

type leaseMoment struct {
	rev    snapshot.Revision
	leases map[int64]int64
}

func (w *writer) key() string { return fmt.Sprintf("key/%02d", w.r.IntN(40)) }

// lease is one that exists, 0 if there is none.
func (w *writer) lease() clientv3.LeaseID {
	ids := slices.Sorted(maps.Keys(w.leases))
	if len(ids) == 0 {
		return 0
	}
	return clientv3.LeaseID(ids[w.r.IntN(len(ids))])
}

func (w *writer) grant(id clientv3.LeaseID) error {
	return w.grantFor(id, int64(3600+w.r.IntN(100_000)))
}

func (w *writer) grantFor(id clientv3.LeaseID, ttl int64) error {
	g, err := pb.NewLeaseClient(w.client.ActiveConnection()).LeaseGrant(w.t.Context(), &pb.LeaseGrantRequest{ID: int64(id), TTL: ttl})
	if err == nil {
		w.leases[g.ID] = ttl
	}
	return err
}

func (w *writer) revoke(id clientv3.LeaseID) error {
	_, err := w.client.Revoke(w.t.Context(), id)
	delete(w.leases, int64(id))
	return err
}

// step does one request.
func (w *writer) step() {
	w.t.Helper()
	ctx, c := w.t.Context(), w.client
	var err error
	switch x := w.r.IntN(100); {
	case x < 25:
		_, err = c.Put(ctx, w.key(), fmt.Sprint(w.r.Uint32()))
	case x < 32:
		_, err = c.Delete(ctx, w.key())
	case x < 34:
		_, err = c.Delete(ctx, fmt.Sprintf("key/%d", w.r.IntN(4)), clientv3.WithPrefix())
	case x < 40:
		first, second := w.key(), w.key()+"/x"
		_, err = c.Txn(ctx).Then(clientv3.OpPut(first, "txn", clientv3.WithLease(w.lease())), clientv3.OpDelete(second)).Commit()
	case x < 43:
		if w.compact = max(w.compact, w.revision()-snapshot.Revision(w.r.IntN(30))); w.compact > 1 {
			_, _ = c.Compact(ctx, int64(w.compact)) // it may be compacted already
		}
	case x < 50:
		err = w.grant(0)
	case x < 55: // an id that clients choose, in either half of the order
		if id := clientv3.LeaseID(7 - w.r.IntN(14)); id != 0 && w.leases[int64(id)] == 0 {
			err = w.grant(id)
		}
	case x < 75:
		_, err = c.Put(ctx, w.key(), "leased", clientv3.WithLease(w.lease())) // attaches, or has another lease
	case x < 80:
		_, err = c.Put(ctx, w.key(), "free") // detaches
	case x < 85:
		if id := w.lease(); id != 0 {
			err = w.revoke(id)
		}
	case x < 93: // granted again under the same id, with and without keys
		if id := w.lease(); id != 0 {
			if err = w.revoke(id); err == nil {
				err = w.grant(id)
			}
			if err == nil && w.r.IntN(2) == 0 {
				_, err = c.Put(ctx, w.key(), "again", clientv3.WithLease(id))
			}
		}
	case x < 95: // granted, used and revoked at once
		if err = w.grant(4711); err == nil {
			if _, err = c.Put(ctx, w.key(), "short", clientv3.WithLease(4711)); err == nil {
				err = w.revoke(4711)
			}
		}
	case x < 97:
		if id := w.lease(); id != 0 {
			_, err = c.KeepAliveOnce(ctx, id)
		}
	default:
		w.authDone = true
		err = w.changeAuth(ctx)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.past = append(w.past, leaseMoment{w.revision(), maps.Clone(w.leases)})
}

// alarm has etcd accept no more writes.
func (w *writer) alarm() {
	w.t.Helper()
	_, err := pb.NewMaintenanceClient(w.client.ActiveConnection()).Alarm(w.t.Context(), &pb.AlarmRequest{
		Action: pb.AlarmRequest_ACTIVATE, MemberID: uint64(w.server.Server.MemberID()), Alarm: pb.AlarmType_NOSPACE})
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *writer) changeAuth(ctx context.Context) error {
	name := fmt.Sprint("n", w.r.IntN(5))
	users, err := w.client.UserList(ctx)
	if err != nil {
		return err
	}
	roles, err := w.client.RoleList(ctx)
	if err != nil {
		return err
	}
	switch {
	case !slices.Contains(roles.Roles, name):
		if _, err = w.client.RoleAdd(ctx, name); err == nil {
			_, err = w.client.RoleGrantPermission(ctx, name, w.key(), "", clientv3.PermissionType(clientv3.PermReadWrite))
		}
	case !slices.Contains(users.Users, name):
		if _, err = w.client.UserAdd(ctx, name, fmt.Sprint(w.r.Uint32())); err == nil {
			_, err = w.client.UserGrantRole(ctx, name, name)
		}
	case w.r.IntN(2) == 0:
		_, err = w.client.UserDelete(ctx, name)
	default:
		_, err = w.client.RoleDelete(ctx, name)
	}
	return err
}

// ttlAt is the granted time to live of a lease that had keys at revision rev; 0: it ended within the same step.
func (w *writer) ttlAt(rev snapshot.Revision, id int64) int64 {
	for _, m := range w.past {
		if m.rev >= rev {
			return m.leases[id]
		}
	}
	return 0
}

// TestRestoredEtcdEqualsLive compares a live etcd with a restored one after random requests, with snapshotters that
// come and go: at the newest revision everything, at revisions in the middle of a delta all that revisions tell.
func TestRestoredEtcdEqualsLive(t *testing.T) {
	eachFormat(t, func(t *testing.T, cfg func(*etcd, store.Store) Config) {
		for seed := range uint64(2) {
			t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
				t.Parallel()
				s := memory()
				w := &writer{etcd: newEtcd(t), r: rand.New(rand.NewPCG(seed, 32)), leases: map[int64]int64{}}
				for range 30 {
					w.step()
				}
				r := start(t, cfg(w.etcd, s))
				r.full(false)
				w.authDone = false
				for range 8 {
					base := w.revision()
					for range 10 + w.r.IntN(40) {
						w.step()
					}
					switch w.r.IntN(6) {
					case 0:
						r.stop()
						w.step()
						r = start(t, cfg(w.etcd, s))
					case 1:
						r.delta()
						w.step()
					}
					if w.authDone { // whoever stops takes a full of the users
						if err := r.stop(); err != nil {
							t.Fatal(err)
						}
						r = start(t, cfg(w.etcd, s))
						w.authDone = false
					}
					w.put(1)
					r.delta()
					w.compare(s, base)
				}
				w.alarm()
				r.full(false)
				live := w.state(0)
				e, result := restored(t, s, restoreplan.Latest())
				got := e.state(0)
				got.Alarms += len(result.Restored.AlarmsCleared) // as the database is far below its quota
				if diff := cmp.Diff(live, got, cmpopts.EquateEmpty()); diff != "" || live.Alarms != 1 {
					t.Errorf("with %d alarms: -live +restored\n%s", live.Alarms, diff)
				}
			})
		}
	})
}

// compare compares the newest state, and one of a revision since base.
func (w *writer) compare(s store.Store, base snapshot.Revision) {
	w.t.Helper()
	live := w.state(0)
	e, result := restored(w.t, s, restoreplan.Latest())
	if diff := cmp.Diff(live, e.state(0), cmpopts.EquateEmpty()); diff != "" {
		w.t.Errorf("at revision %d: -live +restored\n%s", w.revision(), diff)
	}
	if len(result.Restored.LeasesMade) > 0 {
		w.t.Errorf("at revision %d nothing tells of the leases %x", w.revision(), result.Restored.LeasesMade)
	}
	e.close()
	lowest := max(base, w.compact)
	if w.revision() <= lowest {
		return
	}
	target := lowest + snapshot.Revision(w.r.IntN(int(w.revision()-lowest))) + 1
	live = w.state(target)
	e, result = restored(w.t, s, restoreplan.AtRevision(target))
	defer e.close()
	got := e.state(0)
	if diff := cmp.Diff(live.Keys, got.Keys); diff != "" {
		w.t.Errorf("keys at revision %d: -live +restored\n%s", target, diff)
	}
	for id, l := range got.Leases {
		if len(l.Keys) == 0 {
			continue
		}
		if slices.Contains(result.Restored.LeasesMade, id) {
			if l.Granted != snapshot.MaxLeaseTTL {
				w.t.Errorf("at revision %d lease %x has %d s, and nothing tells how many", target, id, l.Granted)
			}
			continue
		}
		if want := w.ttlAt(target, id); l.Granted < want {
			w.t.Errorf("at revision %d lease %x has %d s, want %d or more", target, id, l.Granted, want)
		}
	}
	for _, kv := range got.Keys {
		if _, lease, leased := strings.Cut(kv, "lease:"); leased {
			var id int64
			if _, err := fmt.Sscan(lease, &id); err != nil || got.Leases[id].Granted == 0 {
				w.t.Errorf("at revision %d the lease of %s is missing (%v)", target, kv, err)
			}
		}
	}
}
