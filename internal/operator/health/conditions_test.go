package health

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
)

const (
	isTrue    = druidv1alpha1.ConditionTrue
	isFalse   = druidv1alpha1.ConditionFalse
	isUnknown = druidv1alpha1.ConditionUnknown
)

type conditionCase struct {
	o           Observation
	want        druidv1alpha1.ConditionStatus
	wantReason  string
	wantMessage string // a part of it
}

func check(t *testing.T, of druidv1alpha1.ConditionType, cases map[string]conditionCase) {
	t.Helper()
	for phrase, c := range cases {
		t.Run(phrase, func(t *testing.T) {
			got := find(t, c.o, of)
			if got.Status != c.want || got.Reason != c.wantReason || !strings.Contains(got.Message, c.wantMessage) {
				t.Errorf("got %s %s: %s\nwant %s %s: ...%s...", got.Status, got.Reason, got.Message, c.want, c.wantReason, c.wantMessage)
			}
			if got.Message == "" || strings.Contains(got.Message, "\n") {
				t.Errorf("the message %q is not one line", got.Message)
			}
		})
	}
}

func wantReplicas(n int32) func(*Observation) {
	return func(o *Observation) { o.Etcd.Spec.Replicas = n }
}

func noMembers(o *Observation) { o.Leases, o.Members, o.Pods = nil, nil, nil }

func gone(i int) func(*Observation) { return renewed(i, 10*time.Minute) }

func TestReadyIsTheQuorumOfTheWantedMembers(t *testing.T) {
	check(t, druidv1alpha1.ConditionReady, map[string]conditionCase{
		"all work":                           {cluster(3), isTrue, "Quorate", "members that work: 3 of 3"},
		"an alarm":                           {cluster(3, reports(1, func(m *druidv1alpha1.MemberReport) { m.Alarms = []string{"NOSPACE"} })), isTrue, "Quorate", "main-1 raised NOSPACE"},
		"one is gone":                        {cluster(3, gone(1)), isTrue, "Quorate", "main-1: it reported last at 2025-06-01T02:50:00Z"},
		"two are gone":                       {cluster(3, gone(0), gone(1)), isFalse, "QuorumLost", "main-1"},
		"two are unknown, within thresholds": {cluster(3, renewed(0, 2*time.Minute), renewed(1, 2*time.Minute)), isTrue, "Quorate", ""},
		"two were unknown for too long":      {cluster(3, renewed(0, 6*time.Minute), renewed(1, 6*time.Minute)), isFalse, "QuorumLost", "1 of 3"},
		"one of three reported":              {cluster(3, unheard(0), unheard(1)), isFalse, "QuorumLost", "are needed; each of main-0 and main-1: it never reported"},
		"one of three reported, and the others have no Lease": {cluster(3, func(o *Observation) { o.Leases = o.Leases[2:] }), isFalse, "QuorumLost", "1 of 3"},
		"nobody reported":                     {cluster(3, noMembers), isUnknown, "NoMembersYet", "main-2: it never reported, it has no pod"},
		"one that grew, two learn":            {cluster(3, learner(1), learner(2)), isTrue, "Quorate", "members that work: 1 of 1"},
		"the only one learns, of others":      {cluster(1, rejoins(0)), isUnknown, "NoMembersYet", "main-0"},
		"one lost its data and learns":        {cluster(3, rejoins(1)), isTrue, "Quorate", "members that work: 2 of 2"},
		"one learns, and another one is gone": {cluster(3, rejoins(1), gone(2)), isFalse, "QuorumLost", "1 of 2"},
		"one that grew, two voted and went":   {cluster(3, gone(1), gone(2)), isFalse, "QuorumLost", "1 of 3"},
		"one that is to grow, nothing begun":  {cluster(1, wantReplicas(3)), isTrue, "Quorate", ""},
		"three that shrink, two of them gone": {cluster(3, wantReplicas(1), gone(1), gone(2)), isFalse, "QuorumLost", "1 of 3"},
		"three that shrank":                   {cluster(3, wantReplicas(1), func(o *Observation) { o.Members = o.Members[:1] }), isTrue, "Quorate", "1 of 1"},
	})
}

