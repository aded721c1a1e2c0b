package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"druid.internal/druid/test/history"
	"druid.internal/druid/test/stores"
)

// TestARevisionLargerThanEtcdsLimitsRestores has more operations in one revision than etcd
// allows by default, more than ten times the usual bytes, and one of 40 MB.
func TestARevisionLargerThanEtcdsLimitsRestores(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"native", "v2-json"} {
		t.Run(format, func(t *testing.T) {
			w := newWorldWith(t, stores.EtcdOptions{Flags: []string{"--max-txn-ops=50000", "--max-request-bytes=67108864"}}, 71, 60)
			w.useLocal(t.TempDir())
			r := w.snapshot("--data-dir="+w.etcd.DataDir(), "--snapshot-format="+format)
			w.uploaded(r, w.write(20))
			src := rand.New(rand.NewSource(71))
			random := func(n int) string {
				b := make([]byte, n)
				src.Read(b)
				return string(b)
			}
			for _, c := range []struct{ ops, bytes int }{{12_000, 1000}, {40, 1_000_000}, {1, 3_000_000}} {
				var ops []clientv3.Op
				for i := range c.ops {
					ops = append(ops, clientv3.OpPut(fmt.Sprintf("/many/%05d", i), random(c.bytes)))
				}
				if _, err := w.client.Txn(t.Context()).Then(ops...).Commit(); err != nil {
					t.Fatal(err)
				}
			}
			// And as many deleted at once.
			if _, err := w.client.Delete(t.Context(), "/many/1", clientv3.WithPrefix()); err != nil {
				t.Fatal(err)
			}
			last := w.write(20)
			w.uploaded(r, last)
			r.stop()
			dir, err := w.restore()
			if err != nil {
				t.Fatal(err)
			}
			w.check(dir, last)
			w.boots(dir, last)
		})
	}
}

// TestLeasesOfDeltasLiveInTheRestoredEtcdAndExpire backs up while leases are granted, kept alive
// and run out.
func TestLeasesOfDeltasLiveInTheRestoredEtcdAndExpire(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 72, 60)
	w.useLocal(t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	grant := func(key string, ttl int64, keep bool) clientv3.LeaseID {
		g, err := w.client.Grant(ctx, ttl)
		if err != nil {
			t.Fatal(err)
		}
		if keep {
			alive, err := w.client.KeepAlive(ctx, g.ID)
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				for range alive {
				}
			}()
		}
		if _, err := w.client.Put(ctx, key, "leased", clientv3.WithLease(g.ID)); err != nil {
			t.Fatal(err)
		}
		return g.ID
	}
	inFull := grant("/lease/in the full", 3600, false)
	r := w.snapshot("--data-dir=" + w.etcd.DataDir())
	w.uploaded(r, w.write(10))
	inDelta := grant("/lease/in a delta", 3600, false)
	short := grant("/lease/short", 10, true)
	grant("/lease/expires meanwhile", 1, false)
	eventually(t, "the lease of one second has run out", r.ended, r.log.String, func() bool {
		got, err := w.client.Get(ctx, "/lease/expires meanwhile")
		return err == nil && got.Count == 0
	})
	last := w.write(10)
	w.uploaded(r, last)
	r.stop()
	cancel()

	dir, err := w.restore()
	if err != nil {
		t.Fatal(err)
	}
	w.check(dir, last)
	e := stores.RunEtcd(t, stores.EtcdOptions{DataDir: dir})
	c := connect(t, e)
	for _, id := range []clientv3.LeaseID{inFull, inDelta, short} {
		ttl, err := c.TimeToLive(t.Context(), id, clientv3.WithAttachedKeys())
		if err != nil || ttl.TTL <= 0 || len(ttl.Keys) != 1 {
			t.Errorf("lease %x in the restored etcd: %+v, %v", id, ttl, err)
		}
		if want := int64(3600); id != short && ttl.GrantedTTL != want {
			t.Errorf("lease %x is granted for %d s, want %d", id, ttl.GrantedTTL, want)
		}
	}
	gone := make(chan struct{})
	eventually(t, "the short lease has run out in the restored etcd, too", gone, e.Members[0].Log, func() bool {
		got, err := c.Get(t.Context(), "/lease/short")
		return err == nil && got.Count == 0
	})
	got, err := c.Get(t.Context(), "/lease/", clientv3.WithPrefix())
	if err != nil || got.Count != 2 {
		t.Errorf("%d leased keys are left, want the two with an hour to live: %v", got.Count, err)
	}
}

