package copier

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"druid.internal/druid/internal/engine/catalog"
	"druid.internal/druid/internal/engine/enginetest"
	"druid.internal/druid/internal/engine/fetch"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/storetest"
)

// What comes to the destination between the plan and the copy, from a second copier for example.
func TestWhatArrivesMeanwhileIsComparedAndNeverOverwritten(t *testing.T) {
	victim := streams[1]
	other := manifest(t, victim, lineageA)
	other.Digest[0]++
	for title, c := range map[string]struct {
		key  string
		body []byte
		want error
	}{
		"the same object":        {victim, content(victim), nil},
		"another object":         {victim, bytes.ToUpper(content(victim)), ErrConflict},
		"the same manifest":      {"Manifest-" + victim, manifest(t, victim, lineageA).Encode(), nil},
		"another manifest":       {"Manifest-" + victim, other.Encode(), ErrConflict},
		"no manifest but a name": {"Manifest-" + victim, []byte("x"), ErrConflict},
	} {
		for way, wrap := range ways() {
			for kind, p := range profiles() {
				if !p.ConditionalPut && strings.HasPrefix(c.key, "Manifest-") {
					continue // there a second manifest is a further version, and the oldest counts
				}
				t.Run(title+", "+way+", "+kind, func(t *testing.T) {
					from, to := source(t, p, lineageA), newBucket(t, p)
					o := from.options()
					o.Parallel = 1
					cop := newCopier(t, from.Memory, wrap(to), o)
					plan, err := cop.Plan(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					to.raw(v2(newHome, c.key), c.body)
					if _, err := cop.Execute(t.Context(), plan); !errors.Is(err, c.want) {
						t.Errorf("copy = %v, want %v", err, c.want)
					}
					got := to.Versions(v2(newHome, c.key))
					if len(got) != 1 || got[0].Size != int64(len(c.body)) {
						t.Errorf("there are the versions %+v, want the one that came first", got)
					}
					if c.want == nil {
						to.wantCopies(streams...)
					}
				})
			}
		}
	}
}

func TestAManifestThatVanishesIsWrittenFromWhatWasRead(t *testing.T) {
	from, to := newBucket(t, storetest.S3Like()), newBucket(t, storetest.S3Like())
	from.put(oldHome, final(10, 0), lineageA)
	c := newCopier(t, from.Memory, to.Memory, from.options())
	p, err := c.Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	from.Lose(store.Version{Key: v2(oldHome, "Manifest-"+final(10, 0))})
	if _, err := c.Execute(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"lineage a 10-10"}, enginetest.Windows(to.timeline(newHome))); diff != "" {
		t.Errorf("restorable (-want +got):\n%s", diff)
	}
}

func TestAnUploadThatLostItsTailIsNotTakenForWhole(t *testing.T) {
	from, to := source(t, storetest.S3Like(), unnamed), newBucket(t, storetest.S3Like())
	f := storetest.NewFaulty(apart{to.Memory})
	f.Inject(storetest.Shorten(100).On(storetest.OpPut, streams[7]))
	if _, err := run(t, newCopier(t, from.Memory, f, from.options())); !errors.Is(err, fetch.ErrDamaged) {
		t.Errorf("copy = %v, want ErrDamaged", err)
	}
}

func TestWhatIsNotListedAfterTheCopyIsAnError(t *testing.T) {
	for title, harm := range map[string]func(b bucket, key string){
		"it is gone":             func(b bucket, key string) { b.Lose(store.Version{Key: key}) },
		"it has lost some bytes": func(b bucket, key string) { b.Truncate(b.Versions(key)[0].Version, 10) },
	} {
		from, to := source(t, storetest.S3Like(), lineageA), newBucket(t, storetest.S3Like())
		f := storetest.NewFaulty(to.Memory)
		f.Hook(func(op storetest.Op, key string, phase storetest.Phase) {
			if op == storetest.OpPut && phase == storetest.After && key == v2(newHome, "Manifest-"+streams[7]) {
				harm(to, v2(newHome, streams[7]))
			}
		})
		if _, err := run(t, newCopier(t, from.Memory, f, from.options())); err == nil || !strings.Contains(err.Error(), streams[7]) {
			t.Errorf("%s: copy = %v, want an error that names it", title, err)
		}
	}
}

