package serve

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/agentapi/auth/authtest"
)

// access is who may call, as a test expects it. It repeats the table of the interface on purpose: who
// may call what is changed in two places or not at all.
type access int

const (
	everybody access = iota
	verified
)

// api is every path with what it answers when it may.
var api = []struct {
	path    string
	methods string
	access  access
	code    int
	kind    string
	body    string
}{
	{"/initialization/start", "GET POST", verified, 200, "", ""},
	{"/initialization/status", "GET HEAD", everybody, 200, "text/plain; charset=utf-8", "New"},
	{"/initialization/acknowledge", "POST", verified, 200, "", ""},
	{"/snapshot/full", "GET POST", verified, 200, "application/json",
		`{"createdOn":"2026-01-02T03:04:05Z","immutabilityExpriyTime":"0001-01-01T00:00:00Z","versionID":null,"kind":"Full","snapDir":"","snapName":"Full-00000000-00009002-1767323045.gz","prefix":"etcd-main/v2","compressionSuffix":".gz","startRevision":0,"lastRevision":9002,"isChunk":false,"isFinal":false}`},
	{"/snapshot/delta", "GET POST", verified, 200, "application/json", "null"},
	{"/snapshot/latest", "GET HEAD", verified, 200, "application/json",
		`{"fullSnapshot":{"createdOn":"2026-01-02T03:04:05Z","immutabilityExpriyTime":"0001-01-01T00:00:00Z","versionID":null,"kind":"Full","snapDir":"","snapName":"Full-00000000-00009002-1767323045.gz","prefix":"etcd-main/v2","compressionSuffix":".gz","startRevision":0,"lastRevision":9002,"isChunk":false,"isFinal":false},"deltaSnapshots":null}`},
	{"/config", "GET HEAD", verified, 200, "application/yaml", "name: etcd-main-0\n"},
	{"/healthz", "GET HEAD", everybody, 200, "application/json", `{"health":true}`},
	{"/metrics", "GET HEAD", everybody, 200, "text/plain; charset=utf-8", "up 1\n"},
	{"/member", "GET HEAD", verified, 200, "application/json", `{"name":"etcd-main-0","peerTLSEnabled":false,"transitions":null,"backupLeader":false}`},
	{"/timeline", "GET HEAD", verified, 200, "application/json", `{"lineages":[],"findings":[]}`},
	{"/defragment", "POST", verified, 202, "application/json", `{"kind":"defragment","status":"In-Progress","startTime":"2026-01-02T03:04:05Z"}`},
	{"/verify", "POST", verified, 202, "application/json", `{"kind":"verify","status":"In-Progress","startTime":"2026-01-02T03:04:05Z"}`},
	{"/compact", "POST", verified, 202, "application/json", `{"kind":"compact","status":"In-Progress","startTime":"2026-01-02T03:04:05Z"}`},
	{"/operations", "GET HEAD", verified, 200, "application/json", "[]"},
	{"/clients", "POST", verified, 400, "text/plain; charset=utf-8", "*"},         // without what it asks for
	{"/debug/pprof/", "GET HEAD", verified, 200, "text/html; charset=utf-8", "*"}, // any body
}

func TestEveryRouteHasARowInTheTableOfThisTest(t *testing.T) {
	var routes, rows []string
	for _, r := range agentapi.Routes() {
		routes = append(routes, r.Path)
	}
	for _, row := range api {
		rows = append(rows, row.path)
	}
	slices.Sort(routes)
	slices.Sort(rows)
	if !slices.Equal(routes, rows) {
		t.Errorf("the interface has\n%s\nand this test tries\n%s", strings.Join(routes, "\n"), strings.Join(rows, "\n"))
	}
}

