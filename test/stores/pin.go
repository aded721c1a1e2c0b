package stores

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The pinned versions. A new version is a new cache directory, so both can be kept.
const (
	AzuriteVersion       = "3.37.0"
	CephVersion          = "16.2" // the distribution's, see [debian]
	EtcdVersion          = "v3.6.16"
	Etcd35Version        = "v3.5.21" // as in cmd/etcd35/go.mod and cmd/etcdutl35/go.mod
	Etcd3512Version      = "v3.5.12" // as in cmd/etcd3512/go.mod
	FakeGCSVersion       = "v1.56.1" // as in cmd/fakegcs/go.mod
	KubernetesVersion    = "v1.36.3" // the newest that is tried; as in cmd/kubernetes/go.mod
	Kubernetes134Version = "v1.34.4" // as in cmd/kubernetes/older.mod
	MinIOVersion         = "v0.0.0-20260212201848-7aac2a2c5b7c"
	NamespacesVersion    = "6.1"     // of ip; the distribution's
	NodeToolsVersion     = "1.6"     // of containerd; the distribution's
	PauseVersion         = "1"       // of cmd/pause
	RcloneVersion        = "v1.75.1" // as in cmd/rclone/go.mod
)

// A Pin is one server at one version and how it comes to be here.
type Pin struct {
	Name    string
	Version string
	About   string

	from source
}

// A source is a place that servers come from: golang, npm or debian.
type source interface {
	// path is where the program is, or will be, if the pin's own directory is dir.
	path(dir string) string

	// doing is what takes its time, in words for whoever waits.
	doing() string

	// fetch leaves the program at path(dir). dir exists and is empty; it is thrown away
	// unless nil is returned.
	fetch(dir string, r *runner) error
}

// A shared source puts its programs where the whole system has them, not into the cache.
type shared interface {
	// installed is nil if the programs are there and run.
	installed() error
}

// Pins lists the servers in the order of their names.
func Pins() []Pin {
	return []Pin{
		{
			Name:    "azurite",
			Version: AzuriteVersion,
			About:   "Azure blobs, without immutability",
			from:    npm{pkg: "azurite", version: AzuriteVersion, program: "azurite-blob"},
		},
		{
			Name:    "ceph",
			Version: CephVersion,
			About:   "Ceph's object gateway: S3 with object lock and without conditional writes, and Swift",
			from: debian{
				packages: []string{"ceph-mon", "ceph-osd", "radosgw"},
				programs: []string{"ceph-mon", "ceph-osd", "radosgw", "radosgw-admin", "ceph", "ceph-authtool", "monmaptool"},
				servers:  []string{"ceph-mon", "ceph-osd", "radosgw"},
			},
		},
		{
			Name:    "etcd",
			Version: EtcdVersion,
			About:   "the database that is backed up",
			from:    golang{name: "etcd", build: "cmd/etcd"},
		},
		{
			Name:    "etcd-3.5",
			Version: Etcd35Version,
			About:   "the etcd whose data are taken over",
			from:    golang{name: "etcd-3.5", build: "cmd/etcd35"},
		},
		{
			Name:    "etcd-3.5.12",
			Version: Etcd3512Version,
			About:   "an etcd whose watch from a compacted revision lacks deletions",
			from:    golang{name: "etcd-3.5.12", build: "cmd/etcd3512"},
		},
		{
			Name:    "etcdutl-3.5",
			Version: Etcd35Version,
			About:   "restores what that etcd shall go on with",
			from:    golang{name: "etcdutl-3.5", build: "cmd/etcdutl35"},
		},
		{
			Name:    "fake-gcs-server",
			Version: FakeGCSVersion,
			About:   "the JSON API of Google Cloud Storage; gcsworm adds the locks it lacks",
			from:    golang{name: "fake-gcs-server", build: "cmd/fakegcs", program: "github.com/fsouza/fake-gcs-server"},
		},
		{
			Name:    "kubernetes",
			Version: KubernetesVersion,
			About:   "all commands of Kubernetes, its etcd and CoreDNS in one program",
			from:    kubernetes(KubernetesVersion, ""),
		},
		{
			Name:    "kubernetes-1.34",
			Version: Kubernetes134Version,
			About:   "the oldest Kubernetes that the operator supports",
			from:    kubernetes(Kubernetes134Version, "older.mod"),
		},
		{
			Name:    "minio",
			Version: MinIOVersion,
			About:   "S3 with object lock, versions and conditional writes (AGPLv3: executed, never linked)",
			from:    golang{name: "minio", install: "github.com/minio/minio@" + MinIOVersion},
		},
		{
			Name:    "namespaces",
			Version: NamespacesVersion,
			About:   "ip, nsenter and mkfs.ext4: networks and volumes for the members of a cluster",
			from: debian{
				packages: []string{"iproute2", "util-linux", "mount", "e2fsprogs"},
				programs: []string{"ip", "nsenter", "unshare", "mount", "umount", "mkfs.ext4", "e2fsck"},
				servers:  []string{"nsenter"},
			},
		},
		{
			Name:    "node-tools",
			Version: NodeToolsVersion,
			About:   "what a node of Kubernetes needs beside its kubelet: containers and their network",
			from: debian{
				packages: []string{"containerd", "runc", "containernetworking-plugins", "iptables", "iproute2", "conntrack", "socat", "util-linux", "mount", "xfsprogs", "openssl"},
				programs: []string{"containerd", "ctr", "containerd-shim-runc-v2", "runc", "iptables", "ip", "conntrack", "socat", "nsenter", "mount", "mkfs.xfs", "xfs_growfs", "openssl", "/usr/lib/cni/ptp"},
				servers:  []string{"containerd", "runc", "iptables"},
			},
		},
		{
			Name:    "pause",
			Version: PauseVersion,
			About:   "the first process of every pod",
			from:    golang{name: "pause", build: "cmd/pause"},
		},
		{
			Name:    "rclone",
			Version: RcloneVersion,
			About:   "S3 that accepts object lock and ignores it",
			from:    golang{name: "rclone", build: "cmd/rclone"},
		},
	}
}

