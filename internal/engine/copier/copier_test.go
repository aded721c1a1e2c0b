package copier

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/engine/enginetest"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/storetest"
)

var update = flag.Bool("update", false, "write the golden files anew")

// ways are the two paths, on different kinds of destinations.
func ways() map[string]func(b bucket) store.Store {
	return map[string]func(b bucket) store.Store{
		"inside the store": func(b bucket) store.Store { return b.Memory },
		"streamed":         func(b bucket) store.Store { return apart{b.Memory} },
	}
}

func profiles() map[string]storetest.Profile {
	return map[string]storetest.Profile{"versions": storetest.S3Like(), "overwriting allowed": storetest.CephLike(), "no versions": storetest.GCSLike(), "bare": storetest.Bare()}
}

func TestEverythingRestorableArrivesWithItsManifests(t *testing.T) {
	for way, wrap := range ways() {
		for title, p := range profiles() {
			for _, verify := range []bool{false, true} {
				t.Run(way+", "+title, func(t *testing.T) {
					from, to := source(t, p, lineageA), newBucket(t, p)
					o := from.options()
					o.Verify = verify
					r := mustRun(t, newCopier(t, from.Memory, wrap(to), o))
					if diff := cmp.Diff(enginetest.WithManifests(streams...), to.keys(newHome)); diff != "" {
						t.Errorf("what arrived (-want +got):\n%s", diff)
					}
					to.wantCopies(streams...)
					if diff := cmp.Diff(enginetest.Windows(from.timeline(oldHome)), enginetest.Windows(to.timeline(newHome))); diff != "" {
						t.Errorf("restorable (-source +destination):\n%s", diff)
					}
					for _, i := range r.Items {
						want := ReadBack
						if way == "streamed" && !verify {
							want = OnTheWay
						}
						if i.State != Copied || i.Proof != want || (i.How == Streamed) != (way == "streamed") {
							t.Errorf("%s: %s, %s, proof %q, want %q", i.To, i.State, i.How, i.Proof, want)
						}
					}
				})
			}
		}
	}
}

func TestABucketOfTheOriginalIsCopiedWithoutManifests(t *testing.T) {
	for way, wrap := range ways() {
		t.Run(way, func(t *testing.T) {
			from, to := source(t, storetest.S3Like(), unnamed), newBucket(t, storetest.S3Like())
			r := mustRun(t, newCopier(t, from.Memory, wrap(to), from.options()))
			want := slices.Sorted(slices.Values(streams))
			if diff := cmp.Diff(want, to.keys(newHome)); diff != "" {
				t.Errorf("what arrived (-want +got):\n%s", diff)
			}
			to.wantCopies(streams...)
			for _, i := range r.Items {
				if i.How != Streamed || i.Proof != AsRead || i.Digest.IsZero() {
					t.Errorf("%s came %s, proof %q, digest %s; want it streamed and what was read recorded", i.To, i.How, i.Proof, i.Digest)
				}
			}
		})
	}
}

