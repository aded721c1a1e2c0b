package storetest

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"druid.internal/druid/internal/store"
)

var versionCases = []conformanceCase{
	{name: "versions are listed newest first and all are readable", run: versionsAreListedNewestFirst},
	{name: "a marker is listed and hides nothing", run: aMarkerIsListed},
	{name: "a key hidden by a marker can be written again", run: aHiddenKeyCanBeWrittenAgain},
	{name: "deleting removes exactly one version", run: deletingRemovesExactlyOne},
	{name: "deleting what is gone succeeds", run: deletingWhatIsGone},
	{name: "a marker can be removed", run: aMarkerCanBeRemoved},
	{name: "deleting without a version makes no marker", run: deletingWithoutAVersion},
}

// versions writes n versions of a key, which the port itself may not be able to.
func versions(t *testing.T, o Options, s store.Store, key string, bodies ...string) []store.Version {
	t.Helper()
	for i, body := range bodies {
		switch {
		case i == 0 || !o.Want.ConditionalPut:
			put(t, s, key, []byte(body), store.PutOptions{})
		case o.Overwrite != nil:
			o.Overwrite(t, s, key, []byte(body))
		default:
			t.Fatal("Options.Overwrite is needed to make versions on a store with conditional puts")
		}
	}
	var all []store.Version
	for _, obj := range list(t, s, "") {
		if obj.Key == key {
			all = append(all, obj.Version)
		}
	}
	if len(all) != len(bodies) {
		t.Fatalf("%d versions are listed, want %d", len(all), len(bodies))
	}
	return all
}

func versionsAreListedNewestFirst(t *testing.T, o Options) {
	s := o.New(t)
	if !o.Want.Versions {
		put(t, s, "a/k", []byte("1"), store.PutOptions{})
		if got := list(t, s, ""); len(got) != 1 || got[0].ID != "" || !got[0].Latest {
			t.Errorf("a store without versions lists %+v", got)
		}
		o.note(t, Fallback, "one object for each key, without a version ID")
		return
	}
	bodies := []string{"one", "two", "three", "four"}
	versions(t, o, s, "a/k", bodies...)
	putMany(t, s, []string{"a/j", "a/l"})
	got := list(t, s, "a")
	if len(got) != 6 || got[0].Key != "a/j" || got[5].Key != "a/l" {
		t.Fatalf("List shows %q", keysOf(got))
	}
	for i, obj := range got[1:5] {
		want := bodies[len(bodies)-1-i]
		if obj.Latest != (i == 0) {
			t.Errorf("version %d from the newest has Latest = %v", i, obj.Latest)
		}
		if body := string(read(t, s, obj.Version)); body != want || obj.Size != int64(len(want)) {
			t.Errorf("version %d from the newest is %q with %d bytes listed, want %q", i, body, obj.Size, want)
		}
		if st := stat(t, s, obj.Version); st.Version != obj.Version || st.Size != obj.Size {
			t.Errorf("Stat(%s) = %+v", obj.Version, st)
		}
	}
}

func aForeignOverwrite(t *testing.T, o Options) {
	if o.Overwrite == nil {
		o.note(t, NotProven, "what a foreign writer's overwrite does")
		return
	}
	s := o.New(t)
	v := put(t, s, "a/k", []byte("genuine"), store.PutOptions{}).Version
	o.Overwrite(t, s, "a/k", []byte("forged"))
	if o.Want.Versions {
		wantBytes(t, "the genuine version", read(t, s, v), []byte("genuine"))
		wantKeys(t, s, "", "a/k", "a/k")
		return
	}
	o.note(t, Fallback, "a foreign writer can replace an object that is not locked; only its digest tells")
	wantBytes(t, "what is there now", read(t, s, v), []byte("forged"))
}

func aMarkerIsListed(t *testing.T, o Options) {
	s := o.New(t)
	v := put(t, s, "a/k", []byte("content"), store.PutOptions{}).Version
	if !o.Want.Versions {
		if o.Hide == nil {
			o.note(t, NotProven, "what a delete without a version does on a store without versions")
			return
		}
		o.Hide(t, s, "a/k")
		wantKeys(t, s, "")
		o.note(t, Fallback, "a delete without a version removes the object")
		return
	}
	o.Hide(t, s, "a/k")
	if o.NoMarkers {
		aKeyIsHidden(t, s, v)
		o.note(t, InPart, "there are no markers: what is deleted by name stays listed and readable as a version")
		return
	}
	got := list(t, s, "a")
	if len(got) != 2 || !got[0].Marker || !got[0].Latest || got[1].Version != v || got[1].Marker || got[1].Latest {
		t.Fatalf("List shows %+v, want the marker as the latest and then the content", got)
	}
	wantBytes(t, "the content under the marker", read(t, s, v), []byte("content"))
	if st := stat(t, s, v); st.Size != 7 || st.Marker || st.Latest {
		t.Errorf("Stat of the content under the marker = %+v", st)
	}
	for what, marker := range map[string]store.Version{"the marker": got[0].Version, "the hidden latest": {Key: "a/k"}} {
		_, err := tryRead(t.Context(), s, marker, 0, -1)
		wantError(t, "opening "+what, err, store.ErrNotFound)
		_, err = s.Stat(t.Context(), marker)
		wantError(t, "stat of "+what, err, store.ErrNotFound)
	}
	// A marker for a key that never was is listed as well, and several are.
	o.Hide(t, s, "a/never")
	o.Hide(t, s, "a/k")
	if o.SparesMarkers {
		wantKeys(t, s, "a", "a/k", "a/k")
		return
	}
	if o.OneMarker {
		wantKeys(t, s, "a", "a/k", "a/k", "a/never")
		return
	}
	wantKeys(t, s, "a", "a/k", "a/k", "a/k", "a/never")
}