func TestAllMembersReadyNamesTheOthersAndWhatIsKnownOfThem(t *testing.T) {
	check(t, druidv1alpha1.ConditionAllMembersReady, map[string]conditionCase{
		"all":             {cluster(3), isTrue, "AllMembersReady", "3 of 3"},
		"one is unknown":  {cluster(3, renewed(1, 2*time.Minute)), isFalse, "NotAllMembersReady", "members that are ready: 2 of 3; main-1: it reported last at 2025-06-01T02:58:00Z"},
		"one never spoke": {cluster(3, unheard(0)), isFalse, "NotAllMembersReady", "main-0: it never reported"},
		"one waits": {cluster(3, unheard(0), reports(0, state(druidv1alpha1.MemberNew, "", druidv1alpha1.MemberReasonWaitingForCluster, "")), reports(0, func(m *druidv1alpha1.MemberReport) { m.Waiting = "the others do not answer" })),
			isFalse, "MemberWaiting", "main-0: its etcd never worked, New, it says: the others do not answer"},
		"one cannot be scheduled": {cluster(3, unheard(2), func(o *Observation) {
			o.Pods[2].Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "no node"}}
		}), isFalse, "PodUnschedulable", "main-2: it never reported, its pod cannot be scheduled (no node)"},
		"none can be scheduled": {cluster(3, unheard(0), unheard(1), unheard(2), unschedulable), isFalse, "PodUnschedulable",
			"0 of 3; each of main-0, main-1 and main-2: it never reported, its pod cannot be scheduled (no node)"},
		"two that were heard of, and one that never was": {cluster(3, renewed(0, 2*time.Minute), renewed(1, 3*time.Minute), unheard(2), unschedulable), isFalse, "PodUnschedulable",
			"each of main-0 and main-1: it reported last between 2025-06-01T02:57:00Z and 2025-06-01T02:58:00Z, its pod cannot be scheduled (no node); main-2: it never reported, its pod cannot be scheduled (no node)"},
		"one learns again":       {cluster(3, rejoins(2)), isFalse, "NotAllMembersReady", "Starting (Learner)"},
		"one learns":             {cluster(3, learner(2)), isFalse, "NotAllMembersReady", "Starting (Learner)"},
		"who is to leave is ill": {cluster(3, wantReplicas(1), gone(2)), isTrue, "AllMembersReady", "1 of 1"},
	})
}

func unschedulable(o *Observation) {
	for _, p := range o.Pods {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "no node"}}
	}
}

func TestQuorumLostIsTrueOnlyWhenItDoesNotComeBackByItself(t *testing.T) {
	check(t, druidv1alpha1.ConditionQuorumLost, map[string]conditionCase{
		"the only one learns, of others": {cluster(1, rejoins(0)), isUnknown, "NoMembersYet", "no member votes yet"},
		"all work":                       {cluster(3), isFalse, "Quorate", ""},
		"one is gone":                    {cluster(3, gone(0)), isFalse, "Quorate", "2 of 3"},
		"two are gone":                   {cluster(3, gone(0), gone(1)), isTrue, "QuorumLost", "backup; each of main-0 and main-1: it reported last at 2025-06-01T02:50:00Z"},
		"two went just now":              {cluster(3, renewed(0, 2*time.Minute), podDown(0), renewed(1, 2*time.Minute), podDown(1)), isUnknown, "QuorumMayReturn", "main-1"},
		"two never came":                 {cluster(3, unheard(0), unheard(1)), isUnknown, "QuorumMayReturn", "main-0"},
		"nobody reported":                {cluster(3, noMembers), isUnknown, "NoMembersYet", ""},
		"the single one is gone":         {cluster(1, gone(0)), isTrue, "QuorumLost", "main-0"},
		"a member says so":               {cluster(3, renewed(0, 2*time.Minute), podDown(0), unheard(1), reports(1, state(druidv1alpha1.MemberNew, "", druidv1alpha1.MemberReasonQuorumLost, ""))), isTrue, "QuorumLost", "main-1"},
		"a member said so, before":       {cluster(3, unheard(1), reports(1, state(druidv1alpha1.MemberNew, "", druidv1alpha1.MemberReasonQuorumLost, ""))), isFalse, "Quorate", ""},
	})
}

