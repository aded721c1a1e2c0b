package collection

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/operator/operatortask/task"
	"druid.internal/druid/internal/schedule"
)

func TestACollectionComesAsOftenAsItIsAskedFor(t *testing.T) {
	for period, want := range map[time.Duration]time.Duration{
		2 * time.Second: time.Minute, time.Minute: time.Minute, 7 * time.Minute: 6 * time.Minute, 59 * time.Minute: 30 * time.Minute,
		time.Hour: time.Hour, 5 * time.Hour: 4 * time.Hour, 12 * time.Hour: 12 * time.Hour, 24 * time.Hour: 24 * time.Hour, 168 * time.Hour: 24 * time.Hour,
	} {
		for _, who := range []string{"a", "b", "9f3c", "0f1e-22"} {
			text := about(period, who)
			s, err := schedule.Parse(text)
			if err != nil {
				t.Fatalf("%s of %s: %q: %v", period, who, text, err)
			}
			at := s.Next(time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC))
			for range 100 {
				next := s.Next(at)
				if got := next.Sub(at); got != want {
					t.Fatalf("%s of %s: %q comes %s after %s, want %s", period, who, text, got, at, want)
				}
				at = next
			}
		}
	}
}

func TestNotAllClustersAreCollectedAtOnce(t *testing.T) {
	at := map[string]bool{}
	for i := range 26 {
		at[about(12*time.Hour, string(rune('a'+i)))] = true
	}
	if len(at) < 20 {
		t.Errorf("26 clusters have %d schedules", len(at))
	}
}

// A cluster that sleeps makes nothing newer: what it has stays, but for copies that were made to be locked.
func TestTheHistoryOfAClusterThatSleepsStays(t *testing.T) {
	made, verified := time.Unix(100, 0), time.Unix(200, 0)
	slept := &druidv1alpha1.HibernationStatus{FinalSnapshot: &druidv1alpha1.FinalSnapshot{VerifiedAt: metav1.NewTime(verified)}}
	for phrase, c := range map[string]struct {
		replicas int32
		status   *druidv1alpha1.HibernationStatus
		want     time.Time // since when copies go; zero: retention decides
	}{
		"awake":                         {3, nil, time.Time{}},
		"asleep":                        {0, slept, verified},
		"asleep without a final full":   {0, &druidv1alpha1.HibernationStatus{}, made},
		"asleep, and nothing is known":  {0, nil, made},
		"awake, and nothing new so far": {3, slept, verified},
	} {
		e := &druidv1alpha1.Etcd{}
		e.Spec.Replicas, e.Status.Hibernation = c.replicas, c.status
		if got := copiesSince(&task.Task{Created: made}, e); !got.Equal(c.want) {
			t.Errorf("%s: %s, want %s", phrase, got, c.want)
		}
	}
}

// Of a listing nobody can tell that the newest backup is damaged, and that the copy which is kept locked in its place is needed.
func TestNothingGoesWhileTheNewestBackupIsDamaged(t *testing.T) {
	for phrase, c := range map[string]struct {
		status *druidv1alpha1.HibernationStatus
		want   bool
	}{
		"awake":                       {nil, false},
		"asleep":                      {&druidv1alpha1.HibernationStatus{FinalSnapshot: &druidv1alpha1.FinalSnapshot{}}, false},
		"asleep without a final full": {&druidv1alpha1.HibernationStatus{}, false},
		"something newer is there":    {&druidv1alpha1.HibernationStatus{FinalSnapshot: &druidv1alpha1.FinalSnapshot{Newer: "Full-10"}}, true},
		"hashes found no majority":    {&druidv1alpha1.HibernationStatus{FinalSnapshot: &druidv1alpha1.FinalSnapshot{Suspect: "two say otherwise"}}, false},
		"an extension found damage":   {&druidv1alpha1.HibernationStatus{FinalSnapshot: &druidv1alpha1.FinalSnapshot{Damaged: "Full-9: a hole"}}, true},
	} {
		e := &druidv1alpha1.Etcd{}
		e.Spec.Backup.Store = &druidv1alpha1.StoreSpec{Container: new("backups"), Provider: new(druidv1alpha1.StorageProvider("aws")), Roles: &druidv1alpha1.StoreRoles{CollectorSecretRef: &corev1.SecretReference{Name: "collector"}}}
		e.SetDefaults()
		e.Status.Hibernation = c.status
		job, err := cronJob(&task.Task{Name: "main-collection"}, task.Place{Etcd: e})
		if err != nil {
			t.Fatal(err)
		}
		if s := job.Spec.Suspend; (s != nil && *s) != c.want {
			t.Errorf("%s: suspended %v, want %t", phrase, s, c.want)
		}
	}
}

func TestACollectionEndsWithItsCollector(t *testing.T) {
	e := &druidv1alpha1.Etcd{}
	e.Spec.Backup.Store = &druidv1alpha1.StoreSpec{Provider: new(druidv1alpha1.StorageProvider("aws")), Roles: &druidv1alpha1.StoreRoles{ExtenderSecretRef: &corev1.SecretReference{Name: "extender"}}}
	if state, _ := over(e); state != druidv1alpha1.TaskSucceeded || nobody(nil, e) == "" {
		t.Errorf("with an extender alone it is %q", state)
	}
	e.Spec.Backup.Store.Roles.CollectorSecretRef = &corev1.SecretReference{Name: "collector"}
	if state, why := over(e); state != "" || nobody(nil, e) != "" {
		t.Errorf("with a collector it is %q: %s", state, why)
	}
}
