package cluster

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/operator/kube"
)

func TestTheCacheKeepsThatWeWroteAndWhenButNotWhatAndWhatOthersWroteWhereAllIsOurs(t *testing.T) {
	entry := func(manager, subresource, fields string) metav1.ManagedFieldsEntry {
		m := metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationApply, Subresource: subresource, Time: &metav1.Time{Time: testNow}}
		if fields != "" {
			m.FieldsV1 = metav1.NewFieldsV1(fields)
		}
		return m
	}
	const ours, theirs = `{"f:data":{"f:a":{}}}`, `{"f:data":{"f:b":{}},"f:metadata":{"f:labels":{"f:b":{}}}}`
	c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{newEtcd(1).OwnerReference()}, ManagedFields: []metav1.ManagedFieldsEntry{
		entry("kubectl", "", theirs), entry(kube.FieldManager, "", ours), entry(kube.FieldManager, "status", ours),
		entry("labeller", "", `{"f:metadata":{"f:labels":{"f:c":{}}}}`), entry("scaler", "scale", theirs), entry("odd", "", `{"f:da`),
	}}}
	got, err := strip(c)
	if err != nil {
		t.Fatal(err)
	}
	want := []metav1.ManagedFieldsEntry{entry("kubectl", "", theirs), entry(kube.FieldManager, "", "")}
	if d := cmp.Diff(want, got.(*corev1.ConfigMap).ManagedFields); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

// TestTextOfAMegabyteInAMemberLeavesTheStatusWritable is what a member's own token wrote into its EtcdMember.
func TestTextOfAMegabyteInAMemberLeavesTheStatusWritable(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	for name, write := range map[string]func(*druidv1alpha1.MemberReport){
		"waiting":    func(m *druidv1alpha1.MemberReport) { m.Waiting = long },
		"volumeFull": func(m *druidv1alpha1.MemberReport) { m.VolumeFull = long },
		"failure": func(m *druidv1alpha1.MemberReport) {
			m.Snapshots.Failure = &druidv1alpha1.SnapshotFailure{Since: ago(time.Hour), Reason: long, Message: long}
		},
		"bucket": func(m *druidv1alpha1.MemberReport) {
			m.Snapshots.Bucket = &druidv1alpha1.BackupStatus{LookedAt: ago(time.Minute), ProtectionLevel: "none", Protection: long, ExcludedSnapshots: []string{long}, TamperFindings: []druidv1alpha1.TamperFinding{{Code: long, Message: long}}}
		},
		"proof": func(m *druidv1alpha1.MemberReport) {
			m.Snapshots.Proof = &druidv1alpha1.SnapshotProof{EndedAt: ago(time.Hour), Result: druidv1alpha1.ProofBroken, Base: long, Message: long}
		},
		"id": func(m *druidv1alpha1.MemberReport) { m.ID, m.ClusterID, m.Version = &long, &long, long },
		"transition": func(m *druidv1alpha1.MemberReport) {
			m.State, m.Transitions = druidv1alpha1.MemberState(long), []druidv1alpha1.MemberTransition{{State: druidv1alpha1.MemberState(long), Reason: druidv1alpha1.MemberReason(long), Message: long, TransitionTime: ago(time.Hour)}}
		},
	} {
		o := running(t, 1)
		m := &o.Members[0]
		write(&m.Status)
		if _, err := strip(m); err != nil {
			t.Fatal(err)
		}
		s := statusOf(o, mustDecide(t, o, testSettings), outcome{}, "run", testNow)
		content, err := json.Marshal(s)
		if err != nil || len(content) > 64<<10 || kube.StatusLimits("etcds").Exceeded(&s) {
			t.Errorf("%s: a status of %d bytes, %v; want it within what the definition allows", name, len(content), err)
		}
	}
}

// TestLongErrorLeavesTheStatusWritable is an error of our own: a status that cannot be written hides all others.
func TestLongErrorLeavesTheStatusWritable(t *testing.T) {
	o := running(t, 1)
	var out outcome
	out.fail(codeDecide, errors.New(strings.Repeat("é ", 1<<20)))
	s := statusOf(o, mustDecide(t, o, testSettings), out, "run", testNow)
	if kube.StatusLimits("etcds").Exceeded(&s) || len(s.LastErrors) != 1 {
		t.Errorf("%d errors, the first of %d bytes; want one within what the definition allows", len(s.LastErrors), len(s.LastErrors[0].Description))
	}
	o.Etcd.Status = s
	if again := statusOf(o, mustDecide(t, o, testSettings), out, "another run", testNow.Add(time.Minute)); again.LastOperation.RunID != s.LastOperation.RunID || again.LastErrors[0] != s.LastErrors[0] {
		t.Error("the same error is written again")
	}
}
