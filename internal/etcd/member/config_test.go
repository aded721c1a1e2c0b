package member

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"
)

func TestAConfigurationThatCannotWorkIsRefusedWithItsRemedy(t *testing.T) {
	for name, c := range map[string]struct {
		cfg  Config
		want string // part of the message; empty: it is good
	}{
		"plain text":                {Config{Endpoints: []string{"http://a:1", "http://b:1"}, InsecureTransport: true}, ""},
		"TLS by scheme":             {Config{Endpoints: []string{"https://a:1"}, InsecureTransport: true}, ""},
		"a bare address":            {Config{Endpoints: []string{"a:1"}}, ""},
		"a socket":                  {Config{Endpoints: []string{"unix:///run/etcd.sock"}, InsecureTransport: true}, ""},
		"no endpoint":               {Config{}, "--endpoints"},
		"an empty endpoint":         {Config{Endpoints: []string{""}}, "not a URL"},
		"a password in an endpoint": {Config{Endpoints: []string{"https://root:secret@etcd:2379"}}, "--etcd-password"},
		"a foreign scheme":          {Config{Endpoints: []string{"ftp://a:1"}}, "none of http"},
		"no host":                   {Config{Endpoints: []string{"https://"}}, "not a URL"},
		"mixed":                     {Config{Endpoints: []string{"http://a:1", "https://b:1"}, InsecureTransport: true}, "same scheme"},
		"plain but forbidden":       {Config{Endpoints: []string{"http://a:1"}}, "--insecure-transport=false"},
		"half an identity":          {Config{Endpoints: []string{"https://a:1"}, CertFile: "c"}, "both --cert and --key"},
		"certificates in plain":     {Config{Endpoints: []string{"http://a:1"}, InsecureTransport: true, CAFile: "ca"}, "https://"},
		"TLS in memory, in plain":   {Config{Endpoints: []string{"http://a:1"}, InsecureTransport: true, TLS: &tls.Config{}}, "https://"},
		"TLS in memory and files":   {Config{Endpoints: []string{"https://a:1"}, TLS: &tls.Config{}, CAFile: "ca"}, "one of the two"},
		"half a login":              {Config{Endpoints: []string{"https://a:1"}, Username: "root"}, "--etcd-password"},
		"sending beyond receive":    {Config{Endpoints: []string{"https://a:1"}, MaxReceive: 10, MaxSend: 20}, "above"},
		"a small limit of receive":  {Config{Endpoints: []string{"https://a:1"}, MaxReceive: 512 << 10}, ""},
		"a negative limit":          {Config{Endpoints: []string{"https://a:1"}, MaxReceive: -1}, "negative"},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.cfg.Validate()
			if c.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("%v, want ErrConfig with %q", err, c.want)
			}
		})
	}
}

func TestPermanentNeedsAllEndpoints(t *testing.T) {
	config, learner := fmt.Errorf("a: %w", ErrConfig), fmt.Errorf("b: %w", ErrLearner)
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"nothing":                  {nil, false},
		"a configuration":          {config, true},
		"a learner":                {learner, true},
		"all of several":           {fmt.Errorf("status: %w", several{config, learner}), true},
		"one of several is down":   {fmt.Errorf("status: %w", several{learner, ErrUnreachable}), false},
		"one of several may elect": {several{ErrNoLeader, learner}, false},
	} {
		if got := Permanent(c.err); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}

func TestUnusableCertificateFilesAreConfiguration(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, []byte("no PEM"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, cfg := range map[string]Config{
		"an authority that is none":  {CAFile: file},
		"an authority that is gone":  {CAFile: file + ".gone"},
		"a certificate that is none": {CertFile: file, KeyFile: file},
	} {
		cfg.Endpoints = []string{"https://127.0.0.1:1"}
		c, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.Member(t.Context()); !errors.Is(err, ErrConfig) || !Permanent(err) {
			t.Errorf("%s: %v, want ErrConfig", name, err)
		}
	}
}

// authority signs certificates for 127.0.0.1.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) authority {
	a := authority{t: t}
	a.cert, a.key = a.sign(&x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, nil)
	return a
}

func (a authority) sign(c *x509.Certificate, parent *authority) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	c.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		a.t.Fatal(err)
	}
	c.Subject = pkix.Name{CommonName: "test " + c.SerialNumber.String()}
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	signer, signerKey := c, key
	if parent != nil {
		signer, signerKey = parent.cert, parent.key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, signer, &key.PublicKey, signerKey)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert, key
}

// issue writes a certificate and its key, and returns their files.
func (a authority) issue(dir, name string) (certFile, keyFile string) {
	a.t.Helper()
	cert, key := a.sign(&x509.Certificate{
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		DNSNames:    []string{"etcd-main-local"},
	}, &a)
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	certFile, keyFile = filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
	a.write(certFile, "CERTIFICATE", cert.Raw)
	a.write(keyFile, "EC PRIVATE KEY", der)
	return certFile, keyFile
}

func (a authority) bundle(file string) string {
	a.write(file, "CERTIFICATE", a.cert.Raw)
	return file
}

func (a authority) write(file, kind string, der []byte) {
	a.t.Helper()
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		a.t.Fatal(err)
	}
}

