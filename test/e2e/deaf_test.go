package e2e

import (
	"net/http"
	"strings"
	"testing"

	"druid.internal/druid/test/faults"
	"druid.internal/druid/test/stores"
)

// newDeaf is a gate to a store in which nobody learns that somebody else took a prefix over: it
// refuses to tell whether a next owner record is there.
func newDeaf(t *testing.T, m *stores.MinIO) *faults.Gate {
	g := faults.NewGate(t, m)
	g.Inject(faults.Fault{
		Match: func(r *http.Request) bool {
			return r.Method == http.MethodHead && strings.Contains(r.URL.Path, "Owner-")
		},
		Status: http.StatusForbidden, Code: "AccessDenied",
	})
	return g
}
