package catalog_test

import (
	"testing"

	"druid.internal/druid/internal/engine/catalog"
	"druid.internal/druid/internal/engine/enginetest"
)

// A catalog of a hundred thousand objects, as of a year of a busy cluster, fits anywhere.
func TestACatalogOfManyObjectsIsSmall(t *testing.T) {
	const n = 100_000
	allocated, live := enginetest.Memory(t, func() any {
		c, err := catalog.Read(t.Context(), enginetest.Shelf{Snapshots: n, PerFull: 100}, enginetest.Prefix, catalog.Options{Retention: true})
		if err != nil {
			t.Fatal(err)
		}
		if c.Objects.Len() != n {
			t.Fatalf("%d objects, want %d", c.Objects.Len(), n)
		}
		return c
	})
	if allocated > 5000*n || live > 1300*n {
		t.Errorf("%d bytes were allocated for each object and %d stay, want at most 5000 and 1300", allocated/n, live/n)
	}
}