func TestAllMembersUpdatedComparesThePods(t *testing.T) {
	former := func(i int) func(*Observation) {
		return func(o *Observation) { o.Pods[i].Labels[appsv1.ControllerRevisionHashLabelKey] = "old" }
	}
	check(t, druidv1alpha1.ConditionAllMembersUpdated, map[string]conditionCase{
		"all are":                {cluster(3), isTrue, "AllMembersUpdated", "3 of 3"},
		"one is not":             {cluster(3, former(1)), isFalse, "NotAllMembersUpdated", "main-1"},
		"one is not, and waits":  {cluster(3, former(1), func(o *Observation) { o.RolloutWaits = "the backups are not healthy" }), isFalse, "RolloutWaiting", "main-1; the backups"},
		"one is missing":         {cluster(3, func(o *Observation) { o.Pods = o.Pods[:2] }), isFalse, "NotAllMembersUpdated", "do not exist: main-2"},
		"the template is unseen": {cluster(3, func(o *Observation) { o.StatefulSet.Generation = 2 }), isFalse, "NotAllMembersUpdated", "newest template"},
		"the size is another":    {cluster(1, wantReplicas(3)), isFalse, "NotAllMembersUpdated", "at the moment: 1, wanted: 3"},
		"there is none":          {cluster(1, func(o *Observation) { o.StatefulSet = nil }), isUnknown, "NotReconciled", ""},
		"the StatefulSet still counts the former revision as current": {cluster(1, func(o *Observation) { o.StatefulSet.Status.CurrentRevision = "old" }), isTrue, "AllMembersUpdated", ""},
	})
}

func TestClusterIDMismatchNamesTheMembers(t *testing.T) {
	check(t, druidv1alpha1.ConditionClusterIDMismatch, map[string]conditionCase{
		"the same":                            {cluster(3), isFalse, "ClusterIDsMatch", ""},
		"another one":                         {cluster(3, held(1, "a1:c2:Leader")), isTrue, "ClusterIDsDiffer", "main-0 and main-2 of cluster 00000000000000c1, main-1 of cluster 00000000000000c2"},
		"another one, which is gone":          {cluster(3, held(1, "a1:c2:Leader"), gone(1)), isFalse, "ClusterIDsMatch", ""},
		"what a pod said that is gone":        {cluster(3, held(1, "a1:c2:Leader"), func(o *Observation) { o.Pods[1].CreationTimestamp = ago(0) }), isFalse, "ClusterIDsMatch", "one cluster"},
		"the old form, the EtcdMembers say":   {cluster(3, held(1, "a1:Member"), reports(1, func(m *druidv1alpha1.MemberReport) { m.ClusterID = ptr("00000000000000c3") })), isTrue, "ClusterIDsDiffer", "00000000000000c3"},
		"the old form, nobody says":           {cluster(1, held(0, "a0:Leader"), reports(0, func(m *druidv1alpha1.MemberReport) { m.ClusterID = nil })), isUnknown, "ClusterIDsNotKnown", ""},
		"no member is ready":                  {cluster(1, gone(0)), isUnknown, "ClusterIDsNotKnown", ""},
		"a different spelling of the same id": {cluster(3, held(1, "a1:00C1:Leader")), isFalse, "ClusterIDsMatch", ""},
	})
}

