package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"druid.internal/druid/internal/store"
)

var listCases = []conformanceCase{
	{name: "an empty bucket lists nothing", run: anEmptyBucket},
	{name: "keys are listed in order of their bytes", run: keysAreListedInOrder},
	{name: "a prefix ends at a slash", run: aPrefixEndsAtASlash},
	{name: "more keys than a page are listed completely", run: moreKeysThanAPage},
	{name: "odd keys survive", run: oddKeysSurvive},
	{name: "an error of the callback ends the listing", run: anErrorOfTheCallback},
	{name: "the callback may use the store", run: theCallbackMayUseTheStore},
	{name: "a listing that breaks off is an error", run: aListingThatBreaksOff},
}

func anEmptyBucket(t *testing.T, o Options) {
	s := o.New(t)
	wantKeys(t, s, "")
	wantKeys(t, s, "nowhere/at/all")
}

func keysAreListedInOrder(t *testing.T, o Options) {
	s := o.New(t)
	// A file system walked by directory would put "a/b/c" before "a/b-c".
	keys := []string{"z", "a/b/c", "a/b-c", "a/b.c", "a/b0", "a/B", "a-b/c", "a/b/d/e", "a.b/c", "a/b/d-e", "0"}
	putMany(t, s, keys)
	want := slices.Sorted(slices.Values(keys))
	wantKeys(t, s, "", want...)
	wantKeys(t, s, "a", "a/B", "a/b-c", "a/b.c", "a/b/c", "a/b/d-e", "a/b/d/e", "a/b0")
}

// A prefix without its slash made one cluster collect another's backups.
func aPrefixEndsAtASlash(t *testing.T, o Options) {
	s := o.New(t)
	putMany(t, s, []string{
		"ns/etcd-main/v2/1", "ns/etcd-main-2/v2/1", "ns/etcd-main2/v2/1", "ns/etcd-mai/v2/1", "ns/etcd-main.v2/1",
		"other/ns/etcd-main/v2/1", "NS/etcd-main/v2/1",
	})
	wantKeys(t, s, "ns/etcd-main", "ns/etcd-main/v2/1")
	wantKeys(t, s, "ns/etcd-main/", "ns/etcd-main/v2/1")
	wantKeys(t, s, "ns/etcd-main-2", "ns/etcd-main-2/v2/1")
	wantKeys(t, s, "etcd-main")
	wantKeys(t, s, "ns/etcd-main/v2/1")
}

func moreKeysThanAPage(t *testing.T, o Options) {
	s := o.New(t)
	var want []string
	for i := range o.ManyKeys {
		want = append(want, fmt.Sprintf("many/%06d", i*7))
	}
	putMany(t, s, want)
	putMany(t, s, []string{"many-2/x", "man", "n"})
	wantKeys(t, s, "many", want...)
}

func oddKeysSurvive(t *testing.T, o Options) {
	s := o.New(t)
	keys := append([]string{
		"odd/with space", "odd/with  two", "odd/plus+plus", "odd/per%cent", "odd/%41", "odd/a%2Fb", "odd/ümläut", "odd/日本語",
		"odd/amp&eq=?q#h", "odd/'quote\"", "odd/comma,semi;colon:at@", "odd/tilde~bang!star*(paren)", "odd/<xml>", "odd/.hidden",
		"odd/Full-00000000-00000001-1700000000.gz.final", "odd/back\\slash", "odd/[brackets]{braces}", "odd/$dollar^caret`tick|pipe",
		"odd/" + longName,
	}, o.OddKeys...)
	keys = slices.DeleteFunc(keys, func(key string) bool { return slices.Contains(o.NoKeys, key) })
	for i, key := range keys {
		body := []byte(fmt.Sprint(i, key))
		v := put(t, s, key, body, store.PutOptions{}).Version
		if v.Key != key {
			t.Errorf("Put(%q) says the key is %q", key, v.Key)
		}
		wantBytes(t, key, read(t, s, v), body)
		if got := stat(t, s, v); got.Key != key {
			t.Errorf("Stat(%q) says the key is %q", key, got.Key)
		}
	}
	wantKeys(t, s, "", slices.Sorted(slices.Values(keys))...)
	d := deleter(t, s)
	for _, obj := range list(t, s, "") {
		if err := d.Delete(t.Context(), obj.Version); err != nil {
			t.Errorf("Delete(%s) = %v", obj.Version, err)
		}
	}
	wantKeys(t, s, "")
	aLeadingSlashIsKeptOrRefused(t, s, d)
}

// aLeadingSlashIsKeptOrRefused proves that a writer and a reader who write the slash mean the same
// object. A store may take the name without the slash for the same one.
func aLeadingSlashIsKeptOrRefused(t *testing.T, s store.Store, d store.Deleter) {
	t.Helper()
	const prefix, key = "/rooted/a", "/rooted/a/v2/1"
	o, err := s.Put(t.Context(), key, strings.NewReader("rooted"), store.PutOptions{})
	if errors.Is(err, store.ErrUnsupported) {
		if err := s.List(t.Context(), prefix, func(store.Object) error { return nil }); !errors.Is(err, store.ErrUnsupported) {
			t.Errorf("Put refuses a key that begins with a slash, and List(%q) = %v, want %v", prefix, err, store.ErrUnsupported)
		}
		return
	}
	if err != nil || o.Key != key {
		t.Fatalf("Put(%q) = %q, %v", key, o.Key, err)
	}
	wantKeys(t, s, prefix, key)
	wantKeys(t, s, prefix+"/", key)
	wantKeys(t, s, "/rooted/b")
	wantBytes(t, key, read(t, s, o.Version), []byte("rooted"))
	if got := stat(t, s, o.Version); got.Key != key {
		t.Errorf("Stat(%q) says the key is %q", key, got.Key)
	}
	for _, o := range list(t, s, prefix) {
		if err := d.Delete(t.Context(), o.Version); err != nil {
			t.Errorf("Delete(%s) = %v", o.Version, err)
		}
	}
	wantKeys(t, s, prefix)
}

// longName is longer than the names of snapshots and their manifests ever are.
var longName = fmt.Sprintf("%0200d", 7)

func anErrorOfTheCallback(t *testing.T, o Options) {
	s := o.New(t)
	putMany(t, s, []string{"a/1", "a/2", "a/3"})
	stop, calls := errors.New("enough"), 0
	err := s.List(t.Context(), "a", func(obj store.Object) error {
		if calls++; obj.Key == "a/2" {
			return stop
		}
		return nil
	})
	if err != stop || calls != 2 {
		t.Errorf("List = %v after %d calls, want fn's error itself after 2", err, calls)
	}
}

func theCallbackMayUseTheStore(t *testing.T, o Options) {
	s := o.New(t)
	putMany(t, s, []string{"a/1", "a/2", "a/3"})
	d := deleter(t, s)
	err := s.List(t.Context(), "a", func(obj store.Object) error {
		if _, err := tryRead(t.Context(), s, obj.Version, 0, -1); err != nil {
			return err
		}
		return d.Delete(t.Context(), obj.Version)
	})
	if err != nil {
		t.Fatal(err)
	}
	wantKeys(t, s, "")
}
