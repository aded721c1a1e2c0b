package desired

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
)

// A variable may hold a credential, and an error repeats what was asked for.
func TestNoTextOfAUserNamesAVariableOfAContainer(t *testing.T) {
	const text = "a$(HOME)$b"
	dell := storeSpec("dell", text, text, "backup")
	dell.EndpointOverride = ptr(text)
	local := storeSpec("local", text, text, "")
	in := func(s druidv1alpha1.StoreSpec) TaskInput {
		return TaskInput{Etcd: stored(withRoles(s)), Task: &druidv1alpha1.EtcdOperatorTask{}}
	}
	exclusion := func(s druidv1alpha1.StoreSpec) batchv1.JobSpec {
		return ExclusionJob(ExclusionInput{in(s), druidv1alpha1.ExcludeSnapshotsConfig{Names: []druidv1alpha1.SnapshotName{text}, Reason: ptr(text)}}).Spec
	}
	for phrase, c := range map[string]struct {
		job  batchv1.JobSpec
		want []string
	}{
		"an exclusion": {exclusion(dell), []string{
			"exclude", "--storage-provider=ECS", "--store-container=a$$(HOME)$$b", "--store-prefix=a$$(HOME)$$b", "--store-endpoint-override=a$$(HOME)$$b",
			"--reason=a$$(HOME)$$b", "--", "a$$(HOME)$$b",
		}},
		"a local exclusion": {exclusion(local), []string{
			"own", "--user=65532", "--group=65532", "/home/nonroot/a$$(HOME)$$b",
			"exclude", "--storage-provider=Local", "--store-container=a$$(HOME)$$b", "--store-prefix=a$$(HOME)$$b", "--reason=a$$(HOME)$$b", "--", "a$$(HOME)$$b",
		}},
		"a copy": {copyJob(t, CopyInput{Task: copyTask(dell, dell)}).Spec, []string{
			"copy", "--source-storage-provider=ECS", "--source-store-container=a$$(HOME)$$b", "--source-store-prefix=a$$(HOME)$$b", "--source-store-endpoint-override=a$$(HOME)$$b",
			"--source-snapstore-temp-directory=/tmp", "--storage-provider=ECS", "--store-container=a$$(HOME)$$b", "--store-prefix=a$$(HOME)$$b",
			"--store-endpoint-override=a$$(HOME)$$b", "--snapstore-temp-directory=/tmp", "--copy-manifest=/tmp/copied.json",
		}},
	} {
		var got []string
		pod := c.job.Template.Spec
		for _, x := range append(append([]corev1.Container{}, pod.InitContainers...), pod.Containers...) {
			got = append(got, x.Args...)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", phrase, got, c.want)
		}
	}
}

// Whoever writes to a store requests its encryption: the sidecars, the Jobs of tasks and copies.
func TestEveryWriterRequestsTheEncryptionOfTheStore(t *testing.T) {
	s := storeSpec("aws", "bucket", "p", "backup")
	s.ServerSideEncryption = &druidv1alpha1.ServerSideEncryption{Algorithm: "aws:kms", KMSKeyID: ptr("alias/backups")}
	want := []string{"--store-server-side-encryption=aws:kms", "--store-kms-key-id=alias/backups"}
	exclusion := ExclusionJob(ExclusionInput{TaskInput{Etcd: stored(s), Task: &druidv1alpha1.EtcdOperatorTask{}}, druidv1alpha1.ExcludeSnapshotsConfig{}}).Spec
	for name, job := range map[string]batchv1.JobSpec{"an exclusion": exclusion, "a copy": copyJob(t, CopyInput{Task: copyTask(s, s)}).Spec} {
		args := job.Template.Spec.Containers[0].Args
		for _, flag := range want {
			if !slices.Contains(args, flag) || slices.Contains(args, "--source-"+flag[2:]) {
				t.Errorf("%s: %q, want %s, and for the target alone", name, args, flag)
			}
		}
	}
	got := storeConfig(stored(s), &s)["serverSideEncryption"]
	if d := cmp.Diff(map[string]any{"algorithm": "aws:kms", "kmsKeyID": "alias/backups"}, got); d != "" {
		t.Errorf("the sidecar's configuration (-want +got):\n%s", d)
	}
}

// What hangs never ends by itself: all of a grace period passes before it is killed.
func TestWhatHangsIsKilledSoonerThanWhatIsDeleted(t *testing.T) {
	for name, change := range shapes {
		set, err := Objects(input(etcd(change)))
		if err != nil {
			t.Fatal(err)
		}
		pod := set.StatefulSet.Spec.Template.Spec
		for _, c := range pod.Containers {
			if g := c.LivenessProbe.TerminationGracePeriodSeconds; g == nil || *g != hungGrace || *g >= *pod.TerminationGracePeriodSeconds {
				t.Errorf("%s: %s that hangs has %v seconds to end, want %d", name, c.Name, g, hungGrace)
			}
			if c.ReadinessProbe != nil && c.ReadinessProbe.TerminationGracePeriodSeconds != nil {
				t.Errorf("%s: %s has one for readiness, which Kubernetes refuses", name, c.Name)
			}
		}
	}
}
