package bucket

import (
	"context"
	"crypto/sha256"
	"errors"
	"strings"
	"testing"
	"time"

	"druid.internal/druid/internal/backup/restoreplan"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/engine/enginetest"
	"druid.internal/druid/internal/engine/excluder"
	"druid.internal/druid/internal/engine/replay"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/storetest"
)

func lineage(id, parent string, fork int64, manifests ...*snapshot.Manifest) timeline.Lineage {
	l := timeline.Lineage{Lineage: snapshot.Lineage{ID: snapshot.LineageID(id), Parent: snapshot.LineageID(parent), Fork: snapshot.Revision(fork)}}
	for _, m := range manifests {
		l.Snapshots = append(l.Snapshots, timeline.Snapshot{Manifest: m})
	}
	return l
}

func TestWhatDataAreToTheBackups(t *testing.T) {
	by := func(cluster uint64) *snapshot.Manifest { return &snapshot.Manifest{ClusterID: cluster} }
	hashed := func(cluster uint64, hash uint32) *snapshot.Manifest {
		return &snapshot.Manifest{ClusterID: cluster, HashKV: &snapshot.HashKV{Revision: 100, CompactRevision: 5, Hash: hash}}
	}
	named := func(id, parent string, fork int64) *snapshot.Lineage {
		return &snapshot.Lineage{ID: snapshot.LineageID(id), Parent: snapshot.LineageID(parent), Fork: snapshot.Revision(fork)}
	}
	hash := func(h uint32) func(context.Context, snapshot.Revision) (snapshot.HashKV, error) {
		return func(_ context.Context, r snapshot.Revision) (snapshot.HashKV, error) {
			return snapshot.HashKV{Revision: r, CompactRevision: 5, Hash: h}, nil
		}
	}
	compacted := func(context.Context, snapshot.Revision) (snapshot.HashKV, error) {
		return snapshot.HashKV{}, errors.New("compacted")
	}
	cases := map[string]struct {
		bucket []timeline.Lineage // newest first
		own    Own
		want   Relation
	}{
		"the same name":                             {[]timeline.Lineage{lineage("a", "", 0, by(1))}, Own{Lineage: named("a", "", 0), ClusterID: 1}, Same},
		"the same name, the same hash":              {[]timeline.Lineage{lineage("a", "", 0, hashed(1, 7))}, Own{Lineage: named("a", "", 0), HashAt: hash(7)}, Same},
		"the same name, another hash":               {[]timeline.Lineage{lineage("a", "", 0, hashed(1, 7))}, Own{Lineage: named("a", "", 0), HashAt: hash(8)}, Other},
		"the same name, compacted since":            {[]timeline.Lineage{lineage("a", "", 0, hashed(1, 7))}, Own{Lineage: named("a", "", 0), HashAt: compacted}, Same},
		"a restore from it, not uploaded yet":       {[]timeline.Lineage{lineage("a", "", 0, by(1))}, Own{Lineage: named("b", "a", 90), ClusterID: 2}, Same},
		"left behind by a restore":                  {[]timeline.Lineage{lineage("b", "a", 90, by(2)), lineage("a", "", 0, by(1))}, Own{Lineage: named("a", "", 0), ClusterID: 1}, Other},
		"a stale file of a member of the cluster":   {[]timeline.Lineage{lineage("b", "a", 0, by(1)), lineage("a", "", 0, by(1))}, Own{Lineage: named("a", "", 0), ClusterID: 1}, Same},
		"a lineage from elsewhere":                  {[]timeline.Lineage{lineage("a", "", 0, by(1))}, Own{Lineage: named("x", "", 0), ClusterID: 9}, Other},
		"a restore from elsewhere":                  {[]timeline.Lineage{lineage("a", "", 0, by(1))}, Own{Lineage: named("x", "y", 5), ClusterID: 9}, Other},
		"a restore of the original's backups":       {[]timeline.Lineage{lineage("", "", 0, nil)}, Own{Lineage: named("b", "", 90)}, Same},
		"begun beside the original's backups":       {[]timeline.Lineage{lineage("", "", 0, nil)}, Own{Lineage: named("b", "", 0)}, Unknown},
		"the original's data and backups":           {[]timeline.Lineage{lineage("", "", 0, nil)}, Own{ClusterID: 1}, Same},
		"no file, the same cluster":                 {[]timeline.Lineage{lineage("a", "", 0, by(1))}, Own{ClusterID: 1}, Same},
		"no file, the same cluster, another hash":   {[]timeline.Lineage{lineage("a", "", 0, hashed(1, 7))}, Own{ClusterID: 1, HashAt: hash(8)}, Other},
		"no file, another cluster":                  {[]timeline.Lineage{lineage("a", "", 0, by(1))}, Own{ClusterID: 2}, Other},
		"no file, another cluster, the same hash":   {[]timeline.Lineage{lineage("a", "", 0, hashed(1, 7))}, Own{ClusterID: 2, HashAt: hash(7)}, Same},
		"no file, a named lineage without clusters": {[]timeline.Lineage{lineage("a", "", 0, nil)}, Own{ClusterID: 2}, Unknown},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, why := relate(t.Context(), timeline.Timeline{Lineages: c.bucket}, c.bucket[0], c.own)
			if got != c.want || why == "" {
				t.Errorf("got %s (%s), want %s", got, why, c.want)
			}
		})
	}
}

