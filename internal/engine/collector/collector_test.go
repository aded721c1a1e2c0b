package collector

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

	"druid.internal/druid/internal/backup/retention"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/engine/enginetest"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/storetest"
)

var update = flag.Bool("update", false, "write the golden files anew")

func profiles() map[string]storetest.Profile {
	return map[string]storetest.Profile{
		"versions, locks asked for one by one": storetest.S3Like(),
		"versions, locks listed":               storetest.AzureLike(),
		"versions, overwriting allowed":        storetest.CephLike(),
		"no versions":                          storetest.GCSLike(),
	}
}

func TestWhatThePolicyLetsGoIsDeletedAndTheNewestChainStays(t *testing.T) {
	for title, p := range profiles() {
		t.Run(title, func(t *testing.T) {
			b := newBucket(t, p)
			b.fill("a", threeStreams, nil)
			r := collect(t, New(b, b, b.options(keepOne)))
			if diff := cmp.Diff(enginetest.WithManifests(threeStreams[5:]...), b.keys()); diff != "" {
				t.Errorf("what is left (-want +got):\n%s", diff)
			}
			if got, want := r.Total(Deleted).Objects, 10; got != want || len(r.Outcomes) != want || len(r.Remaining) > 0 {
				t.Errorf("report: deleted %d of %d, remaining %v, want all %d", got, len(r.Outcomes), r.Remaining, want)
			}
		})
	}
}

func TestTheOrderLeavesChainsBehind(t *testing.T) {
	b := newBucket(t, storetest.S3Like())
	b.fill("a", threeStreams, nil)
	f := storetest.NewFaulty(b.Memory)
	collect(t, New(f, f, b.options(keepOne)))
	var got []string
	for _, c := range f.Calls() {
		if c.Op == storetest.OpDelete {
			got = append(got, strings.TrimPrefix(c.Key, prefix+"/v2/"))
		}
	}
	var want []string
	for _, n := range []string{threeStreams[2], threeStreams[1], threeStreams[0], threeStreams[4], threeStreams[3]} {
		want = append(want, n, "Manifest-"+n)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("order of deletion (-want +got):\n%s", diff)
	}
}

func TestAPlanDeletesNothing(t *testing.T) {
	b := newBucket(t, storetest.S3Like())
	b.fill("a", threeStreams, nil)
	f := storetest.NewFaulty(b.Memory)
	p := plan(t, New(f, f, b.options(keepOne)))
	if n := f.Count(storetest.OpDelete); n != 0 || len(p.Deletions()) != 10 {
		t.Errorf("planning made %d deletions and plans %d, want none and 10", n, len(p.Deletions()))
	}
}

func TestNoPolicyDeletesNothing(t *testing.T) {
	b := newBucket(t, storetest.S3Like())
	b.fill("a", threeStreams, nil)
	want := b.keys()
	f := storetest.NewFaulty(b.Memory)
	collect(t, New(f, f, b.options(retention.Policy{})))
	if diff := cmp.Diff(want, b.keys()); diff != "" || f.Count(storetest.OpDelete) > 0 {
		t.Errorf("the bucket changed (-want +got):\n%s", diff)
	}
}

