package stores

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"druid.internal/druid/test/stores/gcsworm"

	"druid.internal/druid/test/process"
)

// GCSOptions say where a Google Cloud Storage runs. The zero value is right for tests.
type GCSOptions struct {
	Host string // IP address to listen on; empty: 127.0.0.1
	Port string // empty: a free one
	CA   *CA    // issues its certificate; nil: a new one
}

// GCS is a fake-gcs-server behind the shim that adds what it lacks. The server itself is
// reached by nobody else; everything is in its memory.
type GCS struct {
	Endpoint string // https://ADDRESS:PORT
	Address  string // ADDRESS:PORT
	CA       *CA
	CAFile   string        // the CA's certificate, for programs
	Shim     *gcsworm.Shim // the clock, and who may do what

	proc   *process.Process
	server *http.Server
	temp   string // removed by Stop
}

// GCSBucket is a bucket to create. The zero value keeps no versions and locks nothing.
type GCSBucket struct {
	Versioned   bool
	ObjectLock  bool          // single objects can be retained
	Policy      time.Duration // of the retention policy; 0: none
	Locked      bool          // the policy, for ever
	DefaultHold bool          // new objects get an event-based hold
	SoftDelete  time.Duration
}

// StartGCS starts one and returns when it answers. ctx bounds the start only.
func StartGCS(ctx context.Context, opts GCSOptions) (*GCS, error) {
	binary, err := Binary("fake-gcs-server")
	if err != nil {
		return nil, err
	}
	if opts.Host == "" {
		opts.Host = "127.0.0.1"
	}
	if opts.CA == nil {
		if opts.CA, err = NewCA(); err != nil {
			return nil, err
		}
	}
	g := &GCS{CA: opts.CA}
	if g.temp, err = os.MkdirTemp("", "druid-gcs-"); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := g.start(ctx, binary); err != nil {
		os.RemoveAll(g.temp)
		return nil, err
	}
	if err := g.serve(opts); err != nil {
		g.proc.Kill()
		os.RemoveAll(g.temp)
		return nil, err
	}
	return g, nil
}

// start runs the fake on the loopback alone; it tries another port if the chosen one was taken.
func (g *GCS) start(ctx context.Context, binary string) error {
	for attempt := 1; ; attempt++ {
		ports, err := process.FreePorts("127.0.0.1", 1)
		if err != nil {
			return err
		}
		host, port, err := net.SplitHostPort(ports[0])
		if err != nil {
			return err
		}
		target := "http://" + ports[0]
		if g.proc, err = process.Start("fake-gcs-server", binary,
			[]string{"-backend", "memory", "-scheme", "http", "-host", host, "-port", port, "-public-host", ports[0], "-external-url", target, "-log-level", "warn"},
			process.BareEnvironment(g.temp)); err != nil {
			return err
		}
		g.Shim = gcsworm.New(target)
		client := &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
		err = g.proc.Await(ctx, func(ctx context.Context) error { return answers(ctx, client, target+"/_internal/healthcheck") })
		if err == nil {
			return nil
		}
		taken := g.proc.PortTaken()
		g.proc.Kill()
		if !taken || attempt == startAttempts {
			return err
		}
	}
}

// serve opens the shim to the world.
func (g *GCS) serve(opts GCSOptions) error {
	g.CAFile = filepath.Join(g.temp, "ca.crt")
	if err := os.WriteFile(g.CAFile, g.CA.PEM, 0o644); err != nil {
		return err
	}
	conf, err := g.CA.ServerTLS(opts.Host, "127.0.0.1", "localhost")
	if err != nil {
		return err
	}
	port := opts.Port
	if port == "" {
		port = "0"
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(opts.Host, port))
	if err != nil {
		return fmt.Errorf("listen for Google Cloud Storage: %w", err)
	}
	g.Address = listener.Addr().String()
	g.Endpoint = "https://" + g.Address
	g.server = &http.Server{Handler: g.Shim, TLSConfig: conf, ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: startTimeout}
	go func() { _ = g.server.ServeTLS(listener, "", "") }() // ends by Stop
	return nil
}

// Stop ends the server, waits until it is gone and removes its temporary files.
func (g *GCS) Stop() error {
	err := g.server.Close()
	g.Shim.Close()
	return errors.Join(err, g.proc.Stop(), os.RemoveAll(g.temp))
}

// Ended is closed when the server is gone.
func (g *GCS) Ended() <-chan struct{} { return g.proc.Done() }

// Reach is where the server is and who vouches for it.
func (g *GCS) Reach() (endpoint string, ca *CA) { return g.Endpoint, g.CA }

// RunGCS starts a server for one test. It fails the test if fake-gcs-server is not installed.
func RunGCS(tb testing.TB) *GCS {
	tb.Helper()
	g, err := StartGCS(tb.Context(), GCSOptions{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := g.Stop(); err != nil {
			tb.Error(err)
		}
	})
	return g
}

// CreateBucket makes a bucket.
func (g *GCS) CreateBucket(ctx context.Context, name string, b GCSBucket) error {
	return createGCSBucket(ctx, g.Do, name, b)
}

func createGCSBucket(ctx context.Context, do func(context.Context, string, string, any) ([]byte, error), name string, b GCSBucket) error {
	req := map[string]any{"name": name, "versioning": map[string]any{"enabled": b.Versioned}, "defaultEventBasedHold": b.DefaultHold}
	if b.Policy > 0 {
		req["retentionPolicy"] = map[string]any{"retentionPeriod": fmt.Sprint(int64(b.Policy / time.Second))}
	}
	if b.SoftDelete > 0 {
		req["softDeletePolicy"] = map[string]any{"retentionDurationSeconds": fmt.Sprint(int64(b.SoftDelete / time.Second))}
	}
	if _, err := do(ctx, http.MethodPost, fmt.Sprintf("/storage/v1/b?project=test&enableObjectRetention=%t", b.ObjectLock), req); err != nil {
		return err
	}
	if b.Locked {
		_, err := do(ctx, http.MethodPost, "/storage/v1/b/"+name+"/lockRetentionPolicy?ifMetagenerationMatch=1", nil)
		return err
	}
	return nil
}

// Do makes a request of the JSON API without a token, for arranging and attacking. The body is
// sent as JSON unless it is nil or bytes; the answer is returned as it came. Any status but
// 2xx is an error.
func (g *GCS) Do(ctx context.Context, method, path string, body any) ([]byte, error) {
	return g.ask(ctx, "", method, path, body)
}

func (g *GCS) ask(ctx context.Context, token, method, path string, body any) ([]byte, error) {
	payload, raw := body.([]byte)
	if body != nil && !raw {
		var err error
		if payload, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, g.Endpoint+path, bytes.NewReader(payload))
	if err != nil {
		return nil, err
	}
	if !raw {
		req.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: g.CA.ClientTLS(), DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode/100 != 2 {
		return answer, fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, answer)
	}
	return answer, nil
}

// ServiceAccount is a key file for an identity of that name. The shim issues tokens for it once
// it is made known by [gcsworm.Shim.Identify].
func (g *GCS) ServiceAccount(email string) ([]byte, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return json.Marshal(map[string]string{
		"type": "service_account", "project_id": "test", "client_email": email, "private_key_id": "1",
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
		"token_uri":   g.Endpoint + "/_worm/token",
	})
}
