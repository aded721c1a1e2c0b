package cluster

import (
	"context"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
)

// TestFloodOfLabelledObjectsTakesHeadsAlone is what a user with the right to create one kind of objects can do.
func TestFloodOfLabelledObjectsTakesHeadsAlone(t *testing.T) {
	owner := newEtcd(1).OwnerReference()
	big := func() string { return strings.Repeat("x", 1<<20) }
	for _, owned := range []bool{false, true} {
		for name, make := range map[string]func(meta metav1.ObjectMeta) client.Object{
			"ConfigMap": func(m metav1.ObjectMeta) client.Object {
				return &corev1.ConfigMap{ObjectMeta: m, Data: map[string]string{"a": big()}}
			},
			"ConfigMap of binary": func(m metav1.ObjectMeta) client.Object {
				return &corev1.ConfigMap{ObjectMeta: m, BinaryData: map[string][]byte{"a": []byte(big())}}
			},
			"Service": func(m metav1.ObjectMeta) client.Object {
				return &corev1.Service{ObjectMeta: m, Spec: corev1.ServiceSpec{ExternalName: big()}}
			},
			"ServiceAccount": func(m metav1.ObjectMeta) client.Object {
				return &corev1.ServiceAccount{ObjectMeta: m, Secrets: []corev1.ObjectReference{{Name: big()}}}
			},
			"Pod": func(m metav1.ObjectMeta) client.Object {
				return &corev1.Pod{ObjectMeta: m, Spec: corev1.PodSpec{Containers: []corev1.Container{{Image: big()}}}}
			},
			"PersistentVolumeClaim": func(m metav1.ObjectMeta) client.Object {
				m.Finalizers = []string{big()}
				return &corev1.PersistentVolumeClaim{ObjectMeta: m}
			},
			"PodDisruptionBudget": func(m metav1.ObjectMeta) client.Object {
				m.Annotations = map[string]string{"a": big()}
				return &policyv1.PodDisruptionBudget{ObjectMeta: m}
			},
			"Role": func(m metav1.ObjectMeta) client.Object {
				return &rbacv1.Role{ObjectMeta: m, Rules: []rbacv1.PolicyRule{{Verbs: []string{big()}}}}
			},
			"RoleBinding": func(m metav1.ObjectMeta) client.Object {
				return &rbacv1.RoleBinding{ObjectMeta: m, Subjects: []rbacv1.Subject{{Name: big()}}}
			},
			"StatefulSet": func(m metav1.ObjectMeta) client.Object {
				return &appsv1.StatefulSet{ObjectMeta: m, Spec: appsv1.StatefulSetSpec{ServiceName: big()}}
			},
			"Job": func(m metav1.ObjectMeta) client.Object {
				return &batchv1.Job{ObjectMeta: m, Status: batchv1.JobStatus{Conditions: []batchv1.JobCondition{{Message: big()}}}}
			},
			"CronJob": func(m metav1.ObjectMeta) client.Object {
				return &batchv1.CronJob{ObjectMeta: m, Spec: batchv1.CronJobSpec{Schedule: big()}}
			},
			"EtcdMember": func(m metav1.ObjectMeta) client.Object {
				m.Annotations = map[string]string{"a": big()}
				return &druidv1alpha1.EtcdMember{ObjectMeta: m}
			},
			"Lease": func(m metav1.ObjectMeta) client.Object {
				h := big()
				return &coordinationv1.Lease{ObjectMeta: m, Spec: coordinationv1.LeaseSpec{HolderIdentity: &h}}
			},
		} {
			t.Run(fmt.Sprintf("%s owned %t", name, owned), func(t *testing.T) {
				const n = 50
				kept := [n]any{}
				before := heap()
				for i := range kept {
					meta := metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprintf("flood-%d", i), Labels: map[string]string{druidv1alpha1.LabelManagedBy: druidv1alpha1.ManagedBy, druidv1alpha1.LabelPartOf: "main", "other": strings.Repeat("y", 60)}}
					if owned {
						meta.OwnerReferences = []metav1.OwnerReference{owner, {Name: big()}}
					}
					o := make(meta)
					if l, is := o.(*coordinationv1.Lease); is {
						kept[i] = boundedLease(l)
						continue
					}
					if got, err := strip(o); err != nil || reflect.TypeOf(got) != reflect.TypeOf(o) {
						t.Fatalf("kept as a %T: %v", got, err)
					} else {
						kept[i] = got
					}
				}
				if each := (heap() - before) / n; each > 8<<10 {
					t.Errorf("%d bytes for each object, want at most 8 KiB", each)
				}
				head := kept[0].(client.Object)
				if head.GetName() != "flood-0" || head.GetLabels()[druidv1alpha1.LabelPartOf] != "main" || owned != (metav1.GetControllerOf(head) != nil) || !isHead(head) {
					t.Errorf("the head is %+v", head)
				}
				runtime.KeepAlive(&kept)
			})
		}
	}
}

