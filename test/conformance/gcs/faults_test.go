package gcs_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/gcs"
	"druid.internal/druid/test/faults"
	"druid.internal/druid/test/stores"
)

// gated is a store on a new bucket behind a gate.
func gated(t *testing.T, b stores.GCSBucket, change func(*gcs.Options)) (*gcs.Store, *faults.Gate) {
	t.Helper()
	gate := faults.NewGate(t, server)
	o := options(newBucket(t, b))
	o.Endpoint = gate.Endpoint
	if change != nil {
		change(&o)
	}
	return open(t, o), gate
}

// listed are all versions in the order of the listing.
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

// The requests of an upload.
var (
	simple = faults.Request(http.MethodPost, "uploadType=multipart")
	begin  = func(r *http.Request) bool {
		return r.URL.Query().Get("uploadType") == "resumable" && r.URL.Query().Get("upload_id") == ""
	}
	cancelation = faults.Request(http.MethodDelete, "upload_id")
	looking     = faults.Request(http.MethodGet, "versions=true")
)

// piece matches the chunk that begins at the given offset.
func piece(first int64) func(*http.Request) bool {
	return func(r *http.Request) bool {
		return strings.HasPrefix(r.Header.Get("Content-Range"), fmt.Sprintf("bytes %d-", first))
	}
}

// closing matches the chunk that tells where the upload ends.
func closing(r *http.Request) bool {
	span := r.Header.Get("Content-Range")
	return span != "" && !strings.HasSuffix(span, "/*")
}

func twice(o *gcs.Options) { o.Attempts = 2 }

// An upload whose answer is lost did happen. The repetition meets its own object.
func TestALostAnswerToAWriteIsNoFailureAndNoSecondObject(t *testing.T) {
	cases := map[string]struct {
		size  int
		lost  func(*http.Request) bool
		times int
	}{
		"the write of a small object, once":      {1000, simple, 1},
		"the write of a small object, always":    {1000, simple, 0},
		"the beginning of a large one, once":     {2*chunk + 1, begin, 1},
		"a chunk in the middle, once":            {3*chunk + 1, piece(chunk), 1},
		"the last chunk, once":                   {2*chunk + 1, closing, 1},
		"the last chunk, always":                 {2*chunk + 1, closing, 0},
		"the last chunk that is empty, once":     {2 * chunk, closing, 1},
		"the last chunk that is empty, for good": {2 * chunk, closing, 0},
	}
	for name, c := range cases {
		for kind, b := range map[string]stores.GCSBucket{"under a policy": {Policy: time.Hour}, "versioned": {Versioned: true}} {
			t.Run(name+", "+kind, func(t *testing.T) {
				s, gate := gated(t, b, twice)
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
				if len(all) != 1 || all[0].Version != o.Version || o.Size != int64(c.size) {
					t.Errorf("Put = %+v, the listing %+v", o, all)
				}
				if len(all[0].Tags) != 0 {
					t.Errorf("the object has tags %v, which nobody gave it", all[0].Tags)
				}
				if !bytes.Equal(content(t, s, o.Version), want) {
					t.Error("what is there is not what was written")
				}
			})
		}
	}
}

func TestALostAnswerToOursIsNotTakenForAnothersObject(t *testing.T) {
	for name, size := range map[string]int{"small, of the same size": len("theirs"), "large": 2*chunk + 1} {
		t.Run(name, func(t *testing.T) {
			s, gate := gated(t, stores.GCSBucket{}, twice)
			if _, err := s.Put(t.Context(), "a/key", strings.NewReader("theirs"), store.PutOptions{}); err != nil {
				t.Fatal(err)
			}
			gate.Inject(faults.Fault{Match: func(r *http.Request) bool { return simple(r) || begin(r) }, Times: 1, Lose: true})
			if _, err := s.Put(t.Context(), "a/key", bytes.NewReader(make([]byte, size)), store.PutOptions{}); !errors.Is(err, store.ErrExists) || errors.Is(err, store.ErrUnknownOutcome) {
				t.Errorf("Put = %v, want %v and nothing unknown", err, store.ErrExists)
			}
			if len(gate.Happened()) != 1 {
				t.Fatal("no answer was lost")
			}
			if all := listed(t, s); len(all) != 1 || string(content(t, s, all[0].Version)) != "theirs" {
				t.Errorf("the listing is %+v", all)
			}
		})
	}
}