func TestWhatABucketHolds(t *testing.T) {
	f, err := Look(t.Context(), storetest.NewMemory(storetest.S3Like()), enginetest.Prefix, nil)
	if err != nil || !f.Empty {
		t.Errorf("an empty bucket: %+v, %v", f, err)
	}
	f, err = Look(t.Context(), enginetest.Native(t), enginetest.Prefix, nil)
	if err != nil || f.Empty || f.Newest == 0 || f.Reach != f.Newest || f.Broken != nil {
		t.Errorf("a good bucket: %+v, %v", f, err)
	}
}

func TestABucketThatCannotBeRestoredSaysWhy(t *testing.T) {
	s := enginetest.Native(t)
	good, err := Look(t.Context(), s, enginetest.Prefix, nil)
	if err != nil {
		t.Fatal(err)
	}
	var fulls []store.Version
	if err := s.List(t.Context(), enginetest.Prefix, func(o store.Object) error {
		if strings.Contains(o.Key, "/Full-") {
			fulls = append(fulls, o.Version)
		}
		return nil
	}); err != nil || len(fulls) == 0 {
		t.Fatal(err, fulls)
	}
	for _, v := range fulls {
		if err := s.Delete(t.Context(), v); err != nil {
			t.Fatal(err)
		}
	}
	f, err := Look(t.Context(), s, enginetest.Prefix, nil)
	if err != nil || f.Empty || f.Reach != 0 || f.Newest != good.Newest || f.Broken == nil || f.Broken.Error() == "" {
		t.Errorf("%+v, %v; want revision %d and why it cannot be restored", f, err, good.Newest)
	}
}

func TestOfTwoClustersThatWroteNoneIsTakenForTheOneThatIsMeant(t *testing.T) {
	s := storetest.NewMemory(storetest.S3Like())
	full := func(minute int, lineage snapshot.Lineage, cluster uint64) {
		n := enginetest.MustName(enginetest.FullName(100+minute, minute))
		m := snapshot.Manifest{Version: snapshot.ManifestVersion, Snapshot: n.String(), Lineage: lineage, Size: 1, Digest: sha256.Sum256([]byte("x")),
			LastRevision: n.Last, ClusterID: cluster, Latest: n.CreatedAt()}
		enginetest.Put(t, s, enginetest.Key(n), []byte("x"))
		enginetest.Put(t, s, snapshot.SnapshotKey(enginetest.Prefix, n).Manifest().String(), m.Encode())
	}
	first := snapshot.Lineage{ID: "0123456789abcdef0123456789abcdef"}
	second := snapshot.Lineage{ID: "fedcba9876543210fedcba9876543210", Parent: first.ID, Fork: 100}
	full(0, first, 1)
	full(1, second, 2)
	f, err := Look(t.Context(), s, enginetest.Prefix, nil)
	if err != nil || f.Broken != nil || f.Lineage != second || f.Reach != 101 {
		t.Fatalf("after a restore: %+v, %v", f, err)
	}
	full(30, first, 1)
	f, err = Look(t.Context(), s, enginetest.Prefix, nil)
	if err != nil || f.Empty || f.Reach != 0 || f.Broken == nil {
		t.Fatalf("while both write: %+v, %v", f, err)
	}
	for _, want := range []string{"cluster 2 wrote lineage fedc", "up to revision 101", "cluster 1 wrote lineage 0123", "up to revision 130"} {
		if !strings.Contains(f.Broken.Error(), want) {
			t.Errorf("%q does not tell %q", f.Broken, want)
		}
	}
}

