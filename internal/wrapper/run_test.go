package wrapper

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/agentapi/auth"
	"druid.internal/druid/internal/wrapper/wrappertest"
)

const token = "0123456789abcdef0123456789abcdef"

// running is a wrapper in this process, with its sidecar.
type running struct {
	wrappertest.Member
	sidecar *wrappertest.Sidecar
	options Options
	cancel  context.CancelCauseFunc
	ended   chan error // gets what Run returned, once
}

// prepared is a member that is not started yet.
func prepared(t *testing.T, m wrappertest.Member, all []wrappertest.Member, further ...string) *running {
	t.Helper()
	s := wrappertest.NewSidecar(t, net.JoinHostPort(m.Host, "8080"), m.Config(all, further...), token)
	tokenFile := filepath.Join(m.Dir, "token")
	if err := os.WriteFile(tokenFile, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	client, err := agentapi.NewClient(s.Base(), agentapi.ClientOptions{Credentials: auth.Credentials{TokenFile: tokenFile}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return &running{Member: m, sidecar: s, options: Options{
		Sidecar:      client,
		ConfigFile:   m.ConfigFile(),
		ExitCodeFile: m.ExitCodeFile(),
		Door:         Door{Address: net.JoinHostPort(m.Host, "9095"), TokenFile: tokenFile},
		Log:          slog.New(slog.NewTextHandler(testLog{t}, nil)),
	}}
}

// start runs the wrapper; it is ended with the test.
func (r *running) start(t *testing.T) *running {
	t.Helper()
	ctx, cancel := context.WithCancelCause(context.Background())
	r.cancel, r.ended = cancel, make(chan error, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.ended <- Run(ctx, r.options)
	}()
	t.Cleanup(func() {
		cancel(Terminated)
		<-ended
	})
	return r
}

// stop ends the wrapper as a signal does and returns what Run returned.
func (r *running) stop(t *testing.T, e End) error {
	t.Helper()
	r.cancel(e)
	return r.wait(t)
}

func (r *running) wait(t *testing.T) error {
	t.Helper()
	select {
	case err := <-r.ended:
		return err
	case <-time.After(time.Minute):
		t.Fatal("the wrapper does not end")
		return nil
	}
}

// ask makes a call and returns status and answer; status 0: nobody answers.
func (r *running) ask(method, path, token string) (int, string) {
	req, err := http.NewRequest(method, "http://"+r.options.Address+path, nil)
	if err != nil {
		return 0, err.Error()
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	c := http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := c.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, strings.TrimSpace(string(b))
}

func (r *running) awaitReady(t *testing.T) {
	t.Helper()
	eventually(t, r.Name+" is ready", func() bool { code, _ := r.ask("GET", "/readyz", ""); return code == http.StatusOK })
}

// eventually waits for a fact.
func eventually(t *testing.T, what string, fact func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !fact() {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (r *running) put(t *testing.T, c *clientv3.Client, key string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := c.Put(ctx, key, "v"); err != nil {
		t.Fatalf("put %s: %v", key, err)
	}
}

func (r *running) has(t *testing.T, c *clientv3.Client, key string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if g, err := c.Get(ctx, key); err != nil || g.Count != 1 {
		t.Fatalf("get %s: %+v, %v", key, g, err)
	}
}

func (r *running) exitCode(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(r.ExitCodeFile())
	if os.IsNotExist(err) {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// testLog writes to the test's log.
type testLog struct{ t *testing.T }

func (l testLog) Write(b []byte) (int, error) {
	l.t.Log(strings.TrimSpace(string(b)))
	return len(b), nil
}
