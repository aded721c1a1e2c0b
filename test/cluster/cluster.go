package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"druid.internal/druid/test/process"
	"druid.internal/druid/test/stores"
)

// Options say what cluster is started. The zero value is an API server without nodes of the
// newest version.
type Options struct {
	// Kubeconfig is the file of a cluster that is there already and is used instead of starting
	// one; see [Use]. The other options do not matter then, except for Bundles.
	Kubeconfig string

	// Nodes is how many nodes run pods. With 0 pods stay pending for ever, and nothing needs root.
	Nodes int

	// Pin names the installed Kubernetes: kubernetes if empty, or kubernetes-1.34.
	Pin string

	// Dir is where everything is kept, made if it is not there; whatever a former cluster left in
	// it is removed. Empty: a temporary directory, removed by Stop.
	Dir string

	// Images are tarballs that every node has from the beginning; see [Cluster.LoadImage].
	Images []string

	// Sync is how often kubelets look at pods to which nothing happened: changed ConfigMaps and
	// grown volumes get there by then. 0: a minute, as usual.
	Sync time.Duration

	// APIServerFlags come last, so that they win over ours.
	APIServerFlags []string

	// Bundles is where [Run] keeps what is known about the cluster of a test that failed, in a
	// directory of the test's name. Empty: druid-bundles in the temporary directory.
	Bundles string

	// Progress gets a line for each thing that is up. nil: nobody wants to know.
	Progress io.Writer
}

// Cluster is one that runs.
type Cluster struct {
	// Config is the administrator's, without a limit of requests.
	Config *rest.Config

	// Client is made of Config.
	Client kubernetes.Interface

	// Kubeconfig is the file that says the same.
	Kubeconfig string

	// Dir holds what the cluster writes; its programs' output is in logs.
	Dir string

	// Nodes are the machines that run pods, node1 first.
	Nodes []*Node

	// Host is the address of this machine that pods reach: servers for them listen here. Without
	// nodes it is that of the machine itself.
	Host string

	opts    Options
	bin     string // where the commands are
	ca      *stores.CA
	state   *state
	address string // of the control plane
	apiPort string
	etcd    endpoints
	begun   time.Time
	control *room    // of the control plane; nil: it is here
	network *network // nil without nodes
	volumes *volumes // nil without nodes

	mu      sync.Mutex
	parts   []*part // in the order of their start
	stopped bool
}

// endpoints are where the cluster's etcd listens.
type endpoints struct{ client, peer string }

// Start starts a cluster and returns when it serves: the API server answers, controllers give a
// namespace what belongs to it and all nodes are ready. ctx bounds the start only.
func Start(ctx context.Context, opts Options) (*Cluster, error) {
	if opts.Kubeconfig != "" {
		return Use(opts.Kubeconfig)
	}
	c, err := newCluster(opts)
	if err != nil {
		return nil, fmt.Errorf("start Kubernetes: %w", err)
	}
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start Kubernetes: %w", err), c.remove())
	}
	c.progress("it serves")
	return c, nil
}

func newCluster(opts Options) (*Cluster, error) {
	if opts.Pin == "" {
		opts.Pin = "kubernetes"
	}
	if opts.Sync == 0 {
		opts.Sync = time.Minute
	}
	if opts.Progress == nil {
		opts.Progress = io.Discard
	}
	program, err := stores.Binary(opts.Pin)
	if err != nil {
		return nil, err
	}
	if err := canHaveNodes(opts.Nodes); err != nil {
		return nil, err
	}
	c := &Cluster{opts: opts, bin: filepath.Dir(program), begun: time.Now()}
	if c.ca, err = stores.NewCA(); err != nil {
		return nil, err
	}
	if c.state, err = newState(opts.Dir); err != nil {
		return nil, err
	}
	c.Dir = c.state.dir
	return c, nil
}

// startAttempts is how often other ports are tried if somebody took ours.
const startAttempts = 3

func (c *Cluster) start(ctx context.Context) error {
	if c.opts.Nodes > 0 {
		return c.startWithNodes(ctx)
	}
	c.Host = "127.0.0.1"
	for attempt := 1; ; attempt++ {
		err := c.startControlPlane(ctx)
		if err == nil {
			return nil
		}
		if taken := c.portTaken(); !taken || attempt == startAttempts {
			return err
		}
		c.killParts()
	}
}

