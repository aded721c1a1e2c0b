package auth

import (
	"bytes"
	"crypto/tls"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"druid.internal/druid/internal/agentapi/auth/authtest"
)

func TestOneGoodCredentialIsEnough(t *testing.T) {
	dir := t.TempDir()
	ours, theirs := authtest.NewCA(t, "ours"), authtest.NewCA(t, "theirs")
	caFile := authtest.Write(t, filepath.Join(dir, "ca.crt"), ours.PEM)
	tokenFile := authtest.Write(t, filepath.Join(dir, "token"), []byte(tokenA+"\n"+tokenB))
	gone := authtest.Write(t, filepath.Join(dir, "gone"), []byte(tokenA))

	guard := func(o GuardOptions) *Guard {
		g, err := NewGuard(o)
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	both := guard(GuardOptions{ClientCAFile: caFile, TokenFile: tokenFile})
	certs := guard(GuardOptions{ClientCAFile: caFile})
	tokens := guard(GuardOptions{TokenFile: tokenFile})
	lost := guard(GuardOptions{TokenFile: gone})
	open := guard(GuardOptions{OpenToAll: true})
	switched := guard(GuardOptions{ClientCAFile: caFile, TokenFile: tokenFile, OpenToAll: true})
	later := guard(GuardOptions{ClientCAFile: caFile, Now: func() time.Time { return time.Now().Add(2 * time.Hour) }})
	if err := os.Remove(gone); err != nil {
		t.Fatal(err)
	}

	shows := func(ca *authtest.CA, l authtest.Leaf) *tls.ConnectionState {
		cert, key := ca.Issue(t, l)
		return &tls.ConnectionState{PeerCertificates: certificates(t, cert, key)}
	}
	good := shows(ours, authtest.Leaf{})
	expired := shows(ours, authtest.Leaf{Until: -time.Minute})
	foreign := shows(theirs, authtest.Leaf{})
	servers := shows(ours, authtest.Leaf{Hosts: []string{"127.0.0.1"}, Server: true})
	nobody := &tls.ConnectionState{}

	const let = 0
	for name, c := range map[string]struct {
		guard    *Guard
		tls      *tls.ConnectionState
		header   string
		want     int    // let or the code
		wantText string // part of the answer
	}{
		"nothing":                            {both, nobody, "", 401, "a client certificate or a bearer token is needed"},
		"nothing without TLS":                {both, nil, "", 401, "a client certificate or a bearer token is needed"},
		"a token":                            {both, nobody, "Bearer " + tokenA, let, ""},
		"a token without TLS":                {both, nil, "Bearer " + tokenA, let, ""},
		"the second token":                   {both, nobody, "Bearer " + tokenB, let, ""},
		"another token":                      {both, nobody, "Bearer " + tokenA + "A", 401, "the bearer token is not accepted"},
		"a user and password":                {both, nobody, "Basic dXNlcjpwYXNzd29yZA==", 401, "only Bearer is understood"},
		"a certificate":                      {both, good, "", let, ""},
		"a certificate of another authority": {both, foreign, "", 403, "unknown authority"},
		"an expired certificate":             {both, expired, "", 403, "expired"},
		"a certificate that expires while it is used": {later, good, "", 403, "expired"},
		"a certificate for servers":                   {both, servers, "", 403, "incompatible key usage"},
		"a certificate and another token":             {both, good, "Bearer " + tokenA + "A", let, ""},
		"a token and an expired certificate":          {both, expired, "Bearer " + tokenA, let, ""},
		"another token and an expired certificate":    {both, expired, "Bearer " + tokenA + "A", 401, "the bearer token is not accepted"},
		"a token where only certificates count":       {certs, nobody, "Bearer " + tokenA, 401, "only client certificates"},
		"a certificate where only tokens count":       {tokens, good, "", 403, "only tokens"},
		"a token where the file is gone":              {lost, nobody, "Bearer " + tokenA, 401, "cannot use its token file"},
		"nothing where all may call":                  {open, nil, "", let, ""},
		"another token where all may call":            {switched, nobody, "Bearer " + tokenA + "A", let, ""},
		"an expired certificate where all may call":   {switched, expired, "", let, ""},
	} {
		called := false
		r := httptest.NewRequest(http.MethodGet, "/member", nil)
		r.TLS = c.tls
		if c.header != "" {
			r.Header.Set("Authorization", c.header)
		}
		w := httptest.NewRecorder()
		c.guard.Verified(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called = true })).ServeHTTP(w, r)
		if called != (c.want == let) {
			t.Errorf("%s: let in %t: %d %s", name, called, w.Code, w.Body)
			continue
		}
		if called {
			continue
		}
		body := w.Body.String()
		if w.Code != c.want || !strings.Contains(body, c.wantText) || strings.Count(body, "\n") != 1 || strings.Contains(body, tokenA) || strings.Contains(body, dir) {
			t.Errorf("%s: %d %q; want %d and one line with %q", name, w.Code, body, c.want, c.wantText)
		}
		if got := w.Header().Get("WWW-Authenticate"); (got == "Bearer") != (c.want == 401) {
			t.Errorf("%s: WWW-Authenticate is %q", name, got)
		}
		if got := w.Header().Get("Connection"); (got == "close") != (c.want == 403) {
			t.Errorf("%s: Connection is %q, want close after a bad certificate, which belongs to the connection", name, got)
		}
	}
}

func TestAGuardThatLetsNobodyInIsRefused(t *testing.T) {
	if _, err := NewGuard(GuardOptions{}); err == nil || !strings.Contains(err.Error(), "nobody could call") {
		t.Errorf("%v, want that nobody could call", err)
	}
	for _, o := range []GuardOptions{{ClientCAFile: "/nowhere/ca.crt"}, {TokenFile: "/nowhere/token"}, {OpenToAll: true, TokenFile: "/nowhere/token"}} {
		if _, err := NewGuard(o); err == nil || !strings.Contains(err.Error(), "/nowhere/") {
			t.Errorf("%+v: %v, want that the file is named", o, err)
		}
	}
}

func TestARefusalIsLoggedInOneLineWithoutTheToken(t *testing.T) {
	var log bytes.Buffer
	path := authtest.Write(t, filepath.Join(t.TempDir(), "token"), []byte(tokenA))
	g, err := NewGuard(GuardOptions{TokenFile: path, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodPost, "/snapshot/full?final=true", nil)
	r.Header.Set("Authorization", "Bearer "+tokenB)
	g.Verified(http.NotFoundHandler()).ServeHTTP(httptest.NewRecorder(), r)
	got := log.String()
	for _, want := range []string{"msg=\"call refused\"", "method=POST", "path=/snapshot/full", "code=401", "from=192.0.2.1:1234"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is not in %s", want, got)
		}
	}
	if strings.Count(got, "\n") != 1 || strings.Contains(got, tokenB) {
		t.Errorf("want one line without the token: %s", got)
	}
}