// TestTheWholeInterface tries every path with every method and every credential.
func TestTheWholeInterface(t *testing.T) {
	p := newPKI(t)
	theirs := authtest.NewCA(t, "theirs")
	o := p.options()
	o.Profiling = true
	closed := start(t, o, canned())
	o.OpenToAll = true
	open := start(t, o, canned())

	nobody := p.caller(t, "", nil, authtest.Leaf{})
	ours := p.caller(t, "ours", p.ours, authtest.Leaf{})
	credentials := []struct {
		name   string
		client *http.Client
		token  string
		want   int // of a verified path; 0: let in
	}{
		{"nothing", nobody, "", 401},
		{"the wrong token", nobody, wrongToken, 401},
		{"the right token", nobody, goodToken, 0},
		{"a certificate of our authority", ours, "", 0},
		{"a certificate of our authority and the wrong token", ours, wrongToken, 0},
		{"a certificate of another authority", p.caller(t, "theirs", theirs, authtest.Leaf{}), "", 403},
		{"a certificate of the servers' authority", p.caller(t, "servers", p.server, authtest.Leaf{}), "", 403},
		{"a certificate for servers", p.caller(t, "serving", p.ours, authtest.Leaf{Hosts: []string{"127.0.0.1"}, Server: true}), "", 403},
		{"an expired certificate", p.caller(t, "expired", p.ours, authtest.Leaf{Until: -1}), "", 403},
		{"an expired certificate and the right token", p.caller(t, "expired", p.ours, authtest.Leaf{Until: -1}), goodToken, 0},
	}
	methods := []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"}
	for _, row := range api {
		for _, method := range methods {
			for _, c := range credentials {
				for name, s := range map[string]*sidecar{"closed": closed, "open to all": open} {
					what := name + ": " + method + " " + row.path + " with " + c.name
					resp, body := call(t, c.client, method, s.url+row.path, c.token)
					switch allowed := slices.Contains(strings.Fields(row.methods), method); {
					case !allowed:
						if want := strings.ReplaceAll(row.methods, " ", ", "); resp.StatusCode != 405 || resp.Header.Get("Allow") != want {
							t.Errorf("%s: %s, Allow: %q; want 405 and %q", what, resp.Status, resp.Header.Get("Allow"), want)
						}
					case s == closed && row.access == verified && c.want != 0:
						if resp.StatusCode != c.want || method != "HEAD" && (strings.Count(body, "\n") != 1 || len(body) > 300) {
							t.Errorf("%s: %s %q; want %d and one line", what, resp.Status, body, c.want)
						}
					default:
						if resp.StatusCode != row.code {
							t.Errorf("%s: %s %q; want %d", what, resp.Status, body, row.code)
						}
						if want := row.body; method != "HEAD" && want != "*" && body != want {
							t.Errorf("%s: %s; want %s", what, body, want)
						}
						if got := resp.Header.Get("Content-Type"); got != row.kind {
							t.Errorf("%s: the content is %q; want %q", what, got, row.kind)
						}
					}
					if method == "HEAD" && body != "" {
						t.Errorf("%s: a body: %q", what, body)
					}
					if resp.Header.Get("X-Content-Type-Options") != "nosniff" || resp.Header.Get("Strict-Transport-Security") == "" {
						t.Errorf("%s: the headers of every answer are missing: %v", what, resp.Header)
					}
				}
			}
		}
	}
}

func TestOtherPathsDoNotExist(t *testing.T) {
	p := newPKI(t)
	s := start(t, p.options(), canned())
	o := p.options()
	o.Profiling = true
	profiling := start(t, o, canned())
	h := p.caller(t, "", nil, authtest.Leaf{})
	for _, path := range []string{"", "/", "/healthz/", "//healthz", "/Healthz", "/snapshot", "/snapshot/full/", "/snapshot/../config", "/config/x", "/debug/pprof", "/stop"} {
		for _, token := range []string{"", goodToken} {
			if resp, body := call(t, h, "GET", s.url+path, token); resp.StatusCode != 404 || body != "there is no such path\n" {
				t.Errorf("%q: %s %q, want 404", path, resp.Status, body)
			}
		}
	}
	for _, c := range []struct {
		s     *sidecar
		path  string
		token string
		want  int
	}{
		{s, "/debug/pprof/", goodToken, 404},
		{s, "/debug/pprof/heap", goodToken, 404},
		{profiling, "/debug/pprof/heap", "", 401},
		{profiling, "/debug/pprof/heap", goodToken, 200},
		{profiling, "/debug/pprof/symbol", goodToken, 200},
		{profiling, "/debug/pprof/cmdline", goodToken, 404}, // flags can hold secrets
		{profiling, "/debug/pprof/nonsense", goodToken, 404},
	} {
		if resp, body := call(t, h, "GET", c.s.url+c.path, c.token); resp.StatusCode != c.want {
			t.Errorf("%s: %s %.100q, want %d", c.path, resp.Status, body, c.want)
		}
	}
}

func TestAHeadSaysHowLongTheAnswerIs(t *testing.T) {
	p := newPKI(t)
	s := start(t, p.options(), canned())
	h := p.caller(t, "", nil, authtest.Leaf{})
	for _, row := range api {
		if !strings.Contains(row.methods, "HEAD") || row.path == agentapi.Profiles || row.path == agentapi.Metrics {
			continue
		}
		resp, _ := call(t, h, "HEAD", s.url+row.path, goodToken)
		if resp.ContentLength != int64(len(row.body)) {
			t.Errorf("%s: %d bytes, want %d", row.path, resp.ContentLength, len(row.body))
		}
	}
}

func TestTheSameWithoutTLS(t *testing.T) {
	p := newPKI(t)
	s := start(t, Options{TokenFile: p.token}, canned())
	h := p.caller(t, "", nil, authtest.Leaf{})
	for token, want := range map[string]int{"": 401, wrongToken: 401, goodToken: 200} {
		resp, _ := call(t, h, "GET", s.url+"/config", token)
		if resp.StatusCode != want || resp.Header.Get("Strict-Transport-Security") != "" {
			t.Errorf("with the token %q: %s, %v; want %d", token, resp.Status, resp.Header, want)
		}
	}
}
