package gcs_test

import (
	"runtime"
	"strings"
	"testing"

	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/gcs"
	"druid.internal/druid/test/stores"
)

// TestASmallObjectTakesLittleMemory counts everything allocated while small objects are put, by the
// shim as well. A chunk of the default size for each would be 16 MiB.
func TestASmallObjectTakesLittleMemory(t *testing.T) {
	o := options(newBucket(t, stores.GCSBucket{}))
	o.ChunkSize = gcs.DefaultChunkSize
	s := open(t, o)
	put := func(key string) {
		if _, err := s.Put(t.Context(), key, strings.NewReader("a manifest"), store.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	put("a/first") // connects
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	put("a/second")
	runtime.ReadMemStats(&after)
	if got, most := after.TotalAlloc-before.TotalAlloc, uint64(4<<20); got > most {
		t.Errorf("one small object took %d bytes, want at most %d", got, most)
	}
}
