package cluster

import "fmt"

// containerdConfig has restrict_oom_score_adj because a kernel may refuse negative scores, without
// which no pod would start.
func (n *Node) containerdConfig() string {
	return fmt.Sprintf(`version = 2
root = %q
state = "/run/containerd"
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.aufs"]

[grpc]
  address = %q

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = %q
  restrict_oom_score_adj = true

  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"

  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = %q
`, n.file("containerd"), containerdSocket, pauseImage, n.file("cni"))
}

// podNetworkConfig gives each pod a line of its own to the node, which routes: packets between two
// pods of one node take the same way as between nodes, through the rules of Services.
func (n *Node) podNetworkConfig() string {
	return fmt.Sprintf(`{
  "cniVersion": "0.4.0",
  "name": "pods",
  "plugins": [
    {
      "type": "ptp",
      "ipam": {"type": "host-local", "dataDir": %q, "ranges": [[{"subnet": %q}]], "routes": [{"dst": "0.0.0.0/0"}]}
    },
    {"type": "portmap", "capabilities": {"portMappings": true}}
  ]
}
`, n.file("ipam"), n.cluster.network.pods(n.number))
}

// kubeletConfig renews the node's lease often, so that a lost node is noticed in seconds. Disk and
// memory are the machine's, whose shortage is not the cluster's business.
func (n *Node) kubeletConfig() string {
	c := n.cluster
	return fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: true}
  x509: {clientCAFile: %q}
authorization: {mode: Webhook}
tlsCertFile: %q
tlsPrivateKeyFile: %q
containerRuntimeEndpoint: unix://%s
cgroupDriver: cgroupfs
cgroupRoot: /%s/%s
failCgroupV1: false
failSwapOn: false
clusterDomain: cluster.local
clusterDNS: [%q]
resolvConf: ""
volumePluginDir: %q
nodeLeaseDurationSeconds: %d
nodeStatusUpdateFrequency: 5s
syncFrequency: %s
evictionHard: {memory.available: 50Mi, nodefs.available: 100Mi, imagefs.available: 100Mi, nodefs.inodesFree: 1%%}
imageGCHighThresholdPercent: 100
serializeImagePulls: false
shutdownGracePeriod: 0s
`, c.file("pki", "ca.crt"), n.file("pki", "kubelet.crt"), n.file("pki", "kubelet.key"), containerdSocket,
		c.network.link, n.Name, c.network.control(), n.file("plugins"), leaseSeconds, c.opts.Sync)
}

// A node renews its lease every quarter of leaseSeconds, and is lost after lostAfter.
const (
	leaseSeconds = 8
	lostAfter    = "10s"
)

// proxyHealth is the port on which a kube-proxy says whether Services lead where they should.
const proxyHealth = "10256"

// proxyArgs are those of a kube-proxy that takes itself for a node's.
func (c *Cluster) proxyArgs(node string) []string {
	return []string{
		"--kubeconfig=" + c.file("proxy.kubeconfig"), "--proxy-mode=iptables", "--hostname-override=" + node,
		"--cluster-cidr=" + c.network.allPods().String(), "--iptables-localhost-nodeports=false",
		// Settings of the whole machine stay as they are.
		"--conntrack-max-per-core=0", "--conntrack-tcp-timeout-established=0s", "--conntrack-tcp-timeout-close-wait=0s",
		"--healthz-bind-address=0.0.0.0:" + proxyHealth,
	}
}

// corefile answers for names of the cluster alone, and forgets nothing and keeps nothing: what the
// API server says counts at once.
func (c *Cluster) corefile() string {
	return fmt.Sprintf(`. {
	errors
	kubernetes cluster.local in-addr.arpa {
		kubeconfig %s
		ttl 1
	}
}
`, c.file("dns.kubeconfig"))
}
