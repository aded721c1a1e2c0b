package main

import (
	"bytes"
	"context"
	"encoding/pem"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"druid.internal/druid/internal/agent/config"
	"druid.internal/druid/internal/agent/metrics"
	"druid.internal/druid/internal/agent/status"
	"druid.internal/druid/internal/agentapi"
)

// podIn is a program in a pod with these variables, and what it logs.
func podIn(env map[string]string) (*app, *bytes.Buffer) {
	var log bytes.Buffer
	return &app{sys: system{getenv: func(name string) string { return env[name] }}, log: slog.New(slog.NewTextHandler(&log, nil))}, &log
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestOutsideOfKubernetesNobodyIsToldAndOneLineSaysWhy(t *testing.T) {
	empty, half := t.TempDir(), t.TempDir()
	writeFile(t, filepath.Join(half, "namespace"), "shoot\n")
	wanted := config.Health{MemberLeaseRenewalEnabled: true, HeartbeatDuration: config.Duration(time.Second)}
	pod := map[string]string{"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
	for phrase, c := range map[string]struct {
		health config.Health
		env    map[string]string
		dir    string
		want   string // in the line; empty: there is none
	}{
		"it is not asked for":     {config.Health{}, pod, half, ""},
		"no pod":                  {wanted, nil, half, "this is no pod"},
		"half a pod":              {wanted, map[string]string{"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, half, "this is no pod"},
		"no namespace":            {wanted, pod, empty, "set POD_NAMESPACE"},
		"no authorities or token": {wanted, pod, half, "ca.crt"},
	} {
		a, log := podIn(c.env)
		if got := a.kubernetes(c.health, "main-0", c.dir); got != nil {
			t.Errorf("%s: somebody is told", phrase)
		}
		lines := strings.Count(log.String(), "\n")
		if c.want == "" && lines != 0 || c.want != "" && (lines != 1 || !strings.Contains(log.String(), c.want)) {
			t.Errorf("%s: logged %q, want one line with %q", phrase, log, c.want)
		}
	}
}

func TestInAPodTheAPIServerIsAskedWithTheTokenAsItIs(t *testing.T) {
	type asked struct{ path, token string }
	requests := make(chan asked, 100)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests <- asked{r.URL.Path, r.Header.Get("Authorization")}
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer server.Close()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "ca.crt"), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	writeFile(t, filepath.Join(dir, "token"), "the-first-token-of-the-pod")
	writeFile(t, filepath.Join(dir, "namespace"), "shoot\n")
	at, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	host, port, err := net.SplitHostPort(at.Host)
	if err != nil {
		t.Fatal(err)
	}
	a, _ := podIn(map[string]string{"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port})
	report := a.kubernetes(config.Health{MemberLeaseRenewalEnabled: true, HeartbeatDuration: config.Duration(time.Second)}, "seed-main-0", dir)
	if report == nil {
		t.Fatal("nobody is told")
	}
	board := status.New("seed-main-0", time.Now, nil)
	board.Update(func(m *agentapi.Member) {
		m.ID, m.ClusterID, m.Etcd = "1", "2", &agentapi.Etcd{Leader: "1"}
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- report(ctx, board, metrics.New(nil, nil)) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	// awaits a request of each path with a token.
	awaits := func(token string) {
		t.Helper()
		missing := map[string]bool{"/apis/coordination.k8s.io/v1/namespaces/shoot/leases/seed-main-0": true, "/apis/druid.gardener.cloud/v1alpha1/namespaces/shoot/etcdmembers/seed-main-0": true}
		for late := time.After(time.Minute); len(missing) > 0; {
			select {
			case r := <-requests:
				if r.token == "Bearer "+token {
					delete(missing, r.path)
				}
			case <-late:
				t.Fatalf("no request with %s to %v", token, missing)
			}
		}
	}
	awaits("the-first-token-of-the-pod")
	writeFile(t, filepath.Join(dir, "token"), "the-second-token-of-the-pod")
	awaits("the-second-token-of-the-pod")
}

func TestTheFlagsForKubernetesAreThoseOfTheOriginal(t *testing.T) {
	for phrase, c := range map[string]struct {
		args []string
		want config.Health
		err  string
	}{
		"none":            {nil, config.Health{HeartbeatDuration: config.Duration(30 * time.Second)}, ""},
		"both":            {[]string{"--enable-member-lease-renewal", "--k8s-heartbeat-duration=10s"}, config.Health{MemberLeaseRenewalEnabled: true, HeartbeatDuration: config.Duration(10 * time.Second)}, ""},
		"with a value":    {[]string{"--enable-member-lease-renewal=true"}, config.Health{MemberLeaseRenewalEnabled: true, HeartbeatDuration: config.Duration(30 * time.Second)}, ""},
		"much too often":  {[]string{"--enable-member-lease-renewal", "--k8s-heartbeat-duration=10ms"}, config.Health{}, "healthConfig.heartbeatDuration (--k8s-heartbeat-duration) must be at least 1s"},
		"not to be asked": {[]string{"--k8s-heartbeat-duration=0s"}, config.Health{}, ""},
	} {
		var f serverFlags
		flags := pflag.NewFlagSet("server", pflag.ContinueOnError)
		f.add(flags)
		if err := flags.Parse(append(c.args, "--allow-unauthenticated")); err != nil {
			t.Fatal(err)
		}
		got, err := f.load(flags, config.Parse, func(string) {})
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %v, want %q", phrase, err, c.err)
			}
			continue
		}
		if err != nil || got.Health != c.want {
			t.Errorf("%s: %+v (%v), want %+v", phrase, got.Health, err, c.want)
		}
	}
}
