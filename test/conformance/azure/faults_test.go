package azure

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/azure"
	"druid.internal/druid/test/faults"
	"druid.internal/druid/test/stores"
	"druid.internal/druid/test/stores/azworm"
)

func listed(t *testing.T, s store.Reader) []store.Object {
	t.Helper()
	var all []store.Object
	if err := s.List(t.Context(), "", func(o store.Object) error { all = append(all, o); return nil }); err != nil {
		t.Fatal(err)
	}
	return all
}

func content(t *testing.T, s store.Reader, v store.Version) []byte {
	t.Helper()
	r, err := s.Open(t.Context(), v, 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func put(t *testing.T, s store.Store, key, body string) store.Version {
	t.Helper()
	o, err := s.Put(t.Context(), key, strings.NewReader(body), store.PutOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return o.Version
}

// writing matches the request that makes a small blob, and no staging or commit.
func writing(r *http.Request) bool {
	return r.Method == http.MethodPut && !strings.Contains(r.URL.RawQuery, "comp=")
}

func staging(r *http.Request) bool { return r.URL.Query().Get("comp") == "block" }

func committing(r *http.Request) bool {
	return r.Method == http.MethodPut && r.URL.Query().Get("comp") == "blocklist"
}

// An upload whose answer is lost did happen. The repetition meets its own blob.
func TestALostAnswerToAWriteIsNoFailureAndNoSecondVersion(t *testing.T) {
	cases := map[string]struct {
		size  int
		lost  func(*http.Request) bool
		times int
	}{
		"the write of a small blob, once":   {1000, writing, 1},
		"the write of a small blob, always": {1000, writing, 0},
		"a block, once":                     {3 * block, staging, 1},
		"the commit, once":                  {2*block + 1, committing, 1},
		"the commit, always":                {2*block + 1, committing, 0},
	}
	places := map[string]func(t *testing.T) (account, string){
		"without versions": func(t *testing.T) (account, string) { return plain(), plain().create(t) },
		"with versions": func(t *testing.T) (account, string) {
			return locking(), protected(t, azworm.Protection{VersionLevel: true, Days: 1, Locked: true})
		},
	}
	for place, at := range places {
		for name, c := range cases {
			t.Run(place+", "+name, func(t *testing.T) {
				a, bucket := at(t)
				s, gate := a.through(t, bucket, func(o *azure.Options) { o.Attempts = 2 })
				gate.Inject(faults.Fault{Match: c.lost, Times: c.times, Lose: true})
				want := bytes.Repeat([]byte("x"), c.size)
				o, err := s.Put(t.Context(), "a/key", bytes.NewReader(want), store.PutOptions{})
				if err != nil {
					t.Fatal(err)
				}
				if len(gate.Happened()) == 0 {
					t.Fatal("no answer was lost")
				}
				all := listed(t, s)
				if len(all) != 1 || all[0].Version != o.Version || o.Size != int64(c.size) || (o.ID != "") != (place == "with versions") {
					t.Errorf("Put = %+v, the listing %+v", o, all)
				}
				if !bytes.Equal(content(t, s, o.Version), want) {
					t.Error("what is there is not what was written")
				}
			})
		}
	}
}

// Somebody overwrites our blob before we could look for it.
func TestALostAnswerIsFoundAmongTheVersionsThatOthersReplaced(t *testing.T) {
	bucket := protected(t, azworm.Protection{VersionLevel: true})
	s, gate := locking().through(t, bucket, nil)
	gate.Inject(faults.Fault{Match: writing, Times: 1, Lose: true, Then: func() {
		locking().overwrite(t, s, "a/key", []byte("theirs"))
	}})
	o, err := s.Put(t.Context(), "a/key", strings.NewReader("ours"), store.PutOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := content(t, s, o.Version); string(got) != "ours" || o.Latest {
		t.Errorf("Put says %+v, which holds %q", o, got)
	}
}

func TestALostAnswerToOursIsNotTakenForAnothersBlob(t *testing.T) {
	s, gate := plain().through(t, plain().create(t), func(o *azure.Options) { o.Attempts = 2 })
	put(t, s, "a/key", "theirs")
	gate.Inject(faults.Fault{Match: writing, Times: 1, Lose: true})
	if _, err := s.Put(t.Context(), "a/key", strings.NewReader("ours"), store.PutOptions{}); !errors.Is(err, store.ErrExists) {
		t.Errorf("Put = %v, want %v", err, store.ErrExists)
	}
	if all := listed(t, s); len(all) != 1 || string(content(t, s, all[0].Version)) != "theirs" {
		t.Errorf("the listing is %+v", all)
	}
}

func TestAnOutcomeThatCannotBeLearnedIsSaidToBeUnknown(t *testing.T) {
	s, gate := plain().through(t, plain().create(t), nil)
	gate.Inject(faults.Fault{Match: committing, Lose: true})
	gate.Inject(faults.Fault{Match: faults.Request(http.MethodHead), Status: http.StatusInternalServerError})
	_, err := s.Put(t.Context(), "a/key", bytes.NewReader(make([]byte, 2*block+1)), store.PutOptions{})
	if !errors.Is(err, store.ErrUnknownOutcome) || !errors.Is(err, store.ErrUnreachable) {
		t.Errorf("Put = %v, want an unknown outcome", err)
	}
}

func TestAFailedBlockFailsThePutAndNothingIsVisible(t *testing.T) {
	for name, f := range map[string]faults.Fault{
		"an error of the service": {Status: http.StatusInternalServerError, Code: "InternalError"},
		"throttling":              {Status: http.StatusServiceUnavailable, Code: "ServerBusy"},
		"broken connections":      {Lose: true},
	} {
		t.Run(name, func(t *testing.T) {
			bucket := plain().create(t)
			s, gate := plain().through(t, bucket, nil)
			f.Match = staging
			gate.Inject(f)
			_, err := s.Put(t.Context(), "a/key", bytes.NewReader(make([]byte, 6*block)), store.PutOptions{})
			want := store.ErrUnreachable
			if f.Code == "ServerBusy" {
				want = store.ErrThrottled
			}
			if !errors.Is(err, want) || errors.Is(err, store.ErrUnknownOutcome) || !strings.Contains(err.Error(), "block ") {
				t.Errorf("Put = %v, want a definite failure of a block, %v", err, want)
			}
			if all := listed(t, s); len(all) > 0 {
				t.Errorf("%+v became visible", all)
			}
		})
	}
}

// Azure has no way to take back blocks that were not committed; it forgets them after a week.
func TestBlocksOfACanceledPutStayInvisibleAndAreInNobodysWay(t *testing.T) {
	bucket := plain().create(t)
	s := open(t, plain().options(bucket))
	ctx, cancel := context.WithCancel(t.Context())
	body := io.MultiReader(bytes.NewReader(make([]byte, 3*block)), until(func() bool { return plain().uncommitted(t, bucket, "a/key") > 0 }), cancels{cancel}, bytes.NewReader(make([]byte, block)))
	if _, err := s.Put(ctx, "a/key", body, store.PutOptions{}); !errors.Is(err, context.Canceled) {
		t.Fatalf("Put = %v, want %v", err, context.Canceled)
	}
	if plain().uncommitted(t, bucket, "a/key") == 0 {
		t.Error("no block was staged, so nothing is shown")
	}
	if all := listed(t, s); len(all) > 0 {
		t.Errorf("%+v is visible", all)
	}
	if _, err := s.Stat(t.Context(), store.Version{Key: "a/key"}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("Stat = %v, want %v", err, store.ErrNotFound)
	}
	want := bytes.Repeat([]byte("y"), 2*block+1)
	o, err := s.Put(t.Context(), "a/key", bytes.NewReader(want), store.PutOptions{})
	if err != nil || !bytes.Equal(content(t, s, o.Version), want) {
		t.Errorf("a later Put = %+v, %v", o, err)
	}
}

// until is an empty stream that ends when fact holds.
type until func() bool

func (u until) Read([]byte) (int, error) {
	for end := time.Now().Add(2 * time.Minute); !u(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			return 0, errors.New("it never came true")
		}
	}
	return 0, io.EOF
}

// cancels is an empty stream that gives up when it is read.
type cancels struct{ cancel func() }

func (c cancels) Read([]byte) (int, error) { c.cancel(); return 0, io.EOF }

func TestAnOutageIsNeverAnEmptyContainer(t *testing.T) {
	link := faults.NewLink(t, azurite.Address)
	o := plain().options(plain().create(t))
	o.Endpoint, o.Attempts, o.IdleTimeout = "https://"+link.Address+"/"+stores.AzuriteAccount, 1, 3*time.Second
	s := open(t, o)
	put(t, s, "a/key", "x")
	for name, begin := range map[string]func(){"cut": link.Cut, "stalled": link.Stall} {
		begin()
		n := 0
		err := s.List(t.Context(), "", func(store.Object) error { n++; return nil })
		if !errors.Is(err, store.ErrUnreachable) || n > 0 {
			t.Errorf("%s: %d objects and %v, want %v", name, n, err, store.ErrUnreachable)
		}
		if _, err := s.Stat(t.Context(), store.Version{Key: "a/key"}); !errors.Is(err, store.ErrUnreachable) || errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: Stat = %v, want %v", name, err, store.ErrUnreachable)
		}
		link.Restore()
		if all := listed(t, s); len(all) != 1 {
			t.Errorf("after %s: %+v", name, all)
		}
	}
}
