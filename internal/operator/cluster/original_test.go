package cluster

import (
	"maps"
	"slices"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"druid.internal/druid/internal/etcd/member"
	"druid.internal/druid/internal/operator/desired"
)

// podsOfOriginal have no token, and another image.
func podsOfOriginal(o *Observed) {
	for i := range o.Pods {
		o.Pods[i].Spec = corev1.PodSpec{Containers: []corev1.Container{{Name: desired.ContainerEtcd, Image: "etcd-wrapper:v0.8.0"}}}
		o.Pods[i].Annotations = nil
		m := o.Sidecars[i]
		m.Etcd.Version = "3.5.27"
	}
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: o.Etcd.FullSnapshotLeaseName(), OwnerReferences: []metav1.OwnerReference{o.Etcd.OwnerReference()}}}
	o.Live[Key{"Lease", l.Name}] = l
}

// allOriginal is a cluster of which everything is the original's.
func allOriginal(o *Observed) {
	podsOfOriginal(o)
	o.StatefulSet = o.StatefulSet.DeepCopy()
	o.StatefulSet.Annotations = nil
	spec := &o.StatefulSet.Spec.Template.Spec
	spec.Volumes = slices.DeleteFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Secret != nil })
}

func on34(o *Observed) {
	for _, m := range o.Sidecars {
		m.Etcd.Version = "3.4.34"
	}
}

func TestObjectsOfTheOriginalAreLeftAloneUntilTheyAreAskedFor(t *testing.T) {
	s := testSettings
	s.AutoReconcile = false
	o := running(t, 3, allOriginal)
	if p := mustDecide(t, o, s); p.Mode != ModeWatch || len(p.Objects)+len(p.Remove) > 0 || p.Pod.Kind != "" {
		t.Errorf("mode %s (%s), %d objects, want %s", p.Mode, p.Why, len(p.Objects), ModeWatch)
	}
	o.Etcd.Annotations = map[string]string{"druid.gardener.cloud/operation": "reconcile"}
	if p := mustDecide(t, o, s); p.Mode != ModeApply || len(p.Objects) == 0 {
		t.Errorf("asked for it: mode %s (%s), %d objects", p.Mode, p.Why, len(p.Objects))
	}
}

func TestARefusedTakeOverTouchesNothing(t *testing.T) {
	p := mustDecide(t, running(t, 3, allOriginal, on34, former(0)), testSettings)
	if len(p.Refused) != 3 || !strings.Contains(p.Refused[0], "UpgradeEtcdVersion") {
		t.Errorf("refused: %q, want every member named", p.Refused)
	}
	if len(p.Objects)+len(p.Remove) > 0 || p.Pod.Kind != "" || p.Snapshot != nil || p.Done() {
		t.Errorf("%d objects, %d removals, pod %v, snapshot %v", len(p.Objects), len(p.Remove), p.Pod, p.Snapshot)
	}
}

// Whatever is refused, also if it has nothing to do with the original.
func TestNothingOfTheOriginalsIsLabelledWhileSomethingIsRefused(t *testing.T) {
	o := running(t, 3, allOriginal)
	o.TokenFault = "it is empty"
	p := mustDecide(t, o, testSettings)
	if len(p.Refused) != 1 || len(p.Adoption.Relabel) == 0 {
		t.Fatalf("refused %q, to be labelled %d", p.Refused, len(p.Adoption.Relabel))
	}
	var objects []client.Object
	for _, pod := range o.Pods {
		objects = append(objects, pod.DeepCopy())
	}
	r, cl := newReconciler(t, objects...)
	if out := r.apply(t.Context(), o, p); len(out.failures) > 0 {
		t.Fatal(out.failures)
	}
	for _, pod := range o.Pods {
		var now corev1.Pod
		if err := cl.Get(t.Context(), client.ObjectKeyFromObject(pod), &now); err != nil || !maps.Equal(now.Labels, pod.Labels) {
			t.Errorf("%s has the labels %v (%v)", pod.Name, now.Labels, err)
		}
	}
}

