package cluster

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/agentapi"
)

func joinsOutside(e *druidv1alpha1.Etcd) {
	e.Spec.Etcd.BootstrapWithExistingCluster = &druidv1alpha1.BootstrapWithExistingCluster{
		Members: []druidv1alpha1.ExistingMember{{Name: "old-0", PeerURLs: []string{"http://old:2380"}}}, ClientEndpoints: []string{"http://old:2379"},
	}
}

func TestAnEtcdThatJoinsAnExistingClusterIsMade(t *testing.T) {
	o := empty(newEtcd(3, joinsOutside))
	p := mustDecide(t, o, testSettings)
	if len(p.Refused) != 0 || len(p.Objects) == 0 || p.Size.Replicas != 3 && p.Size.Members != 3 {
		t.Errorf("refused %q, %d objects, size %+v", p.Refused, len(p.Objects), p.Size)
	}
	c := druidv1alpha1.FindCondition(p.Conditions, druidv1alpha1.ConditionBootstrappedWithExistingCluster)
	if c == nil || c.Status != druidv1alpha1.ConditionFalse || c.Reason != druidv1alpha1.ReasonBootstrapInProgress {
		t.Errorf("condition %+v", c)
	}
}

// TestTheStatusRemembersTheClusterThatWasJoined, and pods are told at once when it is not named any
// more, without being replaced.
func TestTheStatusRemembersTheClusterThatWasJoined(t *testing.T) {
	o := running(t, 3)
	joinsOutside(o.Etcd)
	p := mustDecide(t, o, testSettings)
	s := statusOf(o, p, outcome{}, "run", testNow)
	want := &druidv1alpha1.BootstrapWithExistingClusterStatus{JoinedAt: ago(0), Members: o.Etcd.Spec.Etcd.BootstrapWithExistingCluster.Members}
	if diff := cmp.Diff(want, s.BootstrapWithExistingCluster); diff != "" {
		t.Errorf("after all joined (-want +got):\n%s", diff)
	}
	o.Etcd.Status = s
	if s = statusOf(o, mustDecide(t, o, testSettings), outcome{}, "run", testNow.Add(1e9)); !cmp.Equal(want, s.BootstrapWithExistingCluster) {
		t.Errorf("the time changed: %+v", s.BootstrapWithExistingCluster)
	}
	o.Etcd.Spec.Etcd.BootstrapWithExistingCluster = nil
	after := mustDecide(t, o, testSettings)
	if after.Configuration == p.Configuration {
		t.Error("the pods are not told that no cluster outside is named any more")
	}
	if c := druidv1alpha1.FindCondition(after.Conditions, druidv1alpha1.ConditionBootstrappedWithExistingCluster); c == nil || c.Status != druidv1alpha1.ConditionTrue {
		t.Errorf("condition %+v", c)
	}
	if s = statusOf(o, after, outcome{}, "run", testNow); !cmp.Equal(want, s.BootstrapWithExistingCluster) {
		t.Errorf("it was forgotten: %+v", s.BootstrapWithExistingCluster)
	}
}

func TestMembersThatShareAClusterDoNotSleep(t *testing.T) {
	noStore := func(o *Observed) { o.Etcd.Spec.Backup.Store = nil }
	o := running(t, 3, noStore, wants(0))
	joinsOutside(o.Etcd)
	if p := mustDecide(t, o, testSettings); p.Size.Replicas != 3 || !strings.Contains(p.Waits(), "spec.etcd.bootstrapWithExistingCluster to be removed") {
		t.Errorf("%+v, waits for %q", p.Size, p.Waits())
	}
	for i := range o.Members {
		o.Members[i].Status.ID = nil
	}
	if p := mustDecide(t, o, testSettings); p.Size.Replicas != 0 {
		t.Errorf("though nobody has joined: %+v, waits for %q", p.Size, p.Waits())
	}
}

// TestPodsAreNotReplacedWhileMembersOutsideVote: whether those are healthy is not known here.
func TestPodsAreNotReplacedWhileMembersOutsideVote(t *testing.T) {
	o := running(t, 3, former(0))
	joinsOutside(o.Etcd)
	for i, m := range o.Sidecars {
		etcd := *m.Etcd
		etcd.Members = append(etcd.Members, agentapi.Listed{ID: "f0", Name: "old-0", PeerURLs: []string{"http://old:2380"}})
		m.Etcd = &etcd
		o.Sidecars[i] = m
	}
	p := mustDecide(t, o, testSettings)
	if p.Pod.Kind != "Wait" || !strings.Contains(p.Pod.Reason, "old-0 is none of this Etcd's") {
		t.Errorf("the step is %+v", p.Pod)
	}
}
