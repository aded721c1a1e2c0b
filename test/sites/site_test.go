package sites_test

import (
	"fmt"
	"os"
	"testing"

	"druid.internal/druid/test/sites"
	"druid.internal/druid/test/stores"
)

var fleet sites.Fleet

func TestMain(m *testing.M) {
	code := m.Run()
	if err := fleet.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// What a kind promises is what its server does to somebody who asks nobody.
func TestEveryKindOfBucketTreatsOthersAsItSays(t *testing.T) {
	for _, name := range sites.Names() {
		t.Run(name, func(t *testing.T) {
			s := fleet.Get(t, name)
			for _, k := range s.Kinds() {
				t.Run(k.Name, func(t *testing.T) { treats(t, s, k) })
			}
		})
	}
}

func treats(t *testing.T, s sites.Site, k sites.Kind) {
	bucket := fleet.Bucket(t, s, k)
	raw, err := s.Raw(t.Context(), bucket, sites.Owner)
	if err != nil {
		t.Fatal(err)
	}
	versions := func(key string) (found []stores.RawVersion) {
		t.Helper()
		all, err := raw.Versions(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range all {
			if v.Key == key {
				found = append(found, v)
			}
		}
		return found
	}
	for _, key := range []string{"a/overwritten", "a/hidden", "a/deleted"} {
		if err := raw.Overwrite(t.Context(), key, []byte("genuine")); err != nil {
			t.Fatal(err)
		}
		if got := versions(key); len(got) != 1 || !got[0].Current || got[0].Size != 7 {
			t.Fatalf("after one write there is %+v", got)
		}
	}
	genuine := versions("a/overwritten")[0]
	err = raw.Overwrite(t.Context(), "a/overwritten", []byte("hostile"))
	switch got := versions("a/overwritten"); {
	case (err != nil) != k.Whole:
		t.Errorf("overwriting: %v", err)
	case err == nil && len(got) != map[bool]int{true: 2, false: 1}[k.Versions]:
		t.Errorf("overwritten: %+v", got)
	case k.Versions || k.Whole:
		if b, err := raw.Read(t.Context(), genuine); err != nil || string(b) != "genuine" {
			t.Errorf("the version before holds %q, %v", b, err)
		}
	}
	err = raw.Hide(t.Context(), "a/hidden")
	current, marker := false, false
	got := versions("a/hidden")
	for _, v := range got {
		current, marker = current || v.Current && !v.Marker, marker || v.Marker
	}
	switch {
	case (err != nil) != (k.Whole || k.Locks && !k.Markers):
		t.Errorf("deleting by name: %v", err)
	case err == nil && (current || marker != k.Markers || (len(got) > 0) != k.Versions):
		t.Errorf("deleted by its name: %+v", got)
	}
	err = raw.Delete(t.Context(), versions("a/deleted")[0])
	if (err != nil) != k.Locks {
		t.Errorf("deleting a version: %v", err)
	}
	if left := versions("a/deleted"); (len(left) > 0) != k.Locks {
		t.Errorf("after the deletion there is %+v", left)
	}
}
