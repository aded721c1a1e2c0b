package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
)

// Reader lists Etcds: the manager's cache, so that nobody asks the API server.
type Reader interface {
	List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error
}

// gauge is a metric that is made up of the Etcds at each look.
type gauge struct {
	name   string
	labels []string
	help   string
	desc   *prometheus.Desc
}

func newGauge(name, help string, labels ...string) gauge {
	name = prometheus.BuildFQName(namespace, "", name)
	return gauge{name, labels, help, prometheus.NewDesc(name, help, labels, nil)}
}

var (
	etcdsByState      = newGauge("etcds", "Etcds by whether they have a quorum (the condition Ready): ready, unready or unknown; hibernated are those without members (replicas: 0, or the annotation disable-etcd-runtime-component-creation).", "state")
	backupsByState    = newGauge("etcd_backups", "Etcds by whether their backups are as recent as promised (the condition BackupReady): ready, unready or unknown; none are those without a store, and hibernated those without members.", "state")
	operationsByState = newGauge("etcd_operations", "Etcds by the state of their last operation.", "state")
	rollouts          = newGauge("etcd_rollouts", "Etcds of which not all pods are as the specification wants them (the condition AllMembersUpdated is False).")
	troubles          = newGauge("etcd_condition_seconds", "For how long a condition of an Etcd has been other than that of a healthy one, in seconds; only shown while it is. status is what it is instead.",
		"etcd_namespace", "etcd", "condition", "status")
	tampered = newGauge("etcd_backup_tamper_findings", "What somebody may have done to the bucket of an Etcd (status.backup.tamperFindings), by the last look of its backup leader; only shown if there is something.",
		"etcd_namespace", "etcd")
	excluded = newGauge("etcd_backup_excluded_snapshots", "Snapshots of an Etcd that somebody excluded from restores (status.backup.excludedSnapshots), by the last look of its backup leader, or, while it sleeps, by the last run of its extension; only shown if there are any.",
		"etcd_namespace", "etcd")
)

var gauges = []gauge{etcdsByState, backupsByState, operationsByState, rollouts, troubles, tampered, excluded}

// The states of an Etcd and of its backups.
const (
	ready      = "ready"
	unready    = "unready"
	unknown    = "unknown"
	hibernated = "hibernated"
	none       = "none"
)

// census counts the Etcds whenever somebody wants to know. Nothing is kept, so an Etcd that is gone
// is not counted any more.
type census struct {
	etcds Reader
	leads <-chan struct{}
	now   func() time.Time
}

// Describe implements prometheus.Collector.
func (c *census) Describe(to chan<- *prometheus.Desc) {
	for _, g := range gauges {
		to <- g.desc
	}
}

// Collect implements prometheus.Collector.
func (c *census) Collect(to chan<- prometheus.Metric) {
	select {
	case <-c.leads:
	default:
		return
	}
	var list druidv1alpha1.EtcdList
	if err := c.etcds.List(context.Background(), &list, client.UnsafeDisableDeepCopy); err != nil {
		to <- prometheus.NewInvalidMetric(etcdsByState.desc, err)
		return
	}
	n := count(list.Items)
	show := func(g gauge, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, value, labels...)
	}
	for state, of := range n.etcds {
		show(etcdsByState, float64(of), state)
	}
	for state, of := range n.backups {
		show(backupsByState, float64(of), state)
	}
	for state, of := range n.operations {
		show(operationsByState, float64(of), string(state))
	}
	show(rollouts, float64(n.rollouts))
	now := c.now()
	for i := range list.Items {
		e := &list.Items[i]
		for _, t := range inTrouble(e) {
			show(troubles, max(0, now.Sub(t.LastTransitionTime.Time).Seconds()), e.Namespace, e.Name, string(t.Type), string(t.Status))
		}
		if b := e.Status.Backup; b != nil && b.TamperFindingsCount > 0 {
			show(tampered, float64(b.TamperFindingsCount), e.Namespace, e.Name)
		}
		if b := e.Status.Backup; b != nil && b.ExcludedSnapshotsCount > 0 {
			show(excluded, float64(b.ExcludedSnapshotsCount), e.Namespace, e.Name)
		}
	}
}

