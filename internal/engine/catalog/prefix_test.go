package catalog

import (
	"errors"
	"strings"
	"testing"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/storetest"
)

const someFull = "Full-00000000-00000009-100"

func TestUpstreamKeysWithALeadingSlashAreRead(t *testing.T) {
	s := storetest.NewMemory(storetest.S3Like())
	put(t, s, "/lead/x/v2/"+someFull, []byte("a"))
	put(t, s, "/lead/x/v1/Backup-1/Full-00000000-00000005-50", []byte("b"))
	c, err := Read(t.Context(), s, "/lead/x", Options{SkipDigests: true})
	if err != nil || len(c.Listing.Objects) != 2 || len(c.Listing.Foreign) > 0 {
		t.Fatalf("Read = %+v, %v; want both snapshots", c, err)
	}
	if _, err := Claim(t.Context(), s, "/lead/x", 0, snapshot.Owner{ID: "a"}); err != nil {
		t.Fatal(err)
	}
	c, err = Read(t.Context(), s, "/lead/x", Options{SkipDigests: true})
	if err != nil || c.Owner == nil || c.Owner.ID != "a" {
		t.Errorf("the owner is %+v, %v; want a", c.Owner, err)
	}
}

func TestBackupsBelowAConfusedPrefixAreNoEmptyBucket(t *testing.T) {
	for title, c := range map[string]struct {
		key          string
		given, other snapshot.Prefix
	}{
		"a slash too much":        {"x/v2/" + someFull, "/x", "x"},
		"a slash too few":         {"/x/v2/" + someFull, "x", "/x"},
		"with the layout":         {"x/v2/" + someFull, "x/v2", "x"},
		"with the first layout":   {"x/v1/Backup-1/" + someFull, "x/v1", "x"},
		"the path of a snapshot":  {"x/v2/" + someFull, "x/v2/" + someFull, "x"},
		"the layout at the root":  {"v2/" + someFull, "v2", ""},
		"the layout with a slash": {"/x/v2/" + someFull, "/x/v2", "/x"},
	} {
		t.Run(title, func(t *testing.T) {
			s := storetest.NewMemory(storetest.S3Like())
			put(t, s, c.key, []byte("a"))
			_, err := Read(t.Context(), s, c.given, Options{})
			if !errors.Is(err, ErrMistaken) || !strings.Contains(err.Error(), `set the prefix to "`+c.other.String()+`"`) {
				t.Errorf("Read(%q) = %v, want ErrMistaken that names %q", c.given, err, c.other)
			}
			if _, err := Read(t.Context(), s, c.other, Options{}); err != nil {
				t.Errorf("Read(%q) = %v", c.other, err)
			}
		})
	}
}

func TestAnOwnerRecordAloneIsNoBackup(t *testing.T) {
	s := storetest.NewMemory(storetest.S3Like())
	put(t, s, "/x/v2/Owner-00000001", []byte(`{"version":1,"id":"a"}`))
	if _, err := Read(t.Context(), s, "x", Options{}); err != nil {
		t.Errorf("a prefix of which only the confused one has an owner: %v", err)
	}
	put(t, s, "x/v2/"+someFull, []byte("a"))
	if _, err := Read(t.Context(), s, "/x", Options{}); !errors.Is(err, ErrMistaken) {
		t.Errorf("a prefix with an owner and no snapshots = %v, want ErrMistaken", err)
	}
}

func TestAConfusedPrefixThatCannotBeListedCountsOnlyIfItIsOurs(t *testing.T) {
	for title, c := range map[string]struct {
		fault error
		want  error
	}{
		"credentials for the prefix alone": {store.ErrForbidden, nil},
		"an outage":                        {store.ErrUnreachable, store.ErrUnreachable},
	} {
		t.Run(title, func(t *testing.T) {
			s := storetest.NewFaulty(storetest.NewMemory(storetest.S3Like()))
			s.Inject(storetest.Fail(c.fault).On(storetest.OpList, "/x"))
			if _, err := Read(t.Context(), s, "x", Options{}); !errors.Is(err, c.want) {
				t.Errorf("Read = %v, want %v", err, c.want)
			}
		})
	}
}