func TestAPlanIsPrintedAsATableAndAsJSON(t *testing.T) {
	b := newBucket(t, storetest.S3Like())
	b.fill("a", threeStreams, func(name string) store.PutOptions {
		if name == threeStreams[3] {
			return lockedUntil(start.Add(30 * 24 * time.Hour))
		}
		return store.PutOptions{}
	})
	p := plan(t, New(b, b, b.options(keepOne)))
	var table bytes.Buffer
	if err := p.WriteTable(&table); err != nil {
		t.Fatal(err)
	}
	text, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	r, err := New(b, b, b.options(keepOne)).Execute(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	var report bytes.Buffer
	if err := r.WriteTable(&report); err != nil {
		t.Fatal(err)
	}
	enginetest.Golden(t, "plan.txt", table.Bytes(), *update)
	enginetest.Golden(t, "plan.json", append(text, '\n'), *update)
	enginetest.Golden(t, "report.txt", report.Bytes(), *update)
}

func TestALockBlocksUntilItHasEndedByTheStoresClock(t *testing.T) {
	for title, p := range profiles() {
		t.Run(title, func(t *testing.T) {
			b := newBucket(t, p)
			until := start.Add(30 * 24 * time.Hour)
			b.fill("a", threeStreams, func(string) store.PutOptions { return lockedUntil(until) })
			want := b.keys()
			c := New(b, b, b.options(keepOne))
			p := plan(t, c)
			if n := len(p.Deletions()); n != 0 || p.Total(retention.Blocked).Objects != 10 {
				t.Fatalf("plan deletes %d and blocks %d, want 0 and 10", n, p.Total(retention.Blocked).Objects)
			}
			collect(t, c)
			b.Clock.Advance(until.Sub(b.Clock.Now()) + time.Minute) // ended, within the margin
			collect(t, c)
			if diff := cmp.Diff(want, b.keys()); diff != "" {
				t.Fatalf("something locked went (-want +got):\n%s", diff)
			}
			b.Clock.Advance(time.Hour)
			collect(t, c)
			if diff := cmp.Diff(enginetest.WithManifests(threeStreams[5:]...), b.keys()); diff != "" {
				t.Errorf("what is left (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAFastLocalClockDeletesNothingEarly(t *testing.T) {
	b := newBucket(t, storetest.S3Like())
	b.fill("a", threeStreams, func(string) store.PutOptions { return lockedUntil(start.Add(30 * 24 * time.Hour)) })
	want := b.keys()
	o := b.options(keepOne)
	o.Now = func() time.Time { return b.Clock.Now().AddDate(10, 0, 0) }
	if p := plan(t, New(b, b, o)); len(p.Deletions()) != 0 {
		t.Errorf("by a clock ten years ahead %d versions would be deleted, want none", len(p.Deletions()))
	}
	if diff := cmp.Diff(want, b.keys()); diff != "" {
		t.Errorf("the bucket changed (-want +got):\n%s", diff)
	}
}

func TestLocksThatTheStoreDoesNotTellBlockEverything(t *testing.T) {
	prof := storetest.S3Like()
	prof.MuteRetention = true
	b := newBucket(t, prof)
	b.fill("a", threeStreams, nil)
	p := plan(t, New(b, b, b.options(keepOne)))
	if n := len(p.Deletions()); n != 0 {
		t.Errorf("%d versions would be deleted, want none", n)
	}
	if len(p.Notes) != 1 || !strings.Contains(p.Notes[0], "GetObjectRetention") {
		t.Errorf("notes = %q, want one that names the missing permission", p.Notes)
	}
}

func TestOfTwoClustersOnlyTheOneAskedForIsCollected(t *testing.T) {
	b := newBucket(t, storetest.S3Like())
	b.fill("a", threeStreams, nil)
	other := prefix + "-2/v2/" + threeStreams[0]
	if _, err := b.Put(t.Context(), other, strings.NewReader("x"), store.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Put(t.Context(), snapshot.OwnerKey(prefix, 1).String(), strings.NewReader(`{"version":1,"id":"a"}`), store.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	collect(t, New(b, b, b.options(keepOne)))
	if len(b.Versions(other)) != 1 {
		t.Error("an object of the other cluster is gone")
	}
	if !slices.Contains(b.keys(), "Owner-00000001") {
		t.Error("the owner record is gone")
	}
}

// Who collects by a policy of one cluster must not do so with the backups of another, which somebody named by mistake.
func TestWhatHasAnotherOwnerIsNotCollected(t *testing.T) {
	for phrase, c := range map[string]struct {
		record, owner string
		collects      bool
	}{
		"his own":                     {`{"version":1,"id":"k8s/shop/main/1"}`, "k8s/shop/main/1", true},
		"another's":                   {`{"version":1,"id":"k8s/shop/main/1"}`, "k8s/shop/events/2", false},
		"of the same name, made anew": {`{"version":1,"id":"k8s/shop/main/1"}`, "k8s/shop/main/2", false},
		"nobody's":                    {"", "k8s/shop/main/1", false},
		"one that cannot be read":     {`{`, "k8s/shop/main/1", false},
		"whoever's":                   {`{"version":1,"id":"k8s/shop/main/1"}`, "", true},
	} {
		b := newBucket(t, storetest.S3Like())
		b.fill("a", threeStreams, nil)
		if c.record != "" {
			if _, err := b.Put(t.Context(), snapshot.OwnerKey(prefix, 1).String(), strings.NewReader(c.record), store.PutOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		o := b.options(keepOne)
		o.Owner = c.owner
		if _, err := New(b, b, o).Plan(t.Context()); (err == nil) != c.collects || err != nil && !errors.Is(err, ErrNotOwner) {
			t.Errorf("%s: %v, want that it is collected: %t", phrase, err, c.collects)
		}
	}
}

// Somebody takes the prefix over between the decision and the deletion.
func TestAnOwnerThatComesMeanwhileCounts(t *testing.T) {
	b := newBucket(t, storetest.S3Like())
	b.fill("a", threeStreams, nil)
	claim := func(number int64, id string) {
		if _, err := b.Put(t.Context(), snapshot.OwnerKey(prefix, number).String(), strings.NewReader(`{"version":1,"id":"`+id+`"}`), store.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	claim(1, "a")
	o := b.options(keepOne)
	o.Owner = "a"
	c := New(b, b, o)
	p := plan(t, c)
	claim(2, "b")
	before := len(b.keys())
	if _, err := c.Execute(t.Context(), p); !errors.Is(err, ErrNotOwner) || len(b.keys()) != before {
		t.Errorf("%v, and of %d objects %d are left", err, before, len(b.keys()))
	}
}

func TestObjectsOfLayoutV1AndChunksAreCollectedToo(t *testing.T) {
	b := newBucket(t, storetest.S3Like())
	v1 := prefix + "/v1/Backup-" + strings.Split(full(10, 0), "-")[3]
	for _, k := range []string{v1 + "/" + full(10, 0), v1 + "/" + delta(11, 20, 10), key(full(20, 1440) + "/0000000001"), key(full(20, 1440))} {
		if _, err := b.Put(t.Context(), k, strings.NewReader("x"), store.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	b.Clock.Advance(48 * time.Hour)
	b.put(full(40, 2880), "-", store.PutOptions{})
	b.Clock.Advance(24 * time.Hour)
	collect(t, New(b, b, b.options(keepOne)))
	if diff := cmp.Diff([]string{full(40, 2880)}, b.keys()); diff != "" {
		t.Errorf("what is left (-want +got):\n%s", diff)
	}
	if n := len(b.Versions(v1 + "/" + full(10, 0))); n != 0 {
		t.Error("the full of layout v1 is still there")
	}
}

func TestTheChunksOfAnUploadInFlightAreLeftAlone(t *testing.T) {
	b := newBucket(t, storetest.S3Like())
	b.fill("a", threeStreams, nil)
	inFlight := full(60, 4300) // its name was chosen when the upload began; no such object yet
	for _, part := range []string{"/0000000001", "/0000000002"} {
		if _, err := b.Put(t.Context(), key(inFlight)+part, strings.NewReader("x"), store.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	b.put(delta(61, 70, 4310), "a", store.PutOptions{}) // a delta may be uploaded meanwhile
	collect(t, New(b, b, b.options(keepOne)))
	for _, part := range []string{"/0000000001", "/0000000002"} {
		if !slices.Contains(b.keys(), inFlight+part) {
			t.Errorf("chunk %s of the upload in flight is gone", part)
		}
	}
}

func TestAnOutageIsNeverReadAsAnEmptyBucket(t *testing.T) {
	for title, fault := range map[string]storetest.Fault{
		"the list breaks off":    storetest.BreakList(3, store.ErrUnreachable).On(storetest.OpList, ""),
		"a manifest is unread":   storetest.Fail(store.ErrUnreachable).On(storetest.OpOpen, "Manifest-"),
		"the locks are not told": storetest.Fail(store.ErrThrottled).On(storetest.OpStat, ""),
	} {
		t.Run(title, func(t *testing.T) {
			b := newBucket(t, storetest.S3Like())
			b.fill("a", threeStreams, nil)
			want := b.keys()
			f := storetest.NewFaulty(b.Memory)
			c := New(f, f, b.options(keepOne))
			p := plan(t, c)
			f.Inject(fault)
			r, err := c.Execute(t.Context(), p)
			if err == nil || r.Total(Deleted).Objects != 0 || r.Total(Untried).Objects != 10 {
				t.Errorf("Execute = %v with %d deleted, want an error and none", err, r.Total(Deleted).Objects)
			}
			if diff := cmp.Diff(want, b.keys()); diff != "" {
				t.Errorf("the bucket changed (-want +got):\n%s", diff)
			}
			f.Inject(fault)
			if _, err := c.Plan(t.Context()); err == nil {
				t.Error("Plan succeeded during the outage")
			}
		})
	}
}

func TestAPlanForAnotherPlaceIsRefused(t *testing.T) {
	b := newBucket(t, storetest.S3Like())
	b.fill("a", threeStreams, nil)
	o := b.options(keepOne)
	o.Prefix = "ns--uid/etcd-events"
	for title, p := range map[string]Plan{"another prefix": plan(t, New(b, b, b.options(keepOne))), "made by hand": {Prefix: o.Prefix}} {
		if _, err := New(b, b, o).Execute(t.Context(), p); err == nil {
			t.Errorf("%s: the plan was executed", title)
		}
	}
}

func TestAnIdentityThatOnlyReadsIsToldWhatIsMissing(t *testing.T) {
	b := newBucket(t, storetest.S3Like())
	b.fill("a", threeStreams, nil)
	c := New(store.ReadOnly(b.Memory), nil, b.options(keepOne))
	_, err := c.Execute(t.Context(), plan(t, c))
	if !errors.Is(err, store.ErrForbidden) || !strings.Contains(err.Error(), "s3:DeleteObjectVersion") {
		t.Errorf("without a deleter: %v, want ErrForbidden and the name of the permission", err)
	}
	f := storetest.NewFaulty(b.Memory)
	f.Inject(storetest.Fail(store.ErrForbidden).On(storetest.OpDelete, "").Always())
	c = New(f, f, b.options(keepOne))
	r, err := c.Execute(t.Context(), plan(t, c))
	if !errors.Is(err, store.ErrForbidden) || !strings.Contains(err.Error(), "s3:DeleteObjectVersion") {
		t.Errorf("with deletions forbidden: %v, want ErrForbidden and the name of the permission", err)
	}
	if n := f.Count(storetest.OpDelete); n != 1 || r.Total(Untried).Objects != 9 {
		t.Errorf("%d deletions were tried and %d left out, want 1 and 9", n, r.Total(Untried).Objects)
	}
}

// dangers are the findings that tell of loss.
func dangers(t timeline.Timeline) []string {
	var all []string
	for _, f := range t.Findings {
		if f.Severity == timeline.Danger {
			all = append(all, f.String())
		}
	}
	return all
}
