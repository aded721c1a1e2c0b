package e2e

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"druid.internal/druid/examples/policies"
	"druid.internal/druid/test/sites"
	"druid.internal/druid/test/stores"
)

// extended is what `etcdbrctl extend-snapshot-immutability -o json` tells.
type extended struct {
	End     int64
	Objects []struct {
		Key, Version, Kind, Result, Way, Copy, Reason string

		Held bool
	}
	Protection struct {
		Mode  string
		Until time.Time
		Held  bool
	}
	Kept *struct {
		Name, Newer string
		Protection  struct{ Until time.Time }
	}
	Changes  int64
	Released bool
}

func (p place) extends(args ...string) extended {
	p.t.Helper()
	return decode[extended](p.t, p.succeeds("extend-snapshot-immutability", slices.Concat(args, []string{"-o=json"})...))
}

// base is the key of the full that is kept locked.
func (e extended) base() string {
	if c := e.Objects[0].Copy; c != "" {
		return c
	}
	return e.Objects[0].Key
}

// originals is the bucket that the original left, a full and two deltas to revision 871.
func originals(t *testing.T) (p place, dir string) {
	t.Helper()
	dir, err := filepath.Abs("../../testdata/upstream-bucket-gzip")
	if err != nil {
		t.Fatal(err)
	}
	return place{t: t, env: os.Environ(), store: []string{"--storage-provider=Local", "--store-container=" + dir, "--store-prefix=" + prefix}}, dir
}

// deletes tries to delete every version of a key, and says whether the server refused one.
func deletes(t *testing.T, raw stores.Raw, key string) (refused error) {
	t.Helper()
	all, err := raw.Versions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, v := range all {
		if v.Key != key || v.Marker {
			continue
		}
		found = true
		if err := raw.Delete(t.Context(), v); err != nil {
			refused = err
		}
	}
	if !found {
		t.Fatalf("%s is not there", key)
	}
	return refused
}

// TestASleepingBackupOutlivesItsLocks on the servers whose clocks can be moved, in each of the ways, with what the documentation
// gives to an extender; a twin that nobody cares for can be deleted when its day is over.
func TestASleepingBackupOutlivesItsLocks(t *testing.T) {
	t.Parallel()
	for name, kinds := range map[string]map[string]sites.Kind{
		"GCS":   {"hold": sites.Policy},
		"Azure": {"retention in place": sites.LevelLocked, "server-side copy": sites.Container},
		"OSS":   {"server-side copy": sites.Worm},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var own sites.Fleet // its clock is moved
			t.Cleanup(func() {
				if err := own.Stop(); err != nil {
					t.Error(err)
				}
			})
			s := own.Get(t, name).(sites.Ahead)
			for way, kind := range kinds {
				t.Run(way, func(t *testing.T) { outlives(t, &own, s, kind, way) })
				if byName, can := sites.ByIdentity(s); can {
					t.Run(way+", by identity", func(t *testing.T) { outlives(t, &own, byName.(sites.Ahead), kind, way) })
				}
			}
		})
	}
}

