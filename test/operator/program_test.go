// Package operator_test runs the operator against a real API server.
package operator_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"

	"druid.internal/druid/test/cluster"
	"druid.internal/druid/test/members"
	"druid.internal/druid/test/process"
	"druid.internal/druid/test/stores"
)

// memberPrograms are those of members and Jobs.
var memberPrograms members.Built

// built is the operator's program, which all tests share.
var built struct {
	once sync.Once
	dir  string
	err  error
}

func TestMain(m *testing.M) {
	debug.SetGCPercent(400)       // there is more memory than time
	log.SetLogger(logr.Discard()) // that of caches here; each operator has its own
	// How many go at once is what lanes say.
	if err := flag.Set("test.parallel", "100"); err != nil {
		panic(err)
	}
	code := m.Run()
	if err := stopSpares(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	memberPrograms.Remove()
	if built.dir != "" {
		os.RemoveAll(built.dir)
	}
	os.Exit(code)
}

// buildProgram builds the operator from this tree, when it is needed first.
func buildProgram(t *testing.T) string {
	t.Helper()
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "druid-operator-"); built.err != nil {
			return
		}
		build := exec.Command("go", "build", "-ldflags=-w -X main.version=v1", "-o", built.dir+string(filepath.Separator), "./cmd/etcd-druid")
		build.Dir = filepath.Join("..", "..")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			built.err = fmt.Errorf("build the operator: %w\n%s", err, out)
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return filepath.Join(built.dir, "etcd-druid")
}

// define has the API server know our resources.
func define(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", "config", "crd", "bases", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("definitions: %v, %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		object, err := yaml.YAMLToJSON(text)
		if err != nil {
			t.Fatal(err)
		}
		err = c.Client.Discovery().RESTClient().Post().AbsPath("/apis/apiextensions.k8s.io/v1/customresourcedefinitions").Body(object).Do(t.Context()).Error()
		if err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatalf("%s: %v", file, err)
		}
	}
	await(t, func(ctx context.Context) error {
		for _, resource := range []string{"etcds", "etcdmembers", "etcdcopybackupstasks", "etcdoperatortasks", "etcdopstasks"} {
			if err := c.Client.Discovery().RESTClient().Get().AbsPath("/apis/druid.gardener.cloud/v1alpha1/" + resource).Do(ctx).Error(); err != nil {
				return err
			}
		}
		return nil
	})
}

func await(t *testing.T, fact func(context.Context) error) {
	t.Helper()
	if err := cluster.Await(t.Context(), awaitAtMost, fact); err != nil {
		t.Fatal(err)
	}
}

// program is a running operator.
type program struct {
	*process.Process
	metrics, health string // URLs
}

// start runs an operator, of which several agree on one that works.
func start(t *testing.T, c *cluster.Cluster, path, name string) *program {
	t.Helper()
	addresses, err := process.FreePorts("127.0.0.1", 2)
	if err != nil {
		t.Fatal(err)
	}
	port := func(i int) string { return strings.TrimPrefix(addresses[i], "127.0.0.1:") }
	file := filepath.Join(t.TempDir(), "druid.yaml")
	text := fmt.Sprintf(`apiVersion: config.druid.gardener.cloud/v1alpha1
kind: OperatorConfiguration
leaderElection: {enabled: true, resourceNamespace: default, leaseDuration: 12s, renewDeadline: 9s, retryPeriod: 500ms}
server:
  metrics: {bindAddress: 127.0.0.1, port: %s}
  health: {bindAddress: 127.0.0.1, port: %s}
`, port(0), port(1))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := process.Command{Name: name, Path: path, Args: []string{"--kubeconfig=" + c.Kubeconfig, "--config=" + file}}.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			keepLog(t, p)
		}
	})
	return &program{p, "http://" + addresses[0], "http://" + addresses[1]}
}

// keepLog tells the last that a program printed, and keeps more of it in a file.
func keepLog(t *testing.T, p *process.Process) {
	t.Helper()
	file := filepath.Join(os.TempDir(), "druid-bundles", strings.ReplaceAll(t.Name(), "/", "_")+"."+p.Name()+".log")
	err := os.MkdirAll(filepath.Dir(file), 0o755)
	if err == nil {
		err = os.WriteFile(file, []byte(p.Log().String()), 0o600)
	}
	if err != nil {
		t.Error(err)
	}
	t.Logf("%s (more in %s):\n%s", p.Name(), file, p.Log().Tail())
}

