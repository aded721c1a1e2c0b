package operator_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// class makes a StorageClass whose volumes the test makes.
func (s *site) class(t *testing.T, name string, grows bool) {
	t.Helper()
	mode := storagev1.VolumeBindingImmediate
	c := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: "the-test", AllowVolumeExpansion: &grows, VolumeBindingMode: &mode}
	if _, err := s.Client.StorageV1().StorageClasses().Create(t.Context(), c, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (s *site) claim(ctx context.Context, namespace, name string) (*corev1.PersistentVolumeClaim, error) {
	return s.Client.CoreV1().PersistentVolumeClaims(namespace).Get(ctx, name, metav1.GetOptions{})
}

// bind gives a claim its volume, and waits until it is bound.
func (s *site) bind(t *testing.T, namespace, name, size string) {
	t.Helper()
	made := false
	await(t, func(ctx context.Context) error {
		c, err := s.claim(ctx, namespace, name)
		if err != nil {
			return err
		}
		if !made {
			volume := &corev1.PersistentVolume{
				ObjectMeta: metav1.ObjectMeta{Name: "pv-" + string(c.UID)},
				Spec: corev1.PersistentVolumeSpec{
					Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}, AccessModes: c.Spec.AccessModes, StorageClassName: *c.Spec.StorageClassName,
					PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/nowhere"}},
					ClaimRef:               &corev1.ObjectReference{Namespace: namespace, Name: name, UID: c.UID},
				},
			}
			if _, err := s.Client.CoreV1().PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{}); err != nil {
				return err
			}
			made = true
		}
		if c.Status.Phase != corev1.ClaimBound {
			err = fmt.Errorf("claim %s is %s", name, c.Status.Phase)
		}
		return err
	})
}

// podsOf are the UIDs of an Etcd's pods, and whose they are.
func (s *site) podsOf(ctx context.Context, namespace, etcd string) (uids []types.UID, owners []types.UID, err error) {
	list, err := s.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/part-of=" + etcd})
	if err != nil {
		return nil, nil, err
	}
	for _, p := range list.Items {
		uids = append(uids, p.UID)
		if o := metav1.GetControllerOf(&p); o != nil {
			owners = append(owners, o.UID)
		}
	}
	slices.Sort(uids)
	return uids, owners, nil
}

// readyPods says in the kubelet's place that an Etcd's pods are ready: a change of the StatefulSet is not over before they are.
func (s *site) readyPods(t *testing.T, namespace, etcd string, n int) {
	t.Helper()
	await(t, func(ctx context.Context) error {
		list, err := s.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/part-of=" + etcd})
		if err == nil && len(list.Items) != n {
			err = fmt.Errorf("there are %d pods, want %d", len(list.Items), n)
		}
		if err != nil {
			return err
		}
		for _, p := range list.Items {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
			if _, err := s.Client.CoreV1().Pods(namespace).UpdateStatus(ctx, &p, metav1.UpdateOptions{}); err != nil {
				return err
			}
		}
		return nil
	})
}

