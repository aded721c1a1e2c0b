package dial

import (
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"syscall"
	"testing"

	"druid.internal/druid/internal/hosttest"
)

func TestAProxyThatFailsIsBlamedByNameAndWithoutItsPassword(t *testing.T) {
	refusing := func(status int) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		t.Cleanup(s.Close)
		return s.Listener.Addr().String()
	}
	untrusted := httptest.NewUnstartedServer(http.NotFoundHandler())
	untrusted.Config.ErrorLog = log.New(io.Discard, "", 0)
	untrusted.StartTLS()
	t.Cleanup(untrusted.Close)
	down := hosttest.Nobody()
	at := func(scheme, host string) func(*http.Request) (*url.URL, error) {
		return http.ProxyURL(&url.URL{Scheme: scheme, Host: host, User: url.UserPassword("me", "hunter2")})
	}
	asking, missing, failing := refusing(407), refusing(404), refusing(503)
	cases := map[string]struct {
		proxy func(*http.Request) (*url.URL, error)
		want  string
		final bool
	}{
		"it wants a password":      {at("http", asking), "the proxy http://" + asking + " gives no connection to store.invalid:443: HTTP 407 Proxy Authentication Required", true},
		"it is no proxy":           {at("http", missing), "HTTP 404", true},
		"it fails":                 {at("http", failing), "HTTP 503", false},
		"it is down":               {at("http", down), "no connection to the proxy http://" + down + ": connection refused", false},
		"its name means nothing":   {at("http", "proxy.invalid:3128"), `the proxy http://proxy.invalid:3128: the name "proxy.invalid" cannot be resolved`, false},
		"nobody vouches for it":    {at("https", untrusted.Listener.Addr().String()), "no connection to the proxy: x509", true},
		"it cannot be told at all": {func(*http.Request) (*url.URL, error) { return nil, errors.New("odd setting") }, "odd setting", true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			client, err := Client(Options{Proxy: c.proxy})
			if err != nil {
				t.Fatal(err)
			}
			defer client.CloseIdleConnections()
			resp, err := client.Get("https://store.invalid/")
			if err == nil {
				resp.Body.Close()
				t.Fatal("there was an answer")
			}
			got := OfProxy(err)
			if got == nil || !strings.Contains(got.Error(), c.want) || strings.Contains(err.Error(), "hunter2") {
				t.Fatalf("%v is blamed as %v, want %q and no password", err, got, c.want)
			}
			if Final(err) != c.final {
				t.Errorf("Final = %v, want %v", !c.final, c.final)
			}
			if c.want == "connection refused" && !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("%v has lost its cause", err)
			}
		})
	}
}

func TestAStoreThatIsDownIsNotBlamedOnTheProxyOfOthers(t *testing.T) {
	proxy, store := hosttest.Nobody(), hosttest.Nobody()
	client, err := Client(Options{Proxy: func(r *http.Request) (*url.URL, error) {
		if r.URL.Host == store {
			return nil, nil
		}
		return &url.URL{Scheme: "http", Host: proxy}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	for address, want := range map[string]bool{"http://store.invalid": true, "http://" + store: false} {
		resp, err := client.Get(address)
		if err == nil {
			resp.Body.Close()
		}
		if blamed := OfProxy(err) != nil; blamed != want || !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("%s: %v, the proxy is blamed: %v, want %v", address, err, blamed, want)
		}
	}
}
