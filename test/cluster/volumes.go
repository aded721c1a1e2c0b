package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/cache"
)

// volumes gives claims their volumes, as long as the cluster runs. It does what a cloud's storage
// does: kubelets mount the file systems and have them grow.
type volumes struct {
	client kubernetes.Interface
	dir    string
	log    *slog.Logger
	logTo  io.Closer

	claims  corelisters.PersistentVolumeClaimLister
	volumes corelisters.PersistentVolumeLister
	classes storagelisters.StorageClassLister
	changed chan struct{} // holds one: something did

	stop func()
	done chan struct{}

	mu    sync.Mutex
	disks map[string]*disk // by the name of the volume
}

// startVolumes makes the classes and begins to serve them.
func (c *Cluster) startVolumes(ctx context.Context) (*volumes, error) {
	config, err := c.ConfigFor("volumes", masters)
	if err != nil {
		return nil, err
	}
	v := &volumes{dir: c.file("volumes"), changed: make(chan struct{}, 1), done: make(chan struct{}), disks: map[string]*disk{}}
	if v.client, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(v.dir, 0o755); err != nil {
		return nil, err
	}
	for _, class := range storageClasses() {
		if _, err := v.client.StorageV1().StorageClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
			return nil, fmt.Errorf("make the StorageClass %s: %w", class.Name, err)
		}
	}
	f, err := os.OpenFile(c.file("logs", "volumes.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	v.logTo, v.log = f, slog.New(slog.NewTextHandler(f, nil))
	running, stop := context.WithCancel(context.Background())
	v.stop = stop
	go func() {
		defer close(v.done)
		v.run(running)
	}()
	return v, nil
}

// retryAfter is how long a plan waits that did not succeed.
const retryAfter = time.Second

// run looks at everything whenever something changed.
func (v *volumes) run(ctx context.Context) {
	factory := informers.NewSharedInformerFactory(v.client, 0)
	claims, all, classes := factory.Core().V1().PersistentVolumeClaims(), factory.Core().V1().PersistentVolumes(), factory.Storage().V1().StorageClasses()
	v.claims, v.volumes, v.classes = claims.Lister(), all.Lister(), classes.Lister()
	for _, informer := range []cache.SharedIndexInformer{claims.Informer(), all.Informer(), classes.Informer()} {
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { v.change() },
			UpdateFunc: func(any, any) { v.change() },
			DeleteFunc: func(any) { v.change() },
		})
		if err != nil {
			v.log.Error("cannot watch", "error", err)
			return
		}
	}
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	factory.WaitForCacheSync(ctx.Done())
	for {
		select {
		case <-ctx.Done():
			return
		case <-v.changed:
		}
		if !v.reconcile(ctx) {
			select {
			case <-ctx.Done():
				return
			case <-time.After(retryAfter):
				v.change()
			}
		}
	}
}

func (v *volumes) change() {
	select {
	case v.changed <- struct{}{}:
	default:
	}
}

// reconcile takes every step that is to be taken now, and tells whether all succeeded.
func (v *volumes) reconcile(ctx context.Context) bool {
	claims, err := v.claims.List(labels.Everything())
	all, err2 := v.volumes.List(labels.Everything())
	classes, err3 := v.classes.List(labels.Everything())
	if err := errors.Join(err, err2, err3); err != nil {
		v.log.Error("cannot list", "error", err)
		return false
	}
	good := true
	for _, step := range planVolumes(claims, all, classes) {
		err := v.take(ctx, step)
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			continue // it changed since, so it will be looked at again
		}
		if err != nil {
			v.log.Error("failed", "step", step.do, "volume", step.volume, "claim", step.claim, "error", err)
			good = false
			continue
		}
		v.log.Info("done", "step", step.do, "volume", step.volume, "claim", step.claim, "bytes", step.bytes)
	}
	return good
}

func (v *volumes) take(ctx context.Context, step volumeStep) error {
	switch step.do {
	case makeVolume:
		return v.make(ctx, step)
	case growVolume:
		return v.grow(ctx, step)
	case announceSize:
		return v.announce(ctx, step)
	case removeVolume:
		return v.remove(ctx, step)
	}
	return fmt.Errorf("unknown step %q", step.do)
}

func (v *volumes) file(volume string) string { return filepath.Join(v.dir, volume+".xfs") }

// disk is the device of a volume, made at the first call.
func (v *volumes) disk(ctx context.Context, volume string, bytes int64) (*disk, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if d := v.disks[volume]; d != nil {
		return d, nil
	}
	d, err := openDisk(ctx, v.file(volume), bytes)
	if err != nil {
		return nil, err
	}
	v.disks[volume] = d
	return d, nil
}