// numbers are how many Etcds there are of each state, 0 included.
type numbers struct {
	etcds, backups map[string]int
	operations     map[druidv1alpha1.LastOperationState]int
	rollouts       int
}

func count(etcds []druidv1alpha1.Etcd) numbers {
	n := numbers{
		etcds:   map[string]int{ready: 0, unready: 0, unknown: 0, hibernated: 0},
		backups: map[string]int{ready: 0, unready: 0, unknown: 0, hibernated: 0, none: 0},
		operations: map[druidv1alpha1.LastOperationState]int{
			druidv1alpha1.LastOperationSucceeded: 0, druidv1alpha1.LastOperationProcessing: 0, druidv1alpha1.LastOperationRequeue: 0, druidv1alpha1.LastOperationError: 0,
		},
	}
	for i := range etcds {
		e := &etcds[i]
		n.etcds[state(e, druidv1alpha1.ConditionReady)]++
		backups := none
		if e.BackupsEnabled() {
			backups = state(e, druidv1alpha1.ConditionBackupReady)
		}
		n.backups[backups]++
		if op := e.Status.LastOperation; op != nil {
			n.operations[op.State]++
		}
		if c := druidv1alpha1.FindCondition(e.Status.Conditions, druidv1alpha1.ConditionAllMembersUpdated); c != nil && c.Status == druidv1alpha1.ConditionFalse {
			n.rollouts++
		}
	}
	return n
}

// state is that of a condition of an Etcd.
func state(e *druidv1alpha1.Etcd, of druidv1alpha1.ConditionType) string {
	c := druidv1alpha1.FindCondition(e.Status.Conditions, of)
	switch {
	case e.NoMembers() != "" && (c == nil || c.Reason == druidv1alpha1.ReasonNotChecked): // otherwise the members go on
		return hibernated
	case c == nil:
		return unknown
	case c.Status == druidv1alpha1.ConditionTrue:
		return ready
	case c.Status == druidv1alpha1.ConditionFalse:
		return unready
	}
	return unknown
}

// healthy is what the conditions of a healthy Etcd are. Those about a specification that works
// otherwise than it says are none of trouble, and left out.
var healthy = map[druidv1alpha1.ConditionType]druidv1alpha1.ConditionStatus{
	druidv1alpha1.ConditionReady:             druidv1alpha1.ConditionTrue,
	druidv1alpha1.ConditionAllMembersReady:   druidv1alpha1.ConditionTrue,
	druidv1alpha1.ConditionAllMembersUpdated: druidv1alpha1.ConditionTrue,
	druidv1alpha1.ConditionBackupReady:       druidv1alpha1.ConditionTrue,
	druidv1alpha1.ConditionBackupsProtected:  druidv1alpha1.ConditionTrue,
	druidv1alpha1.ConditionDataVolumesReady:  druidv1alpha1.ConditionTrue,
	druidv1alpha1.ConditionClusterIDMismatch: druidv1alpha1.ConditionFalse,
	druidv1alpha1.ConditionQuorumLost:        druidv1alpha1.ConditionFalse,
	druidv1alpha1.ConditionSchedulesValid:    druidv1alpha1.ConditionTrue,

	druidv1alpha1.ConditionHibernated:                 druidv1alpha1.ConditionTrue, // absent of one that is awake
	druidv1alpha1.ConditionHibernationBackupProtected: druidv1alpha1.ConditionTrue,

	druidv1alpha1.ConditionBootstrappedWithExistingCluster: druidv1alpha1.ConditionTrue,
	druidv1alpha1.ConditionLastSnapshotCompactionSucceeded: druidv1alpha1.ConditionTrue,
}

// inTrouble are the conditions of an Etcd that are not as those of a healthy one. Those that were not
// checked, as there are no members, tell nothing.
func inTrouble(e *druidv1alpha1.Etcd) (all []druidv1alpha1.Condition) {
	for _, c := range e.Status.Conditions {
		if want, counts := healthy[c.Type]; counts && c.Status != want && c.Reason != druidv1alpha1.ReasonNotChecked {
			all = append(all, c)
		}
	}
	return all
}
