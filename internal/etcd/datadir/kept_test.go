package datadir

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/etcd/api/v3/etcdserverpb"

	"druid.internal/druid/internal/etcd/datadir/boltfile"
)

func TestAlarmsUsersAndVersionsOfTheBaseAreReported(t *testing.T) {
	ctx := context.Background()
	s := startEtcd(t, filepath.Join(t.TempDir(), "source"))
	for _, err := range []error{
		second(s.c.Put(ctx, "k", "v")), second(s.c.RoleAdd(ctx, "root")), second(s.c.UserAdd(ctx, "root", "secret")),
		second(s.c.UserGrantRole(ctx, "root", "root")), second(s.c.AuthEnable(ctx)),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, a := range []etcdserverpb.AlarmType{etcdserverpb.AlarmType_NOSPACE, etcdserverpb.AlarmType_CORRUPT} {
		if _, err := s.Server.Alarm(ctx, &etcdserverpb.AlarmRequest{Action: etcdserverpb.AlarmRequest_ACTIVATE, MemberID: uint64(s.Server.MemberID()), Alarm: a}); err != nil {
			t.Fatal(err)
		}
	}
	// Not the snapshot stream: that is for authenticated users now.
	s.stop()
	r, _, err := NewSnapshotReader(databasePath(s.dir))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	out := filepath.Join(t.TempDir(), "full")
	report, err := Rebuild(ctx, Source{Base: r, BaseName: "base"}, Options{}, out)
	if err != nil {
		t.Fatal(err)
	}
	if !report.AuthEnabled || len(report.AlarmsCleared) != 1 || !strings.HasPrefix(report.AlarmsCleared[0], "NOSPACE") ||
		len(report.AlarmsKept) != 1 || !strings.HasPrefix(report.AlarmsKept[0], "CORRUPT") {
		t.Errorf("report %+v", report)
	}
	db, err := OpenDB(out)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	state, err := db.State()
	if err != nil {
		t.Fatal(err)
	}
	if !state.AuthEnabled || len(state.Alarms) != 1 || len(state.Members) != 1 || state.Members[0].Name != "default" || state.ClusterVersion != "3.6.0" {
		t.Errorf("state %+v", state)
	}
	t.Run("a NOSPACE alarm stays above the quota", func(t *testing.T) {
		r, _, err := NewSnapshotReader(databasePath(s.dir))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		report, err := Rebuild(ctx, Source{Base: r, BaseName: "base"}, Options{QuotaBytes: 1}, filepath.Join(t.TempDir(), "full"))
		if err != nil || len(report.AlarmsCleared) != 0 || len(report.AlarmsKept) != 2 {
			t.Errorf("%+v, %v", report, err)
		}
	})
	t.Run("authentication is in force after a restore", func(t *testing.T) {
		r, _, err := NewSnapshotReader(out)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		dir := filepath.Join(t.TempDir(), "restored")
		mustRestore(t, Source{Base: r, BaseName: "full"}, Options{}, dir)
		s := startEtcd(t, dir)
		users, err := s.Server.AuthStore().UserList(&etcdserverpb.AuthUserListRequest{})
		if err != nil || !s.Server.AuthStore().IsAuthEnabled() || !slices.Contains(users.Users, "root") {
			t.Errorf("authentication is lost: %v, %v", users, err)
		}
	})
}

// What this package does not know is copied as it is.
func TestTheRestOfTheBaseIsKept(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "base")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w, now := boltfile.NewWriter(f, nil), ""
	for _, r := range [][3]string{
		{keyBucket}, {"tomorrow", "some", "thing"}, {clusterBucket, clusterVersion, "3.6.0"},
		{clusterBucket, downgrade, `{"target-version":"3.5.0","enabled":true}`},
		{membersBucket, "8e9e05c52164694d", `{"id":10276657743932975437,"peerURLs":["http://old:2380"],"name":"old"}`},
		{membersRemovedBucket, "9e9e05c52164694d", "removed"},
		{metaBucket, storageVersion, "3.6.0"}, {metaBucket, "unheard of", "value"},
	} {
		if now != r[0] {
			now = r[0]
			w.Begin(now)
		}
		if r[1] != "" {
			if err := w.Put([]byte(r[1]), []byte(r[2])); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := errors.Join(w.Finish(), f.Close()); err != nil {
		t.Fatal(err)
	}
	source := func() Source {
		r, _, err := NewSnapshotReader(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.Close() })
		return Source{Base: r, BaseName: "base", Deltas: lifeSource().Deltas}
	}
	dump := func(path string, buckets ...string) map[string]string {
		r, err := boltfile.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		all := map[string]string{}
		for _, name := range buckets {
			b, _ := r.Bucket(name)
			if err := b.Each(nil, func(k, v []byte) error {
				all[name+"/"+string(k)] = string(v)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		return all
	}
	out := filepath.Join(dir, "out")
	r, err := Rebuild(context.Background(), source(), Options{}, out)
	if err != nil {
		t.Fatal(err)
	}
	if r.DowngradeTo != "3.5.0" {
		t.Errorf("downgrade to %q", r.DowngradeTo)
	}
	same := []string{"tomorrow", clusterBucket, membersBucket, membersRemovedBucket}
	if diff := cmp.Diff(dump(path, same...), dump(out, same...)); diff != "" {
		t.Errorf("other buckets (-base +rebuilt):\n%s", diff)
	}
	mark := string(appendRevision(nil, 9, 0, false))
	wantMeta := map[string]string{"meta/" + storageVersion: "3.6.0", "meta/unheard of": "value", "meta/" + finishedCompact: mark, "meta/" + scheduledCompact: mark}
	if diff := cmp.Diff(wantMeta, dump(out, metaBucket)); diff != "" {
		t.Errorf("meta (-want +rebuilt):\n%s", diff)
	}
	restored := filepath.Join(dir, "restored")
	mustRestore(t, source(), Options{}, restored)
	got := dump(databasePath(restored), same...)
	if len(got) != 4 || got["tomorrow/some"] != "thing" || got["cluster/"+clusterVersion] != "3.6.0" {
		t.Errorf("after a restore: %q, want the new member only and the rest as it was", got)
	}
}

func second[T any](_ T, err error) error { return err }

func TestADowngradeUnderWayIsReported(t *testing.T) {
	for text, want := range map[string]string{
		`{"target-version":"3.5.0","enabled":true}`:  "3.5.0",
		`{"target-version":"3.5.0","enabled":false}`: "",
		``: "",
	} {
		if got, err := parseDowngrade([]byte(text)); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", text, got, err, want)
		}
	}
	if _, err := parseDowngrade([]byte("{")); err == nil {
		t.Error("broken JSON was taken")
	}
}