// Between the beginning of an upload and its end somebody else may write the same key.
func TestTheConditionHoldsAtTheEndOfALongUpload(t *testing.T) {
	s := open(t, options(newBucket(t, stores.GCSBucket{Versioned: true})))
	var theirs store.Object
	body := io.MultiReader(bytes.NewReader(make([]byte, 2*chunk)), calls{func() {
		var err error
		if theirs, err = s.Put(t.Context(), "a/key", strings.NewReader("theirs"), store.PutOptions{}); err != nil {
			t.Error(err)
		}
	}}, bytes.NewReader(make([]byte, chunk)))
	if _, err := s.Put(t.Context(), "a/key", body, store.PutOptions{}); !errors.Is(err, store.ErrExists) {
		t.Errorf("Put = %v, want %v", err, store.ErrExists)
	}
	if all := listed(t, s); len(all) != 1 || all[0].Version != theirs.Version {
		t.Errorf("the listing is %+v", all)
	}
}

// calls is an empty stream that calls fn when it is read.
type calls struct{ fn func() }

func (c calls) Read([]byte) (int, error) { c.fn(); return 0, io.EOF }

func TestAnUploadOutlivesFaultsInItsMiddle(t *testing.T) {
	cases := map[string]faults.Fault{
		"the beginning is refused for a moment": {Match: begin, Times: 2, Status: http.StatusServiceUnavailable},
		"a chunk is refused for a moment":       {Match: piece(chunk), Times: 2, Status: http.StatusInternalServerError},
		"a chunk is throttled":                  {Match: piece(chunk), Times: 1, Status: http.StatusTooManyRequests},
		"the last chunk is refused":             {Match: closing, Times: 1, Status: http.StatusBadGateway},
		"several answers are lost":              {Match: func(r *http.Request) bool { return r.Header.Get("Content-Range") != "" }, Times: 2, Lose: true},
	}
	for name, fault := range cases {
		t.Run(name, func(t *testing.T) {
			s, gate := gated(t, stores.GCSBucket{ObjectLock: true}, nil)
			gate.Inject(fault)
			want := bytes.Repeat([]byte("0123456789abcdef"), (3*chunk+100)/16)
			o, err := s.Put(t.Context(), "a/key", bytes.NewReader(want), store.PutOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if len(gate.Happened()) == 0 {
				t.Fatal("nothing happened")
			}
			if !bytes.Equal(content(t, s, o.Version), want) {
				t.Error("what is there is not what was written")
			}
		})
	}
}

func TestACutConnectionInTheMiddleOfAChunkIsRepaired(t *testing.T) {
	link := faults.NewLink(t, server.Address)
	o := options(newBucket(t, stores.GCSBucket{}))
	o.Endpoint = "https://" + link.Address
	s := open(t, o)
	want := bytes.Repeat([]byte("y"), 3*chunk)
	// The link breaks when the first chunk is on its way and the second is being read.
	body := io.MultiReader(bytes.NewReader(want[:chunk+chunk/2]), calls{func() { link.Cut(); link.Restore() }}, bytes.NewReader(want[chunk+chunk/2:]))
	obj, err := s.Put(t.Context(), "a/key", body, store.PutOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(content(t, s, obj.Version), want) {
		t.Error("what is there is not what was written")
	}
}

func TestAFailedChunkFailsThePutAndLeavesNeitherObjectNorUpload(t *testing.T) {
	cases := map[string]struct {
		fault faults.Fault
		want  error
	}{
		"the beginning": {faults.Fault{Match: begin, Status: http.StatusInternalServerError}, store.ErrUnreachable},
		"the middle":    {faults.Fault{Match: piece(chunk), Status: http.StatusInternalServerError}, store.ErrUnreachable},
		"the end":       {faults.Fault{Match: closing, Status: http.StatusInternalServerError}, store.ErrUnreachable},
		"no permission": {faults.Fault{Match: piece(chunk), Status: http.StatusForbidden}, store.ErrForbidden},
		"too slow":      {faults.Fault{Match: piece(chunk), Status: http.StatusTooManyRequests}, store.ErrThrottled},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s, gate := gated(t, stores.GCSBucket{}, twice)
			gate.Inject(c.fault)
			_, err := s.Put(t.Context(), "a/key", bytes.NewReader(make([]byte, 3*chunk+1)), store.PutOptions{})
			if !errors.Is(err, c.want) || errors.Is(err, store.ErrUnknownOutcome) {
				t.Errorf("Put = %v, want a definite failure of kind %v", err, c.want)
			}
			if all := listed(t, s); len(all) > 0 {
				t.Errorf("%+v became visible", all)
			}
			if left := server.Shim.Uploads(bucketOf(s)); left > 0 {
				t.Errorf("%d uploads are left", left)
			}
		})
	}
}