// The objects are ours already, and some pods are still the original's: their etcds serve clients as before.
func TestHowClientsAreServedStaysUntilTheLastPodOfTheOriginalIsReplaced(t *testing.T) {
	another := func(o *Observed) { o.Etcd.Spec.Etcd.ClientPort = ptr(int32(2479)) }
	for phrase, c := range map[string]struct {
		changes []func(*Observed)
		refused bool
	}{
		"as it was":               {[]func(*Observed){podsOfOriginal, former(0)}, false},
		"another port":            {[]func(*Observed){podsOfOriginal, former(0), another}, true},
		"none is of the original": {[]func(*Observed){another}, false},
	} {
		p := mustDecide(t, running(t, 3, c.changes...), testSettings)
		if told := len(p.Refused) == 1 && strings.Contains(p.Refused[0], "set spec.etcd.clientUrlTls and clientPort back"); told != c.refused || len(p.Refused) > 1 {
			t.Errorf("%s: refused %q", phrase, p.Refused)
		}
	}
}

func TestTheOriginalsObjectsAreChangedBeforeItsPodsAreReplaced(t *testing.T) {
	o := running(t, 3, allOriginal)
	p := mustDecide(t, o, testSettings)
	var kinds []string
	for _, object := range p.Objects {
		kinds = append(kinds, keyOf(object).Kind)
	}
	if len(p.Refused) > 0 || !slices.Contains(kinds, "StatefulSet") || p.Pod.Kind != "" || p.Size.Done || len(p.Remove) > 0 {
		t.Errorf("refused %q, objects %q, pod %v, size done %t, removed %v", p.Refused, kinds, p.Pod, p.Size.Done, p.Remove)
	}

	o = running(t, 3, podsOfOriginal, former(0), former(1), former(2))
	p = mustDecide(t, o, testSettings)
	if p.Snapshot == nil || p.Pod.Pod != "" {
		t.Fatalf("pod %v, snapshot %v, want a snapshot before a pod goes", p.Pod, p.Snapshot)
	}
	for _, object := range p.Objects {
		if r, is := object.(*rbacv1.Role); is && !slices.ContainsFunc(r.Rules, func(r rbacv1.PolicyRule) bool { return slices.Contains(r.Resources, "statefulsets") }) {
			t.Error("the Role lacks what the original's sidecars need")
		}
	}
	o.Snapshots = map[string]SnapshotState{p.Snapshot.For: {Done: true}}
	if p = mustDecide(t, o, testSettings); p.Pod.Pod != "main-1" || removes(p, "Lease") {
		t.Errorf("%v goes (%s), removed %v; want main-1, the first that does not lead, and no Lease", p.Pod.Pod, p.Pod.Reason, p.Remove)
	}

	ours := running(t, 3)
	ours.Live[Key{"Lease", "main-full-snap"}] = o.Live[Key{"Lease", "main-full-snap"}]
	if p = mustDecide(t, ours, testSettings); !removes(p, "Lease") {
		t.Error("no pod of the original is left, and its Lease stays")
	}
}

func removes(p Plan, kind string) bool {
	return slices.ContainsFunc(p.Remove, func(r Removal) bool { return r.Kind == kind })
}

func TestAnEtcdTellsWhatASidecarWould(t *testing.T) {
	st := member.Status{ClusterID: 0xc1, MemberID: 0xa1, Leader: 0xa0, Revision: 7, Version: "3.5.27", Errors: []string{"memberID:161 alarm:CORRUPT "}}
	peers := []member.Peer{{ID: 0xa0, Name: "main-0"}, {ID: 0xa1, Name: "main-1", PeerURLs: []string{"https://b:1"}}}
	m, err := memberOfEtcd(st, member.Membership{Peers: peers})
	if err != nil {
		t.Fatal(err)
	}
	if m.Name != "main-1" || m.ID != "00000000000000a1" || !m.PeerTLSEnabled || leads(m) || !participates(m) || len(m.Etcd.Members) != 2 || !slices.Contains(m.Etcd.Alarms, alarmCorrupt) {
		t.Errorf("%+v with %+v", m, m.Etcd)
	}
	if _, err := memberOfEtcd(st, member.Membership{Peers: peers[:1]}); err == nil {
		t.Error("a member that is not listed was believed")
	}
}
