package cluster

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
)

// differs tells whether two objects say something else, as far as these tests change anything.
func differs(a, b client.Object) bool {
	switch a := a.(type) {
	case *appsv1.StatefulSet:
		return cmp.Diff(a.Spec, b.(*appsv1.StatefulSet).Spec) != ""
	case *corev1.ConfigMap:
		return cmp.Diff(a.Data, b.(*corev1.ConfigMap).Data) != ""
	case *policyv1.PodDisruptionBudget:
		return cmp.Diff(a.Spec, b.(*policyv1.PodDisruptionBudget).Spec) != ""
	case *corev1.Service:
		return cmp.Diff(a.Spec.Ports, b.(*corev1.Service).Spec.Ports) != ""
	case *rbacv1.Role:
		return cmp.Diff(a.Rules, b.(*rbacv1.Role).Rules) != ""
	}
	return false
}

// The rows of the table in the design of the original, in which an operator decides by the status of a
// cluster what it does. A row that is not followed has the reason in refused.
var table = []struct {
	number  int
	phrase  string
	seen    func(t *testing.T) *Observed
	members string // name=status(reason) of those that are not Ready
	// conditions that must hold, as Type=Status.
	conditions string
	changes    []string // of objects
	refused    string
}{
	{
		number: 1, phrase: "pink of health",
		seen:       func(t *testing.T) *Observed { return running(t, 3, relaxed) },
		conditions: "Ready=True AllMembersReady=True BackupReady=True QuorumLost=False",
	},
	{
		number: 2, phrase: "the members' status is behind their Leases",
		seen:       func(t *testing.T) *Observed { return running(t, 3, relaxed, silent(1, 2*time.Minute)) },
		members:    "main-1=Unknown(LeaseExpired)",
		conditions: "Ready=True AllMembersReady=False",
		changes:    []string{"change PodDisruptionBudget main"},
	},
	{
		number: 3, phrase: "all are ready, AllMembersReady is stale",
		seen: func(t *testing.T) *Observed {
			return running(t, 3, relaxed, was(druidv1alpha1.ConditionAllMembersReady, druidv1alpha1.ConditionFalse))
		},
		conditions: "AllMembersReady=True",
	},
	{
		number: 4, phrase: "not all are ready, AllMembersReady is stale",
		seen: func(t *testing.T) *Observed {
			return running(t, 3, relaxed, was(druidv1alpha1.ConditionAllMembersReady, druidv1alpha1.ConditionTrue), silent(0, 10*time.Minute))
		},
		members:    "main-0=NotReady(UnknownGracePeriodExceeded)",
		conditions: "AllMembersReady=False Ready=True",
		changes:    []string{"change PodDisruptionBudget main"},
	},
	{
		number: 5, phrase: "a majority is ready, Ready is stale",
		seen: func(t *testing.T) *Observed {
			return running(t, 3, relaxed, was(druidv1alpha1.ConditionReady, druidv1alpha1.ConditionFalse), silent(0, 10*time.Minute))
		},
		members:    "main-0=NotReady(UnknownGracePeriodExceeded)",
		conditions: "Ready=True",
		changes:    []string{"change PodDisruptionBudget main"},
	},
	{
		number: 6, phrase: "a majority is not ready, Ready is stale",
		seen: func(t *testing.T) *Observed {
			return running(t, 3, relaxed, was(druidv1alpha1.ConditionReady, druidv1alpha1.ConditionTrue), silent(0, 10*time.Minute), silent(1, 10*time.Minute))
		},
		members:    "main-0=NotReady(UnknownGracePeriodExceeded) main-1=NotReady(UnknownGracePeriodExceeded)",
		conditions: "Ready=False QuorumLost=True",
		changes:    []string{"change PodDisruptionBudget main"},
	},
	{
		number: 7, phrase: "members are unknown for long",
		seen:       func(t *testing.T) *Observed { return running(t, 3, relaxed, silent(2, 7*time.Minute)) },
		members:    "main-2=NotReady(UnknownGracePeriodExceeded)",
		conditions: "AllMembersReady=False",
		changes:    []string{"change PodDisruptionBudget main"},
	},
	{
		number: 8, phrase: "pods are not ready and have not said so",
		seen:       func(t *testing.T) *Observed { return running(t, 3, relaxed, silent(1, 2*time.Minute), down(1)) },
		members:    "main-1=NotReady(ContainersNotReady)",
		conditions: "AllMembersReady=False Ready=True",
		changes:    []string{"change PodDisruptionBudget main"},
		refused:    "a fresh Lease counts more than a pod that is not ready: only when the Lease has expired the member is not ready, with the reason ContainersNotReady, as the original came to do it too",
	},
	{
		number: 9, phrase: "a minority is not ready",
		seen:       func(t *testing.T) *Observed { return running(t, 3, relaxed, silent(1, 10*time.Minute), down(1)) },
		members:    "main-1=NotReady(UnknownGracePeriodExceeded)",
		conditions: "Ready=True AllMembersReady=False",
		changes:    []string{"change PodDisruptionBudget main"},
		refused:    "the pod stays: what hangs is restarted by its liveness probe, and a member that restores or waits for its volume would begin anew, for ever",
	},
	{
		number: 10, phrase: "the quorum is lost",
		seen: func(t *testing.T) *Observed {
			return running(t, 3, relaxed, silent(0, 10*time.Minute), silent(1, 10*time.Minute), down(0), down(1))
		},
		members:    "main-0=NotReady(UnknownGracePeriodExceeded) main-1=NotReady(UnknownGracePeriodExceeded)",
		conditions: "Ready=False QuorumLost=True",
		changes:    []string{"change PodDisruptionBudget main"},
		refused:    "nothing is scaled to zero and no data are given up without a person: the condition QuorumLost says what can be done",
	},
	{
		number: 11, phrase: "growth of a healthy cluster",
		seen:       func(t *testing.T) *Observed { return running(t, 3, relaxed, wants(5)) },
		conditions: "Ready=True",
		changes:    []string{"change Role druid.gardener.cloud:etcd:main", "make EtcdMember main-3", "make EtcdMember main-4", "make Lease main-3", "make Lease main-4", "change PodDisruptionBudget main", "change ConfigMap main-config"},
	},
	{
		number: 12, phrase: "shrinking of a healthy cluster",
		seen:       func(t *testing.T) *Observed { return running(t, 3, relaxed, wants(1)) },
		conditions: "Ready=True",
		changes:    []string{"change ConfigMap main-config"},
	},
	{
		number: 13, phrase: "entries of members that are none",
		seen: func(t *testing.T) *Observed {
			return running(t, 1, func(o *Observed) {
				o.join(1, false)
				delete(o.Sidecars, 1)
				o.elect()
				o.Pods, o.Etcd.Status.LastKnownRevision = o.Pods[:1], ptr(int64(1000))
			})
		},
		conditions: "Ready=True",
		changes:    []string{"remove EtcdMember main-1", "remove Lease main-1"},
	},
}