// heap is how many bytes are in use.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestObjectsOfAClusterAreKeptWhole: a head costs a request at each look.
func TestObjectsOfAClusterAreKeptWhole(t *testing.T) {
	o := running(t, 5)
	for key, object := range o.Live {
		if key.Kind == kindLease {
			if l := boundedLease(object.(*coordinationv1.Lease)); isHead(l) {
				t.Errorf("of %s the head alone is kept", key)
			}
			continue
		}
		if got, _ := strip(object); isHead(got.(client.Object)) {
			t.Errorf("of %s of %d bytes the head alone is kept", key, weight(object))
		}
	}
	for _, p := range o.Pods {
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "StatefulSet", Name: "main", Controller: ptr(true)}}
		if got, _ := strip(p); isHead(got.(client.Object)) {
			t.Errorf("of pod %s of %d bytes the head alone is kept", p.Name, weight(p))
		}
	}
	for _, c := range o.Claims {
		if got, _ := strip(c); isHead(got.(client.Object)) {
			t.Errorf("of claim %s the head alone is kept", c.Name)
		}
	}
}

// apiObjects are what an API server has, by name.
type apiObjects map[string]client.Object

func (a apiObjects) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	o, is := a[key.Name]
	if !is || reflect.TypeOf(o) != reflect.TypeOf(into) {
		return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
	}
	reflect.ValueOf(into).Elem().Set(reflect.ValueOf(o.DeepCopyObject()).Elem())
	return nil
}

func (a apiObjects) List(context.Context, client.ObjectList, ...client.ListOption) error {
	panic("nothing is listed")
}

func TestHeadsOfAClusterAreReadWhole(t *testing.T) {
	o := running(t, 3)
	large := strings.Repeat("x", 100<<10)
	there := apiObjects{}
	put := func(object client.Object) client.Object {
		copied := object.DeepCopyObject().(client.Object)
		there[object.GetName()] = copied
		return headOf(object)
	}
	o.ConfigMap.Data["large"] = large
	o.ConfigMap = put(o.ConfigMap).(*corev1.ConfigMap)
	o.Live[Key{"ConfigMap", o.ConfigMap.Name}] = o.ConfigMap
	o.Pods[0] = put(o.Pods[0]).(*corev1.Pod)
	o.Pods[1].Annotations["large"] = large
	o.Pods[1] = put(o.Pods[1]).(*corev1.Pod)
	account := Key{"ServiceAccount", o.Etcd.ServiceAccountName()}
	o.Live[account] = headOf(o.Live[account]) // and it is gone
	r := &Reconciler{live: there}
	if err := r.whole(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if o.ConfigMap.Data["large"] != large || o.Live[Key{"ConfigMap", o.ConfigMap.Name}] != client.Object(o.ConfigMap) {
		t.Error("the ConfigMap is not whole")
	}
	if isHead(o.Pods[0]) || o.Pods[0].Status.PodIP == "" || !isHead(o.Pods[1]) || isHead(o.Pods[2]) {
		t.Errorf("heads %t %t %t, want the pod that is too large alone", isHead(o.Pods[0]), isHead(o.Pods[1]), isHead(o.Pods[2]))
	}
	if _, is := o.Live[account]; is {
		t.Error("what is gone is there")
	}
}
