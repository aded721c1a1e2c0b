package s3_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/store"
)

// lock answers a HEAD as of a locked object.
func lock(w http.ResponseWriter, mode types.ObjectLockMode, until time.Time) {
	w.Header().Set("X-Amz-Object-Lock-Mode", string(mode))
	w.Header().Set("X-Amz-Object-Lock-Retain-Until-Date", until.UTC().Format(time.RFC3339))
}

// forgetful answers as Ceph's gateway does: uploads in parts lose their lock, hold and tags,
// which can be set afterwards.
type forgetful struct {
	refuses map[string]int // status by what is set: retention, legal-hold, tagging
	ignores bool           // says yes and sets nothing

	mu    sync.Mutex
	mode  types.ObjectLockMode // the lock there is
	until string
	hold  bool
	tags  bool
	set   []string
}

func (f *forgetful) serve(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	q := r.URL.Query()
	what := ""
	for _, name := range []string{"retention", "legal-hold", "tagging"} {
		if q.Has(name) {
			what = name
		}
	}
	switch {
	case r.Method == http.MethodPut && what != "":
		f.set = append(f.set, what)
		if status := f.refuses[what]; status != 0 {
			refuse(w, status, "AccessDenied")
			return
		}
		if f.ignores {
			return
		}
		switch what {
		case "retention":
			f.mode, f.until = types.ObjectLockModeCompliance, "2030-01-02T03:04:06Z"
		case "legal-hold":
			f.hold = true
		case "tagging":
			f.tags = true
		}
	case r.Method == http.MethodGet && what == "retention":
		refuse(w, http.StatusNotFound, "ObjectLockConfigurationNotFoundError")
	case r.Method == http.MethodGet && what == "tagging":
		io.WriteString(w, `<Tagging><TagSet>`)
		if f.tags {
			io.WriteString(w, `<Tag><Key>k</Key><Value>v</Value></Tag>`)
		}
		io.WriteString(w, `</TagSet></Tagging>`)
	case r.Method == http.MethodHead:
		w.Header().Set("X-Amz-Version-Id", "v1")
		if f.mode != "" {
			w.Header().Set("X-Amz-Object-Lock-Mode", string(f.mode))
			w.Header().Set("X-Amz-Object-Lock-Retain-Until-Date", f.until)
		}
		if f.hold {
			w.Header().Set("X-Amz-Object-Lock-Legal-Hold", "ON")
		}
	default:
		accepting(w, r)
	}
}

// The gateway of Ceph took locked uploads of more than one part and left them unlocked.
func TestALockThatTheServerForgetsIsSetAfterwards(t *testing.T) {
	until := time.Date(2030, 1, 2, 3, 4, 5, 600_000_000, time.UTC)
	asked := store.PutOptions{
		Retention: &immutability.Retention{Mode: immutability.ModeCompliance, Until: until, Hold: true},
		Tags:      map[string]string{"k": "v"},
	}
	cases := map[string]struct {
		server  *forgetful
		asked   store.PutOptions
		wantSet []string
		wantErr error
		says    string
	}{
		"all of it": {&forgetful{}, asked, []string{"retention", "legal-hold", "tagging"}, nil, ""},
		"nothing, for a longer default is there": {
			&forgetful{mode: types.ObjectLockModeCompliance, until: "2031-01-01T00:00:00Z", hold: true, tags: true}, asked, nil, nil, "",
		},
		"what is shorter": {
			&forgetful{mode: types.ObjectLockModeCompliance, until: "2029-01-01T00:00:00Z", hold: true, tags: true}, asked, []string{"retention"}, nil, "",
		},
		"what is weaker": {
			&forgetful{mode: types.ObjectLockModeGovernance, until: "2031-01-01T00:00:00Z", hold: true, tags: true}, asked, []string{"retention"}, nil, "",
		},
		"only the hold": {
			&forgetful{tags: true}, store.PutOptions{Retention: &immutability.Retention{Hold: true}}, []string{"legal-hold"}, nil, "",
		},
		"only the tags":          {&forgetful{}, store.PutOptions{Tags: map[string]string{"k": "v"}}, []string{"tagging"}, nil, ""},
		"nothing was asked for":  {&forgetful{}, store.PutOptions{}, nil, nil, ""},
		"a lock that is refused": {&forgetful{refuses: map[string]int{"retention": 403}}, asked, []string{"retention"}, store.ErrForbidden, "not with the lock"},
		"a hold that is refused": {&forgetful{refuses: map[string]int{"legal-hold": 403}}, asked, []string{"retention", "legal-hold"}, store.ErrForbidden, "not with the lock"},
		"tags that are refused":  {&forgetful{refuses: map[string]int{"tagging": 403}}, asked, []string{"retention", "legal-hold", "tagging"}, store.ErrForbidden, "not with the lock and tags"},
		"a lock that is ignored": {&forgetful{ignores: true}, asked, []string{"retention", "legal-hold"}, store.ErrUnknownOutcome, "does not have it"},
	}
	for name, c := range cases {
		for _, size := range []int{10, part + 1} {
			t.Run(fmt.Sprint(name, " ", size), func(t *testing.T) {
				server := &forgetful{refuses: c.server.refuses, ignores: c.server.ignores, mode: c.server.mode, until: c.server.until, hold: c.server.hold, tags: c.server.tags}
				f := newFake(t, server.serve)
				f.locks = true
				o, err := f.open(t, f.options()).Put(t.Context(), "a/key", bytes.NewReader(make([]byte, size)), c.asked)
				if c.wantErr == nil && (err != nil || o.ID != "v1") {
					t.Errorf("Put = %+v, %v", o, err)
				}
				if c.wantErr != nil && (!errors.Is(err, c.wantErr) || !errors.Is(err, store.ErrUnknownOutcome) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n")) {
					t.Errorf("Put = %v, want one line of %v with %q", err, c.wantErr, c.says)
				}
				if !slices.Equal(server.set, c.wantSet) {
					t.Errorf("set afterwards: %q, want %q", server.set, c.wantSet)
				}
			})
		}
	}
}

func TestAServerThatIsNotKnownToRefuseIsAskedFirstWhereNoVersionsAreKept(t *testing.T) {
	cases := map[string]struct {
		server, versioning string
		head               int
		wantErr            error
		wantHead           bool
	}{
		"a taken key":                           {"", "", 200, store.ErrExists, true},
		"a free key":                            {"", "", 404, nil, true},
		"a key that may not be looked at":       {"", "", 403, store.ErrForbidden, true},
		"a server that fails":                   {"", "", 500, store.ErrUnreachable, true},
		"where versions are kept":               {"", "Enabled", 200, nil, false},
		"a server that is known to refuse":      {"MinIO", "", 200, nil, false},
		"a server whose versions are suspended": {"", "Suspended", 200, store.ErrExists, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodHead {
					w.WriteHeader(c.head)
					return
				}
				accepting(w, r)
			})
			f.name, f.versioning = c.server, c.versioning
			_, err := f.open(t, f.options()).Put(t.Context(), "k", strings.NewReader("x"), store.PutOptions{})
			if !errors.Is(err, c.wantErr) {
				t.Errorf("Put = %v, want %v", err, c.wantErr)
			}
			if looked := slices.Contains(f.operations(), "HeadObject"); looked != c.wantHead {
				t.Errorf("it looked first: %v, want %v", looked, c.wantHead)
			}
			if wrote := slices.Contains(f.operations(), "PutObject"); wrote != (c.wantErr == nil) {
				t.Errorf("it wrote: %v", wrote)
			}
		})
	}
}
