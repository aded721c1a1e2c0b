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
		"one is named, his name is taken": {[]func(*Observed){collector, func(o *Observed) { o.CollectionTaken = true }}, ""},
		"nothing is ever collected":       {[]func(*Observed){collector, never}, ""},
		"nothing is collected any more":   {[]func(*Observed){collector, never, made}, "remove EtcdOperatorTask main-collection"},
		"one is named, and it sleeps":     {[]func(*Observed){wants(0), recorded(2), gone, collector}, "make EtcdOperatorTask main-collection"},
		"it sleeps, and the task stays":   {[]func(*Observed){wants(0), recorded(2), gone, collector, made}, ""},
		"the store goes with everything":  {[]func(*Observed){made, func(o *Observed) { o.Etcd.Spec.Backup.Store = nil }}, "remove EtcdOperatorTask main-collection"},
		"it sleeps, and both are needed":  {[]func(*Observed){wants(0), locks, recorded(2), gone, collector}, "make EtcdOperatorTask main-hibernation, make EtcdOperatorTask main-collection"},
		"it wakes up, and nothing is new": {[]func(*Observed){locks, recorded(1, awake), collector, made, asked}, ""},
		"the same, and the task is gone":  {[]func(*Observed){locks, recorded(1, awake), collector, made}, "make EtcdOperatorTask main-hibernation"},
		"the same, its name is taken":     {[]func(*Observed){locks, recorded(1, awake), collector, made, func(o *Observed) { o.NoExtension = "taken" }}, ""},
		"the same, somebody's is there":   {[]func(*Observed){locks, recorded(1, awake), collector, made, somebodys}, ""},
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

func somebodys(o *Observed) {
	o.Extension = extensionTask(o.Etcd)
	o.Extension.Name, o.Extension.OwnerReferences = "somebodys", nil
}

func TestTasksThatAreNeededAreMadeAnewSoon(t *testing.T) {
	e := newEtcd(3)
	for _, task := range []*druidv1alpha1.EtcdOperatorTask{extensionTask(e), collectionTask(e)} {
		if ttl := *task.Spec.TTLSecondsAfterFinished; time.Duration(ttl)*time.Second != standingTTL || task.Spec.Config != nil || !metav1.IsControlledBy(task, e) {
			t.Errorf("%s is %+v", task.Name, task.Spec)
		}
	}
}

// A change that is refused changes nothing of what is applied.
func TestTheTaskOfASleepIsMadeAnewWhileAChangeIsRefused(t *testing.T) {
	short := func(o *Observed) {
		o.Etcd.Status.Hibernation.Applied = &druidv1alpha1.AppliedBackup{Store: o.Etcd.Spec.Backup.Store.DeepCopy(), FullSnapshotSchedule: o.Etcd.Spec.Backup.FullSnapshotSchedule}
		o.Etcd.Spec.Backup.Store = o.Etcd.Spec.Backup.Store.DeepCopy()
		o.Etcd.Spec.Backup.Store.Immutability = &druidv1alpha1.ImmutabilitySpec{RetentionType: druidv1alpha1.RetentionObject, RetentionPeriod: &metav1.Duration{Duration: 12 * time.Hour}}
	}
	for phrase, c := range map[string]struct {
		seen func(*Observed)
		want string
	}{
		"it is gone":              {func(*Observed) {}, "make EtcdOperatorTask main-hibernation"},
		"it is there":             {asked, ""},
		"somebody's is there":     {somebodys, ""},
		"nothing was ever locked": {func(o *Observed) { o.Etcd.Status.Hibernation.Applied.Store.Immutability = nil }, ""},
	} {
		o := running(t, 3, wants(0), locks, recorded(2), gone, short, c.seen)
		p := mustDecide(t, o, testSettings)
		if got := strings.Join(changes(o, p), ", "); len(p.Refused) == 0 || got != c.want {
			t.Errorf("%s: %q, want %q; refused %q", phrase, got, c.want, p.Refused)
		}
	}
}

// Nobody may think that locks are prolonged when there is no task that does that, and none comes.
func TestThatNoTaskProlongsTheLocksIsTold(t *testing.T) {
	works := func(o *Observed) { o.Extension.Status.State = druidv1alpha1.TaskInProgress }
	suspended := func(o *Observed) {
		o.Etcd.Annotations = map[string]string{druidv1alpha1.AnnotationSuspendReconcile: "true"}
	}
	for phrase, c := range map[string]struct {
		seen []func(*Observed)
		want druidv1alpha1.ConditionStatus
		told string
	}{
		"it is there":                     {[]func(*Observed){asked, works}, druidv1alpha1.ConditionTrue, ""},
		"it is there, nothing is done":    {[]func(*Observed){asked, works, suspended}, druidv1alpha1.ConditionTrue, ""},
		"it is made":                      {nil, druidv1alpha1.ConditionTrue, ""},
		"it is gone, and nothing is done": {[]func(*Observed){suspended}, druidv1alpha1.ConditionFalse, "the operator makes none, suspended by"},
		"its name is taken":               {[]func(*Observed){func(o *Observed) { o.NoExtension = "somebody has its name" }}, druidv1alpha1.ConditionFalse, "somebody has its name"},
	} {
		o := running(t, 3, append([]func(*Observed){wants(0), locks, recorded(2), gone}, c.seen...)...)
		got := druidv1alpha1.FindCondition(mustDecide(t, o, testSettings).Conditions, druidv1alpha1.ConditionHibernationBackupProtected)
		if got == nil || got.Status != c.want || !strings.Contains(got.Message, c.told) {
			t.Errorf("%s: %+v, want %s, %q", phrase, got, c.want, c.told)
		}
	}
}

func TestTheTaskOfASleepIsMadeAnewWhileAChangeWaits(t *testing.T) {
	for phrase, c := range map[string]struct {
		change func(*druidv1alpha1.HibernationStatus)
		want   bool
	}{
		"it sleeps":         {func(*druidv1alpha1.HibernationStatus) {}, true},
		"it wakes up":       {func(h *druidv1alpha1.HibernationStatus) { h.AwakeSince = ptr(ago(0)) }, true},
		"another one slept": {func(h *druidv1alpha1.HibernationStatus) { h.EtcdUID = "other" }, false},
		"without a full":    {func(h *druidv1alpha1.HibernationStatus) { h.FinalSnapshot = nil }, false},
	} {
		o := running(t, 1)
		o.Etcd.Spec.Backup.Store.Immutability = &druidv1alpha1.ImmutabilitySpec{RetentionType: druidv1alpha1.RetentionBucket}
		o.Etcd.Spec.Replicas, o.Etcd.Generation, o.Pods = 0, 2, nil
		o.StatefulSet.Spec.Replicas = ptr(int32(0))
		h := &druidv1alpha1.HibernationStatus{EtcdUID: o.Etcd.UID, FinalSnapshot: &druidv1alpha1.FinalSnapshot{Name: "Full"}}
		c.change(h)
		o.Etcd.Status.Hibernation = h
		settings := testSettings
		settings.AutoReconcile = false
		p := mustDecide(t, o, settings)
		made := false
		for _, object := range p.Objects {
			made = made || keyOf(object) == Key{druidv1alpha1.KindEtcdOperatorTask, o.Etcd.HibernationTaskName()}
		}
		if p.Mode != ModeTend || made != c.want {
			t.Errorf("%s, in mode %s: it is made: %t, want %t", phrase, p.Mode, made, c.want)
		}
	}
}