// relaxed is the PodDisruptionBudget of a cluster of three that was healthy.
func relaxed(o *Observed) {
	for _, object := range o.Live {
		if b, ok := object.(*policyv1.PodDisruptionBudget); ok {
			b.Spec.MinAvailable.IntVal = 2
		}
	}
}

func TestTheTableOfTheDesignIsFollowed(t *testing.T) {
	for i, row := range table {
		if row.number != i+1 {
			t.Fatalf("row %d stands at %d", row.number, i+1)
		}
		o := row.seen(t)
		p := mustDecide(t, o, testSettings)
		if got := unwell(p.Members); got != row.members {
			t.Errorf("row %d, %s: members %q, want %q", row.number, row.phrase, got, row.members)
		}
		has := " " + summary(p.Conditions) + " "
		for want := range strings.FieldsSeq(row.conditions) {
			if !strings.Contains(has, " "+want+" ") {
				t.Errorf("row %d, %s: conditions %s, want %s", row.number, row.phrase, has, want)
			}
		}
		if diff := cmp.Diff(row.changes, changes(o, p)); diff != "" {
			t.Errorf("row %d, %s: changes (-want +got):\n%s", row.number, row.phrase, diff)
		}
		for _, r := range p.Remove {
			if r.Reason == "" {
				t.Errorf("row %d, %s: %s %s is removed without a reason", row.number, row.phrase, r.Kind, r.Object.GetName())
			}
		}
	}
}

// summary is the conditions in one line.
func summary(conditions []druidv1alpha1.Condition) string {
	var all []string
	for _, c := range conditions {
		all = append(all, string(c.Type)+"="+string(c.Status))
	}
	return strings.Join(all, " ")
}

// unwell are the members that are not ready.
func unwell(members []druidv1alpha1.EtcdMemberStatus) string {
	var all []string
	for _, m := range members {
		if m.Status != druidv1alpha1.EtcdMemberStatusReady {
			all = append(all, m.Name+"="+string(m.Status)+"("+m.Reason+")")
		}
	}
	return strings.Join(all, " ")
}
