package desired

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/agent/config"
)

// TestTheSidecarAloneHasTheUserOfEtcd, as files of the Secret that authSecretRef names.
func TestTheSidecarAloneHasTheUserOfEtcd(t *testing.T) {
	set, err := Objects(input(etcd(func(e *druidv1alpha1.Etcd) { e.Spec.Etcd.AuthSecretRef = &corev1.SecretReference{Name: "users"} })))
	if err != nil {
		t.Fatal(err)
	}
	c, err := config.Parse([]byte(set.ConfigMap.Data[SidecarFile]))
	if err != nil {
		t.Fatal(err)
	}
	pod := set.StatefulSet.Spec.Template.Spec
	i := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Secret != nil && v.Secret.SecretName == "users" })
	if i < 0 {
		t.Fatalf("the pod has the volumes %+v", pod.Volumes)
	}
	for _, container := range pod.Containers {
		at := slices.IndexFunc(container.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == pod.Volumes[i].Name })
		if got, want := at >= 0, container.Name == ContainerSidecar; got != want {
			t.Errorf("%s has the user: %t, want %t", container.Name, got, want)
		}
		if at < 0 {
			continue
		}
		dir := container.VolumeMounts[at].MountPath
		if c.Etcd.UsernameFile != dir+"/username" || c.Etcd.PasswordFile != dir+"/password" {
			t.Errorf("the sidecar reads %q and %q, and the Secret is at %s", c.Etcd.UsernameFile, c.Etcd.PasswordFile, dir)
		}
	}
}
