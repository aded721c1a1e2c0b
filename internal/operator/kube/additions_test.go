package kube

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// Server-side apply leaves to others what they added, such as a container that runs beside etcd.
func TestWhatSomebodyAddsToOurObjectsIsTakenOut(t *testing.T) {
	head := metav1.ObjectMeta{Name: "main", Namespace: "shop"}
	container := func(name string) corev1.Container { return corev1.Container{Name: name, Image: "i"} }
	set := &appsv1.StatefulSet{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "StatefulSet"}, ObjectMeta: head}
	set.Spec.Template.Spec.Containers = []corev1.Container{container("etcd"), container("backup-restore")}
	configMap := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: head, Data: map[string]string{"a": "b"}}
	service := &corev1.Service{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, ObjectMeta: head, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "client", Port: 2379}}, Selector: map[string]string{"a": "b"}}}
	budget := &policyv1.PodDisruptionBudget{TypeMeta: metav1.TypeMeta{APIVersion: "policy/v1", Kind: "PodDisruptionBudget"}, ObjectMeta: head}
	budget.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
	account := &corev1.ServiceAccount{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"}, ObjectMeta: head}
	for phrase, c := range map[string]struct {
		want   client.Object
		change func(live client.Object)
		taken  string
	}{
		"containers and a volume": {set, func(o client.Object) {
			spec := &o.(*appsv1.StatefulSet).Spec.Template.Spec
			spec.Containers = slices.Insert(spec.Containers, 1, container("evil"))
			spec.Containers = append(spec.Containers, container("worse"))
			spec.InitContainers = append(spec.InitContainers, container("first"))
			spec.Volumes = append(spec.Volumes, corev1.Volume{Name: "v"})
		}, "kubectl-edit (added spec.template.spec.containers[evil]), kubectl-edit (added spec.template.spec.containers[worse]), kubectl-edit (added spec.template.spec.initContainers), kubectl-edit (added spec.template.spec.volumes)"},
		"a file of the configuration": {configMap, func(o client.Object) { o.(*corev1.ConfigMap).Data["x/y"] = "z" }, "kubectl-edit (added data.x/y)"},
		"a port": {service, func(o client.Object) {
			s := o.(*corev1.Service)
			s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "x", Port: 1})
		}, "kubectl-edit (added spec.ports[x])"},
		"what the pods are": {set, func(o client.Object) {
			spec := &o.(*appsv1.StatefulSet).Spec
			spec.Template.Spec.HostNetwork, spec.Template.Spec.NodeSelector = true, map[string]string{"a": "b"}
			spec.Template.Spec.Tolerations = []corev1.Toleration{{Operator: "Exists"}}
			spec.Template.Spec.Containers[1].SecurityContext = &corev1.SecurityContext{Privileged: new(true)}
			spec.Template.Spec.Containers[1].Env = []corev1.EnvVar{{Name: "X", Value: "y"}}
			spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{WhenScaled: "Delete"}
		}, "kubectl-edit (added spec.persistentVolumeClaimRetentionPolicy), kubectl-edit (added spec.template.spec.containers[backup-restore].env), " +
			"kubectl-edit (added spec.template.spec.containers[backup-restore].securityContext), kubectl-edit (added spec.template.spec.hostNetwork), " +
			"kubectl-edit (added spec.template.spec.nodeSelector), kubectl-edit (added spec.template.spec.tolerations)"},
		"whom a Service selects": {service, func(o client.Object) { o.(*corev1.Service).Spec.Selector["x"] = "y" }, "kubectl-edit (spec.selector)"},
		"whom a budget protects": {budget, func(o client.Object) {
			o.(*policyv1.PodDisruptionBudget).Spec.Selector.MatchLabels["x"] = "y"
		}, "kubectl-edit (spec.selector)"},
		"and when": {budget, func(o client.Object) {
			o.(*policyv1.PodDisruptionBudget).Spec.UnhealthyPodEvictionPolicy = new(policyv1.AlwaysAllow)
		}, "kubectl-edit (added spec.unhealthyPodEvictionPolicy)"},
		"a label is anybody's":           {configMap, func(o client.Object) { o.SetLabels(map[string]string{"x": "y"}) }, ""},
		"and what we know nothing about": {account, func(o client.Object) { o.(*corev1.ServiceAccount).Secrets = []corev1.ObjectReference{{Name: "x"}} }, ""},
	} {
		t.Run(phrase, func(t *testing.T) {
			c2 := fake.NewClientBuilder().WithReturnManagedFields().Build()
			a := NewApplier(c2, c2)
			apply := func(have client.Object) Outcome {
				t.Helper()
				out, err := a.Apply(t.Context(), c.want.DeepCopyObject().(client.Object), have)
				if err != nil {
					t.Fatal(err)
				}
				return out
			}
			live := func() client.Object {
				t.Helper()
				o := c.want.DeepCopyObject().(client.Object)
				if err := c2.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
					t.Fatal(err)
				}
				return o
			}
			apply(nil)
			before := live()
			changed := live()
			c.change(changed)
			if err := c2.Update(t.Context(), changed, client.FieldOwner("kubectl-edit")); err != nil {
				t.Fatal(err)
			}
			if out := apply(live()); strings.Join(out.TakenFrom, ", ") != c.taken {
				t.Errorf("taken from %q, want %q", out.TakenFrom, c.taken)
			}
			now, err := plain(live())
			if err != nil {
				t.Fatal(err)
			}
			was, err := plain(before)
			if err != nil {
				t.Fatal(err)
			}
			if c.taken != "" && (!within(was, now) || !within(now, was)) {
				t.Errorf("it is %v, want %v", now, was)
			}
			if out := apply(live()); out.Changed || len(out.TakenFrom) > 0 {
				t.Errorf("and once more, with nothing left to do: %+v", out)
			}
		})
	}
}
