package cluster_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"druid.internal/druid/test/cluster"
	"druid.internal/druid/test/cluster/image"
)

const testpodImage = "registry.local/testpod:1"

// testpod makes the image of the program in internal/testpod.
func testpod(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "testpod"), "./internal/testpod")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the test's pod: %v\n%s", err, out)
	}
	tar := filepath.Join(dir, "testpod.tar")
	spec := image.Spec{Name: testpodImage, Entrypoint: []string{"/testpod", "serve"}, Files: []image.File{{Path: "/testpod", Source: filepath.Join(dir, "testpod")}}}
	if err := image.Write(tar, spec); err != nil {
		t.Fatal(err)
	}
	return tar
}

const web = `
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {clusterIP: None, selector: {app: web}, ports: [{port: 8080}]}
---
apiVersion: v1
kind: Service
metadata: {name: front}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: web}
spec:
  serviceName: web
  replicas: 3
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      securityContext: {fsGroup: 65532, runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
      topologySpreadConstraints:
      - {maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: web}}}
      terminationGracePeriodSeconds: 2
      containers:
      - name: web
        image: registry.local/testpod:1
        readinessProbe: {httpGet: {path: /, port: 8080}, periodSeconds: 1}
        securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
        volumeMounts: [{name: data, mountPath: /data}]
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 64Mi}}}
`

