package metrics

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
)

var testNow = time.Unix(100_000, 0)

// fixed are Etcds that never change, or an error.
type fixed struct {
	etcds []druidv1alpha1.Etcd
	err   error
}

func (f fixed) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	list.(*druidv1alpha1.EtcdList).Items = f.etcds
	return f.err
}

func closed() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// values are what is shown, by name and labels.
func values(t *testing.T, r *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			key := f.GetName()
			for _, l := range m.GetLabel() {
				key += " " + l.GetName() + "=" + l.GetValue()
			}
			switch {
			case m.GetGauge() != nil:
				all[key] = m.GetGauge().GetValue()
			case m.GetCounter() != nil:
				all[key] = m.GetCounter().GetValue()
			case m.GetHistogram() != nil:
				all[key] = float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return all
}

// etcd is one with a status.
func etcd(name string, replicas int32, store bool, conditions ...druidv1alpha1.Condition) druidv1alpha1.Etcd {
	e := druidv1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Spec: druidv1alpha1.EtcdSpec{Replicas: replicas}}
	if store {
		provider := druidv1alpha1.StorageProvider("aws")
		e.Spec.Backup.Store = &druidv1alpha1.StoreSpec{Provider: &provider}
	}
	e.Status.Conditions = conditions
	return e
}

// condition has been so for a minute.
func condition(of druidv1alpha1.ConditionType, s druidv1alpha1.ConditionStatus) druidv1alpha1.Condition {
	return druidv1alpha1.Condition{Type: of, Status: s, Reason: "Why", LastTransitionTime: metav1.NewTime(testNow.Add(-time.Minute))}
}

