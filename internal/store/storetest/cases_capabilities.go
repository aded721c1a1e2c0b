package storetest

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/store"
)

// The optional interfaces; extension is among the locks.
var (
	holdCases       = []conformanceCase{{name: "a hold protects until it is released", run: aHoldProtects}}
	tagCases        = []conformanceCase{{name: "tags are kept, also on locked versions", run: tagsAreKept}}
	copyCases       = []conformanceCase{{name: "a copy is a new object of its own", run: aCopyIsAnObject}}
	describingCases = []conformanceCase{{name: "the bucket's protection is described", run: theBucketIsDescribed}}
)

func aHoldProtects(t *testing.T, o Options) {
	s := o.New(t)
	v := put(t, s, "a/k", []byte("x"), store.PutOptions{}).Version
	h, ok := store.As[store.Holder](s)
	if !o.Hold {
		if ok {
			wantError(t, "SetHold", h.SetHold(t.Context(), v, true), store.ErrUnsupported)
		}
		o.note(t, Fallback, "the store has no holds, and says so")
		return
	}
	if !ok {
		t.Fatal("the store has no Holder")
	}
	for range 2 {
		if err := h.SetHold(t.Context(), v, true); err != nil {
			t.Fatal(err)
		}
	}
	if r := stat(t, s, v).Retention; r == nil || !r.Hold {
		t.Errorf("under a hold Stat tells %+v", r)
	}
	wantLocked(t, s, v, time.Time{}, true)
	for range 2 {
		if err := h.SetHold(t.Context(), v, false); err != nil {
			t.Fatal(err)
		}
	}
	if r := stat(t, s, v).Retention; r != nil && r.Hold {
		t.Errorf("after the release Stat tells %+v", *r)
	}
	if err := deleter(t, s).Delete(t.Context(), v); err != nil {
		t.Errorf("Delete after the release = %v", err)
	}
	wantError(t, "SetHold on what is not there", h.SetHold(t.Context(), v, true), store.ErrNotFound)
}

func tagsAreKept(t *testing.T, o Options) {
	s := o.New(t)
	tagger, ok := store.As[store.Tagger](s)
	if !o.Want.Tags {
		v := put(t, s, "a/k", []byte("x"), store.PutOptions{}).Version
		if ok {
			wantError(t, "SetTag", tagger.SetTag(t.Context(), v, "k", "v"), store.ErrUnsupported)
		}
		_, err := s.Put(t.Context(), "a/tagged", strings.NewReader("x"), store.PutOptions{Tags: map[string]string{"k": "v"}})
		wantError(t, "Put with tags on a store without", err, store.ErrUnsupported)
		o.note(t, Fallback, "the store has no tags, and refuses to write any")
		return
	}
	tags := map[string]string{"x-etcd-snapshot-exclude": "true", "Purpose": o.TagValue}
	opts := store.PutOptions{Tags: tags}
	if o.Want.ObjectLock {
		opts.Retention = lockFor(o, o.Lock[0])
	}
	v := put(t, s, "a/tagged", []byte("x"), opts).Version
	plain := put(t, s, "a/plain", []byte("x"), store.PutOptions{}).Version
	large, err := s.Put(t.Context(), "a/large", &stream{r: noise(o.LargeSize, 22)}, store.PutOptions{Tags: tags})
	if err != nil {
		t.Fatal(err)
	}
	wantTags(t, o, s, v, tags)
	wantTags(t, o, s, plain, map[string]string{})
	wantTags(t, o, s, large.Version, tags)
	if !o.SetTag {
		o.note(t, InPart, "tags cannot be set later")
		return
	}
	if !ok {
		t.Fatal("the store has no Tagger")
	}
	for _, kv := range [][2]string{{"added", "1"}, {"added", "2"}, {"Purpose", "changed"}} {
		if err := tagger.SetTag(t.Context(), v, kv[0], kv[1]); err != nil {
			t.Fatalf("SetTag of a version, locked: %v: %v", o.Want.ObjectLock, err)
		}
	}
	want := maps.Clone(tags)
	want["added"], want["Purpose"] = "2", "changed"
	wantTags(t, o, s, v, want)
	wantTags(t, o, s, plain, map[string]string{})
	if o.Want.ObjectLock {
		wantLocked(t, s, v, opts.Retention.Until, false)
	}
	wantError(t, "SetTag on what is not there",
		tagger.SetTag(t.Context(), store.Version{Key: "a/never", ID: v.ID}, "k", "v"), store.ErrNotFound)
}