func TestCertificatesAreReadAnewForEveryConnection(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ca, foreign := newAuthority(t), newAuthority(t)
	serverCert, serverKey := ca.issue(dir, "server")
	e := startEtcd(t, func(cfg *embed.Config) {
		local := url.URL{Scheme: "https", Host: "127.0.0.1:0"}
		cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{local}, []url.URL{local}
		cfg.ClientTLSInfo = transport.TLSInfo{
			CertFile: serverCert, KeyFile: serverKey, ClientCertAuth: true, TrustedCAFile: ca.bundle(filepath.Join(dir, "server-ca.crt")),
		}
	})
	cert, key := foreign.issue(dir, "client")
	cfg := Config{
		Endpoints: []string{"https://" + address(e)}, CAFile: foreign.bundle(filepath.Join(dir, "ca.crt")),
		CertFile: cert, KeyFile: key, DialTimeout: 3 * time.Second,
	}
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Member(t.Context()); !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "--cacert") {
		t.Fatalf("a server signed by somebody else: %v, want ErrUnreachable with the remedy --cacert", err)
	}
	ca.bundle(cfg.CAFile) // the right authority and identity arrive while the program runs
	ca.issue(dir, "client")
	deadline := time.Now().Add(time.Minute)
	for {
		if _, err = c.Member(t.Context()); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("renewed files are not used: %v", err)
		}
	}

	skip := Config{Endpoints: cfg.Endpoints, CertFile: cert, KeyFile: key, DialTimeout: 20 * time.Second}
	for _, insecure := range []bool{false, true} {
		skip.InsecureSkipVerify = insecure
		c, err := New(skip)
		if err != nil {
			t.Fatal(err)
		}
		if !insecure {
			skip.DialTimeout = time.Second
		}
		_, err = c.Member(t.Context())
		c.Close()
		if insecure != (err == nil) {
			t.Fatalf("an unknown authority with insecure-skip-tls-verify=%v: %v", insecure, err)
		}
	}

	skip.CertFile, skip.KeyFile = filepath.Join(dir, "missing"), filepath.Join(dir, "missing")
	c, err = New(skip)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Member(t.Context()); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "--cert") {
		t.Fatalf("a missing certificate: %v, want one that names --cert", err)
	}
}

func TestCertificatesInMemoryAreUsedAsTheyAre(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ca := newAuthority(t)
	serverCert, serverKey := ca.issue(dir, "server")
	e := startEtcd(t, func(cfg *embed.Config) {
		local := url.URL{Scheme: "https", Host: "127.0.0.1:0"}
		cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{local}, []url.URL{local}
		cfg.ClientTLSInfo = transport.TLSInfo{
			CertFile: serverCert, KeyFile: serverKey, ClientCertAuth: true, TrustedCAFile: ca.bundle(filepath.Join(dir, "server-ca.crt")),
		}
	})
	pair, err := tls.LoadX509KeyPair(ca.issue(dir, "client"))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	for name, want := range map[string]bool{"": true, "etcd-main-local": true, "somebody-else": false} {
		timeout := 20 * time.Second
		if !want {
			timeout = time.Second
		}
		c, err := New(Config{Endpoints: []string{"https://" + address(e)}, DialTimeout: timeout, TLS: &tls.Config{
			MinVersion: tls.VersionTLS12, RootCAs: pool, Certificates: []tls.Certificate{pair}, ServerName: name,
		}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Member(t.Context())
		c.Close()
		if want != (err == nil) {
			t.Errorf("a certificate that is for %q, as is asked for: %t; got %v", name, want, err)
		}
	}
}

// A server that asks for a certificate ends the connection of who has none, and one that hangs
// says nothing: in both cases there is no answer in time.
func TestAServerThatDoesNotAnswerInTimeIsUnreachable(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // nobody accepts
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for name, user := range map[string]string{"when asked": "", "when logging in": "root"} {
		t.Run(name, func(t *testing.T) {
			c, err := New(Config{Endpoints: []string{"http://" + silent.Addr().String()}, InsecureTransport: true, Username: user, Password: user, DialTimeout: 200 * time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			_, err = c.Member(t.Context())
			if !errors.Is(err, ErrUnreachable) || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "--endpoints") {
				t.Errorf("%v, want ErrUnreachable for lack of time, with its remedy", err)
			}
		})
	}
}

func TestAWrongOrMissingUserIsToldWhatIsNeeded(t *testing.T) {
	t.Parallel()
	e := startEtcd(t, nil)
	_, client := connect(t, e)
	for _, step := range []func() error{
		func() error { _, err := client.UserAdd(t.Context(), "root", "secret"); return err },
		func() error { _, err := client.UserGrantRole(t.Context(), "root", "root"); return err },
		func() error { _, err := client.AuthEnable(t.Context()); return err },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	cfg := Config{Endpoints: []string{"http://" + address(e)}, InsecureTransport: true, DialTimeout: 20 * time.Second}
	revision := func(cfg Config) error {
		c, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		m, err := c.Member(t.Context())
		if err != nil {
			return err
		}
		_, err = m.Revision(t.Context())
		return err
	}
	if err := revision(cfg); !errors.Is(err, ErrForbidden) || !strings.Contains(err.Error(), "--etcd-username") {
		t.Fatalf("without a user: %v, want ErrForbidden with its remedy", err)
	}
	cfg.Username, cfg.Password = "root", "wrong"
	if err := revision(cfg); !errors.Is(err, ErrForbidden) {
		t.Fatalf("with a wrong password: %v, want ErrForbidden", err)
	}
	cfg.Password = "secret"
	if err := revision(cfg); err != nil {
		t.Fatalf("with the right user: %v", err)
	}
}