// TestAnEtcdWithUsersAndClientCertificatesIsBackedUpAndKeepsItsUsers needs certificate, user and
// password to be read.
func TestAnEtcdWithUsersAndClientCertificatesIsBackedUpAndKeepsItsUsers(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, stores.EtcdOptions{TLS: true}, 73, 60)
	w.useLocal(t.TempDir())
	w.write(30)
	ctx := t.Context()
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := w.client.RoleAdd(ctx, "reader")
	do(err)
	_, err = w.client.RoleGrantPermission(ctx, "reader", "/registry/", clientv3.GetPrefixRangeEnd("/registry/"), clientv3.PermissionType(clientv3.PermRead))
	do(err)
	for user, role := range map[string]string{"root": "root", "app": "reader"} {
		_, err = w.client.UserAdd(ctx, user, user+"-secret")
		do(err)
		_, err = w.client.UserGrantRole(ctx, user, role)
		do(err)
	}
	_, err = w.client.AuthEnable(ctx)
	do(err)

	tls := []string{"--cacert=" + w.etcd.CAFile, "--cert=" + w.etcd.CertFile, "--key=" + w.etcd.KeyFile}
	endpoint := "--endpoints=" + w.etcd.Endpoint()
	for what, args := range map[string][]string{
		"no certificate":  {endpoint, "--cacert=" + w.etcd.CAFile, "--etcd-username=root", "--etcd-password=root-secret"},
		"no CA":           {endpoint, tls[1], tls[2], "--etcd-username=root", "--etcd-password=root-secret"},
		"wrong password":  append([]string{endpoint, "--etcd-username=root", "--etcd-password=guess"}, tls...),
		"nobody's name":   append([]string{endpoint, "--etcd-username=nobody", "--etcd-password=guess"}, tls...),
		"a mere reader":   append([]string{endpoint, "--etcd-username=app", "--etcd-password=app-secret"}, tls...),
		"nobody answers":  append([]string{"--endpoints=https://127.0.0.1:1", "--etcd-username=root", "--etcd-password=root-secret"}, tls...),
		"no user at all":  append([]string{endpoint}, tls...),
		"plain transport": {"--endpoints=http://" + strings.TrimPrefix(w.etcd.Endpoint(), "https://"), "--etcd-username=root", "--etcd-password=root-secret"},
	} {
		line := w.fails(5, "snapshot", append(args, "--backoff-attempt-limit=1", "--etcd-connection-timeout=3s")...)
		if strings.Contains(line, "secret") || strings.Contains(line, "guess") {
			t.Errorf("%s: the password is told: %s", what, line)
		}
		if l := w.list(); len(l.Lineages) > 0 {
			t.Errorf("%s: something was written: %+v", what, l)
		}
	}

	root, err := clientv3.New(clientv3.Config{Endpoints: w.etcd.Endpoints(), TLS: w.etcd.ClientTLS, DialTimeout: 10 * time.Second, Username: "root", Password: "root-secret"})
	do(err)
	defer root.Close()
	w.load = history.NewLoad(root, 74, 60)
	last := w.backup(60, append(tls, "--etcd-username=root", "--etcd-password=root-secret")...)

	dir, report := w.mustRestore()
	w.check(dir, last)
	if !report.AuthEnabled {
		t.Error("the report does not say that users are kept")
	}
	says(t, w.succeeds("restore", append([]string{"--data-dir=" + filepath.Join(t.TempDir(), "again")}, alone...)...), "auth", "later changes are lost")

	e := stores.RunEtcd(t, stores.EtcdOptions{DataDir: dir})
	if _, err := connect(t, e).Get(ctx, "/registry/"); !errors.Is(err, rpctypes.ErrUserEmpty) {
		t.Errorf("without a user the restored etcd answers %v, want %v", err, rpctypes.ErrUserEmpty)
	}
	app, err := clientv3.New(clientv3.Config{Endpoints: e.Endpoints(), DialTimeout: 10 * time.Second, Username: "app", Password: "app-secret"})
	do(err)
	defer app.Close()
	if _, err := app.Get(ctx, "/registry/", clientv3.WithPrefix()); err != nil {
		t.Errorf("the reader reads: %v", err)
	}
	if _, err := app.Put(ctx, "/registry/x", "y"); !errors.Is(err, rpctypes.ErrPermissionDenied) {
		t.Errorf("the reader writes: %v, want %v", err, rpctypes.ErrPermissionDenied)
	}
}

