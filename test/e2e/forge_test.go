package e2e

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/test/sites"
)

// counterfeit is what whoever may write adds to a backup, under names that are free: no lock refuses that. What is locked stays,
// and is restored when the forgery is excluded, or by naming its lineage and last revision. The lines are those of the table in
// docs/operations/immutability.md.
type counterfeit struct {
	name    string
	objects func(f forger) map[string][]byte // by name
	finding string                           // in the next listing; empty: a listing cannot tell it from what the writer does
	restore result                           // of the newest state
	verify  int                              // exit code of verifying what a restore would use
	refuses bool                             // further backups
}

// result is what a restore comes to.
type result string

const (
	ours    result = "ours"    // the forgery is passed over
	nothing result = "nothing" // nothing is restored, and the forgery is named
	theirs  result = "theirs"  // what was forged is restored
)

// forger has what one needs to forge.
type forger struct {
	ours, theirs snapshot.Manifest // of fulls
	database     []byte            // another cluster's full
	last         snapshot.Revision // of the backup
	claims       time.Time         // when what is forged claims to be from
}

var nonsense = bytes.Repeat([]byte("pay"), 1000)

// full is one, with a manifest like another's.
func (f forger) full(content []byte, last snapshot.Revision, like *snapshot.Manifest) map[string][]byte {
	name := fmt.Sprintf("Full-00000000-%08d-%d.zst", last, f.claims.Unix())
	objects := map[string][]byte{name: content}
	if like != nil {
		m := *like
		m.Snapshot, m.Digest, m.Size, m.LastRevision, m.Latest = name, sha256.Sum256(content), int64(len(content)), last, f.claims
		objects["Manifest-"+name] = m.Encode()
	}
	return objects
}

var counterfeits = []counterfeit{
	{
		name:    "a full of nonsense",
		objects: func(f forger) map[string][]byte { return f.full(nonsense, f.last+1000, nil) },
		finding: "no-metadata", restore: nothing, verify: 4,
	},
	{
		name:    "a full of nonsense with a manifest, and further than what is there",
		objects: func(f forger) map[string][]byte { return f.full(nonsense, f.last+1000, &f.ours) },
		finding: "hole", restore: nothing, verify: 4,
	},
	{
		name:    "a full of nonsense with a manifest, as far as what is there",
		objects: func(f forger) map[string][]byte { return f.full(nonsense, f.last, &f.ours) },
		restore: ours, verify: 4,
	},
	{
		name:    "a full of another cluster",
		objects: func(f forger) map[string][]byte { return f.full(f.database, f.theirs.LastRevision, nil) },
		finding: "no-metadata", restore: nothing, verify: 4,
	},
	{
		name: "a full of another cluster with a manifest that says it is this one's",
		objects: func(f forger) map[string][]byte {
			m := f.theirs
			m.Lineage, m.ClusterID = f.ours.Lineage, f.ours.ClusterID
			return f.full(f.database, m.LastRevision, &m)
		},
		finding: "hole", restore: theirs,
	},
	{
		name:    "a full of another cluster with its manifest",
		objects: func(f forger) map[string][]byte { return f.full(f.database, f.theirs.LastRevision, &f.theirs) },
		finding: "stranger", restore: theirs,
	},
	{
		name: "a delta of nonsense",
		objects: func(f forger) map[string][]byte {
			return map[string][]byte{fmt.Sprintf("Incr-%08d-%08d-%d.zst", f.last+1, f.last+9, f.claims.Unix()): nonsense}
		},
		finding: "orphan", restore: nothing, verify: 4,
	},
	{
		name: "an owner record that names somebody else",
		objects: func(forger) map[string][]byte {
			return map[string][]byte{"Owner-00000002": []byte(`{"version":1,"id":"somebody"}`)}
		},
		restore: ours, refuses: true,
	},
	{
		name:    "nonsense in the place of the owner record",
		objects: func(forger) map[string][]byte { return map[string][]byte{"Owner-00000003": nonsense} },
		finding: "bad-owner", restore: ours, refuses: true,
	},
}