// aKeyIsHidden is what a delete without a version does where there are no markers: v is listed
// and readable, and not the latest.
func aKeyIsHidden(t *testing.T, s store.Store, v store.Version) {
	t.Helper()
	if got := list(t, s, "a"); len(got) != 1 || got[0].Version != v || got[0].Latest || got[0].Marker {
		t.Fatalf("List shows %+v, want the version alone and not as the latest", got)
	}
	wantBytes(t, "the hidden content", read(t, s, v), []byte("content"))
	if st := stat(t, s, v); st.Size != 7 || st.Marker || st.Latest {
		t.Errorf("Stat of the hidden content = %+v", st)
	}
	_, err := tryRead(t.Context(), s, store.Version{Key: v.Key}, 0, -1)
	wantError(t, "opening the hidden latest", err, store.ErrNotFound)
	_, err = s.Stat(t.Context(), store.Version{Key: v.Key})
	wantError(t, "stat of the hidden latest", err, store.ErrNotFound)
}

func aHiddenKeyCanBeWrittenAgain(t *testing.T, o Options) {
	if !o.Want.Versions {
		o.note(t, Absent, "the store has no markers")
		return
	}
	s := o.New(t)
	v := put(t, s, "a/k", []byte("first"), store.PutOptions{}).Version
	o.Hide(t, s, "a/k")
	obj, err := s.Put(t.Context(), "a/k", strings.NewReader("second"), store.PutOptions{})
	if err != nil {
		// Some servers count the marker as existing. That is the safer answer and no loss.
		wantError(t, "Put over a marker", err, store.ErrExists)
		t.Log("this store refuses to write over a marker")
	} else {
		wantBytes(t, "the second version", read(t, s, obj.Version), []byte("second"))
		if o.NoMarkers {
			wantKeys(t, s, "", "a/k", "a/k")
		} else {
			wantKeys(t, s, "", "a/k", "a/k", "a/k")
		}
	}
	wantBytes(t, "the first version", read(t, s, v), []byte("first"))
}

func deletingRemovesExactlyOne(t *testing.T, o Options) {
	s := o.New(t)
	d := deleter(t, s)
	if !o.Want.Versions {
		putMany(t, s, []string{"a/k", "a/k2"})
		if err := d.Delete(t.Context(), store.Version{Key: "a/k"}); err != nil {
			t.Fatal(err)
		}
		wantKeys(t, s, "", "a/k2")
		return
	}
	all := versions(t, o, s, "a/k", "one", "two", "three")
	putMany(t, s, []string{"a/k2"})
	if err := d.Delete(t.Context(), all[1]); err != nil {
		t.Fatal(err)
	}
	got := list(t, s, "")
	if len(got) != 3 || got[0].Version != all[0] || got[1].Version != all[2] {
		t.Fatalf("after deleting the middle version %+v are left", got)
	}
	if err := d.Delete(t.Context(), all[0]); err != nil {
		t.Fatal(err)
	}
	if got := list(t, s, ""); len(got) != 2 || got[0].Version != all[2] || got[0].Latest == o.NoMarkers {
		t.Fatalf("after deleting the newest version %+v are left", got)
	}
	wantBytes(t, "the oldest version", read(t, s, all[2]), []byte("one"))
}

func deletingWhatIsGone(t *testing.T, o Options) {
	s := o.New(t)
	d := deleter(t, s)
	v := put(t, s, "a/k", []byte("x"), store.PutOptions{}).Version
	for i := range 3 {
		if err := d.Delete(t.Context(), v); err != nil {
			t.Errorf("Delete number %d = %v", i+1, err)
		}
	}
	if err := d.Delete(t.Context(), store.Version{Key: "a/never", ID: v.ID}); err != nil {
		t.Errorf("Delete of a key that never was = %v", err)
	}
	wantKeys(t, s, "")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantError(t, "Delete with a canceled context", d.Delete(ctx, v), context.Canceled)
}

func aMarkerCanBeRemoved(t *testing.T, o Options) {
	if !o.Want.Versions || o.NoMarkers {
		o.note(t, Absent, "the store has no markers")
		return
	}
	s := o.New(t)
	v := put(t, s, "a/k", []byte("content"), store.PutOptions{}).Version
	o.Hide(t, s, "a/k")
	for _, obj := range list(t, s, "") {
		if obj.Marker {
			if err := deleter(t, s).Delete(t.Context(), obj.Version); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := list(t, s, ""); len(got) != 1 || got[0].Version != v || !got[0].Latest {
		t.Fatalf("after the marker went %+v are left", got)
	}
	if !bytes.Equal(read(t, s, store.Version{Key: "a/k"}), []byte("content")) {
		t.Error("the content is not the latest again")
	}
}

func deletingWithoutAVersion(t *testing.T, o Options) {
	if !o.Want.Versions {
		o.note(t, Absent, "the store has no markers")
		return
	}
	s := o.New(t)
	put(t, s, "a/k", []byte("content"), store.PutOptions{})
	if err := deleter(t, s).Delete(t.Context(), store.Version{Key: "a/k"}); err == nil {
		t.Error("Delete without a version was accepted")
	}
	if got := list(t, s, ""); len(got) != 1 || got[0].Marker {
		t.Errorf("it left %+v", got)
	}
}
