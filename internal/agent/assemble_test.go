package agent

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"druid.internal/druid/internal/agent/bucket"
	"druid.internal/druid/internal/agent/config"
	"druid.internal/druid/internal/agent/initialize"
	"druid.internal/druid/internal/agent/metrics"
	"druid.internal/druid/internal/agent/status"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/engine/catalog"
	"druid.internal/druid/internal/engine/enginetest"
	"druid.internal/druid/internal/engine/restorer"
	"druid.internal/druid/internal/etcd/datadir"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/storetest"
)

func TestDamagedDataStillSayWhoseTheyWere(t *testing.T) {
	lineage := &datadir.Identity{Lineage: snapshot.Lineage{ID: "a"}}
	for name, c := range map[string]struct {
		data         datadir.Inspection
		known, named bool // what the bucket is compared with; it has a name
		hashed       bool // the content is compared if need be
	}{
		"good, named":             {datadir.Inspection{State: datadir.Valid, ClusterID: 1, Lineage: lineage}, true, true, false},
		"good, without a name":    {datadir.Inspection{State: datadir.Valid, ClusterID: 1}, true, false, true},
		"damaged, named":          {datadir.Inspection{State: datadir.Invalid, Lineage: lineage}, true, true, false},
		"damaged, without a name": {datadir.Inspection{State: datadir.Invalid, ClusterID: 1}, true, false, false},
		"damaged beyond telling":  {datadir.Inspection{State: datadir.Invalid}, false, false, false},
		"nothing":                 {datadir.Inspection{State: datadir.Missing}, false, false, false},
		"no client wrote to them": {datadir.Inspection{State: datadir.Blank, ClusterID: 1}, false, false, false},
	} {
		own := ownOf(t.TempDir(), c.data, 1<<20)
		if (own != nil) != c.known || own != nil && ((own.Lineage != nil) != c.named || (own.HashAt != nil) != c.hashed) {
			t.Errorf("%s: %+v", name, own)
		}
	}
}

func TestWhatTheBucketTellsReachesTheDecision(t *testing.T) {
	for name, c := range map[string]struct {
		facts bucket.Facts
		want  initialize.Backup
	}{
		"backups that can be restored": {bucket.Facts{Newest: 9, Reach: 9, Relation: bucket.Same, Why: "so"},
			initialize.Backup{State: initialize.BackupExists, Latest: 9, Uploaded: 9, Relation: initialize.RelationSame, Why: "so"}},
		"backups that cannot": {bucket.Facts{Newest: 9, Broken: errors.New("missing 3-4"), Relation: bucket.Unknown},
			initialize.Backup{State: initialize.BackupExists, Uploaded: 9, Broken: "missing 3-4", Relation: initialize.RelationUnknown}},
	} {
		if diff := cmp.Diff(c.want, backupOf(c.facts)); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
}

func TestNobodyIsToldToRestoreTheBackupsOfAnother(t *testing.T) {
	const ours, theirs = "k8s/shop/main/uid-1", "k8s/shop/other/uid-2"
	st := enginetest.Native(t)
	if _, err := catalog.Claim(t.Context(), st, enginetest.Prefix, 0, snapshot.Owner{ID: theirs, Note: "the sidecar of other-0", Since: time.Unix(1, 0)}); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		owner    string
		takeOver bool
		owned    bool
	}{
		"its owner":                     {theirs, false, false},
		"another":                       {ours, false, true},
		"another who takes it over":     {ours, true, false},
		"its owner, made anew":          {"k8s/shop/other/uid-3", false, false},
		"one who has no name":           {"", false, false},
		"its name in another namespace": {"k8s/market/other/uid-2", false, true},
	} {
		s := &sidecar{followed: follow("", config.Defaults(), nil, slog.New(slog.DiscardHandler))}
		s.Config, s.Config.Store.Prefix = config.Defaults(), enginetest.Prefix
		s.Config.Owner, s.Config.Snapshotter.TakeOver = c.owner, c.takeOver
		s.Store.Open = func(context.Context) (store.Store, error) { return st, nil }
		got, err := s.bucket(t.Context(), t.TempDir(), datadir.Inspection{State: datadir.Missing})
		if err != nil || got.State != initialize.BackupExists || got.Latest == 0 {
			t.Fatalf("%s: %+v, %v", name, got, err)
		}
		if (got.Owned != "") != c.owned || c.owned && (!strings.Contains(got.Owned, theirs+" (the sidecar of other-0) since") || !strings.Contains(got.Owned, "--take-over")) {
			t.Errorf("%s: %q, want that it is another's: %t", name, got.Owned, c.owned)
		}
	}
}

