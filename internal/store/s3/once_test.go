package s3_test

import (
	"io"
	"net/http"
	"slices"
	"testing"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/store"
)

// A program that opens a bucket and looks at it asks for each setting once; one that stays is told what it is now.
func TestTheSettingsOfABucketAreAskedForOnce(t *testing.T) {
	f := newFake(t, func(w http.ResponseWriter, r *http.Request) { refuse(w, http.StatusNotImplemented, "NotImplemented") })
	f.locks = true
	s := f.open(t, f.options())
	f.locks, f.versioning = false, "Suspended" // meanwhile
	first, err := s.Inspect(t.Context())
	if err != nil || !first.Versioned || first.Default != immutability.ModeNone {
		t.Errorf("at first %+v, %v; want what was told as it was opened", first, err)
	}
	second, err := s.Inspect(t.Context())
	if err != nil || second.Versioned {
		t.Errorf("then %+v, %v; want what it is now", second, err)
	}
	if n := f.asked.Load(); n != 4 {
		t.Errorf("%d requests about settings, want 2 to open it and 2 to look again", n)
	}
}

// Whether the tags of the latest may be read is learned by the request that reads the first ones.
func TestTheTagsOfTheLatestAreAskedForOnce(t *testing.T) {
	for phrase, c := range map[string]struct {
		told  string // the version that the answer about tags is of
		empty bool   // there are none
		want  []string
	}{
		"the server tells whose they are": {"v1", false, []string{"HeadObject", "GetObjectTagging"}},
		"another one is the latest now":   {"v2", false, []string{"HeadObject", "GetObjectTagging", "GetObjectTagging"}},
		"the server does not tell":        {"", false, []string{"HeadObject", "GetObjectTagging", "GetObjectTagging"}},
		"nor does it, and there are none": {"", true, []string{"HeadObject", "GetObjectTagging"}},
	} {
		f := newFake(t, func(w http.ResponseWriter, r *http.Request) {
			named := r.URL.Query().Has("versionId")
			if r.Method == http.MethodHead {
				w.Header().Set("X-Amz-Version-Id", "v1")
				if !c.empty {
					w.Header().Set("X-Amz-Tagging-Count", "1")
				}
				return
			}
			tag := "v1"
			if !named {
				tag = c.told
				w.Header().Set("X-Amz-Version-Id", c.told)
			}
			if c.empty {
				io.WriteString(w, `<Tagging><TagSet></TagSet></Tagging>`)
				return
			}
			io.WriteString(w, `<Tagging><TagSet><Tag><Key>of</Key><Value>`+tag+`</Value></Tag></TagSet></Tagging>`)
		})
		o, err := f.open(t, f.options()).Stat(t.Context(), store.Version{Key: "k", ID: "v1"})
		if err != nil || o.Tags == nil || !c.empty && o.Tags["of"] != "v1" {
			t.Errorf("%s: %v, %v", phrase, o.Tags, err)
		}
		if got := f.operations(); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", phrase, got, c.want)
		}
	}
}
