package cluster_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"druid.internal/druid/test/cluster"
)

const claim = `{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"data"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"64Mi"}}}}`

// withVolume has a cluster make a volume, so that a block device is there.
func withVolume(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	raw(t, c, "/api/v1/namespaces/default/persistentvolumeclaims", claim)
	await(t, func(ctx context.Context) error {
		got, err := c.Client.CoreV1().PersistentVolumeClaims("default").Get(ctx, "data", metav1.GetOptions{})
		return want(err, got.Status.Phase == corev1.ClaimBound, "the claim is %s", got.Status.Phase)
	})
	if device, err := c.Device(t.Context(), "default", "data"); err != nil || !strings.HasPrefix(device, "/dev/loop") {
		t.Fatalf("the device is %s (%v)", device, err)
	}
}

func TestNothingIsLeftOfAClusterThatWasStopped(t *testing.T) {
	dir := t.TempDir()
	c := cluster.Run(t, cluster.Options{Nodes: 1, Dir: dir})
	withVolume(t, c)
	link := networkOf(t, dir)
	if left := leftOf(t, dir, link); len(left) == 0 {
		t.Fatal("nothing is seen of a cluster that runs: the test could not fail")
	}
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	if left := leftOf(t, dir, link); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

func TestNothingRunsOfAClusterWhoseProcessWasKilledAndDownRemovesTheRest(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cluster")
	program := filepath.Join(t.TempDir(), "cluster")
	if out, err := exec.Command("go", "build", "-o", program, "../cmd/cluster").CombinedOutput(); err != nil {
		t.Fatalf("build the program: %v\n%s", err, out)
	}
	var said bytes.Buffer
	serve := exec.Command(program, "-dir", dir, "serve", "-nodes", "1")
	serve.Stdout, serve.Stderr = &said, &said
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = serve.Process.Kill(); _ = serve.Wait() })
	await(t, func(context.Context) error {
		_, err := os.Stat(filepath.Join(dir, "control.sock"))
		return err
	})
	c, err := cluster.Use(cluster.KubeconfigIn(dir))
	if err != nil {
		t.Fatal(err)
	}
	withVolume(t, c)
	link := networkOf(t, dir)

	if err := serve.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = serve.Wait()
	await(t, func(context.Context) error {
		for _, left := range leftOf(t, dir, link) {
			if !strings.HasPrefix(left, "control group") {
				return fmt.Errorf("%s is still there", left)
			}
		}
		return nil
	})
	if out, err := exec.Command(program, "-dir", dir, "down").CombinedOutput(); err != nil {
		t.Fatalf("down: %v\n%s", err, out)
	}
	if left := leftOf(t, dir, link); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Errorf("%s is left", dir)
	}
}

func networkOf(t *testing.T, dir string) (link string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "network"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// leftOf is all that can be seen of a cluster: processes, mounts, block devices, its network device
// and its control groups.
func leftOf(t *testing.T, dir, link string) (left []string) {
	t.Helper()
	self := fmt.Sprint(os.Getpid())
	glob := func(pattern string) []string {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		return paths
	}
	for _, path := range glob("/proc/[0-9]*/cmdline") {
		pid := filepath.Base(filepath.Dir(path))
		if text, err := os.ReadFile(path); err == nil && pid != self && strings.Contains(string(text), dir+"/") {
			left = append(left, "process "+pid+" "+strings.ReplaceAll(string(text), "\x00", " "))
		}
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, dir+"/") {
			left = append(left, "mount "+line)
		}
	}
	for _, path := range glob("/sys/block/loop*/loop/backing_file") {
		if text, err := os.ReadFile(path); err == nil && strings.HasPrefix(string(text), dir+"/") {
			left = append(left, "device "+path)
		}
	}
	if _, err := net.InterfaceByName(link); err == nil {
		left = append(left, "link "+link)
	}
	for _, path := range append(glob("/sys/fs/cgroup/"+link), glob("/sys/fs/cgroup/*/"+link)...) {
		left = append(left, "control group "+path)
	}
	return left
}