// Whoever knows what the backups held is not given less, and does not begin with nothing.
func TestBackupsThatLackWhatTheyHeldCannotBeRestored(t *testing.T) {
	exists := initialize.Backup{State: initialize.BackupExists, Latest: 8, Uploaded: 8, Relation: initialize.RelationSame}
	none := initialize.Backup{State: initialize.BackupNone}
	for name, c := range map[string]struct {
		told  initialize.Backup
		least snapshot.Revision
		says  string // empty: it is what it was
	}{
		"all of it":           {exists, 8, ""},
		"more":                {exists, 5, ""},
		"nobody knows":        {exists, 0, ""},
		"none, nobody knows":  {none, 0, ""},
		"less":                {exists, 9, "they held revision 9 (restorationConfig.atLeastRevision), and what can be restored ends at revision 8"},
		"none":                {none, 9, "they held revision 9 at least (restorationConfig.atLeastRevision), and nothing is there"},
		"broken all the same": {initialize.Backup{State: initialize.BackupExists, Broken: "a hole"}, 9, "a hole"},
	} {
		got := short(c.told, c.least)
		switch {
		case c.says == "":
			if diff := cmp.Diff(c.told, got); diff != "" {
				t.Errorf("%s: (-want +got)\n%s", name, diff)
			}
		case got.State != initialize.BackupExists || got.Latest != 0 || got.Uploaded != c.told.Uploaded || !strings.Contains(got.Broken, c.says):
			t.Errorf("%s: %+v, want %q", name, got, c.says)
		}
	}
}

