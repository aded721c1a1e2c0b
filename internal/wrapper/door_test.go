package wrapper

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"druid.internal/druid/internal/agentapi/auth/authtest"
)

// opened is a door on a free port with what was ordered through it.
type opened struct {
	*door
	at     string
	health *health

	mu      sync.Mutex
	ordered []string
}

func opens(t *testing.T, d Door) *opened {
	t.Helper()
	d.Address = "127.0.0.1:0"
	o := &opened{health: newHealth(time.Now)}
	note := func(what string) func(string) {
		return func(string) {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.ordered = append(o.ordered, what)
		}
	}
	var err error
	o.door, err = openDoor(d, o.health, calls{stop: note("stop"), restart: note("restart"), clients: http.NotFoundHandler()}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	o.at = o.listener.Addr().String()
	served := make(chan error, 1)
	go func() { served <- o.serve() }()
	t.Cleanup(func() {
		o.close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return o
}

// answer is what is worth knowing of a response.
type answer struct {
	code        int
	allow       string
	certificate string // the name in the server's
}

// call makes one call on a connection of its own.
func (o *opened) call(t *testing.T, config *tls.Config, method, path, token string) answer {
	t.Helper()
	scheme := "http://"
	if config != nil {
		scheme = "https://"
	}
	req, err := http.NewRequest(method, scheme+o.at+path, strings.NewReader("ignored"))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	c := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(b), "\n"); n > 1 {
		t.Errorf("%s %s answers with %d lines: %q", method, path, n, b)
	}
	a := answer{code: resp.StatusCode, allow: resp.Header.Get("Allow")}
	if resp.TLS != nil {
		a.certificate = resp.TLS.PeerCertificates[0].Subject.CommonName
	}
	return a
}

func (o *opened) orders() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.ordered
}

func tokenFile(t *testing.T) string {
	return authtest.Write(t, filepath.Join(t.TempDir(), "token"), []byte(token+"\n"))
}

func TestProbesNeedNoCredentialsAndOrdersDo(t *testing.T) {
	o := opens(t, Door{TokenFile: tokenFile(t)})
	if err := o.admit("", "", "no file, and none is needed in plain text"); err != nil {
		t.Fatal(err)
	}
	o.health.runs()
	o.health.sawCluster(nil)
	for _, c := range []struct {
		method, path, token string
		want                int
	}{
		{"GET", "/readyz", "", 200}, {"HEAD", "/readyz", "", 200}, {"GET", "/livez", "", 200},
		{"POST", "/readyz", token, 405}, {"PUT", "/livez", token, 405},
		{"POST", "/stop", "", 401}, {"POST", "/stop", "another-token-0123456789", 401}, {"GET", "/stop", token, 405},
		{"POST", "/restart", "", 401}, {"HEAD", "/restart", "", 405},
		{"GET", "/", token, 404}, {"GET", "/stop/", token, 404}, {"POST", "/config", token, 404},
		{"POST", "/restart", token, 200}, {"POST", "/stop", token, 200},
	} {
		got := o.call(t, nil, c.method, c.path, c.token)
		if got.code != c.want {
			t.Errorf("%s %s with %q: %d, want %d", c.method, c.path, c.token, got.code, c.want)
		}
		if c.want == 405 && got.allow == "" {
			t.Errorf("%s %s: no Allow", c.method, c.path)
		}
	}
	if diff := cmp.Diff([]string{"restart", "stop"}, o.orders()); diff != "" {
		t.Errorf("orders (-want +got):\n%s", diff)
	}
}

func TestNobodyGivesOrdersWithoutConfiguredCredentials(t *testing.T) {
	o := opens(t, Door{})
	if err := o.admit("", "", ""); err != nil {
		t.Fatal(err)
	}
	if got := o.call(t, nil, "POST", "/stop", token); got.code != http.StatusForbidden {
		t.Errorf("%d", got.code)
	}
	if len(o.orders()) > 0 {
		t.Error("it was carried out")
	}
}

// clients are the TLS configurations of callers of a server that ca signed.
func clients(t *testing.T, ca *authtest.CA, shows *authtest.CA) *tls.Config {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca.PEM)
	config := &tls.Config{RootCAs: roots}
	if shows != nil {
		cert, key := shows.Issue(t, authtest.Leaf{Name: "a client"})
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			t.Fatal(err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config
}

func TestACertificateOfTheAuthorityGivesOrders(t *testing.T) {
	ca, foreign := authtest.NewCA(t, "ours"), authtest.NewCA(t, "foreign")
	dir := t.TempDir()
	cert, key := ca.Files(t, dir, "server", authtest.Leaf{Hosts: []string{"127.0.0.1"}})
	caFile := authtest.Write(t, filepath.Join(dir, "ca.crt"), ca.PEM)
	for name, open := range map[string]func(t *testing.T) *opened{
		"with files of its own": func(t *testing.T) *opened {
			return opens(t, Door{CertFile: cert, KeyFile: key, ClientCAFile: caFile, TokenFile: tokenFile(t)})
		},
		"with those of etcd": func(t *testing.T) *opened {
			o := opens(t, Door{TokenFile: tokenFile(t)})
			if err := o.admit(cert, key, caFile); err != nil {
				t.Fatal(err)
			}
			return o
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := open(t)
			for who, c := range map[string]struct {
				config *tls.Config
				token  string
				want   int
			}{
				"nobody known":            {clients(t, ca, nil), "", 401},
				"of another authority":    {clients(t, ca, foreign), "", 403},
				"a certificate":           {clients(t, ca, ca), "", 200},
				"a token":                 {clients(t, ca, nil), token, 200},
				"a token and a stranger":  {clients(t, ca, foreign), token, 200},
				"a wrong token":           {clients(t, ca, nil), token + "?", 401},
				"a bad one of both kinds": {clients(t, ca, foreign), token + "?", 401},
			} {
				if got := o.call(t, c.config, "POST", "/stop", c.token); got.code != c.want {
					t.Errorf("%s: %d, want %d", who, got.code, c.want)
				}
			}
			if got := o.call(t, clients(t, ca, nil), "GET", "/livez", ""); got.code != 200 {
				t.Errorf("a probe: %d", got.code)
			}
		})
	}
}

func TestTheServerFollowsEtcdsCertificatesFromOneStartToTheNext(t *testing.T) {
	ca := authtest.NewCA(t, "ours")
	dir := t.TempDir()
	cert, key := ca.Files(t, dir, "server", authtest.Leaf{Name: "first", Hosts: []string{"127.0.0.1"}})
	caFile := authtest.Write(t, filepath.Join(dir, "ca.crt"), ca.PEM)
	o := opens(t, Door{TokenFile: tokenFile(t)})

	// Before the configuration is known probes are answered in plain text.
	for range 2 {
		if got := o.call(t, nil, "GET", "/livez", ""); got.code != 200 {
			t.Errorf("an early probe: %d", got.code)
		}
		if err := o.admit("", "", ""); err != nil {
			t.Fatal(err)
		}
	}
	if err := o.admit(cert, key, caFile); err != nil {
		t.Fatal(err)
	}
	name := func() string {
		return o.call(t, clients(t, ca, nil), "GET", "/livez", "").certificate
	}
	if got := name(); got != "first" {
		t.Errorf("certificate of %q", got)
	}
	ca.Files(t, dir, "server", authtest.Leaf{Name: "second", Hosts: []string{"127.0.0.1"}})
	if got := name(); got != "second" {
		t.Errorf("certificate of %q after a rotation", got)
	}
	if err := o.admit("", "", ""); err != nil {
		t.Fatal(err)
	}
	if got := o.call(t, nil, "POST", "/stop", token); got.code != 200 {
		t.Errorf("back in plain text: %d", got.code)
	}
	if err := o.admit(cert, filepath.Join(dir, "none"), ""); err == nil {
		t.Error("a key that is not there is taken")
	}
}

func TestADoorThatCannotBeOpenedSaysWhy(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		door Door
		want string
	}{
		"a taken port":              {Door{Address: taken.Addr().String()}, "address already in use"},
		"a certificate alone":       {Door{CertFile: empty}, "belong together"},
		"a file that is not there":  {Door{CertFile: "/none.crt", KeyFile: "/none.key"}, "/none.crt"},
		"an empty bundle":           {Door{CertFile: empty, KeyFile: empty}, empty},
		"an empty token file":       {Door{TokenFile: empty}, empty},
		"an empty bundle for later": {Door{ClientCAFile: empty}, empty},
	} {
		t.Run(name, func(t *testing.T) {
			if c.door.Address == "" {
				c.door.Address = "127.0.0.1:0"
			}
			_, err := openDoor(c.door, newHealth(time.Now), calls{}, slog.New(slog.DiscardHandler))
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(fmt.Sprint(err), "\n") {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}