// Run starts a cluster for a test and stops it at its end. If the test fails, what can be known
// about the cluster is kept in a directory that the test's output names.
func Run(t testing.TB, opts Options) *Cluster {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	c, err := Start(ctx, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			c.KeepBundle(t, opts.Bundles)
		}
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// KeepBundle writes a bundle for a test that failed, in place of that of its last failure, into a directory
// that the test's output names; see [Options] for where that is.
func (c *Cluster) KeepBundle(t testing.TB, bundles string) {
	t.Helper()
	if bundles == "" {
		bundles = filepath.Join(os.TempDir(), "druid-bundles")
	}
	dir := filepath.Join(bundles, strings.NewReplacer("/", "_", " ", "_").Replace(t.Name()))
	ctx, cancel := context.WithTimeout(context.Background(), bundleTimeout)
	defer cancel()
	err := errors.Join(os.RemoveAll(dir), c.Bundle(ctx, dir))
	t.Logf("what is known about the cluster is in %s", dir)
	if p, unknown := c.part(ControllerManager); unknown == nil && p.proc != nil {
		t.Logf("the last of %s:\n%s", p.name, p.proc.Log().Tail())
	}
	if err != nil {
		t.Logf("not all could be written: %v", err)
	}
}

// bundleTimeout is for a cluster that may answer nothing any more.
const bundleTimeout = time.Minute

// startTimeout is for a machine that does much else.
const startTimeout = 5 * time.Minute

// Stop ends everything and removes what Start made, except a Dir of the caller's. A part that had
// ended by itself is an error: a test that succeeded without it has shown nothing.
//
// A cluster that was there before is left alone. What is stopped stays so: a second Stop does nothing.
func (c *Cluster) Stop() error {
	if c.state == nil {
		return nil
	}
	var errs []error
	c.mu.Lock()
	if c.stopped {
		c.mu.Unlock()
		return nil
	}
	c.stopped = true
	for _, p := range c.parts {
		if p.proc != nil && p.proc.Ended() {
			errs = append(errs, fmt.Errorf("%s had ended by itself: %v\n%s", p.name, p.proc.Err(), p.proc.Log()))
		}
	}
	c.mu.Unlock()
	return errors.Join(append(errs, c.remove())...)
}

// remove ends everything and removes it. The control plane's room is the last, since its network
// device is the claim on all that has its name.
func (c *Cluster) remove() error {
	var errs []error
	if c.volumes != nil {
		errs = append(errs, c.volumes.close())
	}
	for _, n := range c.Nodes {
		if err := n.Kill(); err != nil && !errors.Is(err, errOff) {
			errs = append(errs, err)
		}
	}
	c.killParts()
	if c.network != nil {
		errs = append(errs, removeCgroups(context.Background(), c.network.link))
	}
	if c.control != nil {
		c.control.close()
	}
	if c.network != nil {
		errs = append(errs, c.network.release())
	}
	return errors.Join(append(errs, c.state.remove())...)
}

func (c *Cluster) progress(format string, args ...any) {
	fmt.Fprintf(c.opts.Progress, "cluster: %s, "+format+"\n", append([]any{time.Since(c.begun).Round(100 * time.Millisecond)}, args...)...)
}

// collectRarely has Kubernetes' programs take more memory and a tenth less of the processor. It is for tests: benchmarks and
// demonstrations have the programs as they are.
const collectRarely = "GOGC=400"

// A part is one program of the cluster.
type part struct {
	name    string
	command process.Command
	proc    *process.Process // nil: not running
	log     *os.File
}

// add starts a program of the control plane.
func (c *Cluster) add(name, program string, args ...string) (*part, error) {
	command, err := c.control.enter(process.Command{Path: filepath.Join(c.bin, program), Args: args})
	if err != nil {
		return nil, err
	}
	return c.addCommand(name, command)
}

// addCommand starts a program, whose whole output goes to logs/NAME.log.
func (c *Cluster) addCommand(name string, command process.Command) (*part, error) {
	p := &part{name: name, command: command}
	p.command.Name = name
	if p.command.Env == nil {
		p.command.Env = process.BareEnvironment(c.Dir)
		if testing.Testing() {
			p.command.Env = append(p.command.Env, collectRarely)
		}
	}
	if err := p.start(c.Dir); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.parts = append(c.parts, p)
	return p, nil
}

func (p *part) start(dir string) error {
	logs := filepath.Join(dir, "logs")
	if err := os.MkdirAll(logs, 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(logs, p.name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	p.command.Copy = f
	if p.proc, err = p.command.Start(); err != nil {
		f.Close()
		return err
	}
	p.log = f
	return nil
}

// kill ends the program as a crash does.
func (p *part) kill() {
	if p.proc == nil {
		return
	}
	p.proc.Kill()
	p.log.Close()
	p.proc = nil
}

// killParts ends all, the last first: whoever writes to etcd ends before it.
func (c *Cluster) killParts() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := len(c.parts) - 1; i >= 0; i-- {
		c.parts[i].kill()
	}
	c.parts = nil
}

// forget kills the parts whose names begin so, which are then none of the cluster's.
func (c *Cluster) forget(prefix string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.parts = slices.DeleteFunc(c.parts, func(p *part) bool {
		if !strings.HasPrefix(p.name, prefix) {
			return false
		}
		p.kill()
		return true
	})
}

func (c *Cluster) part(name string) (*part, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	names := make([]string, len(c.parts))
	for i, p := range c.parts {
		if p.name == name {
			return p, nil
		}
		names[i] = p.name
	}
	return nil, fmt.Errorf("the cluster has no part %q, only %s", name, strings.Join(names, ", "))
}

func (c *Cluster) portTaken() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.parts {
		if p.proc != nil && p.proc.PortTaken() {
			return true
		}
	}
	return false
}