func TestEtcdsAreCountedWhenSomebodyLooks(t *testing.T) {
	broken := etcd("broken", 3, true,
		condition(druidv1alpha1.ConditionReady, druidv1alpha1.ConditionFalse), condition(druidv1alpha1.ConditionQuorumLost, druidv1alpha1.ConditionTrue),
		condition(druidv1alpha1.ConditionBackupReady, druidv1alpha1.ConditionUnknown), condition(druidv1alpha1.ConditionAllMembersUpdated, druidv1alpha1.ConditionFalse),
		condition(druidv1alpha1.ConditionImagesReplaced, druidv1alpha1.ConditionTrue))
	broken.Status.LastOperation = &druidv1alpha1.LastOperation{State: druidv1alpha1.LastOperationError}
	asleep := etcd("asleep", 3, true, condition(druidv1alpha1.ConditionReady, druidv1alpha1.ConditionFalse))
	asleep.Annotations = map[string]string{druidv1alpha1.AnnotationDisableRuntimeComponents: ""}
	asleep.Status.Conditions[0].Reason = druidv1alpha1.ReasonNotChecked
	held := etcd("held", 0, true, condition(druidv1alpha1.ConditionHibernated, druidv1alpha1.ConditionFalse))
	lapsing := etcd("lapsing", 0, true, condition(druidv1alpha1.ConditionHibernated, druidv1alpha1.ConditionTrue),
		condition(druidv1alpha1.ConditionHibernationBackupProtected, druidv1alpha1.ConditionUnknown))
	asleep.Status.Backup = &druidv1alpha1.EtcdBackupStatus{BackupStatus: druidv1alpha1.BackupStatus{ExcludedSnapshotsCount: 2}}
	held.Status.Backup = &druidv1alpha1.EtcdBackupStatus{BackupStatus: druidv1alpha1.BackupStatus{TamperFindingsCount: 3}}
	etcds := fixed{etcds: []druidv1alpha1.Etcd{
		etcd("well", 3, true, condition(druidv1alpha1.ConditionReady, druidv1alpha1.ConditionTrue), condition(druidv1alpha1.ConditionBackupReady, druidv1alpha1.ConditionTrue),
			condition(druidv1alpha1.ConditionQuorumLost, druidv1alpha1.ConditionFalse)),
		broken, asleep, held, lapsing, etcd("new", 1, false),
	}}
	r := prometheus.NewRegistry()
	if err := New().Register(r, etcds, closed(), func() time.Time { return testNow }); err != nil {
		t.Fatal(err)
	}
	want := map[string]float64{
		"etcddruid_etcds state=ready": 1, "etcddruid_etcds state=unready": 1, "etcddruid_etcds state=unknown": 1, "etcddruid_etcds state=hibernated": 3,
		"etcddruid_etcd_backups state=ready": 1, "etcddruid_etcd_backups state=unready": 0, "etcddruid_etcd_backups state=unknown": 1,
		"etcddruid_etcd_backups state=hibernated": 3, "etcddruid_etcd_backups state=none": 1,
		"etcddruid_etcd_operations state=Succeeded": 0, "etcddruid_etcd_operations state=Processing": 0,
		"etcddruid_etcd_operations state=Requeue": 0, "etcddruid_etcd_operations state=Error": 1,
		"etcddruid_etcd_rollouts": 1,
		"etcddruid_etcd_backup_excluded_snapshots etcd=asleep etcd_namespace=shop":                                              2,
		"etcddruid_etcd_backup_tamper_findings etcd=held etcd_namespace=shop":                                                   3,
		"etcddruid_etcd_condition_seconds condition=Hibernated etcd=held etcd_namespace=shop status=False":                      60,
		"etcddruid_etcd_condition_seconds condition=HibernationBackupProtected etcd=lapsing etcd_namespace=shop status=Unknown": 60,
	}
	for c, status := range map[string]string{"Ready": "False", "QuorumLost": "True", "BackupReady": "Unknown", "AllMembersUpdated": "False"} {
		want["etcddruid_etcd_condition_seconds condition="+c+" etcd=broken etcd_namespace=shop status="+status] = 60
	}
	if d := cmp.Diff(want, values(t, r)); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func TestAnOperatorThatDoesNotWorkCountsNoEtcds(t *testing.T) {
	r, leads := prometheus.NewRegistry(), make(chan struct{})
	if err := New().Register(r, fixed{etcds: []druidv1alpha1.Etcd{etcd("a", 1, false)}}, leads, time.Now); err != nil {
		t.Fatal(err)
	}
	if got := values(t, r); len(got) > 0 {
		t.Errorf("it shows %v", got)
	}
	close(leads)
	if got := values(t, r)["etcddruid_etcds state=unknown"]; got != 1 {
		t.Errorf("when it works it shows %v Etcds, want 1", got)
	}
}

// Nothing instead of the Etcds looked like there are none.
func TestEtcdsThatCannotBeReadAreAnError(t *testing.T) {
	r := prometheus.NewRegistry()
	if err := New().Register(r, fixed{err: errors.New("no cache")}, closed(), time.Now); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Gather(); err == nil {
		t.Error("that the Etcds cannot be read is not told")
	}
}

func TestEverythingThatIsShownIsInTheCatalogue(t *testing.T) {
	r, c := prometheus.NewRegistry(), New()
	e := etcd("a", 1, false, condition(druidv1alpha1.ConditionReady, druidv1alpha1.ConditionFalse))
	e.Status.Backup = &druidv1alpha1.EtcdBackupStatus{BackupStatus: druidv1alpha1.BackupStatus{ExcludedSnapshotsCount: 1, TamperFindingsCount: 1}}
	if err := c.Register(r, fixed{etcds: []druidv1alpha1.Etcd{e}}, closed(), time.Now); err != nil {
		t.Fatal(err)
	}
	c.Looked("apply", Done)
	c.Clock().Ended(Observe)
	c.Object("Service", Created)
	c.PodReplaced()
	c.Failure("ERR_OBSERVE")
	c.Snapshot(time.Second, true)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]Row{}
	for _, f := range families {
		var labels []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, l.GetName())
		}
		shown[f.GetName()] = Row{Name: f.GetName(), Kind: map[string]string{"COUNTER": "counter", "GAUGE": "gauge", "HISTOGRAM": "histogram"}[f.GetType().String()], Labels: labels, Help: f.GetHelp()}
	}
	for _, row := range c.Rows() {
		row.Labels = slices.Sorted(slices.Values(row.Labels))
		if d := cmp.Diff(row, shown[row.Name]); d != "" {
			t.Errorf("%s: -catalogue +shown:\n%s", row.Name, d)
		}
		delete(shown, row.Name)
	}
	for name := range maps.Keys(shown) {
		t.Errorf("%s is not in the catalogue", name)
	}
}

func TestTasksAreCountedInTheWordsOfTheDesign(t *testing.T) {
	tasks, r := NewTasks(), prometheus.NewRegistry()
	if err := tasks.Register(r); err != nil {
		t.Fatal(err)
	}
	tasks.Ended("OnDemandSnapshot", "Succeeded", "main", "shop", time.Second)
	const labels = " etcd=main etcd_namespace=shop state=succeeded type=OnDemandSnapshot"
	want := map[string]float64{"etcddruid_operator_tasks_total" + labels: 1, "etcddruid_operator_task_duration_seconds" + labels: 1}
	if diff := cmp.Diff(want, values(t, r)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
