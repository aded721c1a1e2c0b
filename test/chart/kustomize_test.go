package chart_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"druid.internal/druid/test/chart"
)

// configDir is where the kustomizations are.
func configDir(elements ...string) string {
	return filepath.Join(append([]string{"..", "..", "config"}, elements...)...)
}

// plainLabels are the labels without Helm's.
func plainLabels(m *metav1.ObjectMeta) {
	maps.DeleteFunc(m.Labels, func(k, _ string) bool {
		return k == "helm.sh/chart" || k == "app.kubernetes.io/managed-by" || k == "app.kubernetes.io/instance"
	})
}

// withoutHelm is the operator of the chart for kustomize: it is configured by flags, because the
// image in a file would not follow that of the pod.
func withoutHelm(t *testing.T) string {
	t.Helper()
	manifest, err := render(t, tagged(""))
	if err != nil {
		t.Fatal(err)
	}
	objects := documents(t, manifest)
	var b strings.Builder
	b.WriteString("# Made from the Helm chart: go test ./chart -update in test/ writes it anew.\n")
	put := func(o runtime.Object, m *metav1.ObjectMeta) {
		plainLabels(m)
		text, err := yaml.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		b.WriteString("---\n" + strings.ReplaceAll(strings.ReplaceAll(string(text), "status: {}\n", ""), "  strategy: {}\n", ""))
	}
	account := object[corev1.ServiceAccount](t, objects, "ServiceAccount etcd-druid")
	put(&account, &account.ObjectMeta)
	clusterRole := object[rbacv1.ClusterRole](t, objects, "ClusterRole etcd-druid")
	put(&clusterRole, &clusterRole.ObjectMeta)
	clusterBinding := object[rbacv1.ClusterRoleBinding](t, objects, "ClusterRoleBinding etcd-druid")
	put(&clusterBinding, &clusterBinding.ObjectMeta)
	role := object[rbacv1.Role](t, objects, "Role etcd-druid")
	put(&role, &role.ObjectMeta)
	binding := object[rbacv1.RoleBinding](t, objects, "RoleBinding etcd-druid")
	put(&binding, &binding.ObjectMeta)

	d := object[appsv1.Deployment](t, objects, "Deployment etcd-druid")
	pod := &d.Spec.Template
	plainLabels(&pod.ObjectMeta)
	pod.Annotations = nil
	delete(d.Spec.Selector.MatchLabels, "app.kubernetes.io/instance")
	delete(pod.Spec.Affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution[0].PodAffinityTerm.LabelSelector.MatchLabels, "app.kubernetes.io/instance")
	c := &pod.Spec.Containers[0]
	pod.Spec.Volumes, c.VolumeMounts = nil, nil
	c.Image = "registry.local/etcd-druid"
	c.Command = []string{"/usr/local/bin/etcd-druid", "--enable-leader-election", "--enable-etcd-spec-auto-reconcile", "--image=$(IMAGE)"}
	c.Env = []corev1.EnvVar{{Name: "IMAGE", Value: "registry.local/etcd-druid"}}
	put(&d, &d.ObjectMeta)
	return b.String()
}

func TestTheKustomizationIsMadeFromTheChart(t *testing.T) {
	got, file := withoutHelm(t), configDir("default", "operator.yaml")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("go test ./chart -update writes it anew; -want +got:\n%s", d)
	}
}

func TestTheKustomizationInstallsAllThatTheChartDoes(t *testing.T) {
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), configDir("default"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := built.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	objects := documents(t, string(text))
	manifest, err := render(t, tagged(""))
	if err != nil {
		t.Fatal(err)
	}
	want := slices.Collect(maps.Keys(documents(t, manifest)))
	want = append(slices.DeleteFunc(want, func(name string) bool { return name == "ConfigMap etcd-druid-config" }), "Namespace "+chart.Namespace)
	got := slices.Collect(maps.Keys(objects))
	slices.Sort(want)
	slices.Sort(got)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-chart +kustomization:\n%s", d)
	}
	c := object[appsv1.Deployment](t, objects, "Deployment etcd-druid").Spec.Template.Spec.Containers[0]
	if c.Image != "registry.local/etcd-druid:v0.1.0" || len(c.Env) != 1 || c.Env[0].Value != c.Image {
		t.Errorf("the operator runs %s and gives its Etcds %v, want the same", c.Image, c.Env)
	}
}
