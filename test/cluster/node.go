package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"druid.internal/druid/test/process"
)

// Node is a machine that runs pods.
type Node struct {
	Name    string
	Zone    string
	Address netip.Addr

	cluster *Cluster
	number  int

	mu   sync.Mutex
	room *room // nil: the machine is off
}

// The programs of a node, as its parts NODE-PROGRAM are named.
const (
	Containerd = "containerd"
	Kubelet    = "kubelet"
	KubeProxy  = "kube-proxy"
)

const containerdSocket = "/run/containerd/containerd.sock"

// zones are given to the nodes in turn.
var zones = []string{"a", "b", "c"}

func (c *Cluster) newNode(number int) *Node {
	return &Node{
		Name:    fmt.Sprintf("node%d", number),
		Zone:    "zone-" + zones[(number-1)%len(zones)],
		Address: c.network.node(number),
		cluster: c, number: number,
	}
}

// powerOn makes the machine with what its disk holds, up to a container runtime that knows the
// images.
func (n *Node) powerOn(ctx context.Context, images ...string) error {
	c := n.cluster
	for _, dir := range []string{"kubelet", "log", "containerd", "cni", "ipam"} {
		if err := os.MkdirAll(n.file(dir), 0o755); err != nil {
			return err
		}
	}
	for name, text := range map[string]string{"containerd.toml": n.containerdConfig(), "cni/10-pods.conflist": n.podNetworkConfig()} {
		if err := os.WriteFile(n.file(name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	// Groups of before the machine was off: a kubelet would look for their containers, for long.
	if err := removeCgroups(ctx, filepath.Join(c.network.link, n.Name)); err != nil {
		return err
	}
	if err := makeCgroup(c.network.link, n.Name); err != nil {
		return err
	}
	room, err := newRoom(ctx, n.Name, binding{n.file("kubelet"), "/var/lib/kubelet"}, binding{n.file("log"), "/var/log"})
	if err != nil {
		return err
	}
	n.mu.Lock()
	n.room = room
	n.mu.Unlock()
	if err := c.network.plug(ctx, room, n.number, c.opts.Nodes); err != nil {
		return err
	}
	containerd, err := exec.LookPath("containerd")
	if err != nil {
		return err
	}
	part, err := n.add(Containerd, containerd, "--config", n.file("containerd.toml"))
	if err != nil {
		return err
	}
	if err := part.proc.Await(ctx, n.containersWork); err != nil {
		return err
	}
	for _, image := range images {
		if err := n.load(ctx, image); err != nil {
			return err
		}
	}
	return nil
}

func (n *Node) containersWork(ctx context.Context) error {
	_, err := n.Run(ctx, "ctr", "--address", containerdSocket, "version")
	return err
}

// load imports a tarball of images, which the node then has for good.
func (n *Node) load(ctx context.Context, tar string) error {
	if _, err := n.Run(ctx, "ctr", "--address", containerdSocket, "--namespace", "k8s.io", "images", "import", tar); err != nil {
		return fmt.Errorf("load %s on %s: %w", tar, n.Name, err)
	}
	return nil
}

// join starts what makes the machine a node.
func (n *Node) join() error {
	c := n.cluster
	if err := c.writeKubeconfigFor(n.file("kubelet.kubeconfig"), "system:node:"+n.Name, "system:nodes"); err != nil {
		return err
	}
	if err := c.ca.IssueFiles(n.file("pki"), "kubelet.crt", "kubelet.key", n.Name, n.Address.String()); err != nil {
		return err
	}
	if err := os.WriteFile(n.file("kubelet.yaml"), []byte(n.kubeletConfig()), 0o644); err != nil {
		return err
	}
	_, err := n.add(Kubelet, filepath.Join(c.bin, "kubelet"), "--config="+n.file("kubelet.yaml"), "--kubeconfig="+n.file("kubelet.kubeconfig"),
		"--hostname-override="+n.Name, "--node-ip="+n.Address.String(), "--node-labels=topology.kubernetes.io/zone="+n.Zone+",topology.kubernetes.io/region=here")
	if err != nil {
		return err
	}
	_, err = n.add(KubeProxy, filepath.Join(c.bin, "kube-proxy"), c.proxyArgs(n.Name)...)
	return err
}

// add starts a program of the node.
func (n *Node) add(name, path string, args ...string) (*part, error) {
	command, err := n.entered(process.Command{Path: path, Args: args})
	if err != nil {
		return nil, err
	}
	return n.cluster.addCommand(n.Name+"-"+name, command)
}

// errOff is for what needs a node that runs.
var errOff = errors.New("the node is off")

func (n *Node) entered(command process.Command) (process.Command, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.room == nil {
		return command, fmt.Errorf("%s: %w", n.Name, errOff)
	}
	return n.room.enter(command)
}

// Run runs a command on the node, as an administrator who logged in would, and returns what it
// printed.
func (n *Node) Run(ctx context.Context, words ...string) (string, error) {
	command, err := n.entered(process.Command{Path: words[0], Args: words[1:]})
	if err != nil {
		return "", err
	}
	out, err := run(exec.CommandContext(ctx, command.Path, command.Args...), words...)
	if err != nil {
		return out, fmt.Errorf("on %s: %w", n.Name, err)
	}
	return out, nil
}

// Kill turns the machine off: everything on it is gone at once, but for its disk.
func (n *Node) Kill() error {
	n.mu.Lock()
	room := n.room
	n.room = nil
	n.mu.Unlock()
	if room == nil {
		return fmt.Errorf("kill %s: %w", n.Name, errOff)
	}
	room.close() // first: programs hold others' output
	n.cluster.forget(n.Name + "-")
	return nil
}

// Start turns a machine on again that was killed. It returns when the node is ready.
func (n *Node) Start(ctx context.Context) error {
	n.mu.Lock()
	on := n.room != nil
	n.mu.Unlock()
	if on {
		return fmt.Errorf("start %s: it runs", n.Name)
	}
	if err := n.powerOn(ctx); err != nil {
		return fmt.Errorf("start %s: %w", n.Name, err)
	}
	if err := n.join(); err != nil {
		return fmt.Errorf("start %s: %w", n.Name, err)
	}
	return n.awaitJoined(ctx)
}

// Disconnect pulls the plug of the node's network: nothing reaches it and nothing leaves it.
func (n *Node) Disconnect(ctx context.Context) error {
	return n.cluster.network.connect(ctx, n.number, false)
}

// Connect puts it in again.
func (n *Node) Connect(ctx context.Context) error {
	return n.cluster.network.connect(ctx, n.number, true)
}

func (n *Node) file(elements ...string) string {
	return n.cluster.file(append([]string{n.Name}, elements...)...)
}

// AwaitReady waits until the API server has it that the node runs pods.
func (n *Node) AwaitReady(ctx context.Context, atMost time.Duration) error {
	return Await(ctx, atMost, func(ctx context.Context) error { return n.cluster.nodeReady(ctx, n.Name) })
}

// AwaitLost waits until the cluster noticed that the node does not answer.
func (n *Node) AwaitLost(ctx context.Context, atMost time.Duration) error {
	return Await(ctx, atMost, func(ctx context.Context) error {
		if n.cluster.nodeReady(ctx, n.Name) == nil {
			return fmt.Errorf("%s is ready", n.Name)
		}
		return nil
	})
}

// nodeReady is nil if pods are put there.
func (c *Cluster) nodeReady(ctx context.Context, name string) error {
	node, err := c.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, t := range node.Spec.Taints {
		if t.Effect != corev1.TaintEffectPreferNoSchedule {
			return fmt.Errorf("%s has the taint %s", name, t.Key)
		}
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
			return nil
		}
		if condition.Type == corev1.NodeReady {
			return fmt.Errorf("%s is not ready: %s", name, condition.Message)
		}
	}
	return fmt.Errorf("%s says nothing of itself yet", name)
}

// awaitJoined waits until pods are put on the node and reach Services, as long as its programs run.
func (n *Node) awaitJoined(ctx context.Context) error {
	kubelet, err := n.cluster.part(n.Name + "-" + Kubelet)
	if err != nil {
		return err
	}
	proxy, err := n.cluster.part(n.Name + "-" + KubeProxy)
	if err != nil {
		return err
	}
	if err := kubelet.proc.Await(ctx, func(ctx context.Context) error { return n.cluster.nodeReady(ctx, n.Name) }); err != nil {
		return err
	}
	return proxy.proc.Await(ctx, proxyWorks(n.Address.String()))
}

// Node finds one by its name.
func (c *Cluster) Node(name string) (*Node, error) {
	for _, n := range c.Nodes {
		if n.Name == name {
			return n, nil
		}
	}
	return nil, fmt.Errorf("the cluster has no node %q that this process could touch", name)
}

// LoadImage gives every node that runs the images of a tarball, under the names in it. Pods use
// them with imagePullPolicy IfNotPresent or Never: there is nothing to pull from.
func (c *Cluster) LoadImage(ctx context.Context, tar string) error {
	if c.state == nil {
		return fmt.Errorf("load %s: %w", tar, errNotOurs)
	}
	tar, err := filepath.Abs(tar)
	if err != nil {
		return err
	}
	return c.eachNode(func(n *Node) error {
		err := n.load(ctx, tar)
		if errors.Is(err, errOff) {
			return nil
		}
		return err
	})
}

// eachNode does the same on all nodes at once.
func (c *Cluster) eachNode(do func(*Node) error) error {
	errs := make([]error, len(c.Nodes))
	var wg sync.WaitGroup
	for i, n := range c.Nodes {
		wg.Go(func() { errs[i] = do(n) })
	}
	wg.Wait()
	return errors.Join(errs...)
}