// kubernetes is built from cmd/kubernetes. The version must be told to it: released modules do not
// know theirs, and nodes would call themselves v0.0.0.
func kubernetes(version, requirements string) golang {
	return golang{
		name: "kubernetes", build: "cmd/kubernetes", requirements: requirements,
		variables: []string{
			"k8s.io/component-base/version.gitVersion=" + version,
			"k8s.io/client-go/pkg/version.gitVersion=" + version,
		},
		links: []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "kubelet", "kubectl", "etcd", "coredns"},
	}
}

// Find returns the pin of that name.
func Find(name string) (Pin, error) {
	pins := Pins()
	i := slices.IndexFunc(pins, func(p Pin) bool { return p.Name == name })
	if i < 0 {
		names := make([]string, len(pins))
		for i, p := range pins {
			names[i] = p.Name
		}
		return Pin{}, fmt.Errorf("there is no server %q, known are: %s", name, strings.Join(names, ", "))
	}
	return pins[i], nil
}

// CacheDir is where servers are kept: $DRUID_TEST_CACHE, else druid-test in the user's cache
// directory.
func CacheDir() (string, error) {
	if dir := os.Getenv("DRUID_TEST_CACHE"); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no place to keep test servers (set DRUID_TEST_CACHE): %w", err)
	}
	return filepath.Join(dir, "druid-test"), nil
}

// dir is the directory of this pin alone.
func (p Pin) dir() (string, error) {
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(cache, p.Name+"-"+p.Version), nil
}

// Path is where the program is, or will be once installed.
func (p Pin) Path() (string, error) {
	dir, err := p.dir()
	if err != nil {
		return "", err
	}
	return p.from.path(dir), nil
}

// Installed is nil if the server is there.
func (p Pin) Installed() error {
	if s, ok := p.from.(shared); ok {
		return s.installed()
	}
	path, err := p.Path()
	if err != nil {
		return err
	}
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("there is no %s", path)
	} else if err != nil {
		return err
	}
	return nil
}

// Binary returns the path of the installed program of that name. If it is not installed, the
// error is the command that installs it.
func Binary(name string) (string, error) {
	pin, err := Find(name)
	if err != nil {
		return "", err
	}
	if err := pin.Installed(); err != nil {
		return "", fmt.Errorf("the test server %s %s is not installed (%w); install it with: (cd test && go run ./cmd/stores install %s)", name, pin.Version, err, name)
	}
	return pin.Path()
}
