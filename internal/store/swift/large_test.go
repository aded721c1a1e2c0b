package swift_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"druid.internal/druid/internal/store"
)

const part = 10 << 20

// zeros is a stream of n bytes without a length.
func zeros(n int64) io.Reader { return io.LimitReader(zero{}, n) }

type zero struct{}

func (zero) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// original stores a dynamic large object as the original does.
func (f *fake) original(t *testing.T, container, key string, segments ...string) {
	t.Helper()
	for n, content := range segments {
		f.put(t, container, fmt.Sprintf("%s/%010d", key, n+1), []byte(content), nil)
	}
	f.put(t, container, key, nil, http.Header{"X-Object-Manifest": {container + "/" + strings.ReplaceAll(key, " ", "%20")}})
}

func TestSegmentsAreListedOnlyWhereTheirObjectIsNot(t *testing.T) {
	f := newFake(t)
	container := f.container(t)
	f.original(t, container, "a/k", "one", "two")
	f.put(t, container, "a/k.gz", []byte("another"), nil)
	f.put(t, container, "a/k/0000000003x", []byte("no segment"), nil)
	f.put(t, container, "a/torn/0000000001", []byte("torn"), nil)
	f.put(t, container, "a/torn/druid-ABCDEFGHIJKLMNOPQRSTUVWXYZ-00000001", []byte("torn too"), nil)
	f.put(t, container, "a/empty", nil, nil)
	s := open(t, f.options(container))
	got := ""
	for _, o := range listed(t, s, "a") {
		got += fmt.Sprintf("%s %d\n", o.Key, o.Size)
	}
	want := "a/empty 0\na/k 6\na/k.gz 7\na/k/0000000003x 10\na/torn/0000000001 4\na/torn/druid-ABCDEFGHIJKLMNOPQRSTUVWXYZ-00000001 8\n"
	if got != want {
		t.Errorf("List =\n%swant\n%s", got, want)
	}
	// The object itself is not below the prefix, but its segments are.
	if all := listed(t, s, "a/k"); len(all) != 1 || all[0].Key != "a/k/0000000003x" {
		t.Errorf("List below an object = %+v", all)
	}
	if all := listed(t, s, "a/torn"); len(all) != 2 {
		t.Errorf("List below no object = %+v", all)
	}
}

// Somebody's manifest may name segments anywhere.
func TestADynamicObjectIsReadFromAnywhereAndDeletesNothingElsewhere(t *testing.T) {
	f := newFake(t)
	container, elsewhere := f.container(t), f.container(t)
	f.put(t, elsewhere, "x/1", []byte("hello, "), nil)
	f.put(t, elsewhere, "x/2", []byte("world"), nil)
	f.put(t, container, "k", nil, http.Header{"X-Object-Manifest": {elsewhere + "/x/"}})
	s := open(t, f.options(container))
	if got, err := contentOf(t, s, "k"); err != nil || string(got) != "hello, world" {
		t.Errorf("it reads %q, %v", got, err)
	}
	if all := listed(t, s, ""); len(all) != 1 || all[0].Size != 12 {
		t.Errorf("List = %+v", all)
	}
	if err := s.Delete(t.Context(), store.Version{Key: "k"}); err != nil {
		t.Fatal(err)
	}
	if names, _ := f.names(t, elsewhere); len(names) != 2 {
		t.Errorf("elsewhere there are only %q", names)
	}
}

func TestASegmentThatChangedOrIsMissingIsNoticed(t *testing.T) {
	const key = "a/k"
	cases := map[string]struct {
		happens func(t *testing.T, f *fake, container string)
		early   bool
	}{
		"replaced by one of the same size": {func(t *testing.T, f *fake, c string) { f.put(t, c, key+"/0000000002", []byte("TWO"), nil) }, false},
		"replaced by a longer one":         {func(t *testing.T, f *fake, c string) { f.put(t, c, key+"/0000000002", []byte("twotwo"), nil) }, false},
		"removed":                          {func(t *testing.T, f *fake, c string) { f.remove(t, c, key+"/0000000002") }, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			container := f.container(t)
			f.original(t, container, key, "one", "two", "three")
			r, err := open(t, f.options(container)).Open(t.Context(), store.Version{Key: key}, 0, -1)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			c.happens(t, f, container)
			got, err := io.ReadAll(r)
			if err == nil || string(got) != "one" || errors.Is(err, io.ErrUnexpectedEOF) != c.early || errors.Is(err, store.ErrNotFound) {
				t.Errorf("read %q, %v", got, err)
			}
		})
	}
}

func TestContentThatIsNotWhatItsDigestSaysIsNoticed(t *testing.T) {
	f := newFake(t)
	container := f.container(t)
	f.put(t, container, "k", []byte("stored"), nil)
	s := open(t, f.options(container))
	f.set(func() { f.flip = true })
	if got, err := contentOf(t, s, "k"); err == nil || errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("read %q, %v, want an error about the digest", got, err)
	}
}