// What nobody can find out must not be told as a definite failure.
func TestAnUnknownOutcomeIsSaidToBeUnknown(t *testing.T) {
	cases := map[string]struct {
		size   int
		faults []faults.Fault
	}{
		"small, and nobody can look": {1000, []faults.Fault{
			{Match: simple, Lose: true}, {Match: looking, Status: http.StatusServiceUnavailable}}},
		"small, and it is not there": {1000, []faults.Fault{{Match: simple, Status: http.StatusServiceUnavailable}}},
		"large, and nobody can look": {2*chunk + 1, []faults.Fault{
			{Match: closing, Lose: true}, {Match: looking, Status: http.StatusServiceUnavailable}}},
		"large, it is not there and cannot be canceled": {2*chunk + 1, []faults.Fault{
			{Match: closing, Status: http.StatusServiceUnavailable}, {Match: cancelation, Status: http.StatusServiceUnavailable}}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s, gate := gated(t, stores.GCSBucket{}, twice)
			for _, f := range c.faults {
				gate.Inject(f)
			}
			_, err := s.Put(t.Context(), "a/key", bytes.NewReader(make([]byte, c.size)), store.PutOptions{})
			if !errors.Is(err, store.ErrUnknownOutcome) {
				t.Errorf("Put = %v, want %v", err, store.ErrUnknownOutcome)
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("%q is more than a line", err)
			}
		})
	}
}

func TestAnInterruptedUploadLeavesNothing(t *testing.T) {
	for name, size := range map[string]int{"within the first chunk": 1000, "between chunks": 2 * chunk, "within a chunk": 2*chunk + 1000} {
		t.Run(name, func(t *testing.T) {
			s := open(t, options(newBucket(t, stores.GCSBucket{})))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			_, err := s.Put(ctx, "a/key", io.MultiReader(bytes.NewReader(make([]byte, size)), calls{cancel}, bytes.NewReader(make([]byte, chunk))), store.PutOptions{})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("Put = %v, want %v", err, context.Canceled)
			}
			if all := listed(t, s); len(all) > 0 {
				t.Errorf("%+v became visible", all)
			}
			if left := server.Shim.Uploads(bucketOf(s)); left > 0 {
				t.Errorf("%d uploads are left", left)
			}
		})
	}
}

func TestACopyWhoseAnswerIsLostIsRecognised(t *testing.T) {
	for name, times := range map[string]int{"once": 1, "always": 0} {
		t.Run(name, func(t *testing.T) {
			s, gate := gated(t, stores.GCSBucket{}, twice)
			src, err := s.Put(t.Context(), "a/key", strings.NewReader("x"), store.PutOptions{})
			if err != nil {
				t.Fatal(err)
			}
			rewriting := func(r *http.Request) bool { return strings.Contains(r.URL.Path, "/rewriteTo/") }
			gate.Inject(faults.Fault{Match: rewriting, Times: times, Lose: true})
			o, err := s.Copy(t.Context(), s, src.Version, "b/key", store.PutOptions{})
			if err != nil || len(gate.Happened()) == 0 {
				t.Fatalf("Copy = %v, %d answers were lost", err, len(gate.Happened()))
			}
			if got := content(t, s, o.Version); string(got) != "x" || o.Size != 1 {
				t.Errorf("the copy is %q, %+v", got, o)
			}
		})
	}
}