func outlives(t *testing.T, own *sites.Fleet, s sites.Ahead, kind sites.Kind, way string) {
	source, _ := originals(t)
	bucket, twin := own.Bucket(t, s, kind), own.Bucket(t, s, kind)
	for _, b := range []string{bucket, twin} {
		inSite(t, s, "", b, sites.Owner).copyFrom(source).succeeds("copy")
	}
	owner, p := inSite(t, s, "", bucket, sites.Owner), inSite(t, s, "", bucket, sites.Extender)
	if s.Name() == "OSS" {
		p = owner // there is nobody else
	}
	period := "--retention-period=24h"
	if way == "retention in place" {
		period = "--default-retention-period=24h" // what the account gives to versions these credentials are not told
	}
	fresh := p.extends(period)
	if fresh.Changes != 0 || fresh.End != 871 {
		t.Errorf("of a backup just taken: %+v", fresh)
	}
	s.Advance(20 * time.Hour)
	if plan := p.extends(period, "--dry-run"); plan.Changes != 0 || plan.Objects[0].Result != "to extend" || plan.Objects[0].Way != way {
		t.Errorf("a dry run: %+v", plan)
	}
	if rare := []string{period, "--every=48h", "--dry-run"}; way == "hold" { // which has no end
		p.extends(rare...)
	} else {
		says(t, p.fails(6, "extend-snapshot-immutability", rare...), "locks last for 24h from a run, and the next one may be through after 49h")
	}
	r := p.extends(period)
	for _, o := range r.Objects {
		if (o.Kind == "full" || o.Kind == "delta" || o.Kind == "manifest") && (o.Result != "extended" || o.Way != way) {
			t.Errorf("%+v, want the way %s", o, way)
		}
	}
	if again := p.extends(period); again.Changes != 0 {
		t.Errorf("the second time: %+v", again)
	}
	s.Advance(10 * time.Hour)
	raw, twinRaw := rawOf(t, s, bucket), rawOf(t, s, twin)
	if err := deletes(t, twinRaw, fresh.Objects[0].Key); err != nil {
		t.Errorf("the twin is still locked, so this proves nothing: %v", err)
	}
	if err := deletes(t, raw, r.base()); err == nil {
		t.Errorf("%s could be deleted", r.base())
	}
	if _, err := p.restore(); err != nil {
		t.Error(err)
	}
	if way != "hold" {
		return
	}
	if r := p.extends("--release-holds"); r.Released || r.Changes != 0 {
		t.Errorf("without a newer full: %+v", r)
	}
	owner.succeeds("compact")
	if r := p.extends("--release-holds"); !r.Released || r.Changes == 0 {
		t.Errorf("with a newer full: %+v", r)
	}
	if err := deletes(t, raw, fresh.Objects[0].Key); err == nil {
		t.Error("what was released could be deleted at once")
	}
	s.Advance(25 * time.Hour)
	if err := deletes(t, raw, fresh.Objects[0].Key); err != nil {
		t.Errorf("a period after it was released it is locked: %v", err)
	}
	if _, err := p.restore(); err != nil {
		t.Error(err)
	}
}

func rawOf(t *testing.T, s sites.Site, bucket string) stores.Raw {
	t.Helper()
	raw, err := s.Raw(t.Context(), bucket, sites.Owner)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// TestASleepingBackupOutlivesLocksOfSeconds on the servers whose clocks nobody moves.
func TestASleepingBackupOutlivesLocksOfSeconds(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"MinIO", "Ceph"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := fleet.Get(t, name)
			bucket := fleet.Bucket(t, s, sites.Compliance)
			server := sites.S3Of(s)
			client := server.Client(server.Root)
			const twin = "twin"
			ends := time.Now().Add(45 * time.Second) // until then all must be laid out and kept locked
			_, dir := originals(t)
			files, err := filepath.Glob(filepath.Join(dir, prefix, "v2", "*"))
			if err != nil || len(files) != 3 {
				t.Fatal(files, err)
			}
			var full string
			for _, file := range files {
				for _, below := range []string{prefix, twin} {
					f, err := os.Open(file)
					if err != nil {
						t.Fatal(err)
					}
					defer f.Close()
					if strings.Contains(file, "Full-") {
						full = filepath.Base(file)
					}
					if _, err := client.PutObject(t.Context(), &s3.PutObjectInput{Bucket: &bucket, Key: aws.String(below + "/v2/" + filepath.Base(file)), Body: f,
						ObjectLockMode: types.ObjectLockModeCompliance, ObjectLockRetainUntilDate: &ends}); err != nil {
						t.Fatal(err)
					}
				}
			}
			period := "--retention-period=10m" // the bucket's own period, a day, would do too, and stay for a day
			if name == "MinIO" {
				says(t, inSite(t, s, "", bucket, sites.Reader).fails(5, "extend-snapshot-immutability", period), full, "PutObjectRetention")
			}
			p := inSite(t, s, "", bucket, sites.Extender)
			r := p.extends(period)
			if left := time.Until(r.Protection.Until); r.Changes != 3 || left < 8*time.Minute || left > 11*time.Minute || r.Protection.Mode != "compliance" {
				t.Errorf("%+v", r)
			}
			if again := p.extends(period); again.Changes != 0 {
				t.Errorf("the second time: %+v", again)
			}
			raw := rawOf(t, s, bucket)
			eventually(t, "the twin can be deleted", nil, func() string { return ends.String() }, func() bool {
				return time.Now().After(ends) && deletes(t, raw, twin+"/v2/"+full) == nil
			})
			if err := deletes(t, raw, prefix+"/v2/"+full); err == nil {
				t.Error("the full could be deleted")
			}
			if until := lockOf(t, s, bucket, prefix+"/v2/"+full); until.Before(ends.Add(8 * time.Minute)) {
				t.Errorf("it is locked until %s", until)
			}
		})
	}
}