func wantTags(t *testing.T, o Options, s store.Store, v store.Version, want map[string]string) {
	t.Helper()
	if diff := cmp.Diff(want, stat(t, s, v).Tags); diff != "" {
		t.Errorf("tags of %s (-want +got):\n%s", v, diff)
	}
	for _, obj := range list(t, s, "") {
		switch {
		case obj.Version != v:
		case o.Want.InlineTags:
			if diff := cmp.Diff(want, obj.Tags); diff != "" {
				t.Errorf("listed tags of %s (-want +got):\n%s", v, diff)
			}
		case obj.Tags != nil:
			t.Errorf("List tells tags, which its capabilities deny: %v", obj.Tags)
		}
	}
}

func aCopyIsAnObject(t *testing.T, o Options) {
	s := o.New(t)
	body := noiseBytes(t, 300_000, 23)
	src := put(t, s, "a/source", body, store.PutOptions{}).Version
	c, ok := store.As[store.Copier](s)
	if !o.Copy {
		if ok {
			_, err := c.Copy(t.Context(), s, src, "b/copy", store.PutOptions{})
			wantError(t, "Copy", err, store.ErrUnsupported)
		}
		o.note(t, Fallback, "the store copies nothing itself, and says so: it is streamed")
		return
	}
	if !ok {
		t.Fatal("the store has no Copier")
	}
	var opts store.PutOptions
	if o.Want.ObjectLock {
		opts.Retention = lockFor(o, o.Lock[0])
	}
	if o.Want.Tags {
		opts.Tags = map[string]string{"origin": "a/source"}
	}
	obj, err := c.Copy(t.Context(), s, src, "b/copy", opts)
	if err != nil {
		t.Fatal(err)
	}
	if obj.Key != "b/copy" || obj.Size != int64(len(body)) {
		t.Errorf("Copy returned %+v", obj)
	}
	wantBytes(t, "the copy", read(t, s, obj.Version), body)
	wantBytes(t, "the source", read(t, s, src), body)
	if o.Want.ObjectLock {
		wantLocked(t, s, obj.Version, opts.Retention.Until, false)
	}
	if o.Want.Tags {
		wantTags(t, o, s, obj.Version, opts.Tags)
	}
	_, err = c.Copy(t.Context(), s, store.Version{Key: "a/never", ID: src.ID}, "b/none", store.PutOptions{})
	wantError(t, "copying what is not there", err, store.ErrNotFound)

	second, err := c.Copy(t.Context(), s, src, "b/copy", store.PutOptions{})
	switch {
	case errors.Is(err, store.ErrExists):
	case err != nil || !o.Want.Versions:
		t.Errorf("copying onto an existing key = %v", err)
	default:
		wantBytes(t, "the second copy", read(t, s, second.Version), body)
	}
	wantBytes(t, "the first copy", read(t, s, obj.Version), body)

	_, err = c.Copy(t.Context(), NewMemory(Bare()), src, "b/foreign", store.PutOptions{})
	if err == nil {
		t.Error("copying from another kind of store was not refused")
	}
}

func inspect(t *testing.T, s store.Reader) store.Bucket {
	t.Helper()
	i, ok := store.As[store.Inspector](s)
	if !ok {
		t.Fatal("the store has no Inspector")
	}
	b, err := i.Inspect(t.Context())
	if err != nil {
		t.Fatalf("Inspect = %v", err)
	}
	return b
}

func theBucketIsDescribed(t *testing.T, o Options) {
	s := o.New(t)
	if !o.Inspect {
		o.note(t, Absent, "the store does not describe its bucket")
		return
	}
	b := inspect(t, s)
	if b.Versioned != o.Want.Versions {
		t.Errorf("Inspect says versioned = %v", b.Versioned)
	}
	if b.Default != immutability.ModeNone && b.Default != immutability.ModeUnknown || b.Period != 0 {
		t.Errorf("Inspect says that by default objects get %s for %s", b.Default, b.Period)
	}
	i, ok := store.As[store.Inspector](store.ReadOnly(s))
	if !ok {
		t.Fatal("a read-only view cannot inspect")
	}
	if got, err := i.Inspect(t.Context()); err != nil || got.Versioned != b.Versioned {
		t.Errorf("Inspect through a read-only view = %+v, %v", got, err)
	}
}