func TestAChangeWhoseAnswerIsLostIsNotMadeTwice(t *testing.T) {
	s, gate := gated(t, stores.GCSBucket{ObjectLock: true}, twice)
	o, err := s.Put(t.Context(), "a/key", strings.NewReader("x"), store.PutOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func() error{
		"a tag":  func() error { return s.SetTag(t.Context(), o.Version, "k", "v") },
		"a hold": func() error { return s.SetHold(t.Context(), o.Version, true) },
	} {
		gate.Inject(faults.Fault{Match: faults.Request(http.MethodPatch), Times: 1, Lose: true})
		if err := change(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	st, err := s.Stat(t.Context(), o.Version)
	if err != nil || st.Tags["k"] != "v" || !st.Retention.Hold {
		t.Errorf("Stat = %+v, %v", st, err)
	}
	if err := s.SetHold(t.Context(), o.Version, false); err != nil {
		t.Fatal(err)
	}
	gate.Inject(faults.Fault{Match: faults.Request(http.MethodDelete), Times: 1, Lose: true})
	if err := s.Delete(t.Context(), o.Version); err != nil {
		t.Errorf("a delete: %v", err)
	}
	if n := len(gate.Happened()); n != 3 {
		t.Errorf("%d answers were lost, want 3", n)
	}
}

func TestAnOutageIsNeverAnEmptyBucket(t *testing.T) {
	link := faults.NewLink(t, server.Address)
	o := options(newBucket(t, stores.GCSBucket{}))
	o.Endpoint, o.Attempts, o.IdleTimeout = "https://"+link.Address, 1, 3*time.Second
	s := open(t, o)
	if _, err := s.Put(t.Context(), "a/key", strings.NewReader("x"), store.PutOptions{}); err != nil {
		t.Fatal(err)
	}
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

func TestAStalledTransferEnds(t *testing.T) {
	link := faults.NewLink(t, server.Address)
	o := options(newBucket(t, stores.GCSBucket{}))
	o.Endpoint, o.Attempts, o.IdleTimeout = "https://"+link.Address, 1, 3*time.Second
	s := open(t, o)
	obj, err := s.Put(t.Context(), "a/key", bytes.NewReader(make([]byte, 16<<20)), store.PutOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Open(t.Context(), obj.Version, 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := io.CopyN(io.Discard, r, 1000); err != nil {
		t.Fatal(err)
	}
	link.Stall()
	if _, err := io.Copy(io.Discard, r); !errors.Is(err, io.ErrUnexpectedEOF) || !errors.Is(err, store.ErrUnreachable) {
		t.Errorf("a stalled download ends with %v", err)
	}
	_, err = s.Put(t.Context(), "a/other", bytes.NewReader(make([]byte, 2*chunk)), store.PutOptions{})
	if !errors.Is(err, store.ErrUnreachable) {
		t.Errorf("a stalled upload ends with %v", err)
	}
	link.Restore()
}

// What is stored packed is not unpacked on the way, and a part of it is that part.
func TestBytesComeAsTheyAreStored(t *testing.T) {
	s, gate := gated(t, stores.GCSBucket{}, nil)
	o, err := s.Put(t.Context(), "a/key.gz", strings.NewReader("0123456789"), store.PutOptions{})
	if err != nil {
		t.Fatal(err)
	}
	asked := ""
	gate.Inject(faults.Fault{Match: func(r *http.Request) bool {
		if r.URL.Query().Get("alt") == "media" {
			asked = r.Header.Get("Accept-Encoding")
		}
		return false
	}})
	r, err := s.Open(t.Context(), o.Version, 2, 3)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if b, err := io.ReadAll(r); err != nil || string(b) != "234" || asked != "gzip" {
		t.Errorf("read %q, %v, accepting %q", b, err, asked)
	}
}

// faultOn is no fault: it lets the test see requests before the server does, as see returns false.
func faultOn(see func(*http.Request) bool) faults.Fault {
	return faults.Fault{Match: see, Status: http.StatusInternalServerError}
}