func TestTheServersDescriptionSaysHowLargeObjectsMayBe(t *testing.T) {
	cases := map[string]struct {
		info     string
		noInfo   bool
		noStatic bool
		size     int64
		want     error // nil: it works
		words    string
		segments int
	}{
		"enough segments":                       {info: `{"swift":{},"slo":{"max_manifest_segments":8}}`, size: 8 * part, segments: 5},
		"segments grow when there are few":      {info: `{"swift":{},"slo":{"max_manifest_segments":4}}`, size: 9 * part, segments: 4},
		"more than a manifest can list":         {info: `{"swift":{},"slo":{"max_manifest_segments":4}}`, size: 9*part + 1, want: errAny, words: "--min-chunk-size"},
		"fewer segments than are read at first": {info: `{"swift":{},"slo":{"max_manifest_segments":1}}`, size: part + 1, want: errAny, words: "--min-chunk-size"},
		"no large objects":                      {info: `{"swift":{}}`, size: part + 1, want: store.ErrUnsupported, words: "slo"},
		"no description, and they work":         {noInfo: true, size: 2*part + 1, segments: 3},
		"a description of something else":       {info: `{"welcome":true}`, size: 2*part + 1, segments: 3},
		"no description, and they do not":       {noInfo: true, noStatic: true, size: part + 1, want: store.ErrUnsupported, words: "plain objects"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			f.info, f.noInfo, f.noStatic = c.info, c.noInfo, c.noStatic
			container := f.container(t)
			s := open(t, f.options(container))
			o, err := s.Put(t.Context(), "a/k", zeros(c.size), store.PutOptions{})
			names, _ := f.names(t, container)
			if c.want != nil {
				if err == nil || c.want != errAny && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.words) {
					t.Errorf("Put = %v, want %v with %q", err, c.want, c.words)
				}
				isOneLine(t, err)
				if len(names) != 0 {
					t.Errorf("it left %q", names)
				}
				return
			}
			if err != nil || o.Size != c.size {
				t.Fatalf("Put = %+v, %v", o, err)
			}
			if len(names) != c.segments+1 {
				t.Errorf("there are %d objects, want %d segments and the manifest: %q", len(names), c.segments, names)
			}
			r, err := s.Open(t.Context(), o.Version, 0, -1)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			if n, err := io.Copy(io.Discard, r); n != c.size || err != nil {
				t.Errorf("read %d of %d bytes, %v", n, c.size, err)
			}
		})
	}
}

var errAny = errors.New("any")

func TestAKeyTakenDuringALongUploadIsNotOverwritten(t *testing.T) {
	f := newFake(t)
	container := f.container(t)
	s := open(t, f.options(container))
	body := io.MultiReader(zeros(part+1), callback(func() { f.put(t, container, "a/k", []byte("faster"), nil) }), zeros(part))
	_, err := s.Put(t.Context(), "a/k", body, store.PutOptions{})
	wants(t, "Put", err, store.ErrExists)
	if names, _ := f.names(t, container); len(names) != 1 {
		t.Errorf("there are %q, want the faster writer's object only", names)
	}
}

// callback is an empty stream that does something when it is read.
type callback func()

func (c callback) Read([]byte) (int, error) { c(); return 0, io.EOF }

func TestASegmentThatTheServerAlteredFailsThePut(t *testing.T) {
	f := newFake(t)
	container := f.container(t)
	s := open(t, f.options(container))
	f.set(func() {
		f.fault = func(r *http.Request) fault {
			if strings.HasSuffix(r.URL.Path, "-00000002") && r.Method == http.MethodPut {
				return fault{etag: "d41d8cd98f00b204e9800998ecf8427e"}
			}
			return fault{}
		}
	})
	_, err := s.Put(t.Context(), "a/k", zeros(2*part), store.PutOptions{})
	if err == nil || !strings.Contains(err.Error(), "MD5") {
		t.Errorf("Put = %v, want a complaint about the MD5", err)
	}
	if names, _ := f.names(t, container); len(names) != 0 {
		t.Errorf("it left %q", names)
	}
}

func TestALostManifestLeavesItsSegments(t *testing.T) {
	f := newFake(t)
	container := f.container(t)
	s := open(t, f.options(container))
	f.set(func() {
		f.fault = func(r *http.Request) fault {
			if r.URL.Query().Get("multipart-manifest") == "put" {
				return fault{status: http.StatusServiceUnavailable} // and perhaps stored on one node
			}
			return fault{}
		}
	})
	_, err := s.Put(t.Context(), "a/k", zeros(part+1), store.PutOptions{})
	wants(t, "Put", err, store.ErrUnknownOutcome)
	isOneLine(t, err)
	if names, _ := f.names(t, container); len(names) != 2 {
		t.Errorf("there are %q, want the two segments that the manifest may yet need", names)
	}
	// The collector removes them one by one.
	f.set(func() { f.fault = nil })
	for _, o := range listed(t, s, "a") {
		if err := s.Delete(t.Context(), o.Version); err != nil {
			t.Fatal(err)
		}
	}
	if names, _ := f.names(t, container); len(names) != 0 {
		t.Errorf("%q are left", names)
	}
}

func TestCanceledUploadsRemoveTheirSegments(t *testing.T) {
	f := newFake(t)
	container := f.container(t)
	s := open(t, f.options(container))
	ctx, cancel := context.WithCancel(t.Context())
	_, err := s.Put(ctx, "a/k", io.MultiReader(zeros(2*part), callback(cancel), zeros(part)), store.PutOptions{})
	wants(t, "Put", err, context.Canceled)
	if names, _ := f.names(t, container); len(names) != 0 {
		t.Errorf("%q are left", names)
	}
	if bytes.Contains([]byte(fmt.Sprint(err)), []byte("remain")) {
		t.Errorf("Put = %v", err)
	}
}