func TestANoSpaceAlarmIsClearedWhereTheRestoredDataFit(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, stores.EtcdOptions{QuotaBytes: 4 << 20}, 75, 60)
	w.useLocal(t.TempDir())
	big := strings.Repeat("x", 500_000)
	full := false
	for i := 0; i < 40 && !full; i++ {
		put, err := w.client.Put(t.Context(), fmt.Sprintf("/big/%d", i%3), big)
		if err == nil {
			err = w.history.Reach(put.Header.Revision)
		}
		if full = errors.Is(err, rpctypes.ErrNoSpace); err != nil && !full {
			t.Fatal(err)
		}
	}
	if !full {
		t.Fatal("etcd has no limit")
	}
	last := w.backup(0)
	dir, report := w.mustRestore("--embedded-etcd-quota-bytes=4194304")
	if len(report.AlarmsCleared) != 1 || !strings.Contains(report.AlarmsCleared[0], "NOSPACE") {
		t.Errorf("alarms cleared %q, want NOSPACE", report.AlarmsCleared)
	}
	w.check(dir, last)
	e := stores.RunEtcd(t, stores.EtcdOptions{DataDir: dir, QuotaBytes: 4 << 20})
	c := connect(t, e)
	if alarms, err := c.AlarmList(t.Context()); err != nil || len(alarms.Alarms) > 0 {
		t.Errorf("alarms of the restored etcd: %v, %v", alarms, err)
	}
	if _, err := c.Put(t.Context(), "/after", "restore"); err != nil {
		t.Errorf("the restored etcd accepts no writes: %v", err)
	}
	// What still does not fit keeps the alarm.
	_, report = w.mustRestore("--embedded-etcd-quota-bytes=1000000")
	if len(report.AlarmsKept) != 1 || len(report.AlarmsCleared) != 0 {
		t.Errorf("above its quota: cleared %q, kept %q", report.AlarmsCleared, report.AlarmsKept)
	}
}