func get(ctx context.Context, url string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: %s", resp.Status, body)
	}
	return string(body), err
}

// isReady is nil once the operator says so.
func (p *program) isReady(ctx context.Context) error {
	_, err := get(ctx, p.health+"/readyz")
	return err
}

// leads is nil if the operator is the one that works.
func (p *program) leads(ctx context.Context) error {
	metrics, err := get(ctx, p.metrics+"/metrics")
	if err == nil && !strings.Contains(metrics, `leader_election_master_status{name="druid-leader-election"} 1`) {
		err = errors.New("it does not lead")
	}
	return err
}

// looks is at how many Etcds the operator looked without anything to do, or to change.
func (p *program) looks(ctx context.Context) (float64, error) {
	return p.measured(ctx, "etcddruid_looks_total", `result="done"`)
}

// measured is the sum of what the operator shows of a metric with these labels, as they are written there.
func (p *program) measured(ctx context.Context, name string, labels ...string) (sum float64, err error) {
	text, err := get(ctx, p.metrics+"/metrics")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(text) {
		rest, is := strings.CutPrefix(strings.TrimSpace(line), name)
		if !is || !strings.HasPrefix(rest, "{") && !strings.HasPrefix(rest, " ") || slices.ContainsFunc(labels, func(l string) bool { return !strings.Contains(rest, l) }) {
			continue
		}
		one, err := strconv.ParseFloat(rest[strings.LastIndex(rest, " ")+1:], 64)
		if err != nil {
			return 0, err
		}
		sum += one
	}
	return sum, nil
}

// counted is nil if what a metric tells has happened.
func (p *program) counted(name string, labels ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		n, err := p.measured(ctx, name, labels...)
		if err == nil && n == 0 {
			err = fmt.Errorf("%s %v is not above 0", name, labels)
		}
		return err
	}
}

// awaitAtMost is longer than anything takes that is waited for, on a busy machine too.
const awaitAtMost = 5 * time.Minute

// await waits for a fact while the operator lives.
func (p *program) await(t *testing.T, fact func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), awaitAtMost)
	defer cancel()
	if err := p.Await(ctx, fact); err != nil {
		t.Fatal(err)
	}
}

func (p *program) awaitEnd(t *testing.T) {
	t.Helper()
	select {
	case <-p.Done():
	case <-time.After(awaitAtMost):
		t.Fatalf("%s does not end", p.Name())
	}
}

func TestOfSeveralOperatorsOneWorksAndAnotherTakesOver(t *testing.T) {
	together(t, light)
	c := cluster.Run(t, cluster.Options{Pin: *pin, Progress: t.Output()})
	define(t, c)
	path := buildProgram(t)

	first := start(t, c, path, "first")
	first.await(t, first.isReady)
	first.await(t, first.leads)
	if answers := map[string]string{"kubernetes": stores.KubernetesVersion, "kubernetes-1.34": stores.Kubernetes134Version}[*pin]; !strings.Contains(first.Log().String(), `"kubernetes":"`+answers) {
		t.Errorf("it does not tell that Kubernetes %s answers", answers)
	}
	second := start(t, c, path, "second")
	second.await(t, second.isReady)
	if second.leads(t.Context()) == nil {
		t.Error("both lead")
	}

	first.Signal(syscall.SIGTERM)
	first.awaitEnd(t)
	if err := first.Err(); err != nil {
		t.Errorf("asked to end: %v", err)
	}
	second.await(t, second.leads)

	third := start(t, c, path, "third")
	third.await(t, third.isReady)
	second.Kill()
	third.await(t, third.leads)

	fourth := start(t, c, path, "fourth")
	fourth.await(t, fourth.isReady)
	if err := c.Kill(cluster.APIServer); err != nil {
		t.Fatal(err)
	}
	third.awaitEnd(t) // it cannot know whether another works by now
	lines := strings.Split(strings.TrimSpace(third.Log().String()), "\n")
	if got, want := lines[len(lines)-1], "Error: run the operator: leader election lost"; got != want {
		t.Errorf("the last line of the one that worked is %q, want %q", got, want)
	}
	if _, err := get(t.Context(), fourth.health+"/healthz"); err != nil {
		t.Errorf("the one that waits: %v", err)
	}
	if err := c.Restart(t.Context(), cluster.APIServer); err != nil {
		t.Fatal(err)
	}
	fourth.await(t, fourth.leads)
	fourth.await(t, fourth.isReady)
}
