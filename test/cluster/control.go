package cluster

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"druid.internal/druid/test/process"
)

// The names of the parts, as [Cluster.Kill] and the files in logs have them.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
	DNS               = "coredns"
	ControlProxy      = "control-kube-proxy"
)

// startControlPlane brings up what every cluster has.
func (c *Cluster) startControlPlane(ctx context.Context) error {
	if err := c.choosePorts(); err != nil {
		return err
	}
	if err := c.writeIdentities(); err != nil {
		return err
	}
	if err := c.startEtcd(); err != nil {
		return err
	}
	apiserver, err := c.startAPIServer()
	if err != nil {
		return err
	}
	if err := apiserver.proc.Await(ctx, c.apiReady); err != nil {
		return err
	}
	c.progress("API server at %s", c.Config.Host)
	controllers, err := c.startControllerManager()
	if err != nil {
		return err
	}
	return controllers.proc.Await(ctx, c.controllersWork)
}

// choosePorts finds free ones, or takes the usual ones in a room of the cluster's own.
func (c *Cluster) choosePorts() error {
	if c.network != nil {
		c.address, c.apiPort = c.network.control().String(), "6443"
		c.etcd = endpoints{client: "127.0.0.1:2379", peer: "127.0.0.1:2380"}
		return nil
	}
	ports, err := process.FreePorts("127.0.0.1", 3)
	if err != nil {
		return err
	}
	c.etcd = endpoints{client: ports[0], peer: ports[1]}
	c.address, c.apiPort, err = net.SplitHostPort(ports[2])
	return err
}

func (c *Cluster) file(elements ...string) string {
	return filepath.Join(append([]string{c.Dir}, elements...)...)
}

// startEtcd starts one member that does not wait for the disk: a cluster does not outlive its
// machine.
func (c *Cluster) startEtcd() error {
	client, peer := "http://"+c.etcd.client, "http://"+c.etcd.peer
	_, err := c.add(Etcd, "etcd", "--data-dir="+c.file("etcd"), "--unsafe-no-fsync", "--log-level=warn",
		"--listen-client-urls="+client, "--advertise-client-urls="+client,
		"--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer, "--initial-cluster=default="+peer,
		"--quota-backend-bytes="+strconv.Itoa(8<<30), "--auto-compaction-mode=revision", "--auto-compaction-retention=100000")
	return err
}

// startAPIServer starts it with everything that a production cluster checks. It also enforces that
// whoever sets a blocking owner reference may set finalizers of the owner, as some distributions
// do: rights that work here work there.
func (c *Cluster) startAPIServer() (*part, error) {
	if err := os.WriteFile(c.file("audit-policy.yaml"), []byte(auditPolicy), 0o644); err != nil {
		return nil, err
	}
	args := []string{
		"--etcd-servers=http://" + c.etcd.client,
		"--bind-address=" + c.address, "--advertise-address=" + c.address, "--secure-port=" + c.apiPort,
		"--tls-cert-file=" + c.file("pki", "apiserver.crt"), "--tls-private-key-file=" + c.file("pki", "apiserver.key"),
		"--client-ca-file=" + c.file("pki", "ca.crt"), "--cert-dir=" + c.file("pki"),
		"--service-account-key-file=" + c.file("pki", "serviceaccount.crt"),
		"--service-account-signing-key-file=" + c.file("pki", "serviceaccount.key"),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--authorization-mode=Node,RBAC", "--allow-privileged",
		"--enable-admission-plugins=NodeRestriction,OwnerReferencesPermissionEnforcement",
		"--audit-policy-file=" + c.file("audit-policy.yaml"), "--audit-log-path=" + c.file(auditLog), "--audit-log-maxsize=100000",
		"--profiling=false",
	}
	if c.network == nil {
		args = append(args, "--endpoint-reconciler-type=none", "--service-cluster-ip-range=10.0.0.0/16")
	} else {
		args = append(args, "--service-cluster-ip-range="+c.network.services().String(),
			// Webhooks and aggregated APIs are called at their pods: rules of Services are the nodes'.
			"--enable-aggregator-routing",
			"--kubelet-client-certificate="+c.file("pki", "kubelet-client.crt"), "--kubelet-client-key="+c.file("pki", "kubelet-client.key"),
			"--kubelet-certificate-authority="+c.file("pki", "ca.crt"), "--kubelet-preferred-address-types=InternalIP")
	}
	return c.add(APIServer, "kube-apiserver", append(args, c.opts.APIServerFlags...)...)
}

func (c *Cluster) startControllerManager() (*part, error) {
	args := []string{
		"--kubeconfig=" + c.file("controllers.kubeconfig"), "--secure-port=0", "--leader-elect=false", "--profiling=false",
		"--service-account-private-key-file=" + c.file("pki", "serviceaccount.key"), "--root-ca-file=" + c.file("pki", "ca.crt"),
		"--use-service-account-credentials", "--kube-api-qps=500", "--kube-api-burst=1000",
		"--node-monitor-period=1s", "--node-monitor-grace-period=" + lostAfter,
	}
	if c.network == nil {
		// Pods that a test pretends are on this machine's loopback addresses, which may not be in an Endpoints object: refusals of
		// them, tried again and again, were a quarter of such an API server's requests.
		args = append(args, "--controllers=*,-endpoints-controller,-endpointslice-controller,-endpointslice-mirroring-controller")
	}
	return c.add(ControllerManager, "kube-controller-manager", args...)
}

// apiReady is nil once the API server has done all that it does at its start.
func (c *Cluster) apiReady(ctx context.Context) error {
	answer, err := c.Client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
	if err != nil {
		return fmt.Errorf("%w: %s", err, answer)
	}
	return nil
}

// controllersWork is nil once the controllers have done something.
func (c *Cluster) controllersWork(ctx context.Context) error {
	_, err := c.Client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
	return err
}

// Kill ends a part as a crash does; [Cluster.Restart] starts it again with the ports and data it had.
func (c *Cluster) Kill(name string) error {
	p, err := c.part(name)
	if err != nil {
		return err
	}
	p.kill()
	return nil
}

// Restart starts a part that was killed and waits, for the API server, until it answers.
func (c *Cluster) Restart(ctx context.Context, name string) error {
	p, err := c.part(name)
	if err != nil {
		return err
	}
	if p.proc != nil {
		return fmt.Errorf("%s runs", name)
	}
	if err := p.start(c.Dir); err != nil {
		return err
	}
	if name == APIServer {
		return p.proc.Await(ctx, c.apiReady)
	}
	return nil
}
