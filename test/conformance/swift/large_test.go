package swift_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/swift"
	"druid.internal/druid/test/faults"
)

const part = 10 << 20

func noise(n int, seed byte) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(b) // never fails
	return b
}

func content(t *testing.T, s store.Reader, key string, off, n int64) []byte {
	t.Helper()
	r, err := s.Open(t.Context(), store.Version{Key: key}, off, n)
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

func listed(t *testing.T, s store.Reader) (all []store.Object) {
	t.Helper()
	if err := s.List(t.Context(), "", func(o store.Object) error { all = append(all, o); return nil }); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestALargeObjectIsOneObjectAndGoesAsAWhole(t *testing.T) {
	const key = "ns--uid/etcd-main/v2/Full-00000000-00000100-1700000000"
	cases := map[string]func(t *testing.T, container string) []byte{
		"ours": func(t *testing.T, container string) []byte {
			body := noise(2*part+12_345, 1)
			o, err := open(t, options(container)).Put(t.Context(), key, bytes.NewReader(body), store.PutOptions{})
			if err != nil || o.Size != int64(len(body)) {
				t.Fatalf("Put = %+v, %v", o, err)
			}
			return body
		},
		"the original's": func(t *testing.T, container string) []byte {
			r := newRaw(t)
			body := noise(300_001, 2)
			for n := 0; n*100_000 < len(body); n++ {
				r.ask(t, http.MethodPut, container, fmt.Sprintf("%s/%010d", key, n+1), "", nil, body[n*100_000:min((n+1)*100_000, len(body))])
			}
			r.ask(t, http.MethodPut, container, key, "", map[string]string{"X-Object-Manifest": container + "/" + key}, nil)
			return body
		},
	}
	for name, make := range cases {
		t.Run(name, func(t *testing.T) {
			container := newContainer(t)
			want := make(t, container)
			// Its name begins like the other's, which the server's own way of reading mixes up.
			const sibling = key + ".final"
			newRaw(t).ask(t, http.MethodPut, container, sibling, "", nil, []byte("another snapshot"))
			s := open(t, options(container))
			all := listed(t, s)
			if len(all) != 2 || all[0].Key != key || all[0].Size != int64(len(want)) || all[1].Key != sibling {
				t.Errorf("List = %+v, want one object of %d bytes and its neighbour", all, len(want))
			}
			o, err := s.Stat(t.Context(), store.Version{Key: key})
			if err != nil || o.Size != int64(len(want)) || o.Modified.Sub(all[0].Modified).Abs() > 1e9 {
				t.Errorf("Stat = %+v, %v, want %d bytes as listed", o, err, len(want))
			}
			if !bytes.Equal(content(t, s, key, 0, -1), want) {
				t.Error("the whole is not what was written")
			}
			for _, r := range [][2]int64{{99_999, 2}, {0, 100_000}, {100_000, 100_001}, {int64(len(want)) - 1, -1}, {int64(len(want)), -1}} {
				end := int64(len(want))
				if r[1] >= 0 {
					end = r[0] + r[1]
				}
				if !bytes.Equal(content(t, s, key, r[0], r[1]), want[r[0]:end]) {
					t.Errorf("the range %d+%d is not what was written", r[0], r[1])
				}
			}
			if err := s.Delete(t.Context(), store.Version{Key: key}); err != nil {
				t.Fatal(err)
			}
			if left := newRaw(t).names(t, container); len(left) != 1 || left[0].Name != sibling {
				t.Errorf("after the deletion there are %+v", left)
			}
		})
	}
}

func TestADeletionThatIsInterruptedLeavesNothingThatLooksWhole(t *testing.T) {
	const key = "a/v2/Full-00000000-00000100-1700000000"
	container := newContainer(t)
	r := newRaw(t)
	for n := range 3 {
		r.ask(t, http.MethodPut, container, fmt.Sprintf("%s/%010d", key, n+1), "", nil, []byte("segment"))
	}
	r.ask(t, http.MethodPut, container, key, "", map[string]string{"X-Object-Manifest": container + "/" + key}, nil)
	gate := faults.NewGate(t, ceph)
	gate.Inject(faults.Fault{Match: func(r *http.Request) bool {
		return r.Method == http.MethodDelete && strings.Contains(r.URL.Path, "000000000")
	}, Status: http.StatusServiceUnavailable})
	s := open(t, through(gate.Endpoint, container))
	if err := s.Delete(t.Context(), store.Version{Key: key}); !errors.Is(err, store.ErrUnreachable) {
		t.Fatalf("Delete = %v, want %v", err, store.ErrUnreachable)
	}
	if _, err := s.Stat(t.Context(), store.Version{Key: key}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("Stat = %v, want %v", err, store.ErrNotFound)
	}
	if all := listed(t, s); len(all) != 3 || all[0].Key != key+"/0000000001" {
		t.Errorf("List = %+v, want the segments, each on its own", all)
	}
	gate.Heal()
	if err := s.Delete(t.Context(), store.Version{Key: key}); err != nil {
		t.Fatal(err)
	}
	if left := r.names(t, container); len(left) != 0 {
		t.Errorf("after the second deletion there are %+v", left)
	}
}

// An upload whose answer is lost did happen.
func TestALostAnswerToAWriteIsNoFailure(t *testing.T) {
	cases := map[string]struct {
		size  int
		lost  func(*http.Request) bool
		times int
	}{
		"the write of a small object, once":   {1000, faults.Request(http.MethodPut), 1},
		"the write of a small object, always": {1000, faults.Request(http.MethodPut), 0},
		"the write of a segment, once":        {3 * part, func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "-00000002") }, 1},
		"the manifest, once":                  {2*part + 1, faults.Request(http.MethodPut, "multipart-manifest=put"), 1},
		"the manifest, always":                {2*part + 1, faults.Request(http.MethodPut, "multipart-manifest=put"), 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			container := newContainer(t)
			gate := faults.NewGate(t, ceph)
			o := through(gate.Endpoint, container)
			o.Attempts = 2
			s := open(t, o)
			if _, err := s.Put(t.Context(), "warm", bytes.NewReader(noise(part+1, 3)), store.PutOptions{}); err != nil { // learns what the server can do
				t.Fatal(err)
			}
			gate.Inject(faults.Fault{Match: c.lost, Times: c.times, Lose: true})
			want := noise(c.size, 4)
			obj, err := s.Put(t.Context(), "a/key", bytes.NewReader(want), store.PutOptions{})
			if err != nil || obj.Size != int64(c.size) {
				t.Fatalf("Put = %+v, %v", obj, err)
			}
			if len(gate.Happened()) == 0 {
				t.Fatal("no answer was lost")
			}
			if !bytes.Equal(content(t, s, "a/key", 0, -1), want) {
				t.Error("what is there is not what was written")
			}
			if n := leftovers(t, s); n != 0 {
				t.Errorf("%d segments are left", n)
			}
		})
	}
}