func TestDataVolumesReadyTellsOfWhatStillCounts(t *testing.T) {
	event := func(i int, reason string, change ...func(*corev1.Event)) func(*Observation) {
		return func(o *Observation) {
			e := corev1.Event{Type: corev1.EventTypeWarning, Reason: reason, Message: "why", InvolvedObject: corev1.ObjectReference{Kind: "PersistentVolumeClaim", Name: o.Etcd.VolumeClaimName(i), UID: "u"}}
			for _, c := range change {
				c(&e)
			}
			o.ClaimEvents = append(o.ClaimEvents, e)
		}
	}
	claim := func(change func(*corev1.PersistentVolumeClaim)) func(*Observation) {
		return func(o *Observation) { change(o.Claims[0]) }
	}
	size := func(want, has string) func(*Observation) {
		return claim(func(c *corev1.PersistentVolumeClaim) {
			c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(want)}
			c.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(has)}
		})
	}
	going := claim(func(c *corev1.PersistentVolumeClaim) { c.DeletionTimestamp = ptr(metav1.NewTime(testNow)) })
	pending := claim(func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = corev1.ClaimPending })
	check(t, druidv1alpha1.ConditionDataVolumesReady, map[string]conditionCase{
		"all are":                       {cluster(3), isTrue, "DataVolumesReady", "3 of 3"},
		"they have a former name":       {cluster(3, formerName), isTrue, "DataVolumesReady", "3 of 3"},
		"a warning":                     {cluster(3, event(1, "VolumeConditionAbnormal")), isFalse, "DataVolumesNotReady", "claim main-main-1: VolumeConditionAbnormal (why)"},
		"no more than information":      {cluster(1, event(0, "Resizing", func(e *corev1.Event) { e.Type = corev1.EventTypeNormal })), isTrue, "DataVolumesReady", ""},
		"about a claim before":          {cluster(1, event(0, "FailedMount", func(e *corev1.Event) { e.InvolvedObject.UID = "before" })), isTrue, "DataVolumesReady", ""},
		"about another object":          {cluster(1, event(0, "FailedMount", func(e *corev1.Event) { e.InvolvedObject.Kind = "Pod" })), isTrue, "DataVolumesReady", ""},
		"not provisioned":               {cluster(1, pending, event(0, "ProvisioningFailed")), isFalse, "DataVolumesNotReady", "ProvisioningFailed"},
		"not provisioned at first":      {cluster(1, event(0, "ProvisioningFailed")), isTrue, "DataVolumesReady", ""},
		"does not grow":                 {cluster(1, size("2Gi", "1Gi"), event(0, "VolumeResizeFailed")), isFalse, "VolumeCannotBeResized", ""},
		"did not grow at first":         {cluster(1, size("2Gi", "2Gi"), event(0, "VolumeResizeFailed")), isTrue, "DataVolumesReady", ""},
		"lost":                          {cluster(1, claim(func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = corev1.ClaimLost })), isFalse, "DataVolumesNotReady", "lost"},
		"deleted under the only member": {cluster(1, going), isFalse, "DataVolumesNotReady", "claim main-main-0: it is being deleted and goes with the pod main-0, and no other member has the data: set spec.replicas to 3"},
		"deleted under one of three":    {cluster(3, going), isFalse, "DataVolumesNotReady", "claim main-main-0: it is being deleted and goes with the pod main-0"},
		"deleted, and the pod goes":     {cluster(3, going, func(o *Observation) { o.Pods[0].DeletionTimestamp = ptr(metav1.NewTime(testNow)) }), isTrue, "DataVolumesReady", ""},
		"deleted by us, to get larger":  {cluster(3, going, func(o *Observation) { o.Volumes = VolumeNote{druidv1alpha1.ReasonVolumeResizing, "it grows"} }), isTrue, "VolumeResizing", "it grows"},
		"not there yet":                 {cluster(1, func(o *Observation) { o.Claims = nil }), isUnknown, "DataVolumesUnknown", "main-main-0"},
		"a member says: read-only":      {cluster(3, reports(2, state(druidv1alpha1.MemberNew, "", druidv1alpha1.MemberReasonVolumeReadOnly, "cannot write"))), isFalse, "VolumeReadOnly", "main-2, claim main-main-2: cannot write"},
		"a member says: not mine":       {cluster(3, reports(2, state(druidv1alpha1.MemberNew, "", druidv1alpha1.MemberReasonVolumeMismatch, ""))), isFalse, "VolumeMismatch", "main-2"},
		"a member says: full":           {cluster(3, reports(1, func(m *druidv1alpha1.MemberReport) { m.VolumeFull = "nothing is free" })), isFalse, "VolumeFull", "main-1, claim main-main-1: nothing is free; raise spec.storageCapacity"},
		"two say: full": {cluster(3, reports(0, func(m *druidv1alpha1.MemberReport) { m.VolumeFull = "nothing is free" }), reports(1, func(m *druidv1alpha1.MemberReport) { m.VolumeFull = "nothing is free" })), isFalse, "VolumeFull",
			"each of main-0, claim main-main-0 and main-1, claim main-main-1: nothing is free; raise spec.storageCapacity"},
		"full and read-only":            {cluster(3, reports(2, state(druidv1alpha1.MemberNew, "", druidv1alpha1.MemberReasonVolumeReadOnly, "cannot write")), reports(2, func(m *druidv1alpha1.MemberReport) { m.VolumeFull = "full" })), isFalse, "VolumeReadOnly", "main-2, claim main-main-2: cannot write"},
		"a member said so, and went on": {cluster(3, reports(2, state(druidv1alpha1.MemberNew, "", druidv1alpha1.MemberReasonVolumeReadOnly, "")), reports(2, state(druidv1alpha1.MemberStarted, druidv1alpha1.MemberLeader, "", ""))), isTrue, "DataVolumesReady", ""},
	})
}