// The period of proofs was never handed on, so the time of a restore was never measured.
func TestThePeriodsOfTheConfigurationAreThoseOfTheBackups(t *testing.T) {
	dir := t.TempDir()
	template := filepath.Join(dir, "etcd.yaml")
	if err := os.WriteFile(template, []byte("data-dir: "+dir+"/new.etcd\ninitial-cluster: a=http://127.0.0.1:1\nadvertise-client-urls: {a: http://127.0.0.1:2}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &sidecar{registry: prometheus.NewRegistry(), metrics: metrics.New(nil, nil), board: status.New("a", time.Now, nil)}
	s.Member, s.Config, s.Log = "a", config.Defaults(), slog.New(slog.DiscardHandler)
	s.Store.Open = func(context.Context) (store.Store, error) { return storetest.NewMemory(storetest.S3Like()), nil }
	var err error
	if s.templates, err = openTemplates(template, s.Log); err != nil {
		t.Fatal(err)
	}
	s.Config.Snapshotter.VerificationPeriod = config.Duration(5 * time.Hour)
	s.Config.Snapshotter.GarbageCollectionPeriod = config.Duration(7 * time.Minute)
	s.Config.LeaderElection.ReelectionPeriod = config.Duration(3 * time.Second)
	got, err := s.backupConfig()
	if err != nil {
		t.Fatal(err)
	}
	if got.VerifyEvery != 5*time.Hour || got.CollectEvery != 7*time.Minute || got.LookEvery != 3*time.Second || got.Snapshots.DeltaPeriod != 20*time.Second {
		t.Errorf("proofs every %s, collections every %s, looks every %s, deltas every %s", got.VerifyEvery, got.CollectEvery, got.LookEvery, got.Snapshots.DeltaPeriod)
	}
}

// After a restore whose backups never reached the bucket, the bucket does not tell what clients have seen by now.
func TestARestoreGoesBeyondWhatClientsAreKnownToHaveSeen(t *testing.T) {
	for _, known := range []snapshot.Revision{0, 5_000_000_000} {
		dir := filepath.Join(t.TempDir(), "new.etcd")
		c := config.Defaults()
		c.Store.Prefix, c.Restoration.TempSnapshotsDir = enginetest.Prefix, t.TempDir()
		r := restoration{Store: func(context.Context) (store.Store, error) { return enginetest.Native(t), nil }, Config: c,
			Known: func() snapshot.Revision { return known }, Metrics: metrics.New(nil, nil), Log: slog.New(slog.DiscardHandler)}
		if err := r.run(t.Context(), initialize.RestoreOrder{DataDir: dir, Member: datadir.Membership{Name: "a", InitialCluster: "a=http://127.0.0.1:1", Token: "t"}}); err != nil {
			t.Fatal(err)
		}
		got, err := datadir.Inspect(t.Context(), dir, datadir.Full, nil)
		if err != nil || got.Revision <= max(known, 1_000_000_000) || known == 0 && got.Revision > 2_000_000_000 {
			t.Errorf("clients saw revision %d; restored is %d (%s, %v)", known, got.Revision, got.Why, err)
		}
	}
}

// Whatever the bucket claims, data that are good stay until what takes their place is complete.
func TestAFailedRestoreLeavesTheDataThatItWasToReplace(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new.etcd")
	good, broken := enginetest.Native(t), enginetest.Native(t)
	if err := broken.List(t.Context(), "", func(o store.Object) error {
		if strings.Contains(o.Key, "/Full-") && !strings.HasSuffix(o.Key, ".manifest") {
			broken.Flip(o.Version, 100)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	restore := func(from *storetest.Memory, replace bool, atLeast snapshot.Revision) error {
		c := config.Defaults()
		c.Store.Prefix, c.Restoration.TempSnapshotsDir = enginetest.Prefix, t.TempDir()
		r := restoration{Store: func(context.Context) (store.Store, error) { return from, nil }, Config: c,
			Known: func() snapshot.Revision { return 0 }, Metrics: metrics.New(nil, nil), Log: slog.New(slog.DiscardHandler)}
		return r.run(t.Context(), initialize.RestoreOrder{DataDir: dir, Replace: replace, AtLeast: atLeast, Member: datadir.Membership{Name: "a", InitialCluster: "a=http://127.0.0.1:1", Token: string(datadir.NewLineageID())}})
	}
	inspect := func() datadir.Inspection {
		got, err := datadir.Inspect(t.Context(), dir, datadir.Full, nil)
		if err != nil || got.State != datadir.Valid {
			t.Fatalf("the data are %s: %s, %v", got.State, got.Why, err)
		}
		return got
	}
	if err := restore(good, false, 0); err != nil {
		t.Fatal(err)
	}
	before := inspect()
	id, err := datadir.ReadIdentity(dir)
	if err != nil {
		t.Fatal(err)
	}
	end := id.Lineage.Fork // of the backup
	if err := restore(good, true, end+1); !errors.Is(err, restorer.ErrShort) || !errors.Is(err, initialize.ErrChanged) || inspect().ClusterID != before.ClusterID {
		t.Errorf("a restore of less than was looked at: %v; the cluster was %x, and is %x", err, before.ClusterID, inspect().ClusterID)
	}
	if err := restore(good, false, 0); !errors.Is(err, datadir.ErrExists) || errors.Is(err, initialize.ErrBackup) {
		t.Errorf("data are replaced although nobody said so: %v", err)
	}
	if err := restore(broken, true, 0); !errors.Is(err, initialize.ErrBackup) || inspect().ClusterID != before.ClusterID {
		t.Errorf("a restore of what is damaged: %v; the cluster was %x, and is %x", err, before.ClusterID, inspect().ClusterID)
	}
	if err := restore(good, true, end); err != nil || inspect().ClusterID == before.ClusterID {
		t.Errorf("a restore of what is good: %v; the cluster was %x, and is %x", err, before.ClusterID, inspect().ClusterID)
	}
}

func TestWhoIsToldOfTheMemberIsGivenItsBoardAndEndsWithTheSidecar(t *testing.T) {
	dir := t.TempDir()
	template := filepath.Join(dir, "etcd.yaml")
	if err := os.WriteFile(template, []byte("data-dir: "+dir+"/new.etcd\ninitial-cluster: a=http://127.0.0.1:1\nadvertise-client-urls: {a: http://127.0.0.1:2}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := config.Defaults()
	c.Server.Port, c.Server.Address, c.Server.AllowUnauthenticated = 0, "127.0.0.1", true
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	told := ""
	err := Run(ctx, Options{Config: c, Member: "a", Template: template, Log: slog.New(slog.DiscardHandler),
		Report: func(ctx context.Context, b *status.Board, m *metrics.Catalogue) error {
			told = b.Get().Name
			m.Answered("lease", "ok") // which there is
			stop()
			<-ctx.Done()
			return nil
		}})
	if err != nil || told != "a" {
		t.Errorf("it ended with %v, and %q was told of", err, told)
	}
}
