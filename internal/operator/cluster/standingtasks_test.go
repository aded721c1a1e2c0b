package cluster

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
)

func collector(o *Observed) {
	o.Etcd.Spec.Backup.Store.Roles = &druidv1alpha1.StoreRoles{CollectorSecretRef: &corev1.SecretReference{Name: "collector"}}
}

func TestACollectorHasATaskOfItsOwn(t *testing.T) {
	never := func(o *Observed) { o.Etcd.Spec.Backup.GarbageCollectionPeriod = &metav1.Duration{} }
	made := func(o *Observed) {
		task := collectionTask(o.Etcd)
		o.Live[keyOf(task)] = task
	}
	theirs := func(o *Observed) {
		task := collectionTask(o.Etcd)
		task.OwnerReferences = nil
		o.Live[keyOf(task)] = task
	}
	for phrase, c := range map[string]struct {
		seen []func(*Observed)
		want string
	}{
		"nobody is named":                 {nil, ""},
		"one is named":                    {[]func(*Observed){collector}, "make EtcdOperatorTask main-collection"},
		"the task is there":               {[]func(*Observed){collector, made}, ""},
		"he is not named any more":        {[]func(*Observed){made}, "remove EtcdOperatorTask main-collection"},
		"somebody made it himself":        {[]func(*Observed){theirs}, ""},
		"nothing is ever collected":       {[]func(*Observed){collector, never}, ""},
		"nothing is collected any more":   {[]func(*Observed){collector, never, made}, "remove EtcdOperatorTask main-collection"},
		"one is named, and it sleeps":     {[]func(*Observed){wants(0), recorded(2), gone, collector}, "make EtcdOperatorTask main-collection"},
		"it sleeps, and the task stays":   {[]func(*Observed){wants(0), recorded(2), gone, collector, made}, ""},
		"the store goes with everything":  {[]func(*Observed){made, func(o *Observed) { o.Etcd.Spec.Backup.Store = nil }}, "remove EtcdOperatorTask main-collection"},
		"it sleeps, and both are needed":  {[]func(*Observed){wants(0), locks, recorded(2), gone, collector}, "make EtcdOperatorTask main-hibernation, make EtcdOperatorTask main-collection"},
		"it wakes up, and nothing is new": {[]func(*Observed){locks, recorded(1, awake), collector, made, asked}, ""},
	} {
		o := running(t, 3, c.seen...)
		var got []string
		for _, text := range changes(o, mustDecide(t, o, testSettings)) {
			if strings.Contains(text, druidv1alpha1.KindEtcdOperatorTask) {
				got = append(got, text)
			}
		}
		if all := strings.Join(got, ", "); all != c.want {
			t.Errorf("%s: %q, want %q", phrase, all, c.want)
		}
	}
}

// Who deletes is no part of where the backups are: nobody has to prove anew that they are complete.
func TestRolesDoNotChangeWhereTheBackupsAre(t *testing.T) {
	o := running(t, 3)
	before := backupChecksum(o.Etcd, "owner")
	collector(o)
	if after := backupChecksum(o.Etcd, "owner"); after != before {
		t.Errorf("the digest was %s and is %s", before, after)
	}
}

func TestTasksThatAreNeededAreMadeAnewSoon(t *testing.T) {
	e := newEtcd(3)
	for _, task := range []*druidv1alpha1.EtcdOperatorTask{extensionTask(e), collectionTask(e)} {
		if ttl := *task.Spec.TTLSecondsAfterFinished; time.Duration(ttl)*time.Second != standingTTL || task.Spec.Config != nil || !metav1.IsControlledBy(task, e) {
			t.Errorf("%s is %+v", task.Name, task.Spec)
		}
	}
}