func TestAFailedSegmentFailsThePutAndLeavesNothing(t *testing.T) {
	container := newContainer(t)
	gate := faults.NewGate(t, ceph)
	o := through(gate.Endpoint, container)
	o.Attempts = 2
	s := open(t, o)
	gate.Inject(faults.Fault{Match: func(r *http.Request) bool {
		return r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "-00000003")
	}, Status: http.StatusServiceUnavailable})
	_, err := s.Put(t.Context(), "a/key", bytes.NewReader(make([]byte, 4*part)), store.PutOptions{})
	if !errors.Is(err, store.ErrUnreachable) || errors.Is(err, store.ErrUnknownOutcome) {
		t.Errorf("Put = %v, want a definite failure", err)
	}
	if left := newRaw(t).names(t, container); len(left) != 0 {
		t.Errorf("%+v are left", left)
	}
}

func TestWrongCredentialsAndContainersAreNamed(t *testing.T) {
	container := newContainer(t)
	cases := map[string]struct {
		change func(*swift.Options)
		want   error
		words  string
	}{
		"a wrong key": {func(o *swift.Options) {
			o.Credentials = func() (swift.Credentials, error) {
				return swift.Credentials{UserName: ceph.SwiftUser, Password: "hunter2"}, nil
			}
		}, store.ErrCredentials, "check username and password"},
		"a container that is not there": {func(o *swift.Options) { o.Container = "elsewhere" }, store.ErrNoBucket, "elsewhere"},
		"an authority nobody knows":     {func(o *swift.Options) { o.TrustedCAs = nil }, store.ErrUnreachable, "trustedCaCert"},
		"a path that gives no tokens":   {func(o *swift.Options) { o.AuthURL = ceph.Endpoint + "/nowhere/v1.0" }, store.ErrCredentials, "authURL"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			o := options(container)
			o.Attempts = 1
			c.change(&o)
			_, err := swift.New(t.Context(), o)
			if !errors.Is(err, c.want) {
				t.Fatalf("New = %v, want %v", err, c.want)
			}
			if text := err.Error(); !strings.Contains(text, c.words) || strings.Contains(text, "\n") || strings.Contains(text, "hunter2") {
				t.Errorf("%q, want one line with %q and no secret", text, c.words)
			}
		})
	}
}
