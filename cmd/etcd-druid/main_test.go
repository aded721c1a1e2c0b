package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"druid.internal/druid/internal/hosttest"
)

// asProgram has the test binary be the program.
const asProgram = "ETCD_DRUID_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(m.Run())
}

var timeOf = regexp.MustCompile(`("time":"[^"]*",|time=\S+ )`)

func withoutTime(line string) string {
	return strings.TrimSpace(timeOf.ReplaceAllString(line, ""))
}

func parsed(t *testing.T, line []byte) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(line, &m); err != nil {
		t.Fatalf("%v: %s", err, line)
	}
	return m
}

// output is read while it is written.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// process is an operator on an address of its own, whose API server does not answer.
type process struct {
	host   string
	cmd    *exec.Cmd
	stderr *output
	ended  chan struct{}
}

func kubeconfig(t *testing.T, server string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n" +
		"clusters: [{name: c, cluster: {server: '" + server + "'}}]\nusers: [{name: u, user: {}}]\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func start(t *testing.T, host string, args ...string) *process {
	t.Helper()
	return program(t, host, append([]string{"--kubeconfig=" + kubeconfig(t, "http://"+host+":1"),
		"--metrics-bind-address=" + host, "--health-bind-address=" + host, "--profiling-bind-address=" + host}, args...)...)
}

// program runs the program with these arguments, which have it listen at host.
func program(t *testing.T, host string, args ...string) *process {
	t.Helper()
	p := &process{host: host, stderr: new(output), ended: make(chan struct{})}
	p.cmd = exec.Command(os.Args[0], args...)
	p.cmd.Env = append(os.Environ(), asProgram+"=1")
	p.cmd.Stderr = p.stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.cmd.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		p.cmd.Process.Kill()
		<-p.ended
		if t.Failed() {
			t.Logf("%s", p.stderr)
		}
	})
	return p
}

// get returns the status; 0: nobody answers.
func (p *process) get(port, path string) (int, string) {
	c := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := c.Get("http://" + net.JoinHostPort(p.host, port) + path)
	if err != nil {
		return 0, ""
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body)
}

// await waits for something to be so while the process lives.
func (p *process) await(t *testing.T, what string, so func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !so() {
		select {
		case <-p.ended:
			t.Fatalf("the process ended, but %s was awaited", what)
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s never came", what)
		}
	}
}

func (p *process) end(t *testing.T, s os.Signal) int {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
	return p.wait(t)
}

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

func TestAnOperatorWithoutItsAPIServerLivesWaitsAndEndsCleanly(t *testing.T) {
	for name, c := range map[string]struct {
		signal os.Signal
		args   []string
	}{
		"alone":                        {syscall.SIGTERM, nil},
		"as one of several":            {syscall.SIGTERM, []string{"--enable-leader-election", "--leader-election-namespace=garden"}},
		"at a terminal, with profiles": {syscall.SIGINT, []string{"--enable-profiling", "--disable-lease-cache"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := start(t, hosttest.Own(), c.args...)
			p.await(t, "/healthz", func() bool { code, _ := p.get("8081", "/healthz"); return code == http.StatusOK })
			p.await(t, "/metrics", func() bool {
				code, body := p.get("8080", "/metrics")
				return code == http.StatusOK && strings.Contains(body, "# TYPE ")
			})
			profiles := strings.Contains(strings.Join(c.args, " "), "--enable-profiling")
			if profiles {
				p.await(t, "/debug/pprof/", func() bool { code, _ := p.get("6060", "/debug/pprof/"); return code == http.StatusOK })
			} else if code, _ := p.get("6060", "/debug/pprof/"); code != 0 {
				t.Errorf("profiles are served: %d", code)
			}
			p.await(t, "the news of the API server", func() bool { return strings.Contains(p.stderr.String(), `"the API server does not answer`) })
			if code := p.end(t, c.signal); code != exitOK {
				t.Errorf("exit code %d", code)
			}
			for line := range strings.Lines(p.stderr.String()) {
				if !json.Valid([]byte(line)) {
					t.Errorf("not JSON: %s", line)
				}
			}
		})
	}
}