func (v *volumes) make(ctx context.Context, step volumeStep) error {
	d, err := v.disk(ctx, step.volume, step.bytes)
	if err != nil {
		return err
	}
	where := corev1.NodeSelectorRequirement{Key: corev1.LabelOSStable, Operator: corev1.NodeSelectorOpIn, Values: []string{"linux"}}
	if step.node != "" {
		where = corev1.NodeSelectorRequirement{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{step.node}}
	}
	claim, filesystem, kind := step.object, corev1.PersistentVolumeFilesystem, "xfs"
	volume := &corev1.PersistentVolume{
		// The annotation says who deletes it: not Kubernetes.
		ObjectMeta: metav1.ObjectMeta{Name: step.volume, Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": provisioner}},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: *resource.NewQuantity(step.bytes, resource.BinarySI)},
			AccessModes:                   claim.Spec.AccessModes,
			VolumeMode:                    &filesystem,
			StorageClassName:              *claim.Spec.StorageClassName,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			PersistentVolumeSource:        corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: d.path(), FSType: &kind}},
			NodeAffinity:                  &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{where}}}}},
			ClaimRef:                      &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID},
		},
	}
	_, err = v.client.CoreV1().PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

func (v *volumes) grow(ctx context.Context, step volumeStep) error {
	d, err := v.disk(ctx, step.volume, step.bytes)
	if err != nil {
		return err
	}
	if err := d.grow(step.bytes); err != nil {
		return err
	}
	volume, err := v.volumes.Get(step.volume)
	if err != nil {
		return err
	}
	volume = volume.DeepCopy()
	volume.Spec.Capacity[corev1.ResourceStorage] = *resource.NewQuantity(step.bytes, resource.BinarySI)
	_, err = v.client.CoreV1().PersistentVolumes().Update(ctx, volume, metav1.UpdateOptions{})
	return err
}

func (v *volumes) announce(ctx context.Context, step volumeStep) error {
	claim := step.object.DeepCopy()
	if claim.Status.AllocatedResources == nil {
		claim.Status.AllocatedResources = corev1.ResourceList{}
	}
	claim.Status.AllocatedResources[corev1.ResourceStorage] = *resource.NewQuantity(step.bytes, resource.BinarySI)
	claim.Status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{corev1.ResourceStorage: corev1.PersistentVolumeClaimNodeResizePending}
	claim.Status.Conditions = slices.DeleteFunc(claim.Status.Conditions, func(c corev1.PersistentVolumeClaimCondition) bool {
		return c.Type == corev1.PersistentVolumeClaimFileSystemResizePending || c.Type == corev1.PersistentVolumeClaimResizing
	})
	claim.Status.Conditions = append(claim.Status.Conditions, corev1.PersistentVolumeClaimCondition{
		Type: corev1.PersistentVolumeClaimFileSystemResizePending, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now(),
		Message: "the kubelet has the file system grow while or when it is mounted",
	})
	_, err := v.client.CoreV1().PersistentVolumeClaims(claim.Namespace).UpdateStatus(ctx, claim, metav1.UpdateOptions{})
	return err
}

// remove deletes the data at once: whoever released the volume wanted it gone.
func (v *volumes) remove(ctx context.Context, step volumeStep) error {
	v.mu.Lock()
	d := v.disks[step.volume]
	delete(v.disks, step.volume)
	v.mu.Unlock()
	if d != nil {
		if err := d.close(); err != nil {
			return err
		}
	}
	if err := os.Remove(v.file(step.volume)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return v.client.CoreV1().PersistentVolumes().Delete(ctx, step.volume, metav1.DeleteOptions{})
}

// close ends it and gives the devices back.
func (v *volumes) close() error {
	v.stop()
	<-v.done
	v.mu.Lock()
	defer v.mu.Unlock()
	errs := []error{v.logTo.Close()}
	for _, d := range v.disks {
		errs = append(errs, d.close())
	}
	v.disks = nil
	return errors.Join(errs...)
}

// Device is the block device of the volume that a claim is bound to, on this machine and all nodes.
func (c *Cluster) Device(ctx context.Context, namespace, claim string) (string, error) {
	pvc, err := c.Client.CoreV1().PersistentVolumeClaims(namespace).Get(ctx, claim, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	volume, err := c.Client.CoreV1().PersistentVolumes().Get(ctx, pvc.Spec.VolumeName, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("the volume of %s/%s: %w", namespace, claim, err)
	}
	if volume.Spec.Local == nil {
		return "", fmt.Errorf("the volume of %s/%s is none of ours", namespace, claim)
	}
	return volume.Spec.Local.Path, nil
}
