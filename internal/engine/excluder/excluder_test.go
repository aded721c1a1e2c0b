package excluder_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/engine/catalog"
	"druid.internal/druid/internal/engine/enginetest"
	"druid.internal/druid/internal/engine/excluder"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/storetest"
)

const prefix = enginetest.Prefix

// profiles are the ways in which stores can tell an exclusion.
var profiles = map[string]storetest.Profile{
	"tags that are asked for": storetest.S3Like(), "tags that are listed": storetest.GCSLike(), "no tags": storetest.Bare(),
}

// bucket holds the three streams: 10 to 30, 30 to 40 and 40 to 60.
func bucket(t *testing.T, p storetest.Profile) enginetest.Bucket {
	b := enginetest.NewBucket(t, p)
	for _, n := range enginetest.Streams {
		fill(b, n)
	}
	return b
}

func fill(b enginetest.Bucket, name string) {
	b.T.Helper()
	if _, err := b.Put(b.T.Context(), prefix+"/v2/"+name, strings.NewReader(name), store.PutOptions{}); err != nil {
		b.T.Fatal(err)
	}
}

func names(t *testing.T, texts ...string) (parsed []snapshot.Name) {
	t.Helper()
	for _, s := range texts {
		n, err := snapshot.ParseName(s)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, n)
	}
	return parsed
}

func windows(t *testing.T, b store.Reader, o catalog.Options) []string {
	t.Helper()
	c, err := catalog.Read(t.Context(), b, prefix, o)
	if err != nil {
		t.Fatal(err)
	}
	return enginetest.Windows(c.Timeline)
}