func TestThreeMembersRestoredFromOneBucketAgree(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 76, 60)
	w.useLocal(t.TempDir())
	last := w.backup(120)
	line := w.fails(2, "restore", "--data-dir="+t.TempDir()+"/x", "--name=a", "--initial-cluster=a=http://127.0.0.1:1,b=http://127.0.0.1:2", "--initial-advertise-peer-urls=http://127.0.0.1:1")
	says(t, line, "--new-lineage", "--initial-cluster-token")

	e := stores.RunEtcd(t, stores.EtcdOptions{Members: 3, Dir: t.TempDir(), Prepare: func(members []*stores.Member) error {
		var cluster []string
		for _, m := range members {
			cluster = append(cluster, m.Name+"="+m.PeerURL)
		}
		for _, m := range members {
			if err := os.RemoveAll(m.DataDir); err != nil {
				return err
			}
			w.succeeds("restore", "--data-dir="+m.DataDir, "--name="+m.Name, "--initial-cluster="+strings.Join(cluster, ","),
				"--initial-advertise-peer-urls="+m.PeerURL, "--initial-cluster-token=together", "--new-lineage=00112233445566778899aabbccddeeff")
		}
		return nil
	}})
	kvs, rev := served(t, e)
	if diff := history.Diff(kvs, w.history.At(last)); rev != last || len(diff) > 0 {
		t.Errorf("at revision %d, want %d: %q", rev, last, diff)
	}
	c := connect(t, e)
	var put *clientv3.PutResponse
	eventually(t, "the members take a write", nil, e.Members[0].Log, func() (is bool) {
		var err error
		put, err = c.Put(t.Context(), "/after", "restore")
		return err == nil
	})
	var hashes []uint32
	for _, endpoint := range e.Endpoints() {
		eventually(t, "the member has the write", nil, func() string { return endpoint }, func() bool {
			s, err := c.Status(t.Context(), endpoint)
			return err == nil && s.Header.Revision >= put.Header.Revision
		})
		h, err := c.HashKV(t.Context(), endpoint, put.Header.Revision)
		if err != nil {
			t.Fatal(err)
		}
		hashes = append(hashes, h.Hash)
	}
	if len(slices.Compact(hashes)) != 1 {
		t.Errorf("hashes %v: the members do not agree", hashes)
	}
	eventually(t, "all members follow the same leader", nil, e.Members[0].Log, func() bool {
		leaders := map[uint64]bool{}
		for _, endpoint := range e.Endpoints() {
			s, err := c.Status(t.Context(), endpoint)
			if err != nil {
				return false
			}
			leaders[s.Leader] = true
		}
		return len(leaders) == 1 && !leaders[0]
	})
	members, err := c.MemberList(t.Context())
	if err != nil || len(members.Members) != 3 {
		t.Errorf("members %v, %v", members, err)
	}
}

// TestABumpedRestoreNeverGoesBackInTime restores an old state with --bump-revision=auto: who
// watched the lost cluster is told to list again, and no revision is ever used twice.
func TestABumpedRestoreNeverGoesBackInTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 77, 60)
	w.useLocal(t.TempDir())
	old := w.backup(60)
	newest := w.backup(60)
	dir, report := w.mustRestore(fmt.Sprintf("--to-revision=%d", old), "--bump-revision=auto")
	if report.Plan.BumpBy < 1_000_000_000 {
		t.Errorf("bumped by %d, want at least 10^9", report.Plan.BumpBy)
	}
	e := stores.RunEtcd(t, stores.EtcdOptions{DataDir: dir})
	c := connect(t, e)
	kvs, rev := served(t, e)
	if diff := history.Diff(kvs, w.history.At(old)); len(diff) > 0 {
		t.Errorf("the key space differs: %q", diff)
	}
	if rev <= newest {
		t.Errorf("the restored etcd is at %d, the lost one was at %d", rev, newest)
	}
	ctx, cancel := context.WithTimeout(t.Context(), waitAtMost)
	defer cancel()
	for _, from := range []int64{old + 1, newest, newest + 1, rev - 1} {
		watch := <-c.Watch(ctx, "/", clientv3.WithPrefix(), clientv3.WithRev(from))
		if !errors.Is(watch.Err(), rpctypes.ErrCompacted) {
			t.Errorf("a watch from revision %d gets %v, want %v", from, watch.Err(), rpctypes.ErrCompacted)
		}
	}
	put, err := c.Put(t.Context(), "/after", "restore")
	if err != nil || put.Header.Revision <= newest {
		t.Errorf("the first write has revision %d, want above %d: %v", put.Header.Revision, newest, err)
	}
	watch := <-c.Watch(ctx, "/after", clientv3.WithRev(rev+1))
	if watch.Err() != nil || len(watch.Events) != 1 {
		t.Errorf("a watch from where the restored etcd begins: %+v", watch)
	}
	_, report = w.mustRestore("--bump-revision=auto", "--last-known-revision=9000000000")
	if got := report.Plan.BumpBy + newest; got <= 9_000_000_000 {
		t.Errorf("bumped to %d, revision 9000000000 was known elsewhere", got)
	}
}