func TestAClusterWithNodesDoesWhatKubernetesDoes(t *testing.T) {
	c := cluster.Run(t, cluster.Options{Pin: *pin, Nodes: 3, Sync: 5 * time.Second, Images: []string{testpod(t)}, Progress: t.Output()})
	if _, err := c.KubectlWith(t.Context(), web, "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	ready := func(ctx context.Context) error {
		s, err := c.Client.AppsV1().StatefulSets("default").Get(ctx, "web", metav1.GetOptions{})
		return want(err, s.Status.ReadyReplicas == 3, "the StatefulSet's status is %+v", s.Status)
	}
	await(t, ready)
	t.Logf("three pods ready after %s", time.Since(begun).Round(100*time.Millisecond))

	t.Run("pods are spread over nodes", func(t *testing.T) {
		pods, err := c.Client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		on := map[string]string{}
		for _, p := range pods.Items {
			on[p.Spec.NodeName] = p.Name
		}
		if len(on) != 3 {
			t.Errorf("pods are on %v, want one on each of three nodes", on)
		}
	})
	t.Run("the names of pods and Services lead to them", func(t *testing.T) {
		await(t, func(ctx context.Context) error {
			out, err := testpodDo(ctx, c, "web-0", "lookup", "web.default.svc.cluster.local")
			return want(err, len(strings.Fields(out)) == 3, "the addresses are %q, want three", out)
		})
		await(t, func(ctx context.Context) error {
			out, err := testpodDo(ctx, c, "web-0", "get", "http://web-2.web:8080/")
			return want(err, out == "web-2\n", "%q answers, want web-2", out)
		})
		seen := map[string]bool{}
		await(t, func(ctx context.Context) error {
			out, err := testpodDo(ctx, c, "web-1", "get", "http://front/")
			if err == nil {
				seen[strings.TrimSpace(out)] = true
			}
			return want(err, len(seen) == 3, "behind the Service are %v, want all pods, with ourselves", seen)
		})
	})
	t.Run("pods and Services can be reached from here, and servers here from pods", func(t *testing.T) {
		s, err := c.Client.CoreV1().Services("default").Get(t.Context(), "front", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		await(t, func(ctx context.Context) error { return fetch(ctx, "http://"+s.Spec.ClusterIP+"/") })
		url := serveOn(t, c.Host)
		if out, err := testpodDo(t.Context(), c, "web-0", "get", url); err != nil || out != "hello\n" {
			t.Errorf("the answer is %q (%v), want hello", out, err)
		}
	})
	t.Run("logs can be read", func(t *testing.T) {
		out, err := c.Kubectl(t.Context(), "logs", "web-1")
		if err != nil || out != "web-1 serves\n" {
			t.Errorf("the log is %q (%v)", out, err)
		}
	})
	t.Run("a volume is as large as was asked for, and grows", func(t *testing.T) {
		size := func(ctx context.Context) (bytes int64, err error) {
			out, err := testpodDo(ctx, c, "web-0", "size", "/data")
			if err == nil {
				_, err = fmt.Sscan(out, &bytes)
			}
			return bytes, err
		}
		before, err := size(t.Context())
		if err != nil || before > 64<<20 || before < 48<<20 {
			t.Fatalf("its size is %d (%v), want about 64 MiB", before, err)
		}
		out, err := testpodDo(t.Context(), c, "web-0", "fill", "/data/everything")
		if err != nil || !strings.Contains(out, "no space left on device") {
			t.Errorf("filling it ended with %q (%v), want no space left", out, err)
		}
		patch := `{"spec":{"resources":{"requests":{"storage":"128Mi"}}}}`
		if _, err := c.Kubectl(t.Context(), "patch", "pvc", "data-web-0", "-p", patch); err != nil {
			t.Fatal(err)
		}
		await(t, func(ctx context.Context) error {
			after, err := size(ctx)
			return want(err, after > 96<<20 && after <= 128<<20, "the size is %d, want about 128 MiB", after)
		})
		await(t, func(ctx context.Context) error {
			claim, err := c.Client.CoreV1().PersistentVolumeClaims("default").Get(ctx, "data-web-0", metav1.GetOptions{})
			return want(err, claim.Status.Capacity.Storage().String() == "128Mi" && len(claim.Status.Conditions) == 0, "the claim's status is %+v", claim.Status)
		})
	})
	t.Run("a node that dies is missed, and what was there is there again when it comes back", func(t *testing.T) {
		pod, err := c.Client.CoreV1().Pods("default").Get(t.Context(), "web-2", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		node, err := c.Node(pod.Spec.NodeName)
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		if err := node.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := node.AwaitLost(t.Context(), 2*time.Minute); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s lost after %s", node.Name, time.Since(begun).Round(100*time.Millisecond))
		await(t, func(ctx context.Context) error {
			s, err := c.Client.AppsV1().StatefulSets("default").Get(ctx, "web", metav1.GetOptions{})
			return want(err, s.Status.ReadyReplicas == 2, "the StatefulSet's status is %+v", s.Status)
		})
		begun = time.Now()
		if err := node.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		await(t, ready)
		t.Logf("all is ready %s after its start", time.Since(begun).Round(100*time.Millisecond))
		await(t, func(ctx context.Context) error {
			out, err := testpodDo(ctx, c, "web-0", "get", "http://web-2.web:8080/")
			return want(err, out == "web-2\n", "%q answers, want web-2", out)
		})
	})
	t.Run("a node whose network is cut is missed until it is connected again", func(t *testing.T) {
		node := c.Nodes[0]
		if err := node.Disconnect(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := node.AwaitLost(t.Context(), 2*time.Minute); err != nil {
			t.Error(err)
		}
		if err := node.Connect(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := node.AwaitReady(t.Context(), 2*time.Minute); err != nil {
			t.Error(err)
		}
		await(t, ready)
	})
	t.Run("a volume is gone with its claim", func(t *testing.T) {
		if _, err := c.Kubectl(t.Context(), "delete", "statefulset,pvc", "--all", "--wait=false"); err != nil {
			t.Fatal(err)
		}
		await(t, func(ctx context.Context) error {
			volumes, err := c.Client.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
			return want(err, len(volumes.Items) == 0, "there are still volumes: %v", len(volumes.Items))
		})
		left, err := os.ReadDir(filepath.Join(c.Dir, "volumes"))
		if err != nil || len(left) > 0 {
			t.Errorf("their files are still there: %v (%v)", left, err)
		}
	})
}

// want is the error, or that a fact is not there, or nil.
func want(err error, fact bool, format string, args ...any) error {
	if err == nil && !fact {
		err = fmt.Errorf(format, args...)
	}
	return err
}

// testpodDo runs the pod's program in the pod.
func testpodDo(ctx context.Context, c *cluster.Cluster, pod string, args ...string) (string, error) {
	return c.Kubectl(ctx, append([]string{"exec", pod, "--", "/testpod"}, args...)...)
}

func fetch(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	return response.Body.Close()
}

// serveOn says hello at a free port of the address until the test ends.
func serveOn(t *testing.T, address string) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") })}}
	server.Start()
	t.Cleanup(server.Close)
	return "http://" + l.Addr().String() + "/"
}