// Whoever may write can begin another lineage. Excluding it is the remedy, for members too: they go on with what was there before.
func TestALineageThatWasExcludedIsNotTheNewest(t *testing.T) {
	s := enginetest.Native(t)
	good, err := Look(t.Context(), s, enginetest.Prefix, nil)
	if err != nil {
		t.Fatal(err)
	}
	own := &Own{Lineage: &good.Lineage, ClusterID: good.Catalog.Timeline.Lineages[0].Cluster()}
	n := snapshot.Name{Kind: snapshot.Full, Last: 5, Created: time.Now().Unix(), Compression: snapshot.Zstd}
	m := snapshot.Manifest{Version: snapshot.ManifestVersion, Snapshot: n.String(), Lineage: snapshot.Lineage{ID: "fedcba9876543210fedcba9876543210"}, Size: 1, Digest: sha256.Sum256([]byte("x")),
		LastRevision: n.Last, ClusterID: 99, Latest: n.CreatedAt()}
	enginetest.Put(t, s, enginetest.Key(n), []byte("x"))
	enginetest.Put(t, s, snapshot.SnapshotKey(enginetest.Prefix, n).Manifest().String(), m.Encode())
	forged, err := Look(t.Context(), s, enginetest.Prefix, own)
	if err != nil || forged.Lineage.ID != m.Lineage.ID || forged.Relation != Other {
		t.Fatalf("before: %+v, %v", forged, err)
	}
	if _, err := excluder.Run(t.Context(), excluder.Request{Store: s, Prefix: enginetest.Prefix, Names: []snapshot.Name{n}, LeaveNothing: true}); err != nil {
		t.Fatal(err)
	}
	f, err := Look(t.Context(), s, enginetest.Prefix, own)
	if err != nil || f.Lineage.ID != good.Lineage.ID || f.Relation != Same || f.Broken != nil || f.Reach != good.Reach || f.Newest != good.Newest {
		t.Errorf("afterwards: %+v, %v", f, err)
	}
	for _, other := range f.Catalog.Timeline.Lineages[1:] {
		for _, x := range other.Snapshots {
			if _, err := excluder.Run(t.Context(), excluder.Request{Store: s, Prefix: enginetest.Prefix, Names: []snapshot.Name{x.Name()}, LeaveNothing: true}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if f, err = Look(t.Context(), s, enginetest.Prefix, own); err != nil || f.Empty || f.Broken == nil {
		t.Errorf("all are excluded: %+v, %v", f, err)
	}
}

// A manifest of something that is not there is the cheapest forgery. It has a name that can be excluded, too.
func TestAManifestAloneCanBeExcluded(t *testing.T) {
	full, delta := enginetest.MustName(enginetest.FullName(5, 30)), enginetest.MustName(enginetest.DeltaName(6, 9, 30))
	for phrase, c := range map[string]struct {
		profile storetest.Profile
		forged  snapshot.Name
		marker  bool // a deletion of what never was leaves it
	}{
		"of a full, with tags": {storetest.S3Like(), full, false}, "of a full, with records": {storetest.GCSLike(), full, false},
		"of a delta, with tags": {storetest.S3Like(), delta, false}, "of a delta, with records": {storetest.GCSLike(), delta, false},
		"with a marker": {storetest.S3Like(), full, true},
	} {
		s, forged := storetest.NewMemory(c.profile), c.forged
		put := func(n snapshot.Name, lineage snapshot.LineageID, cluster uint64, body bool) {
			m := snapshot.Manifest{Version: snapshot.ManifestVersion, Snapshot: n.String(), Lineage: snapshot.Lineage{ID: lineage}, Size: 1, Digest: sha256.Sum256([]byte("x")), LastRevision: n.Last, ClusterID: cluster, Latest: n.CreatedAt()}
			if body {
				enginetest.Put(t, s, enginetest.Key(n), []byte("x"))
			}
			enginetest.Put(t, s, snapshot.SnapshotKey(enginetest.Prefix, n).Manifest().String(), m.Encode())
		}
		ours := snapshot.Lineage{ID: "0123456789abcdef0123456789abcdef"}
		put(enginetest.MustName(enginetest.FullName(100, 0)), ours.ID, 1, true)
		put(forged, "fedcba9876543210fedcba9876543210", 99, false)
		own := &Own{Lineage: &ours, ClusterID: 1}
		if f, err := Look(t.Context(), s, enginetest.Prefix, own); err != nil || f.Relation != Other {
			t.Fatalf("%s, before: %+v, %v", phrase, f, err)
		}
		if c.marker {
			if _, err := s.Hide(enginetest.Key(forged)); err != nil {
				t.Fatal(err)
			}
		}
		q := excluder.Request{Store: s, Prefix: enginetest.Prefix, Names: []snapshot.Name{forged}, LeaveNothing: true}
		for range 2 { // again changes nothing
			if r, err := excluder.Run(t.Context(), q); err != nil || len(r.Changes) != 1 {
				t.Fatalf("%s: %+v, %v", phrase, r, err)
			}
		}
		f, err := Look(t.Context(), s, enginetest.Prefix, own)
		if err != nil || f.Lineage.ID != ours.ID || f.Relation != Same || f.Broken != nil || f.Reach != 100 {
			t.Errorf("%s, afterwards: %+v, %v", phrase, f, err)
		}
		if _, err := replay.Plan(replay.Options{Store: s, Timeline: f.Catalog.Timeline, Target: restoreplan.Latest()}); err != nil {
			t.Errorf("%s: a restore without a lineage: %v", phrase, err)
		}
		q.Include = true
		if _, err := excluder.Run(t.Context(), q); err != nil {
			t.Fatal(err)
		}
		if f, err := Look(t.Context(), s, enginetest.Prefix, own); err != nil || f.Relation != Other {
			t.Errorf("%s, included again: %+v, %v", phrase, f, err)
		}
	}
}

func TestAStoreThatDoesNotAnswerIsNoEmptyBucket(t *testing.T) {
	m := storetest.NewMemory(storetest.S3Like())
	s := storetest.NewFaulty(m)
	s.Inject(storetest.Fail(store.ErrUnreachable).Always())
	if f, err := Look(t.Context(), s, enginetest.Prefix, nil); !errors.Is(err, store.ErrUnreachable) || f.Empty {
		t.Errorf("%+v, %v", f, err)
	}
}
