package s3_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"testing"

	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/s3"
	"druid.internal/druid/test/stores"
)

// Ceph does not compare the checksums it is sent, but every body is covered by the signature.
func TestABodyThatIsAlteredOnTheWayIsRefused(t *testing.T) {
	sizes := map[string]int{"in one request": 1000, "in parts": 2*part + 1}
	for name, on := range both {
		for how, size := range sizes {
			t.Run(fmt.Sprint(name, " ", how), func(t *testing.T) {
				server := on(t)
				s, gate := server.gated(t, stores.Versioned, func(o *s3.Options) { o.Attempts, o.ParallelParts = 1, 1 })
				var puts atomic.Int64
				gate.Watch(func(r *http.Request) {
					if r.Method != http.MethodPut || puts.Add(1) > 1 {
						return
					}
					b, err := io.ReadAll(r.Body)
					if err != nil {
						panic(http.ErrAbortHandler)
					}
					b[len(b)/2] ^= 1
					r.Body = io.NopCloser(bytes.NewReader(b))
				}, nil)
				content, err := io.ReadAll(noise(int64(size), 4))
				if err != nil {
					t.Fatal(err)
				}
				o, err := s.Put(t.Context(), "a/key", bytes.NewReader(content), store.PutOptions{})
				if err == nil || puts.Load() == 0 {
					t.Errorf("Put = %+v, %v after %d requests of which the first was altered, want a failure", o, err, puts.Load())
				}
				if got := listed(t, s); len(got) > 0 {
					t.Errorf("%+v is there", got)
				}
				if left := server.uploadsOf(t, bucketOf(s)); len(left) > 0 {
					t.Errorf("uploads %v are left", left)
				}
			})
		}
	}
}