// TestForgeriesHarmNothingThatIsLocked adds each to a backup in the kind of bucket of each site that protects best, with the
// writer's credentials.
func TestForgeriesHarmNothingThatIsLocked(t *testing.T) {
	t.Parallel()
	w, other, f := twoClusters(t, 134)
	last, origin := w.history.Last(), w.place
	for _, name := range sites.Names() {
		kind, locks := locked(fleet.Get(t, name))
		if !locks {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := fleet.Get(t, name)
			if byName, can := sites.ByIdentity(s); can {
				s = byName // by SAS the writer sees no exclusions, and would go on restoring a forgery
			}
			on := *w
			on.t = t
			bucket := on.useBucket(s, kind, sites.Owner)
			on.copyFrom(origin).succeeds("copy")
			before := handsOn(t, s, bucket, sites.Owner).versions("")
			owner := on.place
			who := sites.Writer
			if name == "Ceph" {
				who = sites.Owner // he cannot read there what others wrote
			}
			on.place = inSite(t, s, "", bucket, who)
			f, theirs := f, *other
			theirs.t = t
			for i, x := range counterfeits {
				f.claims = time.Now().Add(time.Duration(i+1) * time.Minute).UTC()
				name := on.misled(x, f, handsOn(t, s, bucket, who), &theirs)
				if !x.refuses {
					dir, err := on.restore("--lineage="+string(f.ours.Lineage.ID), fmt.Sprintf("--to-revision=%d", last))
					if err != nil {
						t.Fatalf("%s: what was there before it: %v", x.name, err)
					}
					on.check(dir, last)
					owner.succeeds("exclude", "--yes-leave-nothing", name) // it may be all of a lineage
				}
			}
			on.unharmed(s, bucket, kind, before, last)
		})
	}
}

// misled adds a forgery, whose name it returns, and looks what is told and restored.
func (w *world) misled(x counterfeit, f forger, h hands, other *world) (name string) {
	t := w.t
	t.Helper()
	for n, content := range x.objects(f) {
		h.put(prefix+"/v2/"+n, content)
		if !strings.HasPrefix(n, "Manifest-") {
			name = n
		}
	}
	if l := w.list(); !l.found(x.finding, name) && x.finding != "" || l.found("", name) && x.finding == "" {
		t.Errorf("%s: want the finding %q about %s among\n%+v", x.name, x.finding, name, l.Findings)
	}
	if o := w.run("verify"); o.code != x.verify {
		t.Errorf("%s: verify exits with %d, want %d\n%s%s", x.name, o.code, x.verify, o.stdout, o.stderr)
	}
	if x.restore == nothing {
		says(t, w.fails(3, "restore", slices.Concat([]string{"--data-dir=" + t.TempDir() + "/restored"}, alone)...), name)
	} else {
		dir, err := w.restore()
		if err != nil {
			t.Fatalf("%s: %v", x.name, err)
		}
		of := map[result]*world{ours: w, theirs: other}[x.restore]
		of.check(dir, of.history.Last())
	}
	if x.refuses {
		says(t, w.fails(3, "snapshot", "--endpoints="+w.etcd.Endpoint()), "--take-over")
	}
	return name
}

// twoClusters are backups of two clusters, that of the other a mere full which is further.
func twoClusters(t *testing.T, seed int64) (w, other *world, f forger) {
	t.Helper()
	w, other = newWorld(t, seed, 60), newWorld(t, seed+1, 60)
	w.useLocal(t.TempDir())
	other.useLocal(t.TempDir())
	w.backup(60)
	other.write(300)
	other.backup(0)
	read := func(w *world) (m snapshot.Manifest, content []byte) {
		h := handsOnDirectory(t, w.place)
		full := h.find("Full-", 0)
		name, err := snapshot.ParseName(path.Base(full))
		h.must(err)
		m, err = snapshot.ParseManifest(name, h.get(h.find("Manifest-Full-", 0)))
		h.must(err)
		return m, h.get(full)
	}
	f.ours, _ = read(w)
	f.theirs, f.database = read(other)
	f.last, f.claims = snapshot.Revision(w.history.Last()), time.Now().Add(time.Minute).UTC()
	return w, other, f
}

// TestAForgeryIsAllThatIsRestoredWhereTheGenuineCanBeDeleted is the proof that it is the locks on which the table stands.
func TestAForgeryIsAllThatIsRestoredWhereTheGenuineCanBeDeleted(t *testing.T) {
	t.Parallel()
	w, other, f := twoClusters(t, 136)
	origin := w.place
	for _, name := range sites.Names() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := fleet.Get(t, name)
			on, theirs := *w, *other
			on.t, theirs.t = t, t
			bucket := on.useBucket(s, sites.Plain, sites.Owner)
			on.copyFrom(origin).succeeds("copy")
			h := handsOn(t, s, bucket, sites.Owner)
			for _, key := range h.keys() {
				h.destroy(key, true)
			}
			for name, content := range f.full(f.database, f.theirs.LastRevision, &f.theirs) {
				h.put(prefix+"/v2/"+name, content)
			}
			dir, err := on.restore()
			if err != nil {
				t.Fatal(err)
			}
			theirs.check(dir, theirs.history.Last())
		})
	}
}
