package copier

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/storetest"
)

func openState(t *testing.T, path string) *State {
	t.Helper()
	s, err := OpenState(path)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestTheStateFileTellsWhatBecameOfEachObject(t *testing.T) {
	path := filepath.Join(t.TempDir(), "copy.json")
	from, to := source(t, storetest.S3Like(), lineageA), newBucket(t, storetest.S3Like())
	o := from.options()
	o.State, o.Parallel = openState(t, path), 1
	c := newCopier(t, from.Memory, apart{to.Memory}, o)
	p, err := c.Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	from.Lose(store.Version{Key: v2(oldHome, streams[0])})
	r, err := c.Execute(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	got := openState(t, path)
	for i, n := range streams {
		e := got.find(v2(newHome, n))
		want := map[int]Status{0: NotFound, 1: None, 2: None}[i]
		if want == "" {
			want = Copied
		}
		if e.State != want || e.Source != v2(oldHome, n) || want == Copied && (e.Digest != r.Items[i].Digest || e.Digest.IsZero() || e.Version == "") {
			t.Errorf("%s: %+v, want %s", n, e, want)
		}
	}
	// Nothing of the state is needed to go on, and it believes no more than the destination shows.
	to.Lose(store.Version{Key: v2(newHome, streams[3])})
	o.State = got
	mustRun(t, newCopier(t, from.Memory, apart{to.Memory}, o))
	to.wantCopies(streams[3:]...)
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".*")); err != nil || len(left) > 0 {
		t.Errorf("temporary files are left: %q, %v", left, err)
	}
}

func TestTheStateSavesReadingBackWhatNoManifestProvesYet(t *testing.T) {
	path := filepath.Join(t.TempDir(), "copy.json")
	from, to := source(t, storetest.S3Like(), lineageA), newBucket(t, storetest.S3Like())
	o := from.options()
	o.State = openState(t, path)
	mustRun(t, newCopier(t, from.Memory, apart{to.Memory}, o))
	to.Lose(store.Version{Key: v2(newHome, "Manifest-"+streams[0])})
	for title, c := range map[string]struct {
		state *State
		want  Action
	}{"with the state": {openState(t, path), Present}, "without": {nil, Check}} {
		o.State = c.state
		p, err := newCopier(t, from.Memory, apart{to.Memory}, o).Plan(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Steps[0].Action; got != c.want {
			t.Errorf("%s the plan is to %s, want %s", title, got, c.want)
		}
	}
}

func TestTheStateSavesReadingBackWhatNoManifestDescribes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "copy.json")
	from, to := source(t, storetest.S3Like(), unnamed), newBucket(t, storetest.S3Like())
	o := from.options()
	o.State = openState(t, path)
	mustRun(t, newCopier(t, from.Memory, to.Memory, o))
	o.State = openState(t, path)
	f := storetest.NewFaulty(to.Memory)
	for _, i := range mustRun(t, newCopier(t, from.Memory, f, o)).Items {
		if i.State != Copied || i.Proof != ByRecord || i.Digest.IsZero() {
			t.Errorf("%+v, want the proof %q", i, ByRecord)
		}
	}
	if n := f.Count(storetest.OpOpen); n != 0 {
		t.Errorf("%d objects were read, want none", n)
	}
	// Another version at the source is another object.
	from.Overwrite(v2(oldHome, streams[0]), content(streams[0]))
	from.Lose(from.Versions(v2(oldHome, streams[0]))[1].Version)
	p, err := newCopier(t, from.Memory, to.Memory, o).Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if p.Steps[0].Action != Check || p.Steps[1].Action != Present {
		t.Errorf("the plan is to %s and %s, want %s and %s", p.Steps[0].Action, p.Steps[1].Action, Check, Present)
	}
}

func TestTheStateOfAnotherCopyIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "copy.json")
	from, to := source(t, storetest.S3Like(), lineageA), newBucket(t, storetest.S3Like())
	o := from.options()
	o.State = openState(t, path)
	mustRun(t, newCopier(t, from.Memory, to.Memory, o))
	o.State = openState(t, path)
	c, err := New(Source{from.Memory, oldHome}, Destination{to.Memory, "elsewhere"}, o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Plan(t.Context()); err == nil || !strings.Contains(err.Error(), "elsewhere") || !strings.Contains(err.Error(), newHome) {
		t.Errorf("Plan = %v, want an error that names both", err)
	}
}

func TestAnUnusableStateFileIsAnErrorWithARemedy(t *testing.T) {
	for title, text := range map[string]string{
		"empty": "", "not JSON": "x", "another version": `{"version":2}`, "an unknown state": `{"version":1,"objects":{"k":{"state":"Perhaps"}}}`,
	} {
		path := filepath.Join(t.TempDir(), "copy.json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenState(path); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "remove it") {
			t.Errorf("%s: %v, want an error with the path and the remedy", title, err)
		}
	}
	o := Options{MaxBackups: All, MaxAge: All}
	from, to := source(t, storetest.S3Like(), lineageA), newBucket(t, storetest.S3Like())
	o.State = openState(t, filepath.Join(t.TempDir(), "no", "such", "directory", "copy.json"))
	if _, err := run(t, newCopier(t, from.Memory, to.Memory, o)); err == nil || !strings.Contains(err.Error(), "copy manifest") {
		t.Errorf("copy = %v, want an error about the copy manifest", err)
	}
}

func FuzzState(f *testing.F) {
	f.Add([]byte(`{"version":1,"from":"a","to":"b","objects":{"k":{"state":"Copied","size":1,"digest":"` + strings.Repeat("ab", 32) + `"}}}`))
	f.Add([]byte(`{"version":1,"objects":null}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := parseState(b)
		if err != nil {
			return
		}
		path := filepath.Join(t.TempDir(), "copy.json")
		s := &State{path: path, content: c}
		if err := s.save(); err != nil {
			t.Fatal(err)
		}
		again, err := OpenState(path)
		if err != nil {
			t.Fatalf("what was saved cannot be read: %v", err)
		}
		if diff := cmp.Diff(c, again.content); diff != "" {
			t.Errorf("saved and read (-before +after):\n%s", diff)
		}
	})
}
