package e2e

import (
	"bytes"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"druid.internal/druid/test/sites"
	"druid.internal/druid/test/stores"
)

// newVault is a bucket in the hands of its owner.
func newVault(t *testing.T, m *stores.MinIO, bucket string) hands {
	return hands{t, m.S3.Raw(m.Root, bucket)}
}

// find is the key of the n-th object, in the order of names, whose name begins with the word.
func (h hands) find(word string, n int) string {
	h.t.Helper()
	for _, k := range h.keys() {
		if strings.HasPrefix(path.Base(k), word) {
			if n == 0 {
				return k
			}
			n--
		}
	}
	h.t.Fatalf("there are too few objects %s", word)
	return ""
}

// damage is what is done to the objects of a backup, and what comes of it.
type damage struct {
	only    func(k sites.Kind) bool // in these kinds of bucket; nil: in all
	do      func(h hands)
	finding string // its code; empty: none is expected
	about   string // part of the key
	code    int    // exit code of restoring the latest
	reaches int64  // with the loss accepted, where that is possible
}

func keepsVersions(k sites.Kind) bool { return k.Versions }
func keepsNothing(k sites.Kind) bool  { return !k.Versions }
func makesMarkers(k sites.Kind) bool  { return k.Markers }
func hidesUnmarked(k sites.Kind) bool { return k.Versions && !k.Markers }

// TestPropertyDamageIsNamedAndNeverRestoredWronglyOnAnyStore does to the objects of a bucket
// that locks nothing what attackers, operators and broken disks do: every other thing in each, with -soak all.
func TestPropertyDamageIsNamedAndNeverRestoredWronglyOnAnyStore(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 21, 60)
	w.useLocal(t.TempDir())
	last := w.backup(120)
	source := handsOnDirectory(t, w.place)
	deltas := w.list().all("Incr")
	if len(deltas) < 4 {
		t.Fatalf("only %d deltas", len(deltas))
	}
	original := map[string][]byte{}
	for _, k := range source.keys() {
		original[k] = source.get(k)
	}
	cases := damages(original, deltas, last)
	for _, name := range sites.Names() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := fleet.Get(t, name)
			for _, kind := range s.Kinds() {
				if kind.Locks || kind == sites.Plain && name != "Local" && name != "Swift" {
					continue // what a plain bucket keeps is the same everywhere: nothing
				}
				possible := slices.DeleteFunc(slices.Sorted(maps.Keys(cases)), func(what string) bool {
					only := cases[what].only
					return only != nil && !only(kind)
				})
				for _, what := range everyOther(t, possible) {
					t.Run(what, func(t *testing.T) {
						t.Parallel()
						w.suffers(t, s, kind, original, cases[what], last)
					})
				}
			}
		})
	}
}

// handsOnDirectory are hands on the container of a Local place.
func handsOnDirectory(t *testing.T, p place) hands {
	return hands{t, stores.Directory(strings.TrimPrefix(p.store[1], "--store-container="))}
}

// suffers damages a copy of the backup and looks what is told and restored.
func (w *world) suffers(t *testing.T, s sites.Site, kind sites.Kind, original map[string][]byte, c damage, last int64) {
	bucket := fleet.Bucket(t, s, kind)
	h := handsOn(t, s, bucket, sites.Owner)
	for k, b := range original {
		h.put(k, b)
	}
	c.do(h)
	on := *w
	on.t, on.place = t, inSite(t, s, "", bucket, sites.Owner)
	if l := on.list(); c.finding != "" && !l.found(c.finding, c.about) {
		t.Errorf("no finding %s about %s among\n%+v", c.finding, c.about, l.Findings)
	} else if c.finding == "" && c.code == 0 && len(l.Findings) > 0 {
		t.Errorf("findings about nothing: %+v", l.Findings)
	}
	dir := t.TempDir() + "/restored"
	o := on.run("restore", append([]string{"--data-dir=" + dir}, alone...)...)
	if o.code != c.code {
		t.Fatalf("restore exits with %d, want %d\n%s", o.code, c.code, o.stderr)
	}
	if o.code != 0 {
		if code := on.run("verify").code; code != 3 && code != 4 {
			t.Errorf("restore is refused and verify exits with %d", code)
		}
	}
	switch {
	case o.code == 0:
		on.check(dir, last)
		return
	case exists(dir):
		t.Error("it was refused and left a data directory")
	}
	o.line(t)
	if c.reaches > 0 {
		dir, err := on.restore(fmt.Sprintf("--accept-loss-to=%d", c.reaches))
		if err != nil {
			t.Fatalf("the loss was accepted: %v", err)
		}
		on.check(dir, c.reaches)
	}
}