func TestBootstrappedWithAnExistingClusterStaysTrue(t *testing.T) {
	asked := func(o *Observation) {
		o.Etcd.Spec.Etcd.BootstrapWithExistingCluster = &druidv1alpha1.BootstrapWithExistingCluster{Members: []druidv1alpha1.ExistingMember{{Name: "old-0"}, {Name: "old-1"}}}
	}
	before := func(o *Observation) {
		o.Etcd.Status.BootstrapWithExistingCluster = &druidv1alpha1.BootstrapWithExistingClusterStatus{JoinedAt: ago(time.Hour)}
	}
	check(t, druidv1alpha1.ConditionBootstrappedWithExistingCluster, map[string]conditionCase{
		"all have joined": {cluster(3, asked), isTrue, "BootstrapCompleted", "remove old-0, old-1 from the cluster one after the other"},
		"one has not":     {cluster(3, asked, unheard(0)), isFalse, "BootstrapInProgress", "vote: 2 of 3, one after the other; main-0"},
		"one catches up, and its Lease is renewed": {cluster(3, asked, reports(1, state(druidv1alpha1.MemberStarting, druidv1alpha1.MemberLearner, druidv1alpha1.MemberReasonJoinedAsLearner, ""))), isFalse, "BootstrapInProgress", "main-1"},
		"one waits for the cluster":                {cluster(3, asked, unheard(2), reports(2, func(m *druidv1alpha1.MemberReport) { m.Waiting = "it does not answer" })), isFalse, "BootstrapInProgress", "main-2: its etcd never worked, it says: it does not answer"},
		"one says nothing of itself":               {cluster(3, asked, func(o *Observation) { o.Members = o.Members[1:] }), isFalse, "BootstrapInProgress", "main-0"},
		"all had, one is gone":                     {cluster(3, asked, gone(0), before), isTrue, "BootstrapCompleted", "2025-06-01T02:00:00Z; next:"},
		"all had, and it is not named":             {cluster(3, gone(0), before), isTrue, "BootstrapCompleted", "left in it are removed by the sidecars"},
	})
}

func types(all []druidv1alpha1.Condition) (out []druidv1alpha1.ConditionType) {
	for _, c := range all {
		out = append(out, c.Type)
	}
	return out
}