func TestWhatIsExcludedIsLeftOutAndCanBePutBack(t *testing.T) {
	last, middle := enginetest.FullName(40, 2880), enginetest.DeltaName(31, 40, 1450)
	for label, p := range profiles {
		t.Run(label, func(t *testing.T) {
			b := bucket(t, p)
			all := windows(t, b, catalog.Options{})
			q := excluder.Request{Store: b, Prefix: prefix, Names: names(t, last, middle), Reason: "it is bad"}
			r, err := excluder.Run(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := windows(t, b, catalog.Options{Tags: catalog.TagsOfAll}), []string{"the unnamed lineage 10-30"}; !slices.Equal(got, want) {
				t.Errorf("restorable: %q, want %q", got, want)
			}
			if len(r.Changes) != 2 || !r.Changes[0].Changed || !r.Changes[1].Changed || !r.Newest {
				t.Errorf("report %+v", r)
			}
			if len(r.After) != 1 || r.After[0].To != 30 || len(r.Before) != 1 || r.Before[0].To != 60 {
				t.Errorf("it went from %+v to %+v", r.Before, r.After)
			}
			if got := windows(t, b, catalog.Options{IgnoreExclusions: true}); !slices.Equal(got, all) {
				t.Errorf("without exclusions: %q, want %q", got, all)
			}

			again, err := excluder.Run(t.Context(), q)
			if err != nil || again.Changes[0].Changed || again.Changes[1].Changed {
				t.Errorf("again: %+v, %v", again, err)
			}

			q.Include = true
			if r, err = excluder.Run(t.Context(), q); err != nil || !r.Changes[0].Changed || r.Changes[0].Excluded {
				t.Fatalf("put back: %+v, %v", r, err)
			}
			if got := windows(t, b, catalog.Options{Tags: catalog.TagsOfAll}); !slices.Equal(got, all) {
				t.Errorf("afterwards: %q, want %q", got, all)
			}
		})
	}
}

func TestAReasonThatIsNotKeptIsSaidToBeLost(t *testing.T) {
	for label, p := range profiles {
		t.Run(label, func(t *testing.T) {
			b := bucket(t, p)
			q := excluder.Request{Store: b, Prefix: prefix, Names: names(t, enginetest.FullName(40, 2880))}
			if r, err := excluder.Run(t.Context(), q); err != nil || r.ReasonLost != "" {
				t.Errorf("without a reason: %+v, %v", r, err)
			}
			q.Reason = "it is bad"
			if r, err := excluder.Run(t.Context(), q); err != nil || r.ReasonLost == "" {
				t.Errorf("of what was excluded before: %+v, %v", r, err)
			}
			q.Names = names(t, enginetest.FullName(30, 1440))
			if r, err := excluder.Run(t.Context(), q); err != nil || (r.ReasonLost != "") != b.Capabilities().Tags {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
}

func TestTheLastChainIsExcludedOnlyWhenAsked(t *testing.T) {
	fulls := []string{enginetest.FullName(10, 0), enginetest.FullName(30, 1440), enginetest.FullName(40, 2880)}
	for label, p := range profiles {
		t.Run(label, func(t *testing.T) {
			b := bucket(t, p)
			all := windows(t, b, catalog.Options{})
			q := excluder.Request{Store: b, Prefix: prefix, Names: names(t, fulls...)}
			if _, err := excluder.Run(t.Context(), q); !errors.Is(err, excluder.ErrLeavesNothing) {
				t.Fatalf("%v, want ErrLeavesNothing", err)
			}
			if got := windows(t, b, catalog.Options{Tags: catalog.TagsOfAll}); !slices.Equal(got, all) {
				t.Fatalf("refused, and yet %q", got)
			}
			q.LeaveNothing = true
			if r, err := excluder.Run(t.Context(), q); err != nil || len(r.After) != 0 {
				t.Fatalf("%+v, %v", r, err)
			}
			if got := windows(t, b, catalog.Options{}); len(got) != 0 {
				t.Errorf("restorable: %q", got)
			}
		})
	}
}

// A collection goes by what was listed before, and knows of no exclusion that is being made.
func TestWhatIsLeftIsLookedForOnceMore(t *testing.T) {
	old, middle, last := enginetest.FullName(10, 0), enginetest.FullName(30, 1440), enginetest.FullName(40, 2880)
	for label, c := range map[string]struct {
		gone         []string
		leaveNothing bool
		want         error
	}{
		"something is left": {[]string{old}, false, nil},
		"nothing is left":   {[]string{old, middle}, false, excluder.ErrLeftNothing},
		"that is allowed":   {[]string{old, middle}, true, nil},
	} {
		t.Run(label, func(t *testing.T) {
			b := bucket(t, storetest.S3Like())
			q := excluder.Request{Store: collected{b.Memory, c.gone}, Prefix: prefix, Names: names(t, last), LeaveNothing: c.leaveNothing}
			r, err := excluder.Run(t.Context(), q)
			if !errors.Is(err, c.want) || len(r.Changes) != 1 {
				t.Fatalf("%+v, %v, want %v", r, err, c.want)
			}
			if c.want != nil && !strings.Contains(err.Error(), "of the unnamed lineage: what was to be left is gone meanwhile; include takes it back: "+last) {
				t.Errorf("it says: %v", err)
			}
			if _, again := excluder.Run(t.Context(), q); !errors.Is(again, c.want) { // not less if it is tried again
				t.Errorf("again: %v, want %v", again, c.want)
			}
			q.Include = true
			if _, err := excluder.Run(t.Context(), q); err != nil {
				t.Errorf("taken back: %v", err)
			}
		})
	}
}

// collected is a bucket of which some goes while a tag is set.
type collected struct {
	*storetest.Memory
	gone []string
}

func (c collected) SetTag(ctx context.Context, v store.Version, key, value string) error {
	var all []store.Version
	if err := c.List(ctx, prefix, func(o store.Object) error {
		if slices.Contains(c.gone, o.Key[strings.LastIndex(o.Key, "/")+1:]) {
			all = append(all, o.Version)
		}
		return nil
	}); err != nil {
		return err
	}
	for _, gone := range all {
		c.Lose(gone)
	}
	return c.Memory.SetTag(ctx, v, key, value)
}

// An extension copies where a lock cannot be prolonged. A restore prefers the later name, so the bytes would be used all the same.
func TestACopyGoesWithItsOrigin(t *testing.T) {
	origin, copied, other, pretender := enginetest.FullName(40, 2880), enginetest.FullName(40, 5760), enginetest.FullName(40, 5761), enginetest.FullName(40, 5762)
	for label, c := range map[string]struct {
		name string
		want []excluder.Change
	}{
		"the origin is named": {origin, []excluder.Change{{Key: prefix + "/v2/" + origin}, {Key: prefix + "/v2/" + copied, CopyOf: origin}}},
		"the copy is named":   {copied, []excluder.Change{{Key: prefix + "/v2/" + copied}}},
		"both are named":      {origin + " " + copied, []excluder.Change{{Key: prefix + "/v2/" + origin}, {Key: prefix + "/v2/" + copied}}},
	} {
		t.Run(label, func(t *testing.T) {
			b := bucket(t, storetest.S3Like())
			for name, is := range map[string]struct{ from, content string }{
				origin: {"", origin}, copied: {origin, origin}, other: {enginetest.FullName(30, 1440), enginetest.FullName(30, 1440)}, pretender: {origin, "others"},
			} {
				if name != origin {
					enginetest.Put(t, b, prefix+"/v2/"+name, []byte(is.content))
				}
				m := snapshot.Manifest{Version: snapshot.ManifestVersion, Snapshot: name, Digest: sha256.Sum256([]byte(is.content)), Size: int64(len(is.content)), LastRevision: 40, CopiedFrom: is.from}
				enginetest.Put(t, b, snapshot.SnapshotKey(prefix, enginetest.MustName(name)).Manifest().String(), m.Encode())
			}
			for _, include := range []bool{false, true} {
				r, err := excluder.Run(t.Context(), excluder.Request{Store: b, Prefix: prefix, Names: names(t, strings.Fields(c.name)...), Include: include})
				if err != nil {
					t.Fatal(err)
				}
				want := slices.Clone(c.want)
				for i := range want {
					want[i].Excluded, want[i].Changed, want[i].Versions = !include, true, 1
				}
				if !slices.Equal(r.Changes, want) {
					t.Errorf("include %t: %+v, want %+v", include, r.Changes, want)
				}
			}
		})
	}
}

func TestAnUnknownNameChangesNothing(t *testing.T) {
	b := bucket(t, storetest.S3Like())
	all := windows(t, b, catalog.Options{})
	q := excluder.Request{Store: b, Prefix: prefix, Names: names(t, enginetest.FullName(40, 2880), enginetest.FullName(41, 2880))}
	if _, err := excluder.Run(t.Context(), q); !errors.Is(err, excluder.ErrUnknown) || !strings.Contains(err.Error(), enginetest.FullName(41, 2880)) {
		t.Fatalf("%v, want ErrUnknown with the name", err)
	}
	if got := windows(t, b, catalog.Options{Tags: catalog.TagsOfAll}); !slices.Equal(got, all) {
		t.Errorf("refused, and yet %q", got)
	}
}

// Also a version that somebody put over the snapshot is tagged: whichever counts, it is excluded.
func TestAllVersionsAreTagged(t *testing.T) {
	b := bucket(t, storetest.CephLike())
	full := enginetest.FullName(40, 2880)
	fill(b, full)
	r, err := excluder.Run(t.Context(), excluder.Request{Store: b, Prefix: prefix, Names: names(t, full)})
	if err != nil || len(r.Changes) != 1 || r.Changes[0].Versions != 2 {
		t.Fatalf("%+v, %v", r, err)
	}
}

// A store that says yes and keeps no tag has not excluded anything.
func TestATagThatIsNotThereIsToldOf(t *testing.T) {
	b := bucket(t, storetest.S3Like())
	q := excluder.Request{Store: dropping{b.Memory}, Prefix: prefix, Names: names(t, enginetest.FullName(40, 2880))}
	if _, err := excluder.Run(t.Context(), q); err == nil || !strings.Contains(err.Error(), "is not there") {
		t.Fatalf("%v", err)
	}
}

type dropping struct{ *storetest.Memory }

func (dropping) SetTag(context.Context, store.Version, string, string) error { return nil }

// Unknown is not the same as not excluded: include would skip it, and say that it is used.
func TestTagsThatCannotBeReadAreAnErrorThatNamesTheRight(t *testing.T) {
	full := enginetest.FullName(40, 2880)
	for label, c := range map[string]struct{ include, later bool }{
		"exclude": {false, false}, "include": {true, false}, "include, and later they cannot": {true, true},
	} {
		t.Run(label, func(t *testing.T) {
			b := bucket(t, storetest.S3Like())
			q := excluder.Request{Store: b, Prefix: prefix, Names: names(t, full)}
			if _, err := excluder.Run(t.Context(), q); c.include && err != nil {
				t.Fatal(err)
			}
			told := c.later
			q.Store, q.Include = secretive{b.Memory, &told}, c.include
			r, err := excluder.Run(t.Context(), q)
			if !errors.Is(err, store.ErrForbidden) || !strings.Contains(err.Error(), "GetObjectVersionTagging") || !strings.Contains(err.Error(), full) {
				t.Errorf("%v", err)
			}
			if (len(r.Changes) > 0) != c.later {
				t.Errorf("it changed %+v", r.Changes)
			}
		})
	}
}

// secretive tells tags until one is set, or never.
type secretive struct {
	*storetest.Memory
	tells *bool
}

func (s secretive) Stat(ctx context.Context, v store.Version) (store.Object, error) {
	o, err := s.Memory.Stat(ctx, v)
	if !*s.tells {
		o.Tags = nil
	}
	return o, err
}

func (s secretive) SetTag(ctx context.Context, v store.Version, key, value string) error {
	*s.tells = false
	return s.Memory.SetTag(ctx, v, key, value)
}

func TestManyKeysAreNamedByTheFirst(t *testing.T) {
	b := bucket(t, storetest.S3Like())
	var all []string
	for i := range 8 {
		all = append(all, enginetest.FullName(50+i, 3000))
		fill(b, all[i])
	}
	q := excluder.Request{Store: dropping{b.Memory}, Prefix: prefix, Names: names(t, all...)}
	if _, err := excluder.Run(t.Context(), q); err == nil || !strings.Contains(err.Error(), " and 3 more") || strings.Contains(err.Error(), all[5]) {
		t.Errorf("%v", err)
	}
}

// Wherever it fails, running it again ends it.
func TestItIsGoneOnWithAfterAnyFailure(t *testing.T) {
	for label, p := range profiles {
		t.Run(label, func(t *testing.T) {
			for n := 1; ; n++ {
				b := bucket(t, p)
				faulty := storetest.NewFaulty(b.Memory)
				faulty.DieAt(n)
				q := excluder.Request{Store: faulty, Prefix: prefix, Names: names(t, enginetest.FullName(40, 2880), enginetest.DeltaName(31, 40, 1450))}
				_, err := excluder.Run(t.Context(), q)
				if faulty.Steps() < n {
					if err != nil || n < 6 {
						t.Fatalf("after %d steps: %v", n, err)
					}
					return
				}
				if err == nil {
					t.Fatalf("step %d failed, and nothing was said", n)
				}
				q.Store = b.Memory
				if _, err := excluder.Run(t.Context(), q); err != nil {
					t.Fatalf("again after step %d: %v", n, err)
				}
				if got, want := fmt.Sprint(windows(t, b, catalog.Options{Tags: catalog.TagsOfAll})), "[the unnamed lineage 10-30]"; got != want {
					t.Fatalf("restorable after step %d: %s, want %s", n, got, want)
				}
			}
		})
	}
}
