package collector

import (
	"slices"
	"strings"
	"testing"

	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/storetest"
)

// The moment between the last look at the bucket and a deletion: whatever happens then is seen
// by asking about each version once more.
func TestWhatHappensAfterTheLastLookIsSeenBeforeEachDeletion(t *testing.T) {
	victim := threeStreams[0] // is deleted after two deltas
	vkey := key(victim)
	for title, c := range map[string]struct {
		profile storetest.Profile
		change  func(t *testing.T, b bucket)
		want    Result
		why     string
	}{
		"a hold is set": {storetest.S3Like(), func(t *testing.T, b bucket) {
			if err := b.SetHold(t.Context(), b.Versions(vkey)[0].Version, true); err != nil {
				t.Error(err)
			}
		}, Blocked, "under a hold"},
		"a newer version appears": {storetest.S3Like(), func(_ *testing.T, b bucket) { b.Overwrite(vkey, []byte("forged")) }, Spared, "appeared"},
		"a marker appears": {storetest.S3Like(), func(t *testing.T, b bucket) {
			if _, err := b.Hide(vkey); err != nil {
				t.Error(err)
			}
		}, Spared, "marker"},
		"it is replaced where there are no versions": {storetest.GCSLike(), func(_ *testing.T, b bucket) { b.Overwrite(vkey, []byte("somebody else's")) }, Spared, "changed"},
		"it vanishes": {storetest.S3Like(), func(_ *testing.T, b bucket) { b.Lose(store.Version{Key: vkey}) }, Gone, ""},
	} {
		t.Run(title, func(t *testing.T) {
			b := newBucket(t, c.profile)
			b.fill("a", threeStreams, nil)
			f := storetest.NewFaulty(b.Memory)
			f.Hook(func(op storetest.Op, k string, phase storetest.Phase) {
				if op == storetest.OpDelete && phase == storetest.After && k == key(threeStreams[1]) {
					c.change(t, b)
				}
			})
			r := collect(t, New(f, f, b.options(keepOne)))
			if got := result(t, r, victim); got.Result != c.want || !strings.Contains(got.Why, c.why) {
				t.Errorf("the full is %s (%s), want %s (%s)", got.Result, got.Why, c.want, c.why)
			}
			if slices.Contains(f.Calls(), storetest.Call{Op: storetest.OpDelete, Key: vkey}) {
				t.Error("its deletion was tried; the check before should have stopped it")
			}
			if slices.Contains(b.keys(), "Manifest-"+victim) == (c.want == Gone) {
				t.Errorf("the manifest must stay with its full and go with it: %q", b.keys())
			}
			if got := b.forged(); len(got) > 0 && c.profile.Versions {
				t.Errorf("a forgery counts: %s", got)
			}
		})
	}
}

// Where there are no markers, a key that was deleted by its name, or whose newest version the
// collector has deleted, shows nothing; its versions go all the same.
func TestVersionsThatNothingHidesAreDeletedWhereThereAreNoMarkers(t *testing.T) {
	unmarked := storetest.AzureLike()
	unmarked.NoMarkers = true
	for title, change := range map[string]func(t *testing.T, b bucket, key string){
		"overwritten": func(_ *testing.T, b bucket, key string) { b.Overwrite(key, []byte("forged")) },
		"hidden": func(t *testing.T, b bucket, key string) {
			if _, err := b.Hide(key); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(title, func(t *testing.T) {
			b := newBucket(t, unmarked)
			b.fill("a", threeStreams, nil)
			for _, n := range threeStreams[:2] {
				change(t, b, key(n))
			}
			collect(t, New(b.Memory, b.Memory, b.options(keepOne)))
			for _, n := range threeStreams[:2] {
				if left := b.Versions(key(n)); len(left) > 0 {
					t.Errorf("of %s there is left %+v", n, left)
				}
			}
		})
	}
}

func TestAVersionThatCannotBeAskedAboutCountsAsProtected(t *testing.T) {
	b := newBucket(t, storetest.S3Like())
	b.fill("a", threeStreams, nil)
	f := storetest.NewFaulty(b.Memory)
	c := New(f, f, b.options(keepOne))
	p := plan(t, c)
	f.Hook(func(op storetest.Op, k string, phase storetest.Phase) {
		if op == storetest.OpDelete && phase == storetest.After && k == key(threeStreams[1]) {
			f.Inject(storetest.Fail(store.ErrForbidden).On(storetest.OpStat, "/"+threeStreams[0]))
		}
	})
	r, err := c.Execute(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if got := result(t, r, threeStreams[0]); got.Result != Blocked {
		t.Errorf("the full is %s (%s), want %s", got.Result, got.Why, Blocked)
	}
}

func TestASurplusVersionThatStaysKeepsTheGenuineOne(t *testing.T) {
	b := attacked(t, storetest.S3Like())
	f := storetest.NewFaulty(b.Memory)
	f.Inject(storetest.Fail(&store.ImmutableError{}).On(storetest.OpDelete, "/"+threeStreams[2]))
	r := collect(t, New(f, f, b.options(keepOne)))
	if got := r.Total(Blocked).Objects; got != 1 {
		t.Errorf("%d versions are blocked, want 1", got)
	}
	for _, n := range []string{threeStreams[2], threeStreams[1], threeStreams[0]} {
		if !slices.Contains(b.keys(), n) || !slices.Contains(b.keys(), "Manifest-"+n) {
			t.Errorf("%s or its manifest is gone", n)
		}
	}
	if got := b.forged(); len(got) > 0 {
		t.Errorf("a forgery counts: %s", got)
	}
}

func TestAFurtherVersionThatThePlanDidNotSeeSparesTheKey(t *testing.T) {
	b := newBucket(t, storetest.S3Like())
	b.fill("a", threeStreams, nil)
	c := New(b, b, b.options(keepOne))
	p := plan(t, c)
	b.Overwrite(key("Manifest-"+threeStreams[0]), []byte("{}"))
	r, err := c.Execute(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if got := result(t, r, threeStreams[0]); got.Result != Spared || !strings.Contains(got.Why, "appeared since") {
		t.Errorf("the full is %s (%s), want %s", got.Result, got.Why, Spared)
	}
}
