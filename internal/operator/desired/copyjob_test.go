package desired

import (
	"slices"
	"strings"
	"testing"
	"time"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

func storeSpec(provider, container, prefix, secret string) druidv1alpha1.StoreSpec {
	s := druidv1alpha1.StoreSpec{Provider: ptr(druidv1alpha1.StorageProvider(provider)), Prefix: prefix}
	if container != "" {
		s.Container = &container
	}
	if secret != "" {
		s.SecretRef = &corev1.SecretReference{Name: secret}
	}
	return s
}

func copyTask(from, to druidv1alpha1.StoreSpec, change ...func(*druidv1alpha1.EtcdCopyBackupsTaskSpec)) *druidv1alpha1.EtcdCopyBackupsTask {
	t := &druidv1alpha1.EtcdCopyBackupsTask{
		ObjectMeta: metav1.ObjectMeta{Name: "move", Namespace: "shoot--a--b", UID: "5d1e"},
		Spec:       druidv1alpha1.EtcdCopyBackupsTaskSpec{SourceStore: from, TargetStore: to},
	}
	for _, c := range change {
		c(&t.Spec)
	}
	return t
}

func copyJob(t *testing.T, in CopyInput) *batchv1.Job {
	t.Helper()
	job, err := CopyJob(in)
	if err != nil {
		t.Fatal(err)
	}
	return job
}

func withEveryOption(s *druidv1alpha1.EtcdCopyBackupsTaskSpec) {
	s.PodLabels = map[string]string{"networking.gardener.cloud/to-public-networks": "allowed", druidv1alpha1.LabelPartOf: "stolen"}
	s.SourceStore.EndpointOverride = ptr("https://s3.example.org")
	s.TargetStore.EndpointOverride = ptr("https://azurite.example.org")
	s.TargetStore.Immutability = &druidv1alpha1.ImmutabilitySpec{RetentionType: druidv1alpha1.RetentionObject, RetentionPeriod: &metav1.Duration{Duration: 96 * time.Hour}}
	s.MaxBackups, s.MaxBackupAge = ptr(uint32(3)), ptr(uint32(30))
	s.WaitForFinalSnapshot = &druidv1alpha1.WaitForFinalSnapshotSpec{Enabled: true, Timeout: &metav1.Duration{Duration: 600e9}}
}

var copyImages = Images{Sidecar: "s:1", Init: "i:1"}

func TestJobsOfCopiesAreAsInTheGoldenFiles(t *testing.T) {
	for name, task := range map[string]*druidv1alpha1.EtcdCopyBackupsTask{
		"copy-everything": copyTask(storeSpec("aws", "source", "a/etcd-main", "source-credentials"), storeSpec("azure", "target", "b/etcd-main", "target-credentials"), withEveryOption),
		"copy-ambient":    copyTask(storeSpec("S3", "source", "", ""), storeSpec("gcp", "target", "p", "")),
		"copy-local":      copyTask(storeSpec("local", "", "p", "ignored"), storeSpec("Local", "target", "p", "")),
	} {
		t.Run(name, func(t *testing.T) {
			got, err := yaml.Marshal(copyJob(t, CopyInput{Task: task, Images: copyImages}))
			if err != nil {
				t.Fatal(err)
			}
			golden(t, name, got)
		})
	}
}

func TestCredentialsOfBothStoresOfACopyAreKeptApart(t *testing.T) {
	for provider, want := range map[string][]string{
		"aws":       {"SOURCE_AWS_APPLICATION_CREDENTIALS=/var/source-etcd-backup", "AWS_APPLICATION_CREDENTIALS=/var/etcd-backup"},
		"gcp":       {"SOURCE_GOOGLE_APPLICATION_CREDENTIALS=/var/.source-gcp/serviceaccount.json", "GOOGLE_APPLICATION_CREDENTIALS=/var/.gcp/serviceaccount.json"},
		"openstack": {"SOURCE_OPENSTACK_APPLICATION_CREDENTIALS=/var/source-etcd-backup", "OPENSTACK_APPLICATION_CREDENTIALS=/var/etcd-backup"},
		"dell":      {"SOURCE_ECS_APPLICATION_CREDENTIALS=/var/source-etcd-backup", "ECS_APPLICATION_CREDENTIALS=/var/etcd-backup"},
	} {
		job := copyJob(t, CopyInput{Task: copyTask(storeSpec(provider, "a-bucket", "p", "from"), storeSpec(provider, "other", "p", "to")), Images: copyImages})
		var got []string
		for _, e := range job.Spec.Template.Spec.Containers[0].Env {
			if e.Name != "HOME" {
				got = append(got, e.Name+"="+e.Value)
			}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", provider, d)
		}
	}
}

func TestADirectoryThatBothStoresOfACopyAreInIsMountedOnce(t *testing.T) {
	job := copyJob(t, CopyInput{Task: copyTask(storeSpec("local", "both", "p", ""), storeSpec("local", "both", "q", "")), Images: copyImages})
	pod := job.Spec.Template.Spec
	paths := 0
	for _, v := range pod.Volumes {
		if v.HostPath != nil && v.HostPath.Path == DefaultHostPath+"/both" {
			paths++
		}
	}
	if paths != 1 || len(pod.InitContainers) != 1 {
		t.Errorf("it is mounted %d times, by %d init containers, want once", paths, len(pod.InitContainers))
	}
}

func TestTheChecksumOfAJobIsOfWhatItDoes(t *testing.T) {
	task := func(change ...func(*druidv1alpha1.EtcdCopyBackupsTaskSpec)) *druidv1alpha1.EtcdCopyBackupsTask {
		return copyTask(storeSpec("local", "source", "p", ""), storeSpec("aws", "target", "p", "s"), change...)
	}
	checksum := func(in CopyInput) string {
		return copyJob(t, in).Annotations[druidv1alpha1.AnnotationJobChecksum]
	}
	first := copyJob(t, CopyInput{Task: task(), Images: copyImages})
	want := first.Annotations[druidv1alpha1.AnnotationJobChecksum]
	newer := Images{Sidecar: "s:2", Init: "i:2"}
	if got := checksum(CopyInput{Task: task(), Images: newer}); got != want {
		t.Error("another image gives another checksum")
	}
	kept := copyJob(t, CopyInput{Task: task(), Images: newer, Live: first})
	if d := cmp.Diff(first, kept); d != "" {
		t.Errorf("the Job of a former operator (-want +got):\n%s", d)
	}
	for name, change := range map[string]func(*druidv1alpha1.EtcdCopyBackupsTaskSpec){
		"a label":        func(s *druidv1alpha1.EtcdCopyBackupsTaskSpec) { s.PodLabels = map[string]string{"a": "b"} },
		"no Secret":      func(s *druidv1alpha1.EtcdCopyBackupsTaskSpec) { s.TargetStore.SecretRef = nil },
		"a number":       func(s *druidv1alpha1.EtcdCopyBackupsTaskSpec) { s.MaxBackups = ptr(uint32(1)) },
		"another prefix": func(s *druidv1alpha1.EtcdCopyBackupsTaskSpec) { s.SourceStore.Prefix = "q" },
		"another provider": func(s *druidv1alpha1.EtcdCopyBackupsTaskSpec) {
			s.TargetStore.Provider = ptr(druidv1alpha1.StorageProvider("gcp"))
		},
	} {
		if checksum(CopyInput{Task: task(change), Images: copyImages}) == want {
			t.Errorf("%s gives the same checksum", name)
		}
	}
}

func TestWaitingThatIsNotEnabledIsNotAskedFor(t *testing.T) {
	for name, c := range map[string]struct {
		wait *druidv1alpha1.WaitForFinalSnapshotSpec
		want []string
	}{
		"nothing is said": {nil, nil},
		"not enabled":     {&druidv1alpha1.WaitForFinalSnapshotSpec{Timeout: &metav1.Duration{Duration: 1e9}}, nil},
		"for ever":        {&druidv1alpha1.WaitForFinalSnapshotSpec{Enabled: true}, []string{"--wait-for-final-snapshot=true", "--wait-for-final-snapshot-timeout=0s"}},
	} {
		job := copyJob(t, CopyInput{Images: copyImages, Task: copyTask(storeSpec("aws", "a-bucket", "p", ""), storeSpec("aws", "other", "p", ""),
			func(s *druidv1alpha1.EtcdCopyBackupsTaskSpec) { s.WaitForFinalSnapshot = c.wait })})
		got := slices.DeleteFunc(slices.Clone(job.Spec.Template.Spec.Containers[0].Args), func(a string) bool { return !strings.HasPrefix(a, "--wait") })
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
