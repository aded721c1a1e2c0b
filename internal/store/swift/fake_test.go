package swift_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ncw/swift/v2/swifttest"

	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/swift"
)

// fake is swifttest behind what it lacks: ranges, pages, a Keystone, tokens that end, a
// description that may be missing, conditions that may be honoured, and faults.
type fake struct {
	*httptest.Server
	inner *swifttest.SwiftServer

	writing sync.Mutex // while a condition is checked and what depends on it is done

	mu         sync.Mutex
	requests   []string
	conditions bool                        // honours If-None-Match: *
	noInfo     bool                        // /info is not there
	info       string                      // answered there; empty: swifttest's
	flip       bool                        // downloads have a wrong byte
	noStatic   bool                        // stores manifests of static large objects as they are
	fault      func(r *http.Request) fault // nil: none
	revoked    map[string]bool
	tokens     []string
	keystone   func(auth map[string]any) int // the status; nil: no Keystone
	expires    time.Time
}

// fault is what happens to a request.
type fault struct {
	status   int    // answered in the server's place
	lose     bool   // the server does it, and the answer is lost
	etag     string // told in place of the true one
	truncate int    // the answer breaks off after so many bytes; 0: it does not
}

const (
	user = "swifttest" // what swifttest knows

	pass = "swifttest"
)

func newFake(t *testing.T) *fake {
	t.Helper()
	inner, err := swifttest.NewSwiftServer("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(inner.Close)
	f := &fake{inner: inner, revoked: map[string]bool{}}
	f.Server = httptest.NewUnstartedServer(http.HandlerFunc(f.serve))
	f.Config.ErrorLog = log.New(io.Discard, "", 0)
	f.Start()
	t.Cleanup(func() {
		f.CloseClientConnections()
		f.Close()
	})
	return f
}

func (f *fake) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	f.mu.Lock()
	f.requests = append(f.requests, r.Method+" "+r.URL.RequestURI())
	var what fault
	if f.fault != nil {
		what = f.fault(r)
	}
	revoked := f.revoked[r.Header.Get("X-Auth-Token")]
	conditions, noInfo, info, noStatic, keystone := f.conditions, f.noInfo, f.info, f.noStatic, f.keystone
	f.mu.Unlock()
	switch {
	case what.status != 0:
		http.Error(w, "<html><h1>injected</h1></html>", what.status)
	case r.URL.Path == "/v3/auth/tokens" && keystone != nil:
		f.issue(w, body, keystone)
	case r.URL.Path == "/info" && noInfo:
		http.Error(w, "no", http.StatusForbidden)
	case r.URL.Path == "/info" && info != "":
		io.WriteString(w, info)
	case revoked:
		http.Error(w, "no", http.StatusUnauthorized)
	case r.Method == http.MethodPut && conditions && r.Header.Get("If-None-Match") == "*":
		f.writing.Lock()
		defer f.writing.Unlock()
		if f.ask(http.MethodHead, r.URL.EscapedPath(), nil, nil).code == http.StatusOK {
			http.Error(w, "exists", http.StatusPreconditionFailed)
			return
		}
		f.forward(w, r, body, what)
	default:
		if noStatic {
			r.URL.RawQuery = strings.Replace(r.URL.RawQuery, "multipart-manifest=put", "", 1)
		}
		f.forward(w, r, body, what)
	}
}

// answer is what swifttest says.
type answer struct {
	code   int
	header http.Header
	body   []byte
}

