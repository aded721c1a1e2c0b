package azure_test

import (
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"druid.internal/druid/internal/store/azure"
)

// fake answers in the service's place. It keeps nothing; what it answers is the test's business,
// except for what every store asks when it is opened.
type fake struct {
	*httptest.Server

	versionLevel bool
	handle       http.HandlerFunc // everything else

	mu       sync.Mutex
	requests []request
}

// request is one that the fake was sent.
type request struct {
	method, path, query string
	header              http.Header
	body                []byte
}

// operation names a request as Azure's documentation does.
func (r request) operation() string {
	switch q := r.query; {
	case r.method == http.MethodPut && strings.Contains(q, "comp=blocklist"):
		return "Put Block List"
	case r.method == http.MethodPut && strings.Contains(q, "comp=block"):
		return "Put Block"
	case r.method == http.MethodPut && r.header.Get("x-ms-copy-source") != "":
		return "Copy Blob From URL"
	case r.method == http.MethodPut && q == "":
		return "Put Blob"
	case r.method == http.MethodGet && strings.Contains(q, "comp=list"):
		return "List Blobs"
	case r.method == http.MethodGet && strings.Contains(q, "comp=tags"):
		return "Get Blob Tags"
	case r.method == http.MethodHead:
		return "Get Blob Properties"
	case r.method == http.MethodGet:
		return "Get Blob"
	case r.method == http.MethodDelete && strings.Contains(q, "versionid"):
		return "Delete Version"
	case r.method == http.MethodDelete:
		return "Delete Blob"
	}
	return r.method + " " + r.path + "?" + r.query
}

func newFake(t *testing.T, handle http.HandlerFunc) *fake {
	t.Helper()
	f := &fake{handle: handle}
	f.Server = httptest.NewUnstartedServer(http.HandlerFunc(f.serve))
	f.Config.ErrorLog = log.New(io.Discard, "", 0)
	f.StartTLS()
	t.Cleanup(func() {
		f.CloseClientConnections()
		f.Close()
	})
	return f
}

func (f *fake) serve(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if q.Get("restype") == "container" && q.Get("comp") == "" {
		w.Header().Set("x-ms-immutable-storage-with-versioning-enabled", fmt.Sprint(f.versionLevel))
		w.Header().Set("x-ms-has-immutability-policy", "false")
		return
	}
	if q.Get("maxresults") == "1" { // the look at a first page when a store is opened
		io.WriteString(w, `<EnumerationResults><Blobs></Blobs><NextMarker/></EnumerationResults>`)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	f.mu.Lock()
	f.requests = append(f.requests, request{r.Method, r.URL.Path, r.URL.RawQuery, r.Header.Clone(), body})
	f.mu.Unlock()
	f.handle(w, r)
}

func (f *fake) sent() []request {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.requests)
}

// operations are the requests after opening, in order.
func (f *fake) operations() []string {
	var names []string
	for _, r := range f.sent() {
		names = append(names, r.operation())
	}
	return names
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("x-ms-error-code", code)
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, `<?xml version="1.0" encoding="utf-8"?><Error><Code>%s</Code><Message>said the service
RequestId:1</Message></Error>`, code)
}

// accountKey is of the fake's account, and must not show anywhere.
const accountKey = "dGhlLXNlY3JldC1rZXk="

const block = 1 << 20

// options reach the fake. One attempt, unless a test is about repeating.
func (f *fake) options() azure.Options {
	return azure.Options{
		Account: "backups1", Container: "backups", Endpoint: f.URL, Attempts: 1, BlockSize: block,
		TrustedCAs: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.Certificate().Raw}),
		Keys:       func() (azure.Keys, error) { return azure.Keys{AccountKey: accountKey}, nil },
	}
}

func (f *fake) open(t *testing.T, o azure.Options) *azure.Store {
	t.Helper()
	s, err := azure.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.CloseIdle)
	return s
}

// accepting answers uploads as a service without faults does.
func accepting(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPut {
		refuse(w, http.StatusNotFound, "BlobNotFound")
		return
	}
	w.Header().Set("ETag", `"e"`)
	if r.URL.Query().Get("comp") != "block" {
		w.Header().Set("x-ms-version-id", "2026-11-20T10:00:00.0000001Z")
	}
	w.WriteHeader(http.StatusCreated)
}
