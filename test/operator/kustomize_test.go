package operator_test

import (
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"druid.internal/druid/test/cluster"
)

// kubectl apply -k config/default gives what docs/operations/installing.md says, and a second time changes nothing.
func TestAnAPIServerTakesTheKustomization(t *testing.T) {
	together(t, light)
	c := cluster.Run(t, cluster.Options{Pin: *pin, Progress: t.Output()})
	objects, err := dynamic.NewForConfig(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	s := &site{Cluster: c, objects: objects}
	apply := func() string {
		t.Helper()
		dir, err := filepath.Abs(filepath.Join("..", "..", "config", "default"))
		if err != nil {
			t.Fatal(err)
		}
		out, err := s.Kubectl(t.Context(), "apply", "-k", dir)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	t.Log(apply())
	d, err := s.Client.AppsV1().Deployments("etcd-druid-system").Get(t.Context(), "etcd-druid", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if image := d.Spec.Template.Spec.Containers[0].Image; !strings.HasPrefix(image, "registry.local/etcd-druid:v") {
		t.Errorf("the operator's image is %s", image)
	}
	before := d.Generation
	for _, crd := range []string{"etcds", "etcdmembers", "etcdcopybackupstasks", "etcdoperatortasks", "etcdopstasks"} {
		s.kubectlWait(t, "crd/"+crd+".druid.gardener.cloud", "Established")
	}
	s.apply(t, etcdYAML("default", "main", 3)) // as an Etcd of the definitions that were applied
	if _, err := s.Kubectl(t.Context(), "patch", "etcd", "main", "--type=merge", `--patch={"spec":{"replicas":2}}`); err == nil || !strings.Contains(err.Error(), "spec.replicas") {
		t.Errorf("an even number of members is taken: %v", err)
	}
	apply()
	if d, err = s.Client.AppsV1().Deployments("etcd-druid-system").Get(t.Context(), "etcd-druid", metav1.GetOptions{}); err != nil || d.Generation != before {
		t.Errorf("applied again the Deployment is of generation %d (%v), was %d", d.Generation, err, before)
	}
}

// kubectlWait waits for a condition.
func (s *site) kubectlWait(t *testing.T, object, condition string) {
	t.Helper()
	if _, err := s.Kubectl(t.Context(), "wait", object, "--for=condition="+condition, "--timeout=1m"); err != nil {
		t.Fatal(err)
	}
}
