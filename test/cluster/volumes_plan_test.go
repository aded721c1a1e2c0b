package cluster

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestVolumesFollowTheirClaims(t *testing.T) {
	const mib = 1 << 20
	storage := func(size string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
	}
	claim := func(class, request string, edit ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
		c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data", UID: "1"}}
		c.Spec.StorageClassName = &class
		c.Spec.Resources.Requests = storage(request)
		for _, e := range edit {
			e(c)
		}
		return c
	}
	bound := func(size string) func(*corev1.PersistentVolumeClaim) {
		return func(c *corev1.PersistentVolumeClaim) {
			c.Spec.VolumeName, c.Status.Phase, c.Status.Capacity = "pvc-1", corev1.ClaimBound, storage(size)
		}
	}
	volume := func(class, size string, phase corev1.PersistentVolumePhase) *corev1.PersistentVolume {
		v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-1"}}
		v.Spec.StorageClassName, v.Spec.Capacity, v.Status.Phase = class, storage(size), phase
		v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
		return v
	}
	type steps []volumeStep
	shop := types.NamespacedName{Namespace: "shop", Name: "data"}

	for name, c := range map[string]struct {
		claim  *corev1.PersistentVolumeClaim
		volume *corev1.PersistentVolume
		want   steps
	}{
		"a new claim gets a volume": {
			claim: claim(ClassDisk, "64Mi"),
			want:  steps{{do: makeVolume, volume: "pvc-1", claim: shop, bytes: 64 * mib}},
		},
		"one that asks for next to nothing gets the least there is": {
			claim: claim(ClassDisk, "1Mi"),
			want:  steps{{do: makeVolume, volume: "pvc-1", claim: shop, bytes: minDisk}},
		},
		"one of another provisioner's class is none of ours":          {claim: claim("cloud", "64Mi")},
		"one that goes gets none":                                     {claim: claim(ClassDisk, "64Mi", func(c *corev1.PersistentVolumeClaim) { c.DeletionTimestamp = &metav1.Time{} })},
		"one that lost its volume gets no other":                      {claim: claim(ClassDisk, "64Mi", bound("64Mi"))},
		"a local one waits for the node of its pod":                   {claim: claim(ClassLocal, "64Mi")},
		"a claim that has what it wants is left alone":                {claim: claim(ClassDisk, "64Mi", bound("64Mi")), volume: volume(ClassDisk, "64Mi", corev1.VolumeBound)},
		"one that has more than it wants is left alone":               {claim: claim(ClassDisk, "32Mi", bound("64Mi")), volume: volume(ClassDisk, "64Mi", corev1.VolumeBound)},
		"one of a class that does not grow keeps what it has":         {claim: claim(ClassFixed, "128Mi", bound("64Mi")), volume: volume(ClassFixed, "64Mi", corev1.VolumeBound)},
		"a volume without a claim that was never bound is left alone": {claim: claim("cloud", "64Mi"), volume: volume(ClassDisk, "64Mi", corev1.VolumeAvailable)},
		"a local one is made on the node of its pod": {
			claim: claim(ClassLocal, "64Mi", func(c *corev1.PersistentVolumeClaim) {
				c.Annotations = map[string]string{"volume.kubernetes.io/selected-node": "node2"}
			}),
			want: steps{{do: makeVolume, volume: "pvc-1", claim: shop, bytes: 64 * mib, node: "node2"}},
		},
		"a claim that wants more has its device grow": {
			claim: claim(ClassDisk, "128Mi", bound("64Mi")), volume: volume(ClassDisk, "64Mi", corev1.VolumeBound),
			want: steps{{do: growVolume, volume: "pvc-1", claim: shop, bytes: 128 * mib}},
		},
		"once the device grew the kubelet is told": {
			claim: claim(ClassDisk, "128Mi", bound("64Mi")), volume: volume(ClassDisk, "128Mi", corev1.VolumeBound),
			want: steps{{do: announceSize, volume: "pvc-1", claim: shop, bytes: 128 * mib}},
		},
		"a kubelet that was told is not told again": {
			claim: claim(ClassDisk, "128Mi", bound("64Mi"), func(c *corev1.PersistentVolumeClaim) {
				c.Status.AllocatedResources = storage("128Mi")
				c.Status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{corev1.ResourceStorage: corev1.PersistentVolumeClaimNodeResizeInProgress}
			}),
			volume: volume(ClassDisk, "128Mi", corev1.VolumeBound),
		},
		"a volume whose claim is gone is removed": {
			volume: volume(ClassDisk, "64Mi", corev1.VolumeReleased),
			want:   steps{{do: removeVolume, volume: "pvc-1"}},
		},
		"a volume that Kubernetes tried to delete is removed": {
			volume: volume(ClassDisk, "64Mi", corev1.VolumeFailed),
			want:   steps{{do: removeVolume, volume: "pvc-1"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var claims []*corev1.PersistentVolumeClaim
			if c.claim != nil {
				claims = append(claims, c.claim)
			}
			var volumes []*corev1.PersistentVolume
			if c.volume != nil {
				volumes = append(volumes, c.volume)
			}
			got := steps(planVolumes(claims, volumes, storageClasses()))
			for i := range got {
				if got[i].do != removeVolume && got[i].object != c.claim {
					t.Errorf("step %d is not of the claim", i)
				}
				got[i].object = nil
			}
			if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(volumeStep{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}
