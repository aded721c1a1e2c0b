// Package swift_test proves internal/store/swift against a real server that speaks Swift: Ceph's
// object gateway.
package swift_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/swift"
	"druid.internal/druid/test/stores"
)

var update = flag.Bool("update", false, "rewrite the committed results")

// ceph serves all tests of the package; each takes containers of its own.
var ceph *stores.Ceph

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	var err error
	if ceph, err = stores.StartCeph(context.Background(), stores.CephOptions{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if err := ceph.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// raw is a client that knows nothing of the package under test, for arranging and attacking.
type raw struct{ *stores.Swift }

func newRaw(t *testing.T) raw {
	t.Helper()
	s, err := stores.LogIn(t.Context(), ceph.CA, ceph.SwiftAuthURL, ceph.SwiftUser, ceph.SwiftKey)
	if err != nil {
		t.Fatal(err)
	}
	return raw{s}
}

// ask sends a request about a container or object and fails the test if it is refused.
func (r raw) ask(t *testing.T, method, container, object, query string, header map[string]string, body []byte) (http.Header, []byte) {
	t.Helper()
	got, answer, err := r.Ask(t.Context(), method, container, object, query, header, body)
	if err != nil {
		t.Fatal(err)
	}
	return got, answer
}

// entry is a line of a listing.
type entry struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
	Type  string `json:"content_type"`
}

// names are all objects of a container, segments too.
func (r raw) names(t *testing.T, container string) []entry {
	t.Helper()
	_, b := r.ask(t, http.MethodGet, container, "", "?format=json", nil, nil)
	var all []entry
	if err := json.Unmarshal(b, &all); err != nil {
		t.Fatalf("%v in %s", err, b)
	}
	return all
}

var containers atomic.Int64

// newContainer makes one with a name of its own.
func newContainer(t *testing.T) string {
	t.Helper()
	name := fmt.Sprintf("container-%d", containers.Add(1))
	newRaw(t).ask(t, http.MethodPut, name, "", "", nil, nil)
	return name
}

func options(container string) swift.Options {
	return swift.Options{
		Container: container, AuthURL: ceph.SwiftAuthURL, TrustedCAs: ceph.CA.PEM,
		Credentials: func() (swift.Credentials, error) {
			return swift.Credentials{UserName: ceph.SwiftUser, Password: ceph.SwiftKey}, nil
		},
	}
}

func open(t *testing.T, o swift.Options) *swift.Store {
	t.Helper()
	s, err := swift.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.CloseIdle)
	return s
}

// containerOf finds the name of a store's container, for what is done behind its back.
func containerOf(s store.Reader) string { return strings.Fields(s.Capabilities().Location)[1] }