func TestVolumesGrowOnARealAPIServer(t *testing.T) {
	together(t, light)
	s := newSite(t)
	s.grant(t)
	s.namespace(t, "shop")
	s.class(t, "grows", true)
	s.class(t, "fixed", false)
	p := s.operate(t, "operator", automatic)
	etcd := func(name, class string, replicas int, size string) string {
		return fmt.Sprintf(`
apiVersion: druid.gardener.cloud/v1alpha1
kind: Etcd
metadata: {name: %s, namespace: shop}
spec: {labels: {}, replicas: %d, storageClass: %s, storageCapacity: %s, etcd: {}, backup: {}}
`, name, replicas, class, size)
	}
	capacity := func(name, size string) {
		s.change(t, "Etcd", "shop", name, func(o map[string]any) { set(o, size, "spec", "storageCapacity") })
	}
	template := func(ctx context.Context, name string) (uid types.UID, size string, err error) {
		set, err := s.Client.AppsV1().StatefulSets("shop").Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return "", "", err
		}
		asks := set.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests[corev1.ResourceStorage]
		return set.UID, asks.String(), nil
	}
	claims := []string{"main-main-0", "main-main-1", "main-main-2"}

	t.Run("the claims ask for more, and the StatefulSet is made anew around its pods", func(t *testing.T) {
		s.apply(t, etcd("main", "grows", 3, "1Gi"))
		p.await(t, s.has("shop", "main", objectsOf("main", 3)))
		for _, c := range claims {
			s.bind(t, "shop", c, "1Gi")
		}
		s.readyPods(t, "shop", "main", 3)
		p.await(t, s.operation("shop", "main", "Create Succeeded"))
		p.await(t, s.condition("shop", "main", "DataVolumesReady", "True", "DataVolumesReady", "3 of 3"))
		before, _, err := s.podsOf(t.Context(), "shop", "main")
		if err != nil || len(before) != 3 {
			t.Fatalf("pods %v (%v)", before, err)
		}
		former, _, err := template(t.Context(), "main")
		if err != nil {
			t.Fatal(err)
		}
		capacity("main", "2Gi")
		for _, c := range claims {
			p.await(t, func(ctx context.Context) error {
				got, err := s.claim(ctx, "shop", c)
				if err == nil && got.Spec.Resources.Requests.Storage().String() != "2Gi" {
					err = fmt.Errorf("%s asks for %s", c, got.Spec.Resources.Requests.Storage())
				}
				return err
			})
		}
		var set types.UID
		p.await(t, func(ctx context.Context) error {
			uid, size, err := template(ctx, "main")
			if err == nil && (size != "2Gi" || uid == former) {
				err = fmt.Errorf("the template of %s, which was %s, asks for %s", uid, former, size)
			}
			set = uid
			return err
		})
		p.await(t, func(ctx context.Context) error {
			after, owners, err := s.podsOf(ctx, "shop", "main")
			if err == nil && (!slices.Equal(before, after) || !slices.Equal(owners, []types.UID{set, set, set})) {
				err = fmt.Errorf("the pods were %v and are %v, and belong to %v, want them to be the same and of %s", before, after, owners, set)
			}
			return err
		})
		p.await(t, s.condition("shop", "main", "DataVolumesReady", "True", "VolumeResizing", "main-main-0 from 1Gi to 2Gi"))
		p.await(t, s.event("shop", "main", "VolumesGrow", "main-main-2: the volumes grow to 2Gi"))
	})

	t.Run("it is done when the volumes have grown", func(t *testing.T) {
		e, err := s.get(t.Context(), "Etcd", "shop", "main")
		if err != nil || !strings.Contains(fmt.Sprint(e.Object["status"]), "Requeue") {
			t.Errorf("while they grow the Etcd says %v (%v), want that it is not done", e.Object["status"], err)
		}
		for _, c := range claims {
			await(t, func(ctx context.Context) error {
				got, err := s.claim(ctx, "shop", c)
				if err != nil {
					return err
				}
				got.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("2Gi")}
				_, err = s.Client.CoreV1().PersistentVolumeClaims("shop").UpdateStatus(ctx, got, metav1.UpdateOptions{})
				return err
			})
		}
		p.await(t, s.condition("shop", "main", "DataVolumesReady", "True", "DataVolumesReady", "3 of 3"))
		p.await(t, s.operation("shop", "main", "Reconcile Succeeded"))
		s.quiet(t, "shop", p)
	})

	t.Run("a volume that cannot grow and is the only one stays", func(t *testing.T) {
		s.apply(t, etcd("single", "fixed", 1, "1Gi"))
		p.await(t, s.has("shop", "single", objectsOf("single", 1)))
		s.bind(t, "shop", "single-single-0", "1Gi")
		s.readyPods(t, "shop", "single", 1)
		p.await(t, s.operation("shop", "single", "Create Succeeded"))
		before, err := s.claim(t.Context(), "shop", "single-single-0")
		if err != nil {
			t.Fatal(err)
		}
		capacity("single", "2Gi")
		p.await(t, s.condition("shop", "single", "DataVolumesReady", "False", "VolumeCannotBeResized", "set spec.replicas to 3"))
		p.await(t, func(ctx context.Context) error {
			_, size, err := template(ctx, "single")
			if err == nil && size != "2Gi" {
				err = errors.New("a member more would have a volume of " + size)
			}
			return err
		})
		s.looked(t, p)
		after, err := s.claim(t.Context(), "shop", "single-single-0")
		if err != nil || after.UID != before.UID || after.DeletionTimestamp != nil || after.Spec.Resources.Requests.Storage().String() != "1Gi" {
			t.Errorf("the claim is %v (%v), want it as it was", after, err)
		}
		s.quiet(t, "shop", p)
	})

	t.Run("less is refused with the way out", func(t *testing.T) {
		o, err := s.get(t.Context(), "Etcd", "shop", "main")
		if err != nil {
			t.Fatal(err)
		}
		set(o.Object, "1Gi", "spec", "storageCapacity")
		_, err = s.objects.Resource(resources["Etcd"]).Namespace("shop").Update(t.Context(), o, metav1.UpdateOptions{})
		if err == nil || !strings.Contains(err.Error(), "spec.storageCapacity") || !strings.Contains(err.Error(), "make a new Etcd with smaller volumes") {
			t.Errorf("it is answered by %v, want the field and a remedy", err)
		}
	})
}
