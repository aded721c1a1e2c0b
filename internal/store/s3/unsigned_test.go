package s3_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/s3"
)

// TestWhenABodyGoesUnsigned sees that a signature leaves a body out only over trusted TLS, and
// only as long as the server answers with the checksum it verified.
func TestWhenABodyGoesUnsigned(t *testing.T) {
	const unsigned = "UNSIGNED-PAYLOAD"
	echo := func(w http.ResponseWriter, r *http.Request) {
		if sum := r.Header.Get("X-Amz-Checksum-Crc32"); sum != "" {
			w.Header().Set("X-Amz-Checksum-Crc32", sum)
		}
	}
	stale := func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Amz-Checksum-Crc32", "AAAAAA==") }
	none := func(http.ResponseWriter, *http.Request) {}
	cases := []struct {
		name   string
		answer func(http.ResponseWriter, *http.Request)
		change func(*s3.Options)
		want   bool
	}{
		{"the server verifies", echo, func(*s3.Options) {}, true},
		{"the server ignores checksums", none, func(*s3.Options) {}, false},
		{"the server tells another checksum", stale, func(*s3.Options) {}, false},
		{"the certificate is not verified", echo, func(o *s3.Options) { o.InsecureSkipVerify = true }, false},
		{"plain http", echo, func(o *s3.Options) { o.Endpoint = strings.Replace(o.Endpoint, "https", "http", 1) }, false},
		{"MD5 instead of CRC-32", echo, func(o *s3.Options) { o.LegacyChecksums = true }, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			handle := func(w http.ResponseWriter, r *http.Request) { c.answer(w, r); accepting(w, r) }
			f := newFake(t, handle)
			o := f.options()
			c.change(&o)
			if strings.HasPrefix(o.Endpoint, "http:") {
				f = newPlainFake(t, handle)
				o.Endpoint = f.URL
			}
			o.PartSize, o.ParallelParts = 5<<20, 1
			s := f.open(t, o)
			for _, size := range []int{1, 15 << 20} {
				if _, err := s.Put(t.Context(), "k", io.LimitReader(zeros{}, int64(size)), store.PutOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			bodies := 0
			for _, r := range f.sent() {
				if op := r.operation(); op != "PutObject" && op != "UploadPart" {
					continue
				}
				bodies++
				if bodies == 1 || !c.want { // of the first nothing is known yet
					wantIntegrity(t, r, o.LegacyChecksums)
				} else if got := r.header.Get("X-Amz-Content-Sha256"); got != unsigned {
					t.Errorf("%s %d: the signature covers %s", r.operation(), bodies, got)
				}
			}
			if bodies != 4 {
				t.Errorf("%d bodies were sent, want 4", bodies)
			}
		})
	}
}
