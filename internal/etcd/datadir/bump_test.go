package datadir

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestABumpBeyondTheLastPossibleRevisionIsRefused(t *testing.T) {
	for _, keep := range []bool{false, true} {
		out := filepath.Join(t.TempDir(), "out")
		src := Source{Deltas: []Delta{deltaOf("d", story(t, life))}}
		_, err := Rebuild(context.Background(), src, Options{BumpRevision: math.MaxInt64 - 8, KeepHistory: keep}, out)
		if err == nil || !strings.Contains(err.Error(), "bump") {
			t.Errorf("with history %t: %v, want that the bump is refused", keep, err)
		}
		if left, _ := os.ReadDir(filepath.Dir(out)); len(left) > 0 {
			t.Errorf("%v is left over", left)
		}
	}
}