// damages are the table. original is what is in the bucket before, last its last revision.
func damages(original map[string][]byte, deltas []listed, last int64) map[string]damage {
	ransom := []byte("your backups are encrypted, pay")
	return map[string]damage{
		"every object is hidden by a delete marker": {makesMarkers, func(h hands) {
			for k := range original {
				h.hide(k)
			}
		}, "marker", "Full-", 0, 0},
		"every object is overwritten by a ransom note": {keepsVersions, func(h hands) {
			for k := range original {
				h.put(k, ransom)
			}
		}, "versions", "Incr-", 0, 0},
		"every object is hidden and then overwritten": {makesMarkers, func(h hands) {
			for k := range original {
				h.hide(k)
				h.put(k, ransom)
			}
		}, "marker", "Incr-", 0, 0},
		"manifests have a second version": {keepsVersions, func(h hands) { h.put(h.find("Manifest-", 0), ransom) }, "many-manifests", "Full-", 0, 0},
		"newer versions are truncated": {keepsVersions, func(h hands) {
			for k, b := range original {
				h.put(k, b[:len(b)/2])
			}
		}, "versions", "Full-", 0, 0},
		"newer versions have the right size and another content": {keepsVersions, func(h hands) {
			for k, b := range original {
				h.put(k, bytes.Repeat([]byte{'x'}, len(b)))
			}
		}, "versions", "Full-", 0, 0},
		"foreign objects lie among them": {nil, func(h hands) {
			h.put(prefix+"/v2/README.md", ransom)
			h.put(prefix+"/v2/Incr-00000009-00000002-1700000000.gz", ransom)
		}, "foreign", "README.md", 0, 0},
		"another cluster's prefix begins with ours": {nil, func(h hands) {
			h.put(prefix+"-2/v2/Full-00000000-09999999-1999999999.gz", ransom)
			h.put(prefix+"-2/v2/README.md", ransom)
		}, "", "", 0, 0},
		"a delta in the middle is missing": {nil, func(h hands) { h.destroy(h.find("Incr-", 1), false) }, "gap", "Incr-", 3, deltas[0].To},
		"a delta in the middle is truncated": {nil, func(h hands) {
			k := h.find("Incr-", 1)
			h.replace(k, original[k][:len(original[k])/2])
		}, "", "", 3, deltas[0].To},
		"a delta in the middle is empty":   {nil, func(h hands) { h.replace(h.find("Incr-", 1), nil) }, "", "", 3, deltas[0].To},
		"a delta in the middle is garbage": {nil, func(h hands) { h.replace(h.find("Incr-", 1), ransom) }, "gap", "Incr-", 3, deltas[0].To},
		"a bit in a delta is flipped": {nil, func(h hands) {
			k := h.find("Incr-", 1)
			b := bytes.Clone(original[k])
			b[len(b)*3/4] ^= 4
			h.replace(k, b)
		}, "", "", 3, deltas[0].To},
		"two deltas have changed their names": {nil, func(h hands) {
			a, b := h.find("Incr-", 1), h.find("Incr-", 2)
			h.replace(a, original[b])
			h.replace(b, original[a])
		}, "header-mismatch", "Incr-", 3, deltas[0].To},
		"a delta claims to reach farther": {nil, func(h hands) {
			k := h.find("Incr-", len(deltas)-1)
			h.destroy(k, false)
			end := strings.LastIndex(k, fmt.Sprintf("-%08d-", last)) // a delta of one revision has it twice
			h.put(k[:end]+fmt.Sprintf("-%08d", last+7)+k[end+9:], original[k])
		}, "header-mismatch", "Incr-", 3, deltas[len(deltas)-2].To},
		"the full is missing":   {nil, func(h hands) { h.destroy(h.find("Full-", 0), false) }, "missing-snapshot", "Full-", 4, 0},
		"the full is truncated": {nil, func(h hands) { k := h.find("Full-", 0); h.replace(k, original[k][:len(original[k])-9]) }, "digest-mismatch", "Full-", 4, 0},
		"the full is garbage of the same size": {nil, func(h hands) {
			k := h.find("Full-", 0)
			h.replace(k, bytes.Repeat([]byte{'x'}, len(original[k])))
		}, "", "", 4, 0}, // a listing cannot know, verify does
		"the manifest is garbage": {nil, func(h hands) { h.replace(h.find("Manifest-", 0), ransom) }, "bad-manifest", "Full-", 3, 0},
		"the manifest is missing": {nil, func(h hands) { h.destroy(h.find("Manifest-", 0), false) }, "orphan", "", 3, 0},
		"of the full only a marker is left": {makesMarkers, func(h hands) {
			k := h.find("Full-", 0)
			h.hide(k)
			h.destroy(k, false)
		}, "gone", "Full-", 4, 0},
		"every object is deleted by its name, which leaves no marker": {hidesUnmarked, func(h hands) {
			for k := range original {
				h.hide(k)
			}
		}, "hidden", "Incr-", 0, 0},
		"every object is deleted by its name and then overwritten": {hidesUnmarked, func(h hands) {
			for k := range original {
				h.hide(k)
				h.put(k, ransom)
			}
		}, "versions", "Incr-", 0, 0},
		"every object is overwritten where nothing is kept": {keepsNothing, func(h hands) {
			for k := range original {
				h.put(k, ransom)
			}
		}, "bad-manifest", "Full-", 4, 0},
		"every object is deleted where nothing is kept": {keepsNothing, func(h hands) {
			for k := range original {
				h.hide(k)
			}
		}, "", "", 4, 0},
		"deltas are overwritten where nothing is kept": {keepsNothing, func(h hands) {
			for k := range original {
				if strings.Contains(k, "/Incr-") {
					h.put(k, ransom)
				}
			}
		}, "no-metadata", "Incr-", 3, 0},
	}
}