func TestConditionsThatDoNotApplyAreLeftOut(t *testing.T) {
	o := cluster(1, func(o *Observation) { o.Etcd.Spec.Backup.Store = nil })
	want := []druidv1alpha1.ConditionType{"Ready", "AllMembersReady", "AllMembersUpdated", "DataVolumesReady", "ClusterIDMismatch", "QuorumLost"}
	found := Conditions(o, Members(o, DefaultThresholds(), testNow), testNow)
	if diff := cmp.Diff(want, types(found)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	before := []druidv1alpha1.Condition{{Type: "BackupReady"}, {Type: "SchedulesValid"}, {Type: "Ready"}}
	if diff := cmp.Diff(append(want, "SchedulesValid"), types(Merge(before, found))); diff != "" {
		t.Errorf("merged (-want +got):\n%s", diff)
	}
}

func TestOfAClusterWithoutMembersNothingIsChecked(t *testing.T) {
	o := cluster(0, func(o *Observation) {
		o.Etcd.Status.Conditions = []druidv1alpha1.Condition{
			{Type: "Ready", Status: isFalse, Reason: "QuorumLost", LastTransitionTime: ago(time.Hour), LastUpdateTime: ago(time.Hour)},
			{Type: "AllMembersUpdated", Status: isFalse, Reason: "RolloutWaiting"}, // for ever, if it were kept
		}
	})
	for _, c := range Conditions(o, nil, testNow) {
		want, reason := isUnknown, druidv1alpha1.ReasonNotChecked
		switch c.Type {
		case druidv1alpha1.ConditionAllMembersUpdated:
			want, reason = isTrue, druidv1alpha1.ReasonAllMembersUpdated
		case druidv1alpha1.ConditionReady:
			want = isFalse
			if c.LastTransitionTime != ago(time.Hour) || c.LastUpdateTime != ago(0) {
				t.Errorf("the times are %s and %s", c.LastTransitionTime, c.LastUpdateTime)
			}
		}
		if c.Status != want || c.Reason != reason {
			t.Errorf("%s is %s, %s; want %s, %s", c.Type, c.Status, c.Reason, want, reason)
		}
	}
}

// Nobody looks at what is not there: neither long before, nor for as long as it was not.
func TestWhatIsFoundAfterASleepCountsFromThen(t *testing.T) {
	for phrase, c := range map[string]struct {
		reason string
		want   time.Duration
	}{
		"it slept": {druidv1alpha1.ReasonNotChecked, 0},
		"it ran":   {druidv1alpha1.ReasonQuorumLost, 7 * 24 * time.Hour},
	} {
		o := cluster(3, gone(0), gone(1), func(o *Observation) {
			o.Etcd.Status.Conditions = []druidv1alpha1.Condition{{Type: "Ready", Status: isFalse, Reason: c.reason, LastTransitionTime: ago(7 * 24 * time.Hour), LastUpdateTime: ago(7 * 24 * time.Hour)}}
		})
		ready := conditionOf(t, o, druidv1alpha1.ConditionReady)
		if ready.Status != isFalse || ready.LastTransitionTime != ago(c.want) {
			t.Errorf("%s: Ready is %s since %s, want it since %s", phrase, ready.Status, ready.LastTransitionTime, ago(c.want))
		}
	}
}

// Its Leases may be there still, as of one that fell asleep under a former operator. Six minutes later they would say that all are gone.
func TestNoQuorumIsLostBecauseAClusterSlept(t *testing.T) {
	woken := func(since *metav1.Time) func(*Observation) {
		return func(o *Observation) {
			o.Etcd.UID = "u1"
			o.Etcd.Status.Hibernation = &druidv1alpha1.HibernationStatus{EtcdUID: "u1", AwakeSince: since}
		}
	}
	noPods := func(o *Observation) { o.Pods, o.Members = nil, nil }
	for phrase, c := range map[string]struct {
		change []func(*Observation)
		want   druidv1alpha1.ConditionStatus
	}{
		"it is woken":               {[]func(*Observation){woken(nil), noPods}, isUnknown},
		"it was, a moment ago":      {[]func(*Observation){woken(ptr(ago(time.Minute))), noPods}, isUnknown},
		"its members lived since":   {[]func(*Observation){woken(ptr(ago(time.Hour))), noPods}, isTrue},
		"it is another of its name": {[]func(*Observation){woken(nil), noPods, func(o *Observation) { o.Etcd.UID = "u2" }}, isTrue},
		"it never slept":            {[]func(*Observation){noPods}, isTrue},
	} {
		o := cluster(3, append([]func(*Observation){gone(0), gone(1), gone(2)}, c.change...)...)
		if lost := conditionOf(t, o, druidv1alpha1.ConditionQuorumLost); lost.Status != c.want {
			t.Errorf("%s: QuorumLost is %s, %s: %s; want %s", phrase, lost.Status, lost.Reason, lost.Message, c.want)
		}
	}
}

// The annotation and replicas: 0 are one and the same to whoever reads the status.
func TestMembersThatAnAnnotationKeepsAwayAreNotMissed(t *testing.T) {
	o := cluster(3, noMembers, func(o *Observation) {
		o.Etcd.Annotations = map[string]string{druidv1alpha1.AnnotationDisableRuntimeComponents: ""}
		o.StatefulSet.Spec.Replicas = ptr(int32(0))
	})
	for _, of := range []druidv1alpha1.ConditionType{druidv1alpha1.ConditionReady, druidv1alpha1.ConditionBackupReady, druidv1alpha1.ConditionDataVolumesReady} {
		if c := conditionOf(t, o, of); c.Reason != druidv1alpha1.ReasonNotChecked || !strings.Contains(c.Message, druidv1alpha1.AnnotationDisableRuntimeComponents) {
			t.Errorf("%s is %s, %s: %s", of, c.Status, c.Reason, c.Message)
		}
	}
	for _, change := range []func(*Observation){nil, func(o *Observation) { o.StatefulSet = nil }} {
		if change != nil {
			change(&o)
		}
		if c := conditionOf(t, o, druidv1alpha1.ConditionAllMembersUpdated); c.Status != isTrue {
			t.Errorf("AllMembersUpdated is %s, %s: %s", c.Status, c.Reason, c.Message)
		}
	}
}

// What is held, or not asked for, leaves the members as they are: they serve clients, or do not.
func TestMembersThatAreToSleepAreLookedAtUntilTheyDo(t *testing.T) {
	for phrase, c := range map[string]struct {
		change []func(*Observation)
		ready  druidv1alpha1.ConditionStatus
		reason string
	}{
		"they run":                     {nil, isTrue, "Quorate"},
		"two are gone":                 {[]func(*Observation){gone(0), gone(1)}, isFalse, "QuorumLost"},
		"the StatefulSet is made anew": {[]func(*Observation){gone(0), gone(1), func(o *Observation) { o.StatefulSet = nil }}, isFalse, "QuorumLost"},
		"their pods end":               {[]func(*Observation){gone(0), func(o *Observation) { o.StatefulSet.Spec.Replicas = ptr(int32(0)) }}, isUnknown, "NotChecked"},
	} {
		o := cluster(3, append([]func(*Observation){func(o *Observation) { o.Etcd.Spec.Replicas = 0 }}, c.change...)...)
		found := Conditions(o, Members(o, DefaultThresholds(), testNow), testNow)
		ready, lost := druidv1alpha1.FindCondition(found, druidv1alpha1.ConditionReady), druidv1alpha1.FindCondition(found, druidv1alpha1.ConditionQuorumLost)
		if ready.Status != c.ready || ready.Reason != c.reason {
			t.Errorf("%s: Ready is %s, %s: %s; want %s, %s", phrase, ready.Status, ready.Reason, ready.Message, c.ready, c.reason)
		}
		if (lost.Reason == druidv1alpha1.ReasonNotChecked) != (c.reason == druidv1alpha1.ReasonNotChecked) {
			t.Errorf("%s: QuorumLost is %s, %s", phrase, lost.Status, lost.Reason)
		}
	}
}

func TestHowManyPodsMustStay(t *testing.T) {
	for phrase, c := range map[string]struct {
		replicas          int32
		healthy, backedUp bool
		want              int32
	}{
		"none":                    {0, true, true, 0},
		"one":                     {1, true, true, 0},
		"one that is ill":         {1, false, false, 0},
		"three":                   {3, true, true, 2},
		"three, one is ill":       {3, false, true, 3},
		"three, backups are ill":  {3, true, false, 3},
		"five":                    {5, true, true, 3},
		"five, everything is ill": {5, false, false, 5},
	} {
		if got := MinAvailable(c.replicas, c.healthy, c.backedUp); got != c.want {
			t.Errorf("%s: %d, want %d", phrase, got, c.want)
		}
	}
}

// anyObservation is any combination of what may be seen.
func anyObservation(r *rand.Rand) Observation {
	n := []int{0, 1, 3, 5}[r.IntN(4)]
	o := cluster(n)
	pick := func(n int) bool { return r.IntN(n) == 0 }
	for i := range n {
		renewed(i, time.Duration(r.IntN(12))*time.Minute)(&o)
		for _, c := range []func(int) func(*Observation){unheard, podDown, learner} {
			if pick(4) {
				c(i)(&o)
			}
		}
		if pick(4) {
			held(i, []string{"", "a:b:Leader", "a:c:Member", "a:Member", "x"}[r.IntN(5)])(&o)
		}
		if pick(4) {
			reports(i, func(m *druidv1alpha1.MemberReport) {
				m.BackupLeader = pick(2)
				m.Snapshots = &druidv1alpha1.MemberSnapshots{NothingNew: ptr(ago(time.Duration(r.IntN(60)) * time.Minute))}
				if pick(2) {
					m.Snapshots.LastFull = &druidv1alpha1.MemberSnapshot{Timestamp: ago(time.Duration(r.IntN(60)) * time.Hour)}
				}
				if pick(3) {
					m.Snapshots.Failure = &druidv1alpha1.SnapshotFailure{Since: ago(time.Duration(r.IntN(60)) * time.Second), Reason: "StoreAccessDenied", Message: "no"}
				}
			})(&o)
		}
	}
	o.Etcd.Spec.Replicas = []int32{0, 1, 3, 5}[r.IntN(4)]
	if pick(4) {
		o.Etcd.Spec.Backup.DeltaSnapshotPeriod = nil
	}
	for _, c := range []func(){func() { o.StatefulSet = nil }, func() { o.Members = nil }, func() { o.Pods = nil }, func() { o.Leases = nil }, func() { o.Claims = nil }} {
		if pick(8) {
			c()
		}
	}
	return o
}

func TestWhateverIsSeenTheSecondLookChangesNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	later := testNow.Add(time.Second)
	for range 1500 {
		o := anyObservation(r)
		members := Members(o, DefaultThresholds(), testNow)
		first := Conditions(o, members, testNow)
		ready, all, lost := druidv1alpha1.FindCondition(first, "Ready"), druidv1alpha1.FindCondition(first, "AllMembersReady"), druidv1alpha1.FindCondition(first, "QuorumLost")
		if o.expected() > 0 && (all.Status == isTrue && ready.Status == isUnknown || ready.Status == isTrue && lost.Status == isTrue) {
			t.Fatalf("%+v\n%+v\n%+v", ready, all, lost)
		}
		//nolint:staticcheck // deprecated for readers, not for us
		o.Etcd.Status.Members, o.Etcd.Status.Conditions = members, first
		// Only what crosses a threshold within the second may differ, and nothing here does.
		if diff := cmp.Diff(first, Conditions(o, members, testNow)); diff != "" {
			t.Fatalf("(-first +second):\n%s", diff)
		}
		for i, c := range Conditions(o, Members(o, DefaultThresholds(), later), later) {
			if c.Status == first[i].Status && c.LastTransitionTime != first[i].LastTransitionTime || c.Status != first[i].Status && c.LastTransitionTime != metav1.NewTime(later) {
				t.Fatalf("the transition of %+v, before %+v", c, first[i])
			}
			if c.Reason == first[i].Reason && c.Status == first[i].Status && c.Message != first[i].Message {
				t.Fatalf("the message changes by itself: %q, before %q", c.Message, first[i].Message)
			}
		}
	}
}