func TestAFinalFullIsNotFinalAtTheDestination(t *testing.T) {
	from, to := newBucket(t, storetest.S3Like()), newBucket(t, storetest.S3Like())
	name := final(10, 0)
	from.fill(oldHome, lineageA, name)
	// A field that this program does not know must survive.
	m := bytes.Replace(manifest(t, name, lineageA).Encode(), []byte(`{`), []byte(`{"future":[1,2],`), 1)
	from.Lose(store.Version{Key: v2(oldHome, "Manifest-"+name)})
	from.raw(v2(oldHome, "Manifest-"+name), m)
	mustRun(t, newCopier(t, from.Memory, to.Memory, from.options()))
	if diff := cmp.Diff(enginetest.WithManifests(plain(name)), to.keys(newHome)); diff != "" {
		t.Errorf("what arrived (-want +got):\n%s", diff)
	}
	key := v2(newHome, "Manifest-"+plain(name))
	body, err := to.Open(t.Context(), to.Versions(key)[0].Version, 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.NewDecoder(body).Decode(&fields); err != nil {
		t.Fatal(err)
	}
	if fields["snapshot"] != plain(name) || fields["future"] == nil || fields["etcdVersion"] != "3.6.16" {
		t.Errorf("the manifest says %v", fields)
	}
	if got := enginetest.Windows(to.timeline(newHome)); !slices.Equal(got, []string{"lineage a 10-10"}) {
		t.Errorf("restorable is %q", got)
	}
}

func TestLayoutV1StaysLayoutV1(t *testing.T) {
	from, to := newBucket(t, storetest.S3Like()), newBucket(t, storetest.S3Like())
	names := []string{"v1/Backup-1772445600/" + full(10, 0), "v1/Backup-1772445600/" + delta(11, 20, 1)}
	for _, n := range names {
		from.raw(oldHome+"/"+n, []byte(n))
	}
	mustRun(t, newCopier(t, from.Memory, to.Memory, from.options()))
	if diff := cmp.Diff(names, to.keys(newHome)); diff != "" {
		t.Errorf("what arrived (-want +got):\n%s", diff)
	}
}

func TestOnlyWhatTheFiltersLetThroughIsCopied(t *testing.T) {
	type filter struct {
		backups int
		age     time.Duration
		want    []string
	}
	for title, c := range map[string]filter{
		"everything":                 {All, All, streams},
		"the newest stream":          {1, All, streams[5:]},
		"the newest two streams":     {2, All, streams[3:]},
		"more than there are":        {99, All, streams},
		"not older than a day":       {All, 24*time.Hour + 30*time.Minute, streams[5:]},
		"one, not older than a week": {1, 7 * 24 * time.Hour, streams[5:]},
		"nothing is young enough":    {All, time.Minute, nil},
	} {
		t.Run(title, func(t *testing.T) {
			from, to := source(t, storetest.S3Like(), lineageA), newBucket(t, storetest.S3Like())
			from.Clock.Advance(3 * 24 * time.Hour) // a day after the last full
			o := from.options()
			o.MaxBackups, o.MaxAge = c.backups, c.age
			cop := newCopier(t, from.Memory, to.Memory, o)
			p, err := cop.Plan(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if got, want := len(p.Steps)+len(p.Left), len(streams); got != want {
				t.Errorf("the plan tells of %d snapshots, want %d", got, want)
			}
			if (len(c.want) == 0) != slices.ContainsFunc(p.Warnings, func(s string) bool { return strings.Contains(s, "nothing is to be copied") }) {
				t.Errorf("warnings: %q", p.Warnings)
			}
			if _, err := cop.Execute(t.Context(), p); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(enginetest.WithManifests(c.want...), to.keys(newHome)); diff != "" {
				t.Errorf("what arrived (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFiltersThatLetNothingThroughAndCopiesOntoThemselvesAreRefused(t *testing.T) {
	b := newBucket(t, storetest.S3Like())
	for title, c := range map[string]struct {
		o        Options
		from, to snapshot.Prefix
	}{
		"no backups":      {Options{MaxBackups: 0, MaxAge: All}, oldHome, newHome},
		"no age":          {Options{MaxBackups: All, MaxAge: 0}, oldHome, newHome},
		"the same prefix": {b.options(), oldHome, oldHome},
	} {
		if _, err := New(Source{b.Memory, c.from}, Destination{b.Memory, c.to}, c.o); err == nil {
			t.Errorf("%s: there is a copier", title)
		}
	}
}

func TestWhatCannotBeRestoredStaysBehindAndIsNamed(t *testing.T) {
	from, to := newBucket(t, storetest.AzureLike()), newBucket(t, storetest.AzureLike())
	from.fill(oldHome, lineageA, delta(1, 9, 0), full(10, 1), delta(11, 20, 2), full(20, 3), delta(21, 30, 4), delta(31, 40, 5))
	if err := from.SetTag(t.Context(), from.Versions(v2(oldHome, full(20, 3)))[0].Version, "x-etcd-snapshot-exclude", "true"); err != nil {
		t.Fatal(err)
	}
	from.Truncate(from.Versions(v2(oldHome, delta(31, 40, 5)))[0].Version, 7)
	from.raw(v2(oldHome, full(50, 6)+"/0000000001"), []byte("a chunk"))
	from.raw(snapshot.OwnerKey(oldHome, 1).String(), []byte(`{"version":1,"id":"a"}`))
	c := newCopier(t, from.Memory, to.Memory, from.options())
	p, err := c.Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Execute(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(enginetest.WithManifests(full(10, 1), delta(11, 20, 2), delta(21, 30, 4)), to.keys(newHome)); diff != "" {
		t.Errorf("what arrived (-want +got):\n%s", diff)
	}
	want := []Left{
		{v2(oldHome, delta(1, 9, 0)), "no usable full comes before it"},
		{v2(oldHome, full(20, 3)), "it is excluded"},
		{v2(oldHome, delta(31, 40, 5)), "its bytes are not the ones its manifest describes"},
	}
	if diff := cmp.Diff(want, p.Left); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
	if len(p.Warnings) != 1 || !strings.Contains(p.Warnings[0], "up to 40") {
		t.Errorf("warnings = %q, want one that names revision 40", p.Warnings)
	}
}

func TestASourceOfWhichNothingCouldBeRestoredIsAnError(t *testing.T) {
	for title, c := range map[string]struct {
		fill func(b bucket)
		says string
	}{
		"nothing is there":         {func(bucket) {}, "no snapshots"},
		"it is below another name": {func(b bucket) { b.fill(oldHome+"-2", lineageA, streams...) }, "no snapshots"},
		"there are only deltas":    {func(b bucket) { b.fill(oldHome, lineageA, streams[1:3]...) }, "no usable full"},
	} {
		t.Run(title, func(t *testing.T) {
			from, to := newBucket(t, storetest.S3Like()), newBucket(t, storetest.S3Like())
			c.fill(from)
			cop := newCopier(t, from.Memory, to.Memory, from.options())
			if _, err := cop.WaitForFinal(t.Context(), time.Second); err != nil {
				t.Errorf("waiting for a final full = %v, want no error before the copy itself", err)
			}
			if _, err := cop.Plan(t.Context()); !errors.Is(err, ErrNothing) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), oldHome) {
				t.Errorf("Plan = %v, want ErrNothing, %q and the prefix", err, c.says)
			}
		})
	}
}

func TestLineagesStayApart(t *testing.T) {
	from, to := source(t, storetest.S3Like(), lineageA), newBucket(t, storetest.S3Like())
	from.fill(oldHome, lineageB, full(36, 3000), delta(37, 45, 3010))
	mustRun(t, newCopier(t, from.Memory, to.Memory, from.options()))
	if diff := cmp.Diff([]string{"lineage b 36-45", "lineage a 10-60"}, enginetest.Windows(to.timeline(newHome))); diff != "" {
		t.Errorf("restorable (-want +got):\n%s", diff)
	}
	// Counting starts with the newest lineage.
	to = newBucket(t, storetest.S3Like())
	o := from.options()
	o.MaxBackups = 2
	mustRun(t, newCopier(t, from.Memory, to.Memory, o))
	if diff := cmp.Diff([]string{"lineage b 36-45", "lineage a 40-60"}, enginetest.Windows(to.timeline(newHome))); diff != "" {
		t.Errorf("of two fulls, restorable (-want +got):\n%s", diff)
	}
}

func TestOfSeveralVersionsTheGenuineOneIsCopied(t *testing.T) {
	for way, wrap := range ways() {
		t.Run(way, func(t *testing.T) {
			from, to := source(t, storetest.S3Like(), lineageA), newBucket(t, storetest.S3Like())
			forged := bytes.ToUpper(content(streams[0])) // of the same size
			from.Overwrite(v2(oldHome, streams[0]), forged)
			if _, err := from.Hide(v2(oldHome, streams[1])); err != nil {
				t.Fatal(err)
			}
			mustRun(t, newCopier(t, from.Memory, wrap(to), from.options()))
			to.wantCopies(streams...)
		})
	}
}

func TestTheOrderKeepsTheDestinationRestorable(t *testing.T) {
	for way, wrap := range ways() {
		t.Run(way, func(t *testing.T) {
			from, to := source(t, storetest.S3Like(), lineageA), newBucket(t, storetest.S3Like())
			f := storetest.NewFaulty(wrap(to))
			o := from.options()
			o.Parallel = 1
			f.Hook(func(op storetest.Op, key string, phase storetest.Phase) {
				// Without its manifest a snapshot is not of its lineage yet.
				if phase != storetest.After || op != storetest.OpPut || !strings.Contains(key, "Manifest-") {
					return
				}
				for _, finding := range to.timeline(newHome).Findings {
					if finding.Severity == timeline.Danger {
						t.Errorf("after %s: %s", key, finding)
					}
				}
			})
			mustRun(t, newCopier(t, from.Memory, f, o))
			var got []string
			for _, c := range f.Calls() {
				if c.Op == storetest.OpPut || way != "streamed" && c.Op == storetest.OpCopy {
					got = append(got, strings.TrimPrefix(c.Key, newHome+"/v2/"))
				}
			}
			var want []string
			for _, n := range streams {
				want = append(want, n, "Manifest-"+n)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("order of writing (-want +got):\n%s", diff)
			}
		})
	}
}

func TestThePlanAndTheReportArePrinted(t *testing.T) {
	from, to := source(t, storetest.S3Like(), lineageA), newBucket(t, storetest.S3Like())
	from.fill(oldHome, lineageA, final(60, 3000))
	o := from.options()
	o.MaxBackups, o.Parallel = 3, 1
	to.raw(v2(newHome, streams[3]), content(streams[3]))
	to.raw(v2(newHome, streams[4]), []byte("something else"))
	c := newCopier(t, from.Memory, apart{to.Memory}, o)
	p, err := c.Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := p.WriteTable(&text); err != nil {
		t.Fatal(err)
	}
	enginetest.Golden(t, "plan.txt", text.Bytes(), *update)
	b, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	enginetest.Golden(t, "plan.json", append(b, '\n'), *update)
	r, err := c.Execute(t.Context(), p)
	if !errors.Is(err, ErrConflict) {
		t.Errorf("Execute = %v, want ErrConflict", err)
	}
	text.Reset()
	if err := r.WriteTable(&text); err != nil {
		t.Fatal(err)
	}
	enginetest.Golden(t, "report.txt", text.Bytes(), *update)
}