// ask sends a request to swifttest, by the token of the test unless one is given.
func (f *fake) ask(method, uri string, header http.Header, body []byte) answer {
	u, err := url.Parse(f.inner.URL)
	if err != nil {
		panic(err)
	}
	req, err := http.NewRequest(method, "http://"+u.Host+uri, bytes.NewReader(body))
	if err != nil {
		panic(err)
	}
	for name, values := range header {
		req.Header[name] = values
	}
	if strings.HasPrefix(uri, "/v1/") && req.Header.Get("X-Auth-Token") == "" {
		req.Header.Set("X-Auth-Token", f.token())
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		panic(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		panic(err)
	}
	return answer{resp.StatusCode, resp.Header, b}
}

// token logs the test in at swifttest.
func (f *fake) token() string {
	return f.ask(http.MethodGet, "/v1.0", http.Header{"X-Auth-User": {user}, "X-Auth-Key": {pass}}, nil).header.Get("X-Auth-Token")
}

func (f *fake) forward(w http.ResponseWriter, r *http.Request, body []byte, what fault) {
	header := r.Header.Clone()
	header.Del("Range")
	header.Del("Accept-Encoding")
	header.Del("Content-Length")
	a := f.ask(r.Method, r.URL.RequestURI(), header, body)
	if what.lose {
		panic(http.ErrAbortHandler)
	}
	for name, values := range a.header {
		w.Header()[name] = values
	}
	if storage := a.header.Get("X-Storage-Url"); storage != "" {
		w.Header().Set("X-Storage-Url", f.URL+"/v1/AUTH_"+user)
		f.mu.Lock()
		f.tokens = append(f.tokens, a.header.Get("X-Auth-Token"))
		f.mu.Unlock()
	}
	if limit := r.URL.Query().Get("limit"); limit != "" && a.code == http.StatusOK && r.Method == http.MethodGet {
		a.body = firstOf(a.body, limit)
		w.Header().Del("Content-Length")
	}
	if r.Header.Get("Range") != "" && a.code == http.StatusOK {
		a.code, a.body = slice(w.Header(), r.Header.Get("Range"), a.body)
	}
	if what.etag != "" {
		w.Header().Set("Etag", what.etag)
	}
	f.mu.Lock()
	if f.flip && r.Method == http.MethodGet && len(a.body) > 0 {
		a.body[0] ^= 1
	}
	f.mu.Unlock()
	w.WriteHeader(a.code)
	if what.truncate > 0 && len(a.body) > what.truncate {
		w.Write(a.body[:what.truncate])
		panic(http.ErrAbortHandler)
	}
	w.Write(a.body)
}

// firstOf is the first page of a listing.
func firstOf(body []byte, limit string) []byte {
	var all []json.RawMessage
	n, err := strconv.Atoi(limit)
	if err != nil || json.Unmarshal(body, &all) != nil {
		panic("no listing: " + string(body))
	}
	b, err := json.Marshal(all[:min(n, len(all))])
	if err != nil {
		panic(err)
	}
	return b
}

// slice is what RFC 9110 says about a range.
func slice(h http.Header, asked string, body []byte) (int, []byte) {
	from, to, _ := strings.Cut(strings.TrimPrefix(asked, "bytes="), "-")
	off, err := strconv.ParseInt(from, 10, 64)
	if err != nil {
		panic("range " + asked)
	}
	size := int64(len(body))
	end := size
	if to != "" {
		last, err := strconv.ParseInt(to, 10, 64)
		if err != nil {
			panic("range " + asked)
		}
		end = min(last+1, size)
	}
	h.Del("Content-Length")
	if off >= size {
		h.Set("Content-Range", fmt.Sprintf("bytes */%d", size))
		return http.StatusRequestedRangeNotSatisfiable, nil
	}
	h.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", off, end-1, size))
	h.Set("Content-Length", strconv.FormatInt(end-off, 10))
	return http.StatusPartialContent, body[off:end]
}

// issue is Keystone.
func (f *fake) issue(w http.ResponseWriter, body []byte, keystone func(map[string]any) int) {
	var asked struct {
		Auth map[string]any `json:"auth"`
	}
	if err := json.Unmarshal(body, &asked); err != nil {
		http.Error(w, "no JSON", http.StatusBadRequest)
		return
	}
	if status := keystone(asked.Auth); status != http.StatusCreated {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		io.WriteString(w, `{"error":{"message":"The request you have made requires authentication."}}`)
		return
	}
	token := f.token()
	f.mu.Lock()
	f.tokens = append(f.tokens, token)
	expires := f.expires
	f.mu.Unlock()
	if expires.IsZero() {
		expires = time.Now().Add(time.Hour)
	}
	endpoint := func(region, url string) map[string]any {
		return map[string]any{"interface": "public", "region": region, "region_id": region, "url": url}
	}
	w.Header().Set("X-Subject-Token", token)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	json.NewEncoder(w).Encode(map[string]any{"token": map[string]any{
		"expires_at": expires.UTC().Format(time.RFC3339),
		"catalog": []any{
			map[string]any{"type": "identity", "endpoints": []any{endpoint("north", f.URL+"/v3")}},
			map[string]any{"type": "object-store", "endpoints": []any{endpoint("south", "http://127.0.0.1:1/v1/AUTH_x"), endpoint("north", f.URL+"/v1/AUTH_"+user)}},
		},
	}})
}

// set changes the fake while it runs.
func (f *fake) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// seen are the requests so far, from the n-th on.
func (f *fake) seen(n int) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.requests[n:])
}

// put stores an object as it is, beside all rules.
func (f *fake) put(t *testing.T, container, name string, body []byte, header http.Header) {
	t.Helper()
	if a := f.ask(http.MethodPut, f.path(container, name), header, body); a.code/100 != 2 {
		t.Fatalf("put %s: %d", name, a.code)
	}
}

func (f *fake) remove(t *testing.T, container, name string) {
	t.Helper()
	if a := f.ask(http.MethodDelete, f.path(container, name), nil, nil); a.code/100 != 2 {
		t.Fatalf("delete %s: %d", name, a.code)
	}
}

func (f *fake) path(container, name string) string {
	u := url.URL{Path: "/v1/AUTH_" + user + "/" + container}
	if name != "" {
		u.Path += "/" + name
	}
	return u.EscapedPath()
}

// names are all objects of a container, segments too, and their media types.
func (f *fake) names(t *testing.T, container string) (names []string, types map[string]string) {
	t.Helper()
	a := f.ask(http.MethodGet, f.path(container, "")+"?format=json", nil, nil)
	var all []struct {
		Name string `json:"name"`
		Type string `json:"content_type"`
	}
	if a.code != http.StatusOK || json.Unmarshal(a.body, &all) != nil {
		t.Fatalf("list %s: %d %s", container, a.code, a.body)
	}
	types = map[string]string{}
	for _, o := range all {
		names, types[o.Name] = append(names, o.Name), o.Type
	}
	return names, types
}

var containers atomic.Int64

// container makes one with a name of its own.
func (f *fake) container(t *testing.T) string {
	t.Helper()
	name := fmt.Sprintf("container-%d", containers.Add(1))
	f.put(t, name, "", nil, nil)
	return name
}

// options reach a container by the oldest protocol.
func (f *fake) options(container string) swift.Options {
	return swift.Options{Container: container, AuthURL: f.URL + "/v1.0", Attempts: 2,
		Credentials: func() (swift.Credentials, error) { return swift.Credentials{UserName: user, Password: pass}, nil }}
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
