package desired

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/agent/config"
	"druid.internal/druid/internal/schedule"
)

// stored is an Etcd of a store, with what Jobs may take from it.
func stored(s druidv1alpha1.StoreSpec) *druidv1alpha1.Etcd {
	e := &druidv1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Name: "etcd-main", Namespace: "shoot--a--b"}}
	e.Spec.Labels = map[string]string{"networking.gardener.cloud/to-public-networks": "allowed", druidv1alpha1.LabelPartOf: "stolen"}
	e.Spec.Backup.Store = &s
	e.SetDefaults()
	return e
}

func withRoles(s druidv1alpha1.StoreSpec) druidv1alpha1.StoreSpec {
	s.Roles = &druidv1alpha1.StoreRoles{
		CollectorSecretRef: &corev1.SecretReference{Name: "collector"}, ExtenderSecretRef: &corev1.SecretReference{Name: "extender"}, ExcluderSecretRef: &corev1.SecretReference{Name: "excluder"},
	}
	return s
}

func parsed(text string) schedule.Schedule {
	s, err := schedule.Parse(text)
	if err != nil {
		panic(err)
	}
	return s
}

func TestJobsAndCronJobsOfTasksAreAsInTheGoldenFiles(t *testing.T) {
	secret := storeSpec("aws", "bucket", "shoot--a--b/etcd-main", "backup")
	secret.EndpointOverride = ptr("https://s3.example.org")
	locked := secret
	locked.Immutability = &druidv1alpha1.ImmutabilitySpec{RetentionType: druidv1alpha1.RetentionObject, RetentionPeriod: &metav1.Duration{Duration: 96 * time.Hour}}
	since := time.Date(2026, 6, 1, 5, 0, 0, 0, time.FixedZone("CEST", 7200))
	in := func(name string, s druidv1alpha1.StoreSpec, when string, change ...func(*TaskInput)) TaskInput {
		i := TaskInput{Etcd: stored(s), Images: copyImages, Task: &druidv1alpha1.EtcdOperatorTask{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "shoot--a--b", UID: "5d1e"}}}
		if when != "" {
			i.Schedule = parsed(when)
		}
		for _, c := range change {
			c(&i)
		}
		return i
	}
	exponential := func(i *TaskInput) {
		i.Etcd.Spec.Backup.GarbageCollectionPolicy = ptr(druidv1alpha1.GarbageCollectionExponential)
	}
	const owner = "cluster/shoot--a--b/etcd-main/3b7c"
	names := []druidv1alpha1.SnapshotName{"Full-00000000-00009002-1565021494.zst", "Incr-00009003-00009120-1565021514.zst"}
	for name, job := range map[string]client.Object{
		"extension":         ExtensionCronJob(ExtensionInput{TaskInput: in("extend", locked, "CRON_TZ=Europe/Berlin 0 0 * * *"), Since: since, Between: 25 * time.Hour}),
		"extension-role":    ExtensionCronJob(ExtensionInput{TaskInput: in("extend", withRoles(secret), "0 0 * * *"), Since: since, Between: 24 * time.Hour}),
		"extension-local":   ExtensionCronJob(ExtensionInput{TaskInput: in("extend", storeSpec("local", "", "p", ""), "@daily"), Since: since, Between: 24 * time.Hour}),
		"extension-release": ExtensionCronJob(ExtensionInput{TaskInput: in("extend", storeSpec("gcp", "bucket", "p", ""), "0 0 * * *"), Since: since, Between: 24 * time.Hour, Release: true}),
		"extension-kept": ExtensionCronJob(ExtensionInput{TaskInput: in("extend", locked, "0 0 * * *"), Since: since, Between: 24 * time.Hour,
			Keep: "Full-00000000-00001000-1748000000.zst.final", Digest: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", Period: 96 * time.Hour}),
		"extension-period":        ExtensionCronJob(ExtensionInput{TaskInput: in("extend", storeSpec("azure", "bucket", "p", ""), "0 0 * * *"), Since: since, Between: 24 * time.Hour, Period: 96 * time.Hour}),
		"collection":              CollectionCronJob(CollectionInput{in("collect", withRoles(secret), "17 5-23/12 * * *"), owner, time.Time{}}),
		"collection-exponential":  CollectionCronJob(CollectionInput{in("collect", withRoles(storeSpec("dell", "bucket", "p", "")), "@hourly", exponential), owner, time.Time{}}),
		"collection-while-asleep": CollectionCronJob(CollectionInput{in("collect", withRoles(secret), "17 5-23/12 * * *"), owner, since}),
		"exclusion":               ExclusionJob(ExclusionInput{in("exclude", withRoles(secret), ""), druidv1alpha1.ExcludeSnapshotsConfig{Names: names, Reason: ptr("the faulty release"), LeaveNothing: ptr(true)}}),
		"exclusion-taken-back":    ExclusionJob(ExclusionInput{in("include", storeSpec("local", "", "p", ""), ""), druidv1alpha1.ExcludeSnapshotsConfig{Names: names[:1], Include: ptr(true)}}),
	} {
		t.Run(name, func(t *testing.T) {
			got, err := yaml.Marshal(job)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, name, got)
		})
	}
}

