package snapshotter

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/engine/catalog"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/storetest"
)

// The prefix has a full of 1000 s, and of who claimed it each is a second later than the one before, from 1001 s on.
func TestBackupsAreRestoredByThoseWhoMayWriteThemOrDid(t *testing.T) {
	const ours, anew = "k8s/shop/main/uid-1", "k8s/shop/main/uid-2"
	for phrase, c := range map[string]struct {
		owners   []string // "": a record that is none
		full     int64    // of that second there is one more; 0: there is none
		takeOver bool
		owner    string
		refused  string // in whose favour; empty: not
	}{
		"of nobody, as the original's":                      {nil, 0, false, ours, ""},
		"its own":                                           {[]string{ours}, 0, false, ours, ""},
		"another's":                                         {[]string{"k8s/shop/other/uid-3"}, 0, false, ours, "k8s/shop/other/uid-3"},
		"another namespace's":                               {[]string{"k8s/market/main/uid-3"}, 0, false, ours, "k8s/market/main/uid-3"},
		"another cluster's":                                 {[]string{"other/shop/main/uid-1"}, 0, false, ours, "other/shop/main/uid-1"},
		"those of a lineage":                                {[]string{"l-1"}, 0, false, ours, "l-1"},
		"another's, and it was told to take over":           {[]string{"k8s/shop/other/uid-3"}, 0, true, ours, ""},
		"another's, of somebody who has no name":            {[]string{"k8s/shop/other/uid-3"}, 0, false, "", ""},
		"its former self's":                                 {[]string{ours}, 0, false, anew, ""},
		"its later self's, which has written":               {[]string{ours, anew}, 1002, false, ours, anew},
		"its own since it took over":                        {[]string{"k8s/shop/other/uid-3", ours}, 1002, false, ours, ""},
		"another's who took over and has written":           {[]string{ours, "k8s/shop/other/uid-3"}, 1002, false, ours, "k8s/shop/other/uid-3"},
		"its own, but another claimed the prefix":           {[]string{ours, "k8s/shop/other/uid-3"}, 1001, false, ours, ""},
		"its own, and two others claimed the prefix":        {[]string{ours, "x", "y"}, 1001, false, ours, ""},
		"another's, and one more claimed the prefix":        {[]string{ours, "x", "y"}, 1002, false, ours, "y"},
		"its own below a record that is none":               {[]string{ours, "", ""}, 1009, false, ours, ""},
		"another's below a record that is none":             {[]string{"x", ""}, 0, false, ours, "x"},
		"its former self's below a record that is none":     {[]string{ours, ""}, 0, false, anew, ""},
		"of nobody but for a record that is none":           {[]string{""}, 0, false, ours, ""},
		"another's, which was its former self's before him": {[]string{ours, "x"}, 0, false, anew, "x"},
	} {
		s := storetest.NewMemory(storetest.S3Like())
		put := func(key, content string) {
			t.Helper()
			if _, err := s.Put(t.Context(), key, strings.NewReader(content), store.PutOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		put("p/v2/Full-00000000-00000005-1000", "x")
		if c.full > 0 {
			put(fmt.Sprintf("p/v2/Full-00000000-00000009-%d", c.full), "x")
		}
		for i, id := range c.owners {
			if id == "" {
				put(snapshot.OwnerKey("p", int64(i)+1).String(), "nonsense")
			} else if _, err := catalog.Claim(t.Context(), s, "p", int64(i), snapshot.Owner{ID: id, Note: "on some host", Since: time.Unix(1001+int64(i), 5e8)}); err != nil {
				t.Fatal(err)
			}
		}
		err := Restorable(t.Context(), s, catalogOf(t, s), c.owner, c.takeOver)
		if c.refused == "" && err != nil || c.refused != "" && (!errors.Is(err, ErrOwned) || !strings.Contains(err.Error(), ": "+c.refused+" (on some host) since") || !strings.Contains(err.Error(), "this is "+c.owner)) {
			t.Errorf("%s: %v, want the refusal in favour of %q", phrase, err, c.refused)
		}
	}
}

// Whoever may write can leave out as many numbers as he likes, and must not keep others from their backups by that.
func TestNumbersThatSomebodyLeftOutAreNotLookedFor(t *testing.T) {
	const ours = "k8s/shop/main/uid-1"
	s := storetest.NewMemory(storetest.S3Like())
	for number, id := range map[int64]string{0: ours, 98_999_999: "x"} {
		if _, err := catalog.Claim(t.Context(), s, "p", number, snapshot.Owner{ID: id, Since: time.Unix(1001+number, 0)}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Put(t.Context(), "p/v2/Full-00000000-00000005-1000", strings.NewReader("x"), store.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // of numbers that are looked for one by one few are in that time
	defer cancel()
	if err := Restorable(ctx, s, catalogOf(t, s), ours, false); err != nil {
		t.Errorf("its own, in the place of which another stands beyond many numbers: %v", err)
	}
	if ctx.Err() != nil {
		t.Error("it took longer than all records that there are")
	}
}

func TestWhoseBackupsTheyAreIsNotGuessedWhileTheStoreFails(t *testing.T) {
	s := storetest.NewFaulty(storetest.NewMemory(storetest.S3Like()))
	s.Inject(storetest.Fail(store.ErrUnreachable).Always())
	c := &catalog.Catalog{Prefix: "p", Owner: &catalog.OwnerRecord{Owner: snapshot.Owner{ID: "x", Since: time.Unix(1, 0)}, Number: 2}}
	if err := Restorable(t.Context(), s, c, "y", false); !errors.Is(err, store.ErrUnreachable) {
		t.Errorf("%v, want that the store does not answer", err)
	}
}

func catalogOf(t *testing.T, s store.Reader) *catalog.Catalog {
	t.Helper()
	c, err := catalog.Read(t.Context(), s, "p", catalog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}