func TestWhatIsDeprecatedOrWithoutEffectIsLoggedOnce(t *testing.T) {
	host := hosttest.Own()
	file := filepath.Join(t.TempDir(), "druid.yaml")
	text := fmt.Sprintf("apiVersion: config.druid.gardener.cloud/v1alpha1\nkind: OperatorConfiguration\nserver: {metrics: {bindAddress: %[1]s}, health: {bindAddress: %[1]s}}\n"+
		"leaderElection: {resourceLock: leases}\ncontrollers: {compaction: {enabled: true, concurrentSyncs: 4}, etcdOpsTask: {enabled: true}}\n", host)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := program(t, host, "--kubeconfig="+kubeconfig(t, "http://"+host+":1"), "--config="+file)
	p.await(t, "/healthz", func() bool { code, _ := p.get("8081", "/healthz"); return code == http.StatusOK })
	if code := p.end(t, syscall.SIGTERM); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	var got []string
	for line := range strings.Lines(p.stderr.String()) {
		if m := parsed(t, []byte(line)); m["setting"] != nil {
			got = append(got, fmt.Sprintf("%s %s: %s", m["level"], m["msg"], m["setting"]))
		}
	}
	want := "WARN a setting is deprecated: leaderElection.resourceLock\n" +
		"WARN settings have no effect: controllers.compaction.enabled, controllers.compaction.concurrentSyncs"
	if strings.Join(got, "\n") != want {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
}

func TestAPortThatIsTakenIsToldInOneLine(t *testing.T) {
	for name, c := range map[string]struct {
		port string
		args []string
	}{
		"health":   {"8081", nil},
		"metrics":  {"8080", nil},
		"profiles": {"6060", []string{"--enable-profiling"}},
	} {
		t.Run(name, func(t *testing.T) {
			host := hosttest.Own()
			l, err := net.Listen("tcp", net.JoinHostPort(host, c.port))
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			p := start(t, host, c.args...)
			if code := p.wait(t); code != exitFailure {
				t.Errorf("exit code %d", code)
			}
			lines := strings.Split(strings.TrimSpace(p.stderr.String()), "\n")
			if got := lines[len(lines)-1]; !strings.HasPrefix(got, "Error: ") || !strings.Contains(got, c.port) || !strings.Contains(got, "address already in use") {
				t.Errorf("last line %q", got)
			}
		})
	}
}

func TestWrongUsageIsToldInALineForEachMistake(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	t.Setenv("KUBECONFIG", "")
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	none := filepath.Join(dir, "none")
	noYAML := write("no-yaml", "a: b: c")
	noContext := write("no-context", "apiVersion: v1\nkind: Config\ncurrent-context: gone\n")
	noCertificate := write("no-certificate", "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c}}]\nclusters: [{name: c, cluster: {server: 'https://127.0.0.1:1', certificate-authority: "+none+"}}]\n")
	wrong := write("wrong.yaml", "apiVersion: config.druid.gardener.cloud/v1alpha1\nkind: OperatorConfiguration\nservers: {}\nlogging: {logLevel: all}\n")
	for name, c := range map[string]struct {
		args []string
		want []string // in each line
	}{
		"an argument":                      {[]string{"now"}, []string{`"now"`}},
		"an unknown flag":                  {[]string{"--workers=1"}, []string{"--workers"}},
		"a flag without its value":         {[]string{"--etcd-workers"}, []string{"--etcd-workers"}},
		"two wrong flags":                  {[]string{"--etcd-workers=0", "--log-level=all"}, []string{"--etcd-workers: 0 is not", `--log-level: "all" is not debug, info or error`}},
		"an unknown gate":                  {[]string{"--feature-gates=Other=true"}, []string{`--feature-gates: there is no feature gate "Other"`}},
		"flags and a file":                 {[]string{"--config=" + wrong, "--etcd-workers=3"}, []string{"--etcd-workers: it does not go together with --config"}},
		"a missing file":                   {[]string{"--config=" + none}, []string{"--config: open " + none}},
		"two wrong fields":                 {[]string{"--config=" + wrong}, []string{wrong + ":3: servers: there is no such field: call it server", wrong + `:4: logging.logLevel: "all" is not`}},
		"no kubeconfig at all":             {[]string{}, []string{"nothing says how to reach the API server"}},
		"a missing kubeconfig":             {[]string{"--kubeconfig=" + none}, []string{"--kubeconfig=" + none + ": stat " + none}},
		"a kubeconfig that is no YAML":     {[]string{"--kubeconfig=" + noYAML}, []string{"--kubeconfig=" + noYAML}},
		"a kubeconfig without its context": {[]string{"--kubeconfig=" + noContext}, []string{"context was not found for specified context: gone"}},
		"a kubeconfig with a missing file": {[]string{"--kubeconfig=" + noCertificate}, []string{"unable to read certificate-authority " + none}},
		"certificates nobody knows where": {[]string{"--kubeconfig=" + kubeconfig(t, "http://127.0.0.1:1"), "--enable-etcd-components-webhook", "--webhook-server-tls-server-cert-dir="},
			[]string{"the webhook needs to know the namespace of its certificates"}},
		"leader election nobody knows where": {[]string{"--kubeconfig=" + kubeconfig(t, "http://127.0.0.1:1"), "--enable-leader-election"}, []string{"give --leader-election-namespace"}},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			if code := run(t.Context(), c.args, &out, &errs); code != exitUsage {
				t.Errorf("exit code %d", code)
			}
			lines := strings.Split(strings.TrimSuffix(errs.String(), "\n"), "\n")
			if len(lines) != len(c.want) {
				t.Fatalf("%d lines:\n%s", len(lines), errs.String())
			}
			for i, want := range c.want {
				if !strings.HasPrefix(lines[i], "Error: ") || !strings.Contains(lines[i], want) {
					t.Errorf("%q, want %q", lines[i], want)
				}
			}
		})
	}
}