// TestASleepingBackupOfWhichEachObjectIsLockedOutlivesItsLocks is the life of a backup with retentionType object: in a bucket that locks
// nothing by itself a sidecar's program locks each object for two minutes, and an extender keeps them when nobody writes any more. A twin in
// another bucket, written alike, can be deleted when they are over.
//
// The buckets are laid out first and waited for together: a test that waits keeps another from going.
func TestASleepingBackupOfWhichEachObjectIsLockedOutlivesItsLocks(t *testing.T) {
	t.Parallel()
	var whenOver []func()
	for name, kinds := range map[string][]sites.Kind{
		"MinIO": {sites.ObjectCompliance, sites.ObjectGovernance}, "Ceph": {sites.ObjectCompliance},
	} {
		for _, kind := range kinds {
			whenOver = append(whenOver, outlivesEachLock(t, name, kind))
		}
	}
	for _, look := range whenOver {
		look()
	}
}

// outlivesEachLock lays the backup and its twin out, keeps the backup locked, and returns what is to be looked at when the locks are over.
func outlivesEachLock(t *testing.T, name string, kind sites.Kind) (whenOver func()) {
	const lock = 2 * time.Minute // until then all must be laid out and kept locked
	what := name + ", " + kind.Name
	t.Log(what)
	s := fleet.Get(t, name)
	writer := sites.Locker
	if name == "Ceph" {
		writer = sites.Owner // he reads nothing there that others wrote, as which the test looks
	}
	w, twin := newWorld(t, 151, 40), fleet.Bucket(t, s, kind)
	bucket := w.useBucket(s, kind, writer)
	flags := lockEach(kind, lock)
	last := w.backup(40, flags...)
	written := time.Now()
	for _, snap := range slices.Concat(w.list().all("Full"), w.list().all("Incr")) {
		if p := snap.Protection; p == nil || p.Mode != kind.Each || p.Until.After(written.Add(lock+time.Second)) {
			t.Errorf("%s is not shown as locked for two minutes: %+v", snap.Name, p)
		}
	}
	inSite(t, s, "", twin, writer).copyFrom(w.place).succeeds("copy", flags...)

	extender := inSite(t, s, "", bucket, sites.Extender)
	if name == "Ceph" {
		extender = inSite(t, s, "", bucket, sites.Owner) // objects are of who wrote them
	}
	r := extender.extends("--retention-period=10m")
	if left := time.Until(r.Protection.Until); left < 8*time.Minute || left > 11*time.Minute || r.Protection.Mode != kind.Each || r.End != last {
		t.Fatalf("%+v", r)
	}
	raw, twinRaw, full := rawOf(t, s, bucket), rawOf(t, s, twin), r.base()
	if err := deletes(t, twinRaw, full); err == nil {
		t.Fatal("the twin can be deleted at once, so nothing locked it")
	}
	return func() {
		eventually(t, "the twin can be deleted", nil, func() string { return full }, func() bool { return deletes(t, twinRaw, full) == nil })
		if err := deletes(t, raw, full); err == nil {
			t.Errorf("%s: the full could be deleted", what)
		}
		dir, err := w.restore()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		w.check(dir, last)
		w.boots(dir, last)
	}
}

// forgery is a full with other values and what etcd appends to a database, packed.
func forgery(t *testing.T, genuine []byte) []byte {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(genuine))
	if err != nil {
		t.Fatal(err)
	}
	db, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	other := bytes.ReplaceAll(db[:len(db)-sha256.Size], []byte("v20-"), []byte("evil"))
	if bytes.Equal(other, db[:len(db)-sha256.Size]) {
		t.Fatal("nothing was forged")
	}
	sum := sha256.Sum256(other)
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write(append(other, sum[:]...)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return packed.Bytes()
}

