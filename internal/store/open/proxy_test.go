package open_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"syscall"
	"testing"

	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/dial"
	"druid.internal/druid/internal/store/open"
)

func TestEveryProviderBlamesTheProxyAndNamesIt(t *testing.T) {
	asking := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusProxyAuthRequired) }))
	t.Cleanup(asking.Close)
	const endpoint = "https://store.invalid"
	g := newGoogle(t)
	providers := map[string]map[string]string{
		"S3":    {"AWS_APPLICATION_CREDENTIALS": directory(t, map[string]string{"accessKeyID": "a", "secretAccessKey": "hunter2", "region": "r"})},
		"GCS":   {"GOOGLE_APPLICATION_CREDENTIALS": directory(t, map[string]string{"serviceaccount.json": strings.ReplaceAll(g.account(t, "sa@p"), g.URL, endpoint)})},
		"ABS":   {"AZURE_APPLICATION_CREDENTIALS": directory(t, map[string]string{"storageAccount": "mine1", "storageKey": accountKey})},
		"Swift": {"OPENSTACK_APPLICATION_CREDENTIALS": directory(t, map[string]string{"authURL": endpoint + "/v3", "username": "u", "password": "hunter2", "domainName": "d", "tenantName": "p"})},
		"OSS":   {"ALICLOUD_APPLICATION_CREDENTIALS": directory(t, map[string]string{"accessKeyID": "a", "accessKeySecret": "hunter2", "storageEndpoint": endpoint})},
	}
	at := func(host string) func(*http.Request) (*url.URL, error) {
		return http.ProxyURL(&url.URL{Scheme: "http", Host: host, User: url.UserPassword("me", "hunter2")})
	}
	// As if the proxy were down, but not worth repeating: the cause must not be taken for the store's.
	failing := func(*http.Request) (*url.URL, error) { return nil, &dial.ProxyError{Err: syscall.ECONNREFUSED} }
	direct := func(*http.Request) (*url.URL, error) { return nil, nil }
	cases := map[string]struct {
		proxy    func(*http.Request) (*url.URL, error)
		variable string // HTTPS_PROXY
		want     string
	}{
		"refuses":        {at(asking.Listener.Addr().String()), "", "the proxy " + asking.URL + " gives no connection to"},
		"is down":        {failing, "", "reached: connection refused; check HTTPS_PROXY"},
		"cannot be told": {direct, "http://me:hunter2%zz@proxy:3128", "HTTPS_PROXY is not a URL"},
	}
	for name, c := range cases {
		for provider, vars := range providers {
			t.Run(provider+" "+name, func(t *testing.T) {
				t.Parallel()
				env := map[string]string{"https_proxy": c.variable}
				for k, v := range vars {
					env[k] = v
				}
				_, err := open.Open(t.Context(), open.Config{Provider: provider, Container: "backups", EndpointOverride: endpoint, Proxy: c.proxy, Environment: environment("", env)})
				if !errors.Is(err, store.ErrUnreachable) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "check HTTPS_PROXY and NO_PROXY") {
					t.Fatalf("%v, want %v with %q and the remedy", err, store.ErrUnreachable, c.want)
				}
				if strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "\n") {
					t.Errorf("%q shows a secret or is not one line", err)
				}
			})
		}
	}
}

func TestAProxyThatCannotBeToldHurtsOnlyWhereItWouldBeUsed(t *testing.T) {
	s := newAzureServer(t)
	env := map[string]string{
		"AZURE_APPLICATION_CREDENTIALS": directory(t, map[string]string{"storageAccount": "mine1", "storageKey": accountKey, "trustedCaCert": s.ca}),
		"HTTPS_PROXY":                   "http://me:hunter2%zz@proxy:3128",
	}
	for name, c := range map[string]struct{ none, endpoint string }{
		"on this machine": {"", s.URL},
		"named by a list": {"store.invalid", "https://store.invalid"},
	} {
		env["NO_PROXY"] = c.none
		_, err := open.Open(t.Context(), open.Config{Provider: "ABS", Container: "backups", EndpointOverride: c.endpoint, Environment: environment("", env),
			Proxy: func(*http.Request) (*url.URL, error) { return nil, errors.New("the chooser was asked") }})
		if err == nil || !strings.Contains(err.Error(), "the chooser was asked") {
			t.Errorf("%s: %v, want that the chooser is asked as ever", name, err)
		}
	}
}
