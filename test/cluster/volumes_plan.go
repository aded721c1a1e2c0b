package cluster

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// provisioner is the name under which classes ask for our volumes.
const provisioner = "volumes.druid-test.local"

// The StorageClasses of a cluster with nodes. All volumes are file systems on a block device of
// their own, so that their size is a bound, as a cloud's.
const (
	// ClassDisk is the default: follows its pod to any node, can grow.
	ClassDisk = "disk"

	// ClassFixed is ClassDisk that cannot grow.
	ClassFixed = "fixed"

	// ClassLocal is of the node on which its pod first ran, and can grow.
	ClassLocal = "local"
)

func storageClasses() []*storagev1.StorageClass {
	class := func(name string, grows bool, mode storagev1.VolumeBindingMode) *storagev1.StorageClass {
		reclaim := corev1.PersistentVolumeReclaimDelete
		return &storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisioner,
			AllowVolumeExpansion: &grows, VolumeBindingMode: &mode, ReclaimPolicy: &reclaim,
		}
	}
	disk := class(ClassDisk, true, storagev1.VolumeBindingImmediate)
	disk.Annotations = map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}
	return []*storagev1.StorageClass{
		disk,
		class(ClassFixed, false, storagev1.VolumeBindingImmediate),
		class(ClassLocal, true, storagev1.VolumeBindingWaitForFirstConsumer),
	}
}

// A volumeStep is one thing to do to one volume.
type volumeStep struct {
	do     volumeDoing
	volume string               // its name
	claim  types.NamespacedName // none for remove
	bytes  int64                // the size it shall have; none for remove
	node   string               // of a new volume: where alone it is; empty: everywhere
	object *corev1.PersistentVolumeClaim
}

type volumeDoing string

const (
	makeVolume   volumeDoing = "make"     // the device and the PersistentVolume
	growVolume   volumeDoing = "grow"     // the device and the PersistentVolume
	announceSize volumeDoing = "announce" // to the kubelet, by the claim's status: the file system has to grow
	removeVolume volumeDoing = "remove"   // the device and the PersistentVolume
)

// planVolumes says what has to be done to have volumes as their claims want them. Each step can be
// repeated: the same plan follows until its effect is seen.
func planVolumes(claims []*corev1.PersistentVolumeClaim, volumes []*corev1.PersistentVolume, classes []*storagev1.StorageClass) []volumeStep {
	ours := map[string]*storagev1.StorageClass{}
	for _, class := range classes {
		if class.Provisioner == provisioner {
			ours[class.Name] = class
		}
	}
	there := map[string]*corev1.PersistentVolume{}
	for _, v := range volumes {
		there[v.Name] = v
	}
	var steps []volumeStep
	for _, claim := range claims {
		if claim.Spec.StorageClassName == nil || ours[*claim.Spec.StorageClassName] == nil {
			continue
		}
		class := ours[*claim.Spec.StorageClassName]
		step := volumeStep{
			volume: volumeName(claim), claim: types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name},
			bytes: max(claim.Spec.Resources.Requests.Storage().Value(), minDisk), object: claim,
		}
		volume := there[step.volume]
		switch {
		case volume == nil:
			if claim.Spec.VolumeName != "" || claim.DeletionTimestamp != nil {
				continue // bound to somebody else's, lost its own, or goes
			}
			if *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer {
				if step.node = claim.Annotations["volume.kubernetes.io/selected-node"]; step.node == "" {
					continue
				}
			}
			step.do = makeVolume
		case volume.Spec.Capacity.Storage().Value() < step.bytes:
			if class.AllowVolumeExpansion == nil || !*class.AllowVolumeExpansion {
				continue
			}
			step.do = growVolume
		case claim.Status.Phase == corev1.ClaimBound && claim.Status.Capacity.Storage().Value() < step.bytes && !announced(claim, step.bytes):
			step.do = announceSize
		default:
			continue
		}
		steps = append(steps, step)
	}
	for _, v := range volumes {
		// Who is late finds that Kubernetes has tried it and failed.
		free := v.Status.Phase == corev1.VolumeReleased || v.Status.Phase == corev1.VolumeFailed
		if ours[v.Spec.StorageClassName] != nil && free && v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete && v.DeletionTimestamp == nil {
			steps = append(steps, volumeStep{do: removeVolume, volume: v.Name})
		}
	}
	return steps
}

// volumeName is of the claim's life: a claim that is made again gets another volume.
func volumeName(claim *corev1.PersistentVolumeClaim) string { return "pvc-" + string(claim.UID) }

// announced tells whether the kubelet knows what size it has to make the file system.
func announced(claim *corev1.PersistentVolumeClaim, bytes int64) bool {
	return claim.Status.AllocatedResources.Storage().Value() == bytes && claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage] != ""
}