// TestAForgedFullDoesNotTakeTheLockOfTheFinalOne: whoever has the writer's keys adds one of the same revision and a later time, in
// which all is as etcd writes it. A twin of which nobody names the final full loses it.
func TestAForgedFullDoesNotTakeTheLockOfTheFinalOne(t *testing.T) {
	t.Parallel()
	const twin, full, forged = "twin/forged", "Full-00000000-00000204-1795164950.gz", "Full-00000000-00000204-1795168550.gz"
	s := fleet.Get(t, "MinIO")
	bucket, m := fleet.Bucket(t, s, sites.Compliance), sites.MinIOOf(s)
	_, dir := originals(t)
	genuine, err := os.ReadFile(filepath.Join(dir, prefix, "v2", full))
	if err != nil {
		t.Fatal(err)
	}
	ends := time.Now().Add(30 * time.Second)
	below := func(where, role string) place {
		p := inS3(t, m, m.Endpoint, bucket, assume(t, m, policies.S3(policies.Role(role), bucket, where)))
		for i, flag := range p.store {
			if strings.HasPrefix(flag, "--store-prefix=") {
				p.store[i] = "--store-prefix=" + where
			}
		}
		return p
	}
	for _, where := range []string{prefix, twin} {
		if _, err := m.Client(m.Root).PutObject(t.Context(), &s3.PutObjectInput{Bucket: &bucket, Key: aws.String(where + "/v2/" + full), Body: bytes.NewReader(genuine),
			ObjectLockMode: types.ObjectLockModeCompliance, ObjectLockRetainUntilDate: &ends}); err != nil {
			t.Fatal(err)
		}
	}
	_, want := below(prefix, "writer").mustRestore()
	for _, where := range []string{prefix, twin} {
		writer := m.Client(assume(t, m, policies.S3(policies.Writer, bucket, where)))
		if _, err := writer.PutObject(t.Context(), &s3.PutObjectInput{Bucket: &bucket, Key: aws.String(where + "/v2/" + forged), Body: bytes.NewReader(forgery(t, genuine))}); err != nil {
			t.Fatal(err)
		}
	}
	if _, got := below(prefix, "writer").mustRestore(); got.Base != forged && !strings.Contains(got.Plan.Base, forged) || got.HashKV.Hash == want.HashKV.Hash {
		t.Fatalf("the forgery is not what a restore takes, so this proves nothing: %+v", got)
	}
	period := "--retention-period=10m"
	p := below(prefix, "extender")
	says(t, p.fails(7, "extend-snapshot-immutability", period, "--dry-run", "--keep="+strings.Replace(full, "204", "205", 1)), "is gone")
	r := p.extends(period, "--keep="+full)
	if k := r.Kept; k == nil || k.Name != full || !strings.Contains(k.Newer, forged) || time.Until(k.Protection.Until) < 8*time.Minute {
		t.Errorf("%+v, kept %+v", r, k)
	}
	if again := p.extends(period, "--keep="+full); again.Changes != 0 {
		t.Errorf("the second time: %+v", again)
	}
	below(twin, "extender").extends(period)

	raw := rawOf(t, s, bucket)
	eventually(t, "the final full of the twin can be deleted", nil, func() string { return ends.String() }, func() bool {
		return time.Now().After(ends) && deletes(t, raw, twin+"/v2/"+full) == nil
	})
	if err := deletes(t, raw, prefix+"/v2/"+full); err == nil {
		t.Error("the final full could be deleted")
	}
	inSite(t, s, "", bucket, sites.Owner).succeeds("exclude", forged)
	if _, got := p.mustRestore(); got.HashKV.Hash != want.HashKV.Hash || got.Revision != want.Revision {
		t.Errorf("restored %+v, want %+v", got, want)
	}
}

// TestWhereNothingIsLockedNothingIsExtended: it is refused, and nothing is made.
func TestWhereNothingIsLockedNothingIsExtended(t *testing.T) {
	onEveryStore(t, func(t *testing.T, s sites.Site) {
		source, _ := originals(t)
		bucket := fleet.Bucket(t, s, sites.Plain)
		inSite(t, s, "", bucket, sites.Owner).copyFrom(source).succeeds("copy")
		before := handsOn(t, s, bucket, sites.Owner).keys()
		says(t, inSite(t, s, "", bucket, sites.Owner).fails(6, "extend-snapshot-immutability", "--retention-period=24h"), "nothing here is locked", "bucket ensure")
		if after := handsOn(t, s, bucket, sites.Owner).keys(); !slices.Equal(before, after) {
			t.Errorf("it made something: %q, before %q", after, before)
		}
	})
}