func TestVersionsThatOnlyReadingTellsApartAreStreamed(t *testing.T) {
	from, to := newBucket(t, storetest.S3Like()), newBucket(t, storetest.S3Like())
	name := full(10, 0)
	from.Overwrite(v2(oldHome, name), bytes.ToUpper(content(name))) // a squatter was there first
	from.Overwrite(v2(oldHome, name), content(name))
	from.raw(v2(oldHome, "Manifest-"+name), manifest(t, name, lineageA).Encode())
	c := newCopier(t, from.Memory, to.Memory, from.options())
	p, err := c.Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	cat, err := catalog.Read(t.Context(), from.Memory, oldHome, catalog.Options{SkipDigests: true})
	if err != nil {
		t.Fatal(err)
	}
	if p.Steps[0].snap = cat.Timeline.Lineages[0].Snapshots[0]; len(p.Steps[0].snap.Candidates()) != 2 {
		t.Fatalf("there are %d candidates, want 2", len(p.Steps[0].snap.Candidates()))
	}
	r, err := c.Execute(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	to.wantCopies(name)
	if r.Items[0].How != Streamed {
		t.Errorf("it was copied %s, want %s", r.Items[0].How, Streamed)
	}
}

func TestTheStateProvesOnlyTheVersionItSaw(t *testing.T) {
	path := filepath.Join(t.TempDir(), "copy.json")
	from, to := source(t, storetest.S3Like(), lineageA), newBucket(t, storetest.S3Like())
	o := from.options()
	o.State = openState(t, path)
	mustRun(t, newCopier(t, from.Memory, apart{to.Memory}, o))
	key := v2(newHome, streams[0])
	to.Lose(store.Version{Key: key})
	to.Lose(store.Version{Key: v2(newHome, "Manifest-"+streams[0])})
	to.raw(key, bytes.ToUpper(content(streams[0])))
	if _, err := run(t, newCopier(t, from.Memory, apart{to.Memory}, o)); !errors.Is(err, ErrConflict) {
		t.Errorf("copy = %v, want ErrConflict", err)
	}
}

func TestOfTwoThatWouldHaveTheSameNameOneStaysBehind(t *testing.T) {
	from, to := newBucket(t, storetest.S3Like()), newBucket(t, storetest.S3Like())
	from.fill(oldHome, lineageA, full(10, 0), final(10, 0), delta(11, 20, 1))
	c := newCopier(t, from.Memory, to.Memory, from.options())
	p, err := c.Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Steps) != 2 || len(p.Left) != 1 || !strings.Contains(p.Left[0].Why, "would have the name of") {
		t.Errorf("%d steps, left %+v, want 2 and the doubled one", len(p.Steps), p.Left)
	}
	if _, err := c.Execute(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	to.wantCopies(full(10, 0), delta(11, 20, 1))
}

func TestLargeObjectsAreReadInRangesOfBoundedSize(t *testing.T) {
	from, to := newBucket(t, storetest.S3Like()), newBucket(t, storetest.S3Like())
	name := full(10, 0)
	body := bytes.Repeat([]byte("0123456789abcdef"), 64<<10) // 1 MiB
	from.raw(v2(oldHome, name), body)
	f := storetest.NewFaulty(from.Memory)
	o := from.options()
	o.Parallel, o.Ranges = 64, 8 // 256 KiB for each
	mustRun(t, newCopier(t, f, apart{to.Memory}, o))
	opens := 0
	for _, c := range f.Calls() {
		if c.Op == storetest.OpOpen && c.Key == v2(oldHome, name) {
			opens++
		}
	}
	if got := to.Versions(v2(newHome, name)); opens != 4 || len(got) != 1 || got[0].Size != int64(len(body)) {
		t.Errorf("read with %d requests into %+v, want 4 requests and all bytes", opens, got)
	}
}

func TestWhatTheStoreMayNotCopyIsStreamed(t *testing.T) {
	from, to := source(t, storetest.S3Like(), lineageA), newBucket(t, storetest.S3Like())
	f := storetest.NewFaulty(to.Memory)
	f.Inject(storetest.Fail(store.ErrForbidden).On(storetest.OpCopy, "").Always())
	o := from.options()
	o.Parallel = 1
	r := mustRun(t, newCopier(t, from.Memory, f, o))
	if n := f.Count(storetest.OpCopy); n != 1 || r.Items[0].How != Streamed {
		t.Errorf("the store was asked %d times and the first object was copied %s, want once and %s", n, r.Items[0].How, Streamed)
	}
	to.wantCopies(streams...)
}