// A CronJob looks for what is due from the time on after which it were too late. What is reckoned from there is never
// due if that is nearer than one period.
func TestAScheduleByPeriodsIsNeverTooLate(t *testing.T) {
	for text, every := range map[string]time.Duration{"0 0 * * *": 0, "@every 1h": time.Hour, "@every 24h": 24 * time.Hour} {
		job := taskCronJob(TaskInput{Etcd: stored(storeSpec("aws", "bucket", "p", "")), Task: &druidv1alpha1.EtcdOperatorTask{}, Schedule: parsed(text)}, taskRun{})
		if late := time.Duration(*job.Spec.StartingDeadlineSeconds) * time.Second; late != every+6*time.Hour {
			t.Errorf("every %s: too late after %s", every, late)
		}
	}
}

func TestExpiredCopiesAreTheCollectors(t *testing.T) {
	for phrase, c := range map[string]struct {
		roles *druidv1alpha1.StoreRoles
		want  string // the Secret
		gc    bool
	}{
		"no roles":    {nil, "backup", true},
		"a collector": {&druidv1alpha1.StoreRoles{CollectorSecretRef: &corev1.SecretReference{Name: "collector"}}, "backup", false},
		"an extender": {&druidv1alpha1.StoreRoles{ExtenderSecretRef: &corev1.SecretReference{Name: "extender"}}, "extender", true},
		"both":        {withRoles(druidv1alpha1.StoreSpec{}).Roles, "extender", false},
	} {
		s := storeSpec("aws", "bucket", "p", "backup")
		s.Roles = c.roles
		pod := ExtensionCronJob(ExtensionInput{TaskInput: TaskInput{Etcd: stored(s), Task: &druidv1alpha1.EtcdOperatorTask{}}, Since: time.Unix(1, 0)}).Spec.JobTemplate.Spec.Template.Spec
		gc := slices.ContainsFunc(pod.Containers[0].Args, func(a string) bool { return strings.HasPrefix(a, "--gc-from-timestamp=") })
		if got := pod.Volumes[1].Secret.SecretName; got != c.want || gc != c.gc {
			t.Errorf("%s: the Secret %s, removes copies: %t; want %s, %t", phrase, got, gc, c.want, c.gc)
		}
	}
}

// Sidecars whose credentials need no right to delete do not try it, and get none of the other credentials.
func TestASidecarCollectsUnlessSomebodyElseDoes(t *testing.T) {
	for phrase, c := range map[string]struct {
		roles *druidv1alpha1.StoreRoles
		want  time.Duration
	}{
		"no roles":    {nil, 12 * time.Hour},
		"an extender": {&druidv1alpha1.StoreRoles{ExtenderSecretRef: &corev1.SecretReference{Name: "extender"}}, 12 * time.Hour},
		"an excluder": {&druidv1alpha1.StoreRoles{ExcluderSecretRef: &corev1.SecretReference{Name: "excluder"}}, 12 * time.Hour},
		"a collector": {&druidv1alpha1.StoreRoles{CollectorSecretRef: &corev1.SecretReference{Name: "collector"}}, 0},
	} {
		set, err := Objects(input(etcd(func(e *druidv1alpha1.Etcd) { withEverything(e); e.Spec.Backup.Store.Roles = c.roles })))
		if err != nil {
			t.Fatal(err)
		}
		conf, err := config.Parse([]byte(set.ConfigMap.Data[SidecarFile]))
		if err != nil {
			t.Fatal(err)
		}
		if got := conf.Snapshotter.GarbageCollectionPeriod.D(); got != c.want {
			t.Errorf("%s: it collects every %s, want %s", phrase, got, c.want)
		}
		for _, v := range set.StatefulSet.Spec.Template.Spec.Volumes {
			if v.Secret != nil && (v.Secret.SecretName == "collector" || v.Secret.SecretName == "extender" || v.Secret.SecretName == "excluder") {
				t.Errorf("%s: the pod has the Secret %s", phrase, v.Secret.SecretName)
			}
		}
	}
}
