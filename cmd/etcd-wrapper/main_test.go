package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"druid.internal/druid/internal/wrapper/wrappertest"
)

const token = "0123456789abcdef0123456789abcdef"

// binary is the program, built once for all tests.
var binary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "etcd-wrapper-*")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	binary = filepath.Join(dir, "etcd-wrapper")
	build := exec.Command("go", "build", "-tags", "disable_grpc_modules", "-o", binary, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build: %v\n%s", err, out)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// process is a wrapper as it is deployed, with its sidecar.
type process struct {
	wrappertest.Member
	sidecar *wrappertest.Sidecar
	token   string // file
	cmd     *exec.Cmd
	stderr  *bytes.Buffer
	ended   chan struct{}
}

func prepare(t *testing.T, m wrappertest.Member, all []wrappertest.Member) *process {
	t.Helper()
	p := &process{Member: m, sidecar: wrappertest.NewSidecar(t, m.Host+":8080", m.Config(all), token), token: filepath.Join(m.Dir, "token")}
	if err := os.WriteFile(p.token, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *process) start(t *testing.T, further ...string) *process {
	t.Helper()
	p.stderr, p.ended = new(bytes.Buffer), make(chan struct{})
	p.cmd = exec.Command(binary, append([]string{"start-etcd",
		"--etcd-wrapper-address=" + p.Host, "--etcd-wrapper-token-path=" + p.token,
		"--backup-restore-host-port=" + p.Host + ":8080", "--backup-restore-token-path=" + p.token,
		"--etcd-config-path=" + p.ConfigFile(), "--exit-code-path=" + p.ExitCodeFile(),
	}, further...)...)
	p.cmd.Stderr = p.stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func(cmd *exec.Cmd, ended chan struct{}) {
		cmd.Wait()
		close(ended)
	}(p.cmd, p.ended)
	t.Cleanup(func() {
		p.cmd.Process.Kill()
		<-p.ended
		if t.Failed() {
			t.Logf("%s:\n%s", p.Name, p.stderr)
		}
	})
	return p
}

func (p *process) signal(t *testing.T, s os.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// wait returns the exit code; -1: by a signal.
func (p *process) wait(t *testing.T) int {
	t.Helper()
	select {
	case <-p.ended:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(time.Minute):
		t.Fatal("the process does not end")
		return 0
	}
}

// ask makes a call and returns the status; 0: nobody answers.
func (p *process) ask(method, path string) int {
	req, err := http.NewRequest(method, "http://"+p.Host+":9095"+path, nil)
	if err != nil {
		return 0
	}
	c := http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := c.Do(req)
	if err != nil {
		return 0
	}
	resp.Body.Close()
	return resp.StatusCode
}

func (p *process) awaitReady(t *testing.T) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for p.ask("GET", "/readyz") != http.StatusOK {
		select {
		case <-p.ended:
			t.Fatalf("%s ended with %d", p.Name, p.cmd.ProcessState.ExitCode())
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s is never ready", p.Name)
		}
	}
}

func (p *process) exitCodeFile(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(p.ExitCodeFile())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return string(b)
}

// lastLine is what a person reads when the process has ended; all before it is JSON.
func (p *process) lastLine(t *testing.T) string {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(p.stderr.String()), "\n")
	for _, line := range lines[:len(lines)-1] {
		if !json.Valid([]byte(line)) {
			t.Errorf("not JSON: %s", line)
		}
	}
	return lines[len(lines)-1]
}

func sole(t *testing.T) *process {
	t.Helper()
	ms := wrappertest.Members(t, 1)
	return prepare(t, ms[0], ms)
}

func TestSignalsEndTheProcessCleanlyAndAKillDoesNot(t *testing.T) {
	p := sole(t)
	for _, c := range []struct {
		signal   syscall.Signal
		code     int
		file     string
		nextMode string
	}{
		{syscall.SIGTERM, 0, "terminated", "sanity"},
		{syscall.SIGINT, 0, "interrupt", "sanity"},
		{syscall.SIGKILL, -1, "", "full"},
		{syscall.SIGTERM, 0, "terminated", "sanity"},
	} {
		p.start(t).awaitReady(t)
		if got := p.exitCodeFile(t); got != "" {
			t.Errorf("before %s the exit code file says %q", c.signal, got)
		}
		p.signal(t, c.signal)
		if code := p.wait(t); code != c.code {
			t.Errorf("after %s: exit code %d, want %d", c.signal, code, c.code)
		}
		if got := p.exitCodeFile(t); got != c.file {
			t.Errorf("after %s the exit code file says %q, want %q", c.signal, got, c.file)
		}
		before := len(p.sidecar.Calls())
		p.start(t)
		p.sidecar.Await(t, func(calls []string) bool {
			for _, call := range calls[before:] {
				if strings.HasPrefix(call, "initialization/start") {
					if call != "initialization/start?mode="+c.nextMode {
						t.Errorf("after %s: %s", c.signal, call)
					}
					return true
				}
			}
			return false
		})
		p.awaitReady(t)
		p.signal(t, syscall.SIGTERM)
		p.wait(t)
	}
	if i, err := os.Stat(filepath.Join(p.DataDir(), "member", "snap", "db")); err != nil || i.Mode().Perm() != 0o600 {
		t.Errorf("the database: %v, %v", i, err)
	}
}

func TestASignalToTheLeaderHandsTheLeadershipOver(t *testing.T) {
	ms := wrappertest.Members(t, 3)
	var ps []*process
	for _, m := range ms {
		ps = append(ps, prepare(t, m, ms).start(t))
	}
	for _, p := range ps {
		p.awaitReady(t)
	}
	leads := func(at *process) bool {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		s, err := at.Client(t).Status(ctx, at.Endpoint())
		if err != nil {
			t.Fatal(err)
		}
		return s.Leader == s.Header.MemberId
	}
	at := -1
	for deadline := time.Now().Add(time.Minute); at < 0; at = slices.IndexFunc(ps, leads) {
		if time.Now().After(deadline) {
			t.Fatal("nobody leads")
		}
	}
	leader := ps[at]
	leader.signal(t, syscall.SIGTERM)
	if code := leader.wait(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if others := slices.Delete(ps, at, at+1); !slices.ContainsFunc(others, leads) { // the third may learn it later
		t.Errorf("nobody leads after %s ended", leader.Name)
	}
	if !strings.Contains(leader.stderr.String(), `"leadership was handed over"`) {
		t.Error("the leadership was not handed over but lost")
	}
}

func TestAProcessWithoutItsSidecarWaitsAndIsAlive(t *testing.T) {
	p := sole(t)
	p.sidecar.Down()
	p.start(t)
	l, err := net.Listen("tcp", p.sidecar.Address) // as a proxy that has nothing behind it
	if err != nil {
		t.Fatal(err)
	}
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if live, ready := p.ask("GET", "/livez"), p.ask("GET", "/readyz"); live != http.StatusOK || ready != http.StatusServiceUnavailable {
		t.Errorf("without a sidecar /livez is %d and /readyz %d", live, ready)
	}
	c.Close()
	l.Close()
	p.sidecar.Answer("/initialization/status", "<html>503</html>")
	p.sidecar.Up(t)
	p.sidecar.Await(t, func(calls []string) bool { return len(calls) > 0 })
	p.sidecar.Answer("/initialization/status", "")
	p.awaitReady(t)
	if code := p.ask("POST", "/stop"); code != http.StatusUnauthorized {
		t.Errorf("/stop without credentials: %d", code)
	}
	// etcd goes on without its sidecar.
	p.sidecar.Down()
	if code := p.ask("GET", "/livez"); code != http.StatusOK {
		t.Errorf("/livez without the sidecar: %d", code)
	}
	p.signal(t, syscall.SIGTERM)
	if code := p.wait(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

func TestFailuresEndTheProcessWithOneLineForPeople(t *testing.T) {
	for name, c := range map[string]struct {
		port string // that is taken
		want string
	}{
		"etcd's port for clients": {"2379", "bind: address already in use"},
		"etcd's port for members": {"2380", "bind: address already in use"},
		"the port of probes":      {"9095", "bind: address already in use"},
	} {
		t.Run(name, func(t *testing.T) {
			p := sole(t)
			l, err := net.Listen("tcp", net.JoinHostPort(p.Host, c.port))
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			p.start(t)
			if code := p.wait(t); code != exitFailure {
				t.Errorf("exit code %d", code)
			}
			if got := p.lastLine(t); !strings.HasPrefix(got, "Error: ") || !strings.Contains(got, c.port) || !strings.Contains(got, c.want) {
				t.Errorf("last line %q, want %q", got, c.want)
			}
		})
	}
}

func TestWrongUsageIsToldInOneLine(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "none")
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no command":             {nil, "start-etcd"},
		"an unknown command":     {[]string{"run"}, `"run"`},
		"an unknown flag":        {[]string{"start-etcd", "--port=1"}, "--port"},
		"an argument":            {[]string{"start-etcd", "now"}, `"now"`},
		"a bad port":             {[]string{"start-etcd", "--etcd-wrapper-port=70000"}, "--etcd-wrapper-port=70000"},
		"a negative time":        {[]string{"start-etcd", "--etcd-ready-timeout=-1s"}, "--etcd-ready-timeout=-1s"},
		"a sidecar without port": {[]string{"start-etcd", "--backup-restore-host-port=here"}, "--backup-restore-host-port=here"},
		"half a certificate":     {[]string{"start-etcd", "--etcd-wrapper-cert-path=x"}, "--etcd-wrapper-key-path"},
		"half a credential":      {[]string{"start-etcd", "--backup-restore-client-cert-path=x"}, "--backup-restore-client-key-path"},
		"a missing token":        {[]string{"start-etcd", "--backup-restore-token-path=" + missing}, "--backup-restore-token-path names " + missing + ": no such file or directory; create or mount it"},
		"a relative place":       {[]string{"start-etcd", "--etcd-config-path=etcd.conf.yaml"}, "--etcd-config-path=etcd.conf.yaml"},
		"a relative exit code":   {[]string{"start-etcd", "--exit-code-path=exit_code"}, "--exit-code-path=exit_code"},
		"no home and no place":   {[]string{"start-etcd"}, "--etcd-config-path"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			home := "/home"
			if name == "no home and no place" {
				home = ""
			}
			code := run(t.Context(), c.args, home, &out, &errs)
			if code != exitUsage {
				t.Errorf("exit code %d", code)
			}
			if got := errs.String(); !strings.HasPrefix(got, "Error: ") || strings.Count(got, "\n") != 1 || !strings.Contains(got, c.want) {
				t.Errorf("%q, want one line with %q", got, c.want)
			}
		})
	}
}
