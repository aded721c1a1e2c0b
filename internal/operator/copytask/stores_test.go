package copytask

import (
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
)

func TestStoresBetweenWhichNothingCanBeCopiedAreNamed(t *testing.T) {
	type spec = druidv1alpha1.EtcdCopyBackupsTaskSpec
	place := func(provider, container, prefix, endpoint, secret string) druidv1alpha1.StoreSpec {
		s := store(provider, container, prefix)
		s.EndpointOverride, s.SecretRef = &endpoint, &corev1.SecretReference{Name: secret}
		return s
	}
	of := func(a, b druidv1alpha1.StoreSpec) func(*spec) {
		return func(s *spec) { s.SourceStore, s.TargetStore = a, b }
	}
	const thesame = "spec.targetStore is the same place as spec.sourceStore: name another container or prefix"
	for name, c := range map[string]struct {
		change func(*spec)
		want   string // "": nothing is wrong
	}{
		"nothing":                            {func(*spec) {}, ""},
		"no provider":                        {func(s *spec) { s.SourceStore.Provider = nil }, "spec.sourceStore.provider is missing: name"},
		"an empty provider":                  {func(s *spec) { s.TargetStore.Provider = ptr(druidv1alpha1.StorageProvider("")) }, "spec.targetStore.provider is missing: name"},
		"an unknown provider":                {func(s *spec) { s.TargetStore.Provider = ptr(druidv1alpha1.StorageProvider("ftp")) }, `spec.targetStore.provider "ftp" is not known: use aws`},
		"no container":                       {func(s *spec) { s.SourceStore.Container = nil }, "spec.sourceStore.container is missing: name"},
		"no container, local":                {func(s *spec) { s.SourceStore = store("local", "", "p") }, ""},
		"a Secret elsewhere":                 {func(s *spec) { s.TargetStore.SecretRef.Namespace = "other" }, "spec.targetStore.secretRef names the namespace other, from which pods cannot have Secrets: copy target into shop"},
		"a Secret here":                      {func(s *spec) { s.TargetStore.SecretRef.Namespace = "shop" }, ""},
		"the same":                           {of(store("aws", "a", "p"), store("aws", "a", "p")), thesame},
		"by another name":                    {of(store("aws", "a", "p"), store("S3", "a", "p")), thesame},
		"by another prefix":                  {of(store("aws", "a", "p/q"), store("aws", "a", "p//q/./")), thesame},
		"a directory knows no leading slash": {of(store("local", "a", "p"), store("local", "a", "/p")), thesame},
		"a leading slash":                    {of(store("aws", "a", "p"), store("aws", "a", "/p")), ""},
		"a prefix that is none":              {of(store("aws", "a", "p"), store("aws", "a", "p/../q")), "spec.targetStore.prefix: not a valid store prefix"},
		"by another endpoint":                {of(place("aws", "a", "p", "https://s3", "s"), place("aws", "a", "p", "https://s3/", "s")), thesame},
		"one with a Secret":                  {of(store("aws", "a", "p"), place("aws", "a", "p", "", "s")), thesame},
		"another prefix":                     {of(store("aws", "a", "p"), store("aws", "a", "p2")), ""},
		"another container":                  {of(store("aws", "a", "p"), store("aws", "b", "p")), ""},
		"another cloud":                      {of(store("aws", "a", "p"), store("gcp", "a", "p")), ""},
		"another server":                     {of(place("aws", "a", "p", "https://one", "s"), place("aws", "a", "p", "https://two", "s")), ""},
		"another account":                    {of(place("aws", "a", "p", "", "s"), place("aws", "a", "p", "", "t")), ""},
		"a directory is one":                 {of(place("local", "a", "p", "", "s"), place("local", "a", "p", "", "t")), thesame},
	} {
		task := newTask()
		c.change(&task.Spec)
		if got := wrong(task); !strings.HasPrefix(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestLocalStoresNeedNoSecret(t *testing.T) {
	task := newTask()
	task.Spec.SourceStore = store("Local", "a", "p")
	task.Spec.SourceStore.SecretRef = &corev1.SecretReference{Name: "source"}
	all := task.Secrets()
	if len(all) != 1 || all[0].Name != "target" {
		t.Errorf("Secrets %v, want target alone", all)
	}
}

// The original takes the directory from the Secret: who relies on that is told where it is here.
func TestWhoNamesASecretForALocalStoreIsToldThatItIsNotRead(t *testing.T) {
	local := func(task *druidv1alpha1.EtcdCopyBackupsTask) {
		task.Spec.SourceStore = store("Local", "a", "p")
		task.Spec.SourceStore.SecretRef = &corev1.SecretReference{Name: "source"}
	}
	for phrase, o := range map[string]*Observed{
		"it copies":          {Task: newTask(local)},
		"it copied":          at(t, changed(local), ends(batchv1.JobComplete, "", "")),
		"no Secret is named": at(t),
	} {
		p, err := Decide(o, testSettings)
		if err != nil {
			t.Fatal(err)
		}
		const want = "spec.sourceStore.secretRef is not read: a local store is below /etc/gardener/local-backupbuckets of the node"
		if strings.Contains(p.Message, want) != (phrase != "no Secret is named") || p.Trouble {
			t.Errorf("%s: %q, trouble: %t", phrase, p.Message, p.Trouble)
		}
	}
}

// Nobody is to take a copy for locked because the task speaks of locks.
func TestImmutabilityThatAsksForNothingIsTold(t *testing.T) {
	const source, target = "spec.sourceStore.immutability is not read", "spec.targetStore.immutability asks for nothing"
	locks := func(how druidv1alpha1.RetentionType) *druidv1alpha1.ImmutabilitySpec {
		return &druidv1alpha1.ImmutabilitySpec{RetentionType: how}
	}
	for phrase, c := range map[string]struct {
		change func(*druidv1alpha1.EtcdCopyBackupsTask)
		want   []string
	}{
		"of the source": {func(task *druidv1alpha1.EtcdCopyBackupsTask) {
			task.Spec.SourceStore.Immutability = locks(druidv1alpha1.RetentionObject)
		}, []string{source}},
		"of the target's bucket": {func(task *druidv1alpha1.EtcdCopyBackupsTask) {
			task.Spec.TargetStore.Immutability = locks(druidv1alpha1.RetentionBucket)
		}, []string{target}},
		"of each copy": {func(task *druidv1alpha1.EtcdCopyBackupsTask) {
			task.Spec.TargetStore.Immutability = locks(druidv1alpha1.RetentionObject)
			task.Spec.TargetStore.Immutability.RetentionPeriod = &metav1.Duration{Duration: time.Hour}
		}, nil},
	} {
		for _, o := range []*Observed{{Task: newTask(c.change)}, at(t, changed(c.change), ends(batchv1.JobComplete, "", ""))} {
			p, err := Decide(o, testSettings)
			if err != nil {
				t.Fatal(err)
			}
			for _, text := range []string{source, target} {
				if strings.Contains(p.Message, text) != slices.Contains(c.want, text) {
					t.Errorf("%s: the task says %q, want %q", phrase, p.Message, c.want)
				}
			}
		}
	}
}
