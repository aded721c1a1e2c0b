package cluster

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/operator/desired"
	"druid.internal/druid/internal/operator/health"
	"druid.internal/druid/internal/operator/kube"
	"druid.internal/druid/internal/operator/rollout"
)

func TestWhenTheSpecificationIsActedOn(t *testing.T) {
	manual := testSettings
	manual.AutoReconcile = false
	annotated := func(name, value string) func(*Observed) {
		return func(o *Observed) {
			if o.Etcd.Annotations == nil {
				o.Etcd.Annotations = map[string]string{}
			}
			o.Etcd.Annotations[name] = value
		}
	}
	changed := func(o *Observed) { o.Etcd.Generation++ }
	upgraded := func(o *Observed) { o.StatefulSet.Annotations[druidv1alpha1.AnnotationAppliedBy] = "former" }
	for phrase, c := range map[string]struct {
		settings Settings
		change   []func(*Observed)
		want     Mode
	}{
		"a new one":           {manual, []func(*Observed){func(o *Observed) { o.Etcd.Status.ObservedGeneration = nil }}, ModeApply},
		"nothing is new":      {manual, nil, ModeRepair},
		"a change":            {manual, []func(*Observed){changed}, ModeTend},
		"a change, asked for": {manual, []func(*Observed){changed, annotated("druid.gardener.cloud/operation", "reconcile")}, ModeApply},
		"a change, asked for in the old spelling":  {manual, []func(*Observed){changed, annotated("gardener.cloud/operation", "reconcile")}, ModeApply},
		"a change, another operation":              {manual, []func(*Observed){changed, annotated("gardener.cloud/operation", "migrate")}, ModeTend},
		"a change, acted on by itself":             {testSettings, []func(*Observed){changed}, ModeApply},
		"another operator":                         {manual, []func(*Observed){upgraded}, ModeTend},
		"another operator, asked for":              {manual, []func(*Observed){upgraded, annotated("druid.gardener.cloud/operation", "reconcile")}, ModeApply},
		"suspended":                                {testSettings, []func(*Observed){changed, annotated("druid.gardener.cloud/suspend-etcd-spec-reconcile", "")}, ModeWatch},
		"suspended, and asked for":                 {testSettings, []func(*Observed){annotated("druid.gardener.cloud/suspend-etcd-spec-reconcile", ""), annotated("druid.gardener.cloud/operation", "reconcile")}, ModeWatch},
		"suspended before it was ever acted on":    {testSettings, []func(*Observed){func(o *Observed) { o.Etcd.Status.ObservedGeneration = nil }, annotated("druid.gardener.cloud/suspend-etcd-spec-reconcile", "")}, ModeWatch},
		"the StatefulSet was deleted, not changed": {manual, []func(*Observed){func(o *Observed) { delete(o.Live, Key{"StatefulSet", "main"}); o.StatefulSet = nil }}, ModeRepair},
	} {
		p := mustDecide(t, running(t, 3, c.change...), c.settings)
		if p.Mode != c.want || p.Why == "" {
			t.Errorf("%s: %s (%s), want %s", phrase, p.Mode, p.Why, c.want)
		}
		held := druidv1alpha1.FindCondition(p.Conditions, druidv1alpha1.ConditionReconcileHeld)
		if (held != nil) != (c.want == ModeWatch || c.want == ModeTend) || held != nil && held.Message != p.Why {
			t.Errorf("%s: ReconcileHeld is %+v, want it to be there only while something is held, and to say why (%s)", phrase, held, p.Why)
		}
		if c.want == ModeWatch && len(p.Objects)+len(p.Remove) > 0 {
			t.Errorf("%s: changes %v, want none", phrase, changes(nil, p))
		}
	}
}

// What Setup makes of the configuration: TestEverySettingChangesWhatIsSetUp.
func TestObjectsAndConditionsFollowTheSettings(t *testing.T) {
	account := func(s Settings) bool {
		for _, object := range mustDecide(t, empty(newEtcd(3)), s).Objects {
			if account, is := object.(*corev1.ServiceAccount); is {
				return *account.AutomountServiceAccountToken
			}
		}
		t.Fatal("there is no ServiceAccount")
		return false
	}
	off := testSettings
	off.DisableAutomount = true
	if !account(testSettings) || account(off) {
		t.Errorf("tokens are mounted: %t, and if that is disabled: %t", account(testSettings), account(off))
	}
	for silence, want := range map[time.Duration]druidv1alpha1.EtcdMemberConditionStatus{
		5 * time.Second:  druidv1alpha1.EtcdMemberStatusReady,
		15 * time.Second: druidv1alpha1.EtcdMemberStatusUnknown,
		35 * time.Second: druidv1alpha1.EtcdMemberStatusNotReady,
	} {
		short := testSettings
		short.Thresholds = health.Thresholds{Unknown: 10 * time.Second, NotReady: 20 * time.Second}
		if got := mustDecide(t, running(t, 3, silent(0, silence)), short).Members[0].Status; got != want {
			t.Errorf("a member that is silent for %s is %s, want %s", silence, got, want)
		}
	}
}

func TestWithoutBeingAskedTheTemplateStaysAndTheBudgetFollows(t *testing.T) {
	manual := testSettings
	manual.AutoReconcile = false
	o := running(t, 3, wants(5), silent(0, 10*time.Minute), func(o *Observed) {
		o.Etcd.Spec.Etcd.Metrics = ptr(druidv1alpha1.MetricsExtensive)
		delete(o.Live, Key{"Service", "main-client"})
	})
	relaxed(o)
	want := []string{"change PodDisruptionBudget main", "make Service main-client"}
	if diff := cmp.Diff(want, changes(o, mustDecide(t, o, manual))); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
}

// Those who are only wanted have no pod that could be evicted, and do not come before somebody asks for them.
func TestAScaleOutThatNobodyAskedForHoldsUpNoDrain(t *testing.T) {
	manual := testSettings
	manual.AutoReconcile = false
	for phrase, c := range map[string]struct {
		change []func(*Observed)
		want   int
	}{
		"all three are healthy":    {nil, 2},
		"one of the three is down": {[]func(*Observed){silent(0, 10*time.Minute), down(0)}, 3},
	} {
		o := running(t, 3, append([]func(*Observed){relaxed, wants(5)}, c.change...)...)
		for _, object := range mustDecide(t, o, manual).Objects {
			if b, is := object.(*policyv1.PodDisruptionBudget); is && b.Spec.MinAvailable.IntValue() != c.want {
				t.Errorf("%s: minAvailable is %d, want %d", phrase, b.Spec.MinAvailable.IntValue(), c.want)
			}
		}
	}
	well := running(t, 3, wants(5))
	relaxed(well)
	q, is := quiet(well, mustDecide(t, well, manual), outcome{})
	if well.Asked = false; !is {
		q, is = quiet(well, mustDecide(t, well, manual), outcome{})
	}
	silent(0, 10*time.Minute)(well)
	well.Quiet = &q
	if p := mustDecide(t, well, manual); !is || len(p.Objects) == 0 {
		t.Errorf("when a member fails later, the budget is not looked at (the look before was quiet: %t)", is)
	}
}

// Volumes of members that left would be taken for members.
func TestMembersOfWhichPodsAloneAreLeftAreAskedHowManyTheyAre(t *testing.T) {
	noSet := func(o *Observed) { delete(o.Live, Key{"StatefulSet", "main"}); o.StatefulSet = nil }
	noConfig := func(o *Observed) { delete(o.Live, Key{"ConfigMap", "main-config"}); o.ConfigMap = nil }
	for phrase, c := range map[string]struct {
		change []func(*Observed)
		want   bool
	}{
		"nothing is gone":           {nil, false},
		"the StatefulSet":           {[]func(*Observed){noSet}, false}, // the configuration tells
		"the configuration as well": {[]func(*Observed){noSet, noConfig}, true},
		"and none of the pods is ready": {[]func(*Observed){noSet, noConfig, func(o *Observed) {
			for _, p := range o.Pods {
				p.Status.Conditions = nil
			}
		}}, false},
	} {
		if o := running(t, 3, c.change...); sizeOf(o).asks() != c.want {
			t.Errorf("%s: they are asked: %t", phrase, !c.want)
		}
	}
}

// What the pods were made of is known by their StatefulSet and ConfigMap alone. Without one of them the cluster would
// stay down, and with only one of them of another specification its pods might not start.
func TestWithoutBeingAskedWhatIsGoneIsMadeAnewAndTheSizeStays(t *testing.T) {
	manual := testSettings
	manual.AutoReconcile = false
	noSet := func(o *Observed) { delete(o.Live, Key{"StatefulSet", "main"}); o.StatefulSet = nil }
	noPods := func(o *Observed) { o.Pods, o.Sidecars = nil, nil }
	noConfig := func(o *Observed) { delete(o.Live, Key{"ConfigMap", "main-config"}); o.ConfigMap = nil }
	asleep := func(o *Observed) { noPods(o); o.Members = nil }
	sleeps := func(change ...func(*druidv1alpha1.HibernationStatus)) func(*Observed) {
		return func(o *Observed) {
			o.Etcd.Status.Hibernation = &druidv1alpha1.HibernationStatus{EtcdUID: o.Etcd.UID}
			for _, c := range change {
				c(o.Etcd.Status.Hibernation)
			}
		}
	}
	for phrase, c := range map[string]struct {
		change                  []func(*Observed)
		wantMembers, wantPods   int32
		wantStatefulSet, wantCM bool
	}{
		"nothing is gone":                       {[]func(*Observed){wants(5)}, 3, 3, false, false},
		"the StatefulSet and the pods":          {[]func(*Observed){wants(5), noSet, noPods}, 3, 3, true, true},
		"the StatefulSet, while three run":      {[]func(*Observed){wants(1), noSet}, 3, 3, true, true},
		"the StatefulSet, and nobody is wanted": {[]func(*Observed){wants(0), noSet, noPods}, 3, 3, true, true},
		"the ConfigMap":                         {[]func(*Observed){wants(5), noConfig}, 3, 3, true, true},
		"the ConfigMap, and nobody is wanted":   {[]func(*Observed){wants(0), noConfig}, 3, 3, true, true},
		"both, and the pods":                    {[]func(*Observed){wants(1), noConfig, noSet, noPods}, 3, 3, true, true},
		"the StatefulSet of a cluster asleep":   {[]func(*Observed){wants(3), noSet, asleep}, 3, 0, true, true},
		"the same, and EtcdMembers are left":    {[]func(*Observed){wants(3), noSet, noPods, sleeps()}, 3, 0, true, true},
		"both of one asleep, with EtcdMembers":  {[]func(*Observed){wants(3), noConfig, noSet, noPods, sleeps()}, 3, 0, true, true},
		"of one that sleeps again, unproven": {[]func(*Observed){wants(3), noSet, noPods, sleeps(awake), func(o *Observed) {
			o.Etcd.Status.Conditions = druidv1alpha1.SetCondition(nil, druidv1alpha1.Condition{Type: druidv1alpha1.ConditionHibernated, Status: druidv1alpha1.ConditionTrue, Reason: druidv1alpha1.ReasonHibernatedUnproven}, metav1.NewTime(testNow))
		}}, 3, 0, true, true},
		"the StatefulSet of one that wakes up":   {[]func(*Observed){wants(3), noSet, noPods, sleeps(awake)}, 3, 3, true, true},
		"both of a cluster that is to be larger": {[]func(*Observed){wants(5), noConfig, noSet, noPods}, 3, 3, true, true},
	} {
		t.Run(phrase, func(t *testing.T) {
			o := running(t, 3, append([]func(*Observed){relaxed}, c.change...)...)
			p := mustDecide(t, o, manual)
			if p.Mode != ModeTend {
				t.Fatalf("the mode is %s", p.Mode)
			}
			set, config := false, false
			for _, object := range p.Objects {
				switch object := object.(type) {
				case *appsv1.StatefulSet:
					if set = true; *object.Spec.Replicas != c.wantPods {
						t.Errorf("the StatefulSet gets %d pods, want %d", *object.Spec.Replicas, c.wantPods)
					}
				case *corev1.ConfigMap:
					config = true
					if n := desired.ReadConfigMap(o.Etcd, object).Members; n != c.wantMembers {
						t.Errorf("the ConfigMap lists %d members, want %d", n, c.wantMembers)
					}
				}
			}
			if set != c.wantStatefulSet || config != c.wantCM {
				t.Errorf("the StatefulSet is made: %t, the ConfigMap: %t; want %t, %t", set, config, c.wantStatefulSet, c.wantCM)
			}
		})
	}
}

func TestAClusterGrowsByListingThenByPods(t *testing.T) {
	o := running(t, 1, wants(3))
	p := mustDecide(t, o, testSettings)
	if p.Size.Members != 3 || p.Size.Replicas != 1 || p.Done() {
		t.Fatalf("first %+v, want 3 listed and 1 pod", p.Size)
	}
	if diff := cmp.Diff([]string{"main-1", "main-2"}, p.Joining); diff != "" {
		t.Errorf("members that join (-want +got):\n%s", diff)
	}
	// The ConfigMap is there, the pod still has the former one mounted.
	for _, object := range p.Objects {
		if c, ok := object.(*corev1.ConfigMap); ok {
			c.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: kube.FieldManager, Time: ptr(ago(time.Second))}})
			o.ConfigMap, o.Live[keyOf(c)] = c, c
		}
	}
	p = mustDecide(t, o, testSettings)
	if p.Size.Replicas != 3 {
		t.Errorf("second %+v, want 3 pods", p.Size)
	}
	if len(p.Remount) != 1 || p.Remount[0].Name != "main-0" {
		t.Errorf("pods that mount the list anew: %v, want main-0", p.Remount)
	}
	o.Pods[0].Annotations = map[string]string{druidv1alpha1.AnnotationConfigMapRead: p.Configuration}
	if p = mustDecide(t, o, testSettings); len(p.Remount) != 0 {
		t.Errorf("pods that mount the list again: %v, want none", p.Remount)
	}
}

// followedUp has the members be told what is decided now.
func followedUp(t *testing.T) func(*Observed) {
	return func(o *Observed) {
		t.Helper()
		for _, object := range mustDecide(t, o, testSettings).Objects {
			if c, ok := object.(*corev1.ConfigMap); ok {
				o.ConfigMap, o.Live[keyOf(c)] = c, c
			}
		}
	}
}

// In the middle of 3 to 1, before etcd has removed the others, somebody has the StatefulSet make one pod: it is no majority.
func TestPodsOfMembersThatDidNotLeaveComeBack(t *testing.T) {
	alone := func(since time.Duration) func(*Observed) {
		return func(o *Observed) {
			*o.StatefulSet.Spec.Replicas, o.Pods = 1, o.Pods[:1]
			for i := range o.Pods[0].Status.Conditions {
				o.Pods[0].Status.Conditions[i].Status, o.Pods[0].Status.Conditions[i].LastTransitionTime = corev1.ConditionFalse, ago(since)
			}
			m := o.Sidecars[0]
			m.Etcd.Leader = ""
			o.Sidecars = map[int]agentapi.Member{0: m}
		}
	}
	for phrase, c := range map[string]struct {
		change            []func(*Observed)
		members, replicas int32
	}{
		"they are listed first":             {[]func(*Observed){alone(time.Minute)}, 3, 1},
		"then their pods are made":          {[]func(*Observed){alone(time.Minute), followedUp(t)}, 3, 3},
		"who is there only restarts":        {[]func(*Observed){alone(time.Second)}, 1, 1},
		"they are of an Etcd before":        {[]func(*Observed){alone(time.Minute), formerly}, 1, 1},
		"etcd has removed them":             {[]func(*Observed){alone(time.Minute), func(o *Observed) { o.Members = o.Members[:1] }}, 1, 1},
		"none is left, and one is wanted":   {[]func(*Observed){alone(time.Minute), func(o *Observed) { *o.StatefulSet.Spec.Replicas, o.Pods, o.Sidecars = 0, nil, nil }}, 3, 3},
		"one is back, the others to follow": {[]func(*Observed){alone(time.Minute), followedUp(t), func(o *Observed) { *o.StatefulSet.Spec.Replicas = 3 }}, 3, 3},
	} {
		o := running(t, 3, append([]func(*Observed){relaxed, func(o *Observed) { o.Etcd.Status.LastKnownRevision = ptr(int64(1000)) }, wants(1), followedUp(t)}, c.change...)...)
		if p := mustDecide(t, o, testSettings); p.Size.Members != c.members || p.Size.Replicas != c.replicas {
			t.Errorf("%s: %+v, want %d members and %d pods", phrase, p.Size, c.members, c.replicas)
		}
	}
}

// formerly: the EtcdMembers are of another Etcd of the same name.
func formerly(o *Observed) {
	for i := range o.Members {
		o.Members[i].OwnerReferences[0].UID = "former"
	}
}

// A StatefulSet with no replicas would adopt the pods of one that is gone, and end them.
func TestOrphansFallAsleepWithAFinalSnapshot(t *testing.T) {
	o := running(t, 3, relaxed, refusing, wants(0), func(o *Observed) {
		delete(o.Live, keyOf(o.StatefulSet))
		delete(o.Live, keyOf(o.ConfigMap))
		o.StatefulSet, o.ConfigMap = nil, nil
	})
	if p := mustDecide(t, o, testSettings); p.Size.Replicas != 3 || p.Size.Members != 3 || !strings.Contains(p.Waits(), "snapshot") {
		t.Errorf("%+v, waits for %q, want that all three stay until the snapshot is taken", p.Size, p.Waits())
	}
}

func TestAMemberThatLeavesIsForgottenWhenEtcdDoesNotListIt(t *testing.T) {
	o := running(t, 3, relaxed, func(o *Observed) { o.Etcd.Status.LastKnownRevision = ptr(int64(1000)) }, wants(1), followedUp(t))
	p := mustDecide(t, o, testSettings)
	if p.Size.Replicas != 3 || len(p.Remove) != 0 || !strings.Contains(p.Waits(), "main-1, main-2") {
		t.Errorf("while etcd lists them: %+v, %d removals, waits %q", p.Size, len(p.Remove), p.Waits())
	}
	m := o.Sidecars[0]
	delete(o.Sidecars, 1)
	delete(o.Sidecars, 2)
	o.Sidecars[0] = m
	o.elect()
	if p = mustDecide(t, o, testSettings); p.Size.Replicas != 1 || len(p.Remove) != 0 {
		t.Errorf("once etcd does not: %+v, removals %v, want 1 pod and no removals before that", p.Size, changes(o, p))
	}
	*o.StatefulSet.Spec.Replicas = 1
	p = mustDecide(t, o, testSettings)
	want := []string{"remove EtcdMember main-1", "remove Lease main-1", "remove EtcdMember main-2", "remove Lease main-2"}
	var removed []string
	for _, c := range changes(o, p) {
		if strings.HasPrefix(c, "remove ") {
			removed = append(removed, c)
		}
	}
	if diff := cmp.Diff(want, removed); diff != "" {
		t.Errorf("removed (-want +got):\n%s", diff)
	}
	o.Etcd.Status.LastKnownRevision = nil
	if p = mustDecide(t, o, testSettings); len(p.Remove) != 0 {
		t.Errorf("before the revision is remembered %v goes, want nothing", changes(o, p))
	}
}

func TestASleepingClusterKeepsWhatItNeedsToWake(t *testing.T) {
	o := running(t, 3, wants(0), refusing)
	p := mustDecide(t, o, testSettings)
	if p.Size.Replicas != 3 || p.Snapshot == nil || !p.Snapshot.Final || !strings.Contains(p.Waits(), "snapshot") {
		t.Fatalf("before: %+v, snapshot %+v, want a final snapshot first", p.Size, p.Snapshot)
	}
	of := p.Snapshot.For
	o.Snapshots = map[string]SnapshotState{of: {Running: true}}
	if p = mustDecide(t, o, testSettings); p.Size.Replicas != 3 || p.Snapshot != nil {
		t.Errorf("while it is taken: %+v, snapshot %+v", p.Size, p.Snapshot)
	}
	o.Snapshots = map[string]SnapshotState{of: {Failed: "no bucket", Ended: testNow.Add(-30 * time.Second)}}
	if p = mustDecide(t, o, testSettings); p.Size.Replicas != 3 || p.Snapshot != nil || !strings.Contains(p.Waits(), "no bucket") {
		t.Errorf("after it failed: %+v, snapshot %+v, waits %q", p.Size, p.Snapshot, p.Waits())
	}
	o.Snapshots = map[string]SnapshotState{of: {Failed: "no bucket", Ended: testNow.Add(-2 * time.Minute)}}
	if p = mustDecide(t, o, testSettings); p.Size.Replicas != 3 || p.Snapshot == nil {
		t.Errorf("some time after it failed: %+v, snapshot %+v, want another one", p.Size, p.Snapshot)
	}
	o.Snapshots = map[string]SnapshotState{of: {Done: true, Ended: ago(time.Minute).Time, Final: &druidv1alpha1.FinalSnapshot{Name: "Full-9", Revision: 1000, VerifiedAt: ago(time.Minute)}}}
	p = mustDecide(t, o, testSettings)
	if p.Size.Replicas != 0 || p.Size.Members != 3 || len(p.Remove) != 0 || p.Hibernation == nil || p.Hibernation.FinalSnapshot.Name != "Full-9" {
		t.Fatalf("falling asleep: %+v, removals %d, known %+v", p.Size, len(p.Remove), p.Hibernation)
	}
	o.Etcd.Status.Hibernation, o.Snapshots = p.Hibernation, nil
	*o.StatefulSet.Spec.Replicas = 0
	if p = mustDecide(t, o, testSettings); p.Done() || !strings.Contains(p.Waits(), "main-0, main-1, main-2 to end") {
		t.Errorf("while its pods end: done %t, waits for %q", p.Done(), p.Waits())
	}
	o.Pods, o.Etcd.Status.LastKnownRevision = nil, ptr(int64(1000))
	p = mustDecide(t, o, testSettings)
	want := []string{"remove EtcdMember main-0", "remove EtcdMember main-1", "remove EtcdMember main-2", "remove Lease main-0", "remove Lease main-1", "remove Lease main-2"}
	var removed []string
	for _, r := range p.Remove {
		removed = append(removed, "remove "+r.Kind+" "+r.Object.GetName())
	}
	if diff := cmp.Diff(want, removed); diff != "" || p.Size.Members != 3 {
		t.Errorf("asleep with %d members listed, removed (-want +got):\n%s", p.Size.Members, diff)
	}
	for i := range 3 {
		delete(o.Live, Key{"EtcdMember", o.Etcd.MemberName(i)})
		delete(o.Live, Key{"Lease", o.Etcd.MemberLeaseName(i)})
	}
	leases := o.Leases
	o.Members, o.Leases = nil, nil
	if p = mustDecide(t, o, testSettings); len(p.Remove) != 0 || !p.Done() || len(p.Joining) != 0 {
		t.Errorf("asleep: %v, done %t", changes(o, p), p.Done())
	}
	for _, object := range p.Objects {
		if key := keyOf(object); key.Kind == kindLease || key.Kind == druidv1alpha1.KindEtcdMember {
			t.Errorf("asleep, %s is made", key)
		}
	}
	// Where nothing else says that members have lived, what they told stays.
	o.Leases, o.Etcd.Status.LastKnownRevision = leases, nil
	for i := range leases {
		o.Live[Key{"Lease", leases[i].Name}] = &leases[i]
	}
	if p = mustDecide(t, o, testSettings); len(p.Remove) != 0 {
		t.Errorf("asleep, and nothing but Leases tells of a life: %v", changes(o, p))
	}
	o.Etcd.Status.LastKnownRevision = ptr(int64(1000))
	wants(1)(o)
	if p = mustDecide(t, o, testSettings); p.Size.Replicas != 3 || len(p.Joining) != 0 || p.Hibernation == nil || p.Hibernation.AwakeSince == nil {
		t.Errorf("woken with 1 wanted: %+v, joining %v, want as many as fell asleep", p.Size, p.Joining)
	}
}

func TestPodsWithAFormerTemplateAreReplacedInOrder(t *testing.T) {
	o := running(t, 3, former(0), former(1), former(2))
	if p := mustDecide(t, o, testSettings); p.Pod.Kind != rollout.Delete || p.Pod.Pod != "main-1" || p.Pod.UID != "pod-1" {
		t.Errorf("first %+v, want the follower main-1", p.Pod)
	}
	o = running(t, 3, former(2))
	if p := mustDecide(t, o, testSettings); p.Pod.Kind != rollout.Delete || p.Pod.Pod != "main-2" {
		t.Errorf("last %+v, want the leader main-2, whose wrapper hands over", p.Pod)
	}
	o = running(t, 3, former(0), silent(1, 10*time.Minute), down(1))
	if p := mustDecide(t, o, testSettings); p.Pod.Kind == rollout.Delete {
		t.Errorf("while a member is down: %+v, want none", p.Pod)
	}
	o = running(t, 3, former(0), func(o *Observed) { o.Members[2].Status.Snapshots.NothingNew = ptr(ago(time.Hour)) })
	p := mustDecide(t, o, testSettings)
	if p.Pod.Kind != rollout.Wait || !strings.Contains(p.Pod.Reason, "backups are not healthy") {
		t.Errorf("with overdue backups: %+v, want to wait", p.Pod)
	}
	if c := druidv1alpha1.FindCondition(p.Conditions, druidv1alpha1.ConditionAllMembersUpdated); c.Reason != druidv1alpha1.ReasonRolloutWaiting {
		t.Errorf("AllMembersUpdated has the reason %s, want %s", c.Reason, druidv1alpha1.ReasonRolloutWaiting)
	}
	o.StatefulSet.Spec.Template.Annotations[druidv1alpha1.AnnotationBackupChecksum] = "another bucket"
	if p = mustDecide(t, o, testSettings); p.Pod.Kind != rollout.Delete {
		t.Errorf("the template mends the backups: %+v, want a replacement", p.Pod)
	}
	delete(o.StatefulSet.Spec.Template.Annotations, druidv1alpha1.AnnotationBackupChecksum)
	o.StatefulSet.Spec.Template.Annotations[druidv1alpha1.AnnotationBackupMeansChecksum] = "another time for a full"
	if p = mustDecide(t, o, testSettings); p.Pod.Kind != rollout.Delete {
		t.Errorf("the template has the backups made by other means: %+v, want a replacement", p.Pod)
	}
	o = running(t, 3, former(0), func(o *Observed) { o.Sidecars = nil })
	if p := mustDecide(t, o, testSettings); p.Pod.Kind != rollout.Wait {
		t.Errorf("no sidecar answers: %+v, want to wait", p.Pod)
	}
}

func TestASuspensionWhileClientsAreOutSaysSo(t *testing.T) {
	for closed, want := range map[bool]bool{true: true, false: false} {
		o := running(t, 3, wants(0), func(o *Observed) {
			o.Etcd.Annotations = map[string]string{druidv1alpha1.AnnotationSuspendReconcile: ""}
			if closed {
				o.Live[Key{"Service", "main-client"}].(*corev1.Service).Spec.Ports = nil
			}
		})
		held := druidv1alpha1.FindCondition(mustDecide(t, o, testSettings).Conditions, druidv1alpha1.ConditionReconcileHeld)
		if held == nil || strings.Contains(held.Message, "the Service main-client has none of etcd's ports") != want {
			t.Errorf("closed: %t, ReconcileHeld says %+v", closed, held)
		}
	}
}

// TestWhatFallsAsleepKeepsItsImage: the final full is of the etcd that has proven itself, and nothing new begins on the way down.
func TestWhatFallsAsleepKeepsItsImage(t *testing.T) {
	o := running(t, 3, former(1), func(o *Observed) {
		o.Pods[1].Spec.Containers = []corev1.Container{{Name: desired.ContainerEtcd, Image: "former:1"}}
	}, wants(0))
	if p := mustDecide(t, o, testSettings); p.Pod.Kind != rollout.Wait || !strings.Contains(p.Pod.Reason, "falling asleep") {
		t.Errorf("%+v, want no pod to get another image", p.Pod)
	}
	o = running(t, 3, former(1), func(o *Observed) {
		o.Pods[1].Spec.Containers = []corev1.Container{{Name: desired.ContainerEtcd, Image: "former:1"}}
	}, down(1), wants(0))
	if p := mustDecide(t, o, testSettings); strings.Contains(p.Pod.Reason, "falling asleep") {
		t.Errorf("%+v, though the pod that is not ready may need what is new to make the final full", p.Pod)
	}
}

// TestNobodyBeginsBesideThoseWhoLeave: the one that is to stay asks nobody, and would restore beside the others if it lost its data.
func TestNobodyBeginsBesideThoseWhoLeave(t *testing.T) {
	held := func(o *Observed) bool {
		for _, object := range mustDecide(t, o, testSettings).Objects {
			if c, ok := object.(*corev1.ConfigMap); ok {
				return strings.Contains(c.Data[desired.SidecarFile], "othersLeave: true")
			}
		}
		t.Fatal("no ConfigMap is applied")
		return false
	}
	if held(running(t, 3)) {
		t.Error("of three, nobody is held back")
	}
	if !held(running(t, 3, relaxed, wants(1))) {
		t.Error("from 3 to 1, the one that stays may begin beside the others")
	}
	o := running(t, 1)
	if held(o) {
		t.Error("a single member may not begin")
	}
	o.join(1, false)
	delete(o.Sidecars, 1)
	o.elect()
	if held(o) {
		t.Error("the other has left, and the one that stays may not begin")
	}
	delete(o.Sidecars, 0)
	o.Pods[1].DeletionTimestamp = ptr(ago(time.Second))
	if !held(o) {
		t.Error("the other ends, and may have begun a cluster since it was asked")
	}
	o.Pods[1].DeletionTimestamp = ptr(ago(time.Hour))
	if held(o) {
		t.Error("the pod of another that does not end, as on a node that is lost, is waited for")
	}
	if !held(running(t, 5, relaxed, wants(3))) {
		t.Error("from 5 to 3, those that stay may begin beside the others")
	}
	o = running(t, 3, relaxed, wants(1))
	delete(o.Sidecars, 1)
	delete(o.Sidecars, 2)
	o.elect()
	*o.StatefulSet.Spec.Replicas = 3
	if held(o) {
		t.Error("the others have left, and the one that stays may not begin")
	}
}

// TestMembersOfDifferentClustersAreLeftAlone: which of two clusters is the right one, a person decides.
func TestMembersOfDifferentClustersAreLeftAlone(t *testing.T) {
	o := running(t, 3, relaxed, wants(1), former(1), func(o *Observed) {
		o.Sidecars[0] = agentapi.Member{Name: "main-0", ID: id(0), ClusterID: "c2", BackupLeader: true,
			Etcd: &agentapi.Etcd{Leader: id(0), Revision: 5000, Members: []agentapi.Listed{{ID: id(0), Name: "main-0", PeerURLs: []string{"http://main-0"}}}}}
	})
	for _, i := range []int{1, 2} {
		m := o.Sidecars[i]
		m.ClusterID = "c1"
		o.Sidecars[i] = m
	}
	p := mustDecide(t, o, testSettings)
	if p.Size.Replicas != 3 || !strings.Contains(p.Waits(), "main-0 of c2") || !strings.Contains(p.Waits(), "main-1 and main-2 of c1") {
		t.Errorf("replicas %d, waiting for %q; want all to stay, and to tell who is of which cluster", p.Size.Replicas, p.Waits())
	}
	if p.Pod.Kind == rollout.Delete {
		t.Errorf("%+v, want no pod to be replaced", p.Pod)
	}
}

func TestAnotherImageOfEtcdComesAfterASnapshot(t *testing.T) {
	another := func(o *Observed) {
		o.Pods[1].Spec.Containers = []corev1.Container{{Name: desired.ContainerEtcd, Image: "former:1"}}
	}
	o := running(t, 3, former(1), another)
	p := mustDecide(t, o, testSettings)
	if p.Pod.Kind != rollout.Wait || p.Snapshot == nil || p.Snapshot.Final {
		t.Fatalf("before: %+v, snapshot %+v, want a snapshot that is not the last", p.Pod, p.Snapshot)
	}
	o.Snapshots = map[string]SnapshotState{p.Snapshot.For: {Done: true}}
	if p = mustDecide(t, o, testSettings); p.Pod.Kind != rollout.Delete || p.Pod.Pod != "main-1" || p.Snapshot != nil {
		t.Errorf("after it: %+v, snapshot %+v, want main-1 to be replaced", p.Pod, p.Snapshot)
	}
	o = running(t, 3, former(1), another, func(o *Observed) { o.Etcd.Spec.Backup.Store = nil })
	if p = mustDecide(t, o, testSettings); p.Pod.Kind != rollout.Delete {
		t.Errorf("without a store: %+v, want main-1 to be replaced", p.Pod)
	}
	o = running(t, 3, former(1), another, func(o *Observed) { o.Members[2].Status.Snapshots.NothingNew = ptr(ago(time.Hour)) })
	before := o.StatefulSet.Spec.Template.Annotations[druidv1alpha1.AnnotationBackupChecksum]
	o.StatefulSet.Spec.Template.Annotations[druidv1alpha1.AnnotationBackupChecksum] = "another bucket"
	if p = mustDecide(t, o, testSettings); p.Pod.Kind != rollout.Delete || p.Snapshot != nil {
		t.Errorf("backups are broken and the template mends them: %+v, snapshot %+v, want main-1 to be replaced", p.Pod, p.Snapshot)
	}
	o.StatefulSet.Spec.Template.Annotations[druidv1alpha1.AnnotationBackupChecksum] = before
	o.StatefulSet.Spec.Template.Annotations[druidv1alpha1.AnnotationBackupMeansChecksum] = "another time for a full"
	if p = mustDecide(t, o, testSettings); p.Pod.Kind != rollout.Wait || p.Snapshot == nil {
		t.Errorf("they stay where they are: %+v, snapshot %+v, want a snapshot first", p.Pod, p.Snapshot)
	}
}

func TestNoPodIsReplacedWhileSuspended(t *testing.T) {
	o := running(t, 3, former(0), func(o *Observed) {
		o.Etcd.Annotations = map[string]string{druidv1alpha1.AnnotationSuspendReconcile: ""}
	})
	if p := mustDecide(t, o, testSettings); p.Pod.Kind != "" {
		t.Errorf("%+v, want nothing", p.Pod)
	}
}

// peerTLS has all members use TLS between each other, as testSettings would have made it.
func withPeerTLS(t *testing.T, n int32) *Observed {
	t.Helper()
	tls := &druidv1alpha1.PeerTLSConfig{TLSConfig: druidv1alpha1.TLSConfig{
		TLSCASecretRef:     druidv1alpha1.SecretReference{SecretReference: corev1.SecretReference{Name: "peer-ca"}, DataKey: ptr("bundle.crt")},
		ServerTLSSecretRef: corev1.SecretReference{Name: "peer-server"},
	}}
	o := running(t, n)
	o.Etcd.Spec.Etcd.PeerUrlTLS = tls
	in := input(o, testSettings, &Plan{Size: rollout.ScaleStep{Members: n, Replicas: n, PeerTLS: true, PeerCertificates: true}})
	set, err := desired.Objects(in)
	if err != nil {
		t.Fatal(err)
	}
	o.ConfigMap, o.StatefulSet.Spec.Template = set.ConfigMap, set.StatefulSet.Spec.Template
	for i := range o.Members {
		o.Members[i].Status.PeerTLSEnabled = ptr(true)
		o.Pods[i].Spec = set.StatefulSet.Spec.Template.Spec
	}
	for i, m := range o.Sidecars {
		m.PeerTLSEnabled = true
		o.Sidecars[i] = m
		for j := range m.Etcd.Members {
			m.Etcd.Members[j].PeerURLs = []string{strings.Replace(m.Etcd.Members[j].PeerURLs[0], "http:", "https:", 1)}
		}
	}
	return o
}

func TestAPeriodThatLeavesBackupsWithoutALockIsRefused(t *testing.T) {
	locks := func(d time.Duration) func(*Observed) {
		return func(o *Observed) {
			o.Etcd.Spec.Backup.Store = &druidv1alpha1.StoreSpec{Container: ptr("backups"), Prefix: "p", Provider: ptr(druidv1alpha1.StorageProvider("aws"))}
			o.Etcd.Spec.Backup.Store.Immutability = &druidv1alpha1.ImmutabilitySpec{RetentionType: druidv1alpha1.RetentionObject, RetentionPeriod: &metav1.Duration{Duration: d}}
		}
	}
	const arithmetic = `spec.backup.store.immutability.retentionPeriod is too short for spec.backup.fullSnapshotSchedule "0 0 * * *": objects are locked for 24h, and a full is the newest for up to 24h30m (24h between two, 15m until the next is in the bucket, 15m for clocks): it would be without a lock for up to 30m; lengthen the period, or take fulls more often`
	if p := mustDecide(t, running(t, 3, locks(24*time.Hour)), testSettings); len(p.Refused) != 1 || p.Refused[0] != arithmetic {
		t.Errorf("refused %q, want %q", p.Refused, arithmetic)
	}
	hourly := func(o *Observed) { o.Etcd.Spec.Backup.FullSnapshotSchedule = ptr("0 * * * *") }
	for phrase, change := range map[string][]func(*Observed){"enough": {locks(24*time.Hour + 30*time.Minute)}, "more fulls": {locks(24 * time.Hour), hourly}} {
		if p := mustDecide(t, running(t, 3, change...), testSettings); len(p.Refused) > 0 {
			t.Errorf("%s: refused %q", phrase, p.Refused)
		}
	}
}

func TestWhatNoObjectCanBeMadeOfIsRefusedInTheFieldsOfTheEtcd(t *testing.T) {
	resources := func(request, limit string) *corev1.ResourceRequirements {
		return &corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(request)}, Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(limit)},
		}
	}
	bad := func(key string) string {
		return `spec.labels[` + key + `]: Invalid value: "!": ` + strings.Join(utilvalidation.IsValidLabelValue("!"), "; ")
	}
	for phrase, c := range map[string]struct {
		spec func(*druidv1alpha1.EtcdSpec)
		want string
	}{
		"as much as the limit": {func(s *druidv1alpha1.EtcdSpec) { s.Etcd.Resources = resources("1024Mi", "1Gi") }, ""},
		"etcd wants more":      {func(s *druidv1alpha1.EtcdSpec) { s.Etcd.Resources = resources("2Gi", "1Gi") }, "spec.etcd.resources: requests.memory is 2Gi, and limits.memory only 1Gi: lower the request, or raise the limit"},
		"the sidecar does":     {func(s *druidv1alpha1.EtcdSpec) { s.Backup.Resources = resources("1", "0") }, "spec.backup.resources: requests.memory is 1, and limits.memory only 0"},
		"a label":              {func(s *druidv1alpha1.EtcdSpec) { s.Labels = map[string]string{"a": "no label!"} }, `spec.labels[a]: Invalid value: "no label!": a valid label must be`},
		"several labels": {func(s *druidv1alpha1.EtcdSpec) {
			s.Labels = map[string]string{"e": "!", "a": "!", "c": "!", "b": "!", "d": "!"}
		},
			strings.Join([]string{bad("a"), bad("b"), bad("c"), bad("d"), bad("e")}, "; ")},
		"a label that the operator's own replaces": {func(s *druidv1alpha1.EtcdSpec) { s.Labels = map[string]string{druidv1alpha1.LabelName: "!"} }, ""},
		"annotations that are too much together": {func(s *druidv1alpha1.EtcdSpec) {
			s.Annotations = map[string]string{"a": strings.Repeat("a", 150<<10), "b": strings.Repeat("b", 150<<10)}
		}, "spec.annotations: Too long"},
		"a former label": {func(s *druidv1alpha1.EtcdSpec) {
			s.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"-": ""}} //nolint:staticcheck // as it says
		}, `spec.selector.matchLabels[-]: Invalid value: "-"`},
		"an annotation": {func(s *druidv1alpha1.EtcdSpec) { s.Annotations = map[string]string{"a b": ""} }, `spec.annotations[a b]: Invalid value: "a b"`},
		"the Service's label": {func(s *druidv1alpha1.EtcdSpec) {
			s.Etcd.ClientService = &druidv1alpha1.ClientService{Labels: map[string]string{"": ""}}
		},
			`spec.etcd.clientService.labels[]: Invalid value: ""`},
		"the Service's annotation": {func(s *druidv1alpha1.EtcdSpec) {
			s.Etcd.ClientService = &druidv1alpha1.ClientService{Annotations: map[string]string{"": ""}}
		},
			`spec.etcd.clientService.annotations[]: Invalid value: ""`},
	} {
		p := mustDecide(t, running(t, 3, func(o *Observed) { c.spec(&o.Etcd.Spec) }), testSettings)
		if got := strings.Join(p.Refused, "; "); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: refused %q, want %q", phrase, got, c.want)
		}
	}
}

func TestARunningClusterKeepsWhatItNeedsWhileItsSpecificationIsRefused(t *testing.T) {
	tends := testSettings
	tends.AutoReconcile = false
	without := func(kind, name string) func(*Observed) {
		return func(o *Observed) { delete(o.Live, Key{kind, name}) }
	}
	nobody := func(*Observed) {}
	closed := func(o *Observed) {
		wants(0)(o)
		s := o.Live[Key{"Service", "main-client"}].(*corev1.Service)
		s.Annotations = map[string]string{"its": "own", kube.AnnotationApplied: "digest"}
		o.Etcd.Spec.Etcd.ClientService = &druidv1alpha1.ClientService{Annotations: map[string]string{"its": "new"}}
		s.Spec.Ports = slices.DeleteFunc(s.Spec.Ports, func(p corev1.ServicePort) bool { return p.Name != "backuprestore" })
	}
	for phrase, c := range map[string]struct {
		settings Settings
		change   func(*Observed)
		want     string
	}{
		"all is there":                   {testSettings, nobody, ""},
		"more members are wanted":        {testSettings, wants(5), ""},
		"nobody asked for more":          {tends, wants(5), ""},
		"a member is ill":                {testSettings, silent(1, 10*time.Minute), "change PodDisruptionBudget main"},
		"a Service was deleted":          {testSettings, without("Service", "main-client"), "make Service main-client"},
		"an EtcdMember was deleted":      {testSettings, without("EtcdMember", "main-1"), "make EtcdMember main-1"},
		"a Role was deleted":             {testSettings, without("Role", newEtcd(3).RoleName()), "make Role " + newEtcd(3).RoleName()},
		"the token is somebody else's":   {testSettings, func(o *Observed) { o.TokenTaken = true; delete(o.Live, Key{"Service", "main-client"}) }, "make Service main-client"},
		"the objects are the original's": {testSettings, func(o *Observed) { allOriginal(o); delete(o.Live, Key{"Service", "main-client"}) }, ""},
		"the ConfigMap was deleted":      {testSettings, func(o *Observed) { without("ConfigMap", "main-config")(o); o.ConfigMap = nil }, ""},
		"nothing but pods is wanted": {testSettings, func(o *Observed) {
			o.Etcd.Annotations = map[string]string{druidv1alpha1.AnnotationDisableRuntimeComponents: ""}
			delete(o.Live, Key{"Service", "main-client"})
		}, ""},
		"it was falling asleep":            {testSettings, closed, "change Service main-client"},
		"a change of that was not applied": {tends, closed, "change Service main-client"},
		"its members are told to stop":     {testSettings, func(o *Observed) { closed(o); recorded(2)(o) }, ""},
		"it sleeps":                        {testSettings, func(o *Observed) { closed(o); o.StatefulSet.Spec.Replicas, o.Pods = ptr(int32(0)), nil }, ""},
		"other ports are wanted": {testSettings, func(o *Observed) {
			o.Etcd.Spec.Etcd.ClientPort = ptr(int32(12379))
			delete(o.Live, Key{"Service", "main-client"})
		}, "make Service main-client"},
		"the store is to go": {testSettings, func(o *Observed) { o.Etcd.Spec.Backup.Store = nil }, "change PodDisruptionBudget main"},
	} {
		o := running(t, 3, c.change, func(o *Observed) {
			two := intstr.FromInt32(2)
			o.Live[Key{"PodDisruptionBudget", "main"}].(*policyv1.PodDisruptionBudget).Spec.MinAvailable = &two
			o.Etcd.Spec.Etcd.ClientUrlTLS = &druidv1alpha1.TLSConfig{ServerTLSSecretRef: corev1.SecretReference{Name: "server", Namespace: "elsewhere"}}
		})
		p := mustDecide(t, o, c.settings)
		if got := strings.Join(changes(o, p), ", "); len(p.Refused) == 0 || got != c.want || p.Done() {
			t.Errorf("%s: %q, want %q; refused %q", phrase, got, c.want, p.Refused)
		}
		for _, object := range p.Objects {
			if b, ok := object.(*policyv1.PodDisruptionBudget); ok && slices.Contains([]string{"a member is ill", "the store is to go"}, phrase) && b.Spec.MinAvailable.IntValue() != 3 {
				t.Errorf("%s: %s pods must be there, want all three", phrase, b.Spec.MinAvailable)
			}
			if s, ok := object.(*corev1.Service); ok && s.Name == "main-client" && o.Live[keyOf(s)] != nil && s.Annotations["its"] != "own" {
				t.Errorf("%s: its annotations become those that are not applied: %v", phrase, s.Annotations)
			}
			if s, ok := object.(*corev1.Service); ok && s.Name == "main-client" && (len(s.Spec.Ports) != 3 || s.Spec.Ports[0].Port != 2379) {
				t.Errorf("%s: clients reach it by %v, want the port on which the pods listen", phrase, s.Spec.Ports)
			}
		}
	}
}

// The members that run have the store that the specification, which is not applied, does not name any more.
func TestPodsAreNotReplacedAsIfThereWereNoStoreThatTheyHave(t *testing.T) {
	tends := testSettings
	tends.AutoReconcile = false
	for phrase, c := range map[string]struct {
		settings Settings
		change   func(*Observed)
		want     rollout.StepKind
	}{
		"it is applied":     {testSettings, func(*Observed) {}, rollout.Delete},
		"it is not applied": {tends, func(*Observed) {}, rollout.Wait},
		"it is refused": {testSettings, func(o *Observed) {
			o.Etcd.Spec.Etcd.ClientUrlTLS = &druidv1alpha1.TLSConfig{ServerTLSSecretRef: corev1.SecretReference{Name: "server", Namespace: "elsewhere"}}
		}, rollout.Wait},
	} {
		o := running(t, 3, former(0), c.change, func(o *Observed) { o.Etcd.Spec.Backup.Store = nil; o.Etcd.Generation++ })
		if p := mustDecide(t, o, c.settings); p.Pod.Kind != c.want {
			t.Errorf("%s: %s (%s), want %s", phrase, p.Pod.Kind, p.Pod.Reason, c.want)
		}
	}
}

// Pods that are made anew by a specification that is not applied, as what they said is not known any more, are reached by it, too.
func TestTheServiceFollowsPodsThatAreMadeAnew(t *testing.T) {
	tends := testSettings
	tends.AutoReconcile = false
	o := running(t, 3, relaxed, func(o *Observed) {
		delete(o.Live, Key{"ConfigMap", "main-config"})
		o.ConfigMap = nil
		o.Etcd.Spec.Etcd.ClientPort = ptr(int32(12379))
		o.Etcd.Generation++
	})
	if got := strings.Join(changes(o, mustDecide(t, o, tends)), ", "); got != "change Service main-client, make ConfigMap main-config, change StatefulSet main" {
		t.Errorf("%q", got)
	}
}

func TestWhatBackupsAreMadeWithIsInADigest(t *testing.T) {
	of := func(change func(b *druidv1alpha1.BackupSpec)) string {
		o := running(t, 3)
		o.Etcd.Spec.Backup.Store = &druidv1alpha1.StoreSpec{Container: ptr("backups"), Prefix: "p", Provider: ptr(druidv1alpha1.StorageProvider("aws"))}
		change(&o.Etcd.Spec.Backup)
		return meansChecksum(o.Etcd)
	}
	before := of(func(*druidv1alpha1.BackupSpec) {})
	for what, change := range map[string]func(b *druidv1alpha1.BackupSpec){
		"image": func(b *druidv1alpha1.BackupSpec) { b.Image = ptr("mended:1") },
		"resources": func(b *druidv1alpha1.BackupSpec) {
			b.Resources = &corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}}
		},
		"timeout": func(b *druidv1alpha1.BackupSpec) { b.EtcdSnapshotTimeout = &metav1.Duration{Duration: time.Hour} },
		"memory":  func(b *druidv1alpha1.BackupSpec) { b.DeltaSnapshotMemoryLimit = ptr(resource.MustParse("7Mi")) },
		"election": func(b *druidv1alpha1.BackupSpec) {
			b.LeaderElection = &druidv1alpha1.LeaderElectionSpec{EtcdConnectionTimeout: &metav1.Duration{Duration: time.Minute}}
		},
	} {
		if of(change) == before {
			t.Errorf("another %s does not change the digest", what)
		}
	}
	if got := of(func(b *druidv1alpha1.BackupSpec) { b.Store.Prefix = "q" }); got != before {
		t.Error("another place changes the digest of the means")
	}
	if got := of(func(b *druidv1alpha1.BackupSpec) { b.Store = nil }); got != "" {
		t.Errorf("the digest without backups is %q", got)
	}
}

func TestTheBucketsOwnLocksAreNoChangeOfThePods(t *testing.T) {
	store := func(i *druidv1alpha1.ImmutabilitySpec) *druidv1alpha1.Etcd {
		o := running(t, 3)
		o.Etcd.Spec.Backup.Store = &druidv1alpha1.StoreSpec{Container: ptr("backups"), Prefix: "p", Provider: ptr(druidv1alpha1.StorageProvider("aws")), Immutability: i}
		return o.Etcd
	}
	if a, b := backupChecksum(store(nil), "we"), backupChecksum(store(&druidv1alpha1.ImmutabilitySpec{RetentionType: druidv1alpha1.RetentionBucket}), "we"); a != b || a == "" {
		t.Errorf("the digests are %q and %q, want the same", a, b)
	}
}

func TestTLSThatIsStillUsedStaysThoughNobodyWantsItAnyMore(t *testing.T) {
	o := withPeerTLS(t, 3)
	if p := mustDecide(t, o, testSettings); !p.Done() || !p.Size.PeerTLS {
		t.Fatalf("as it is: %+v", p.Size)
	}
	o.Etcd.Spec.Etcd.PeerUrlTLS = nil
	p := mustDecide(t, o, testSettings)
	if p.Size.PeerTLS || !p.Size.PeerCertificates || len(p.Refused) > 0 {
		t.Errorf("the first step is %+v, want http listed and the certificates still mounted", p.Size)
	}
	// Clients are served otherwise first, with pods that have what they need for that.
	for phrase, change := range map[string]func(*Observed){
		"another port": func(o *Observed) { o.Etcd.Spec.Etcd.ClientPort = ptr(int32(2479)) },
		"no TLS for clients": func(o *Observed) {
			o.ConfigMap.Data[desired.EtcdFile] = strings.Replace(o.ConfigMap.Data[desired.EtcdFile], "listen-client-urls: http:", "listen-client-urls: https:", 1)
		},
		"a pod has certificates for clients": func(o *Observed) {
			o.Pods[1].Spec.Volumes = append(slices.Clone(o.Pods[1].Spec.Volumes), corev1.Volume{Name: "etcd-server-tls", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{}}})
		},
		"a pod is the original's": func(o *Observed) { podsOfOriginal(o); former(1)(o) },
	} {
		o := withPeerTLS(t, 3)
		o.Etcd.Spec.Etcd.PeerUrlTLS = nil
		change(o)
		if p := mustDecide(t, o, testSettings); !p.Size.PeerTLS || !strings.Contains(p.Size.Waits, "every pod to have the newest template") || p.Size.Hold != "" {
			t.Errorf("%s: %+v, want https to stay, and pods to be replaced", phrase, p.Size)
		}
	}
	// What else is former in a pod waits for the change, without which it may not come back: certificates that are no good any more.
	for phrase, change := range map[string]func(*Observed){
		"a pod of a former template": former(1),
		"a change that nobody saw":   func(o *Observed) { o.StatefulSet.Generation++ },
	} {
		o := withPeerTLS(t, 3)
		o.Etcd.Spec.Etcd.PeerUrlTLS = nil
		change(o)
		if p := mustDecide(t, o, testSettings); p.Size.PeerTLS || p.Size.Hold == "" {
			t.Errorf("%s: %+v, want http to be listed", phrase, p.Size)
		}
	}
	// A member is ill, so the change waits: the configuration still names https and the Secrets.
	down(0)(o)
	p = mustDecide(t, o, testSettings)
	if !p.Size.PeerTLS || len(p.Refused) > 0 {
		t.Fatalf("while a member is ill: %+v, refused %v", p.Size, p.Refused)
	}
	for _, object := range p.Objects {
		if c, ok := object.(*corev1.ConfigMap); ok && !strings.Contains(c.Data[desired.EtcdFile], "trusted-ca-file: /var/etcd/ssl/peer/ca/bundle.crt") {
			t.Errorf("the configuration does not name the authority of the peers:\n%s", c.Data[desired.EtcdFile])
		}
	}
	o.StatefulSet.Spec.Template.Spec.Volumes = nil
	if p = mustDecide(t, o, testSettings); len(p.Refused) == 0 || len(p.Objects) > 0 {
		t.Errorf("the Secrets are not known: refused %v, %d objects, want a refusal and none", p.Refused, len(p.Objects))
	}
}

func TestAClusterThatNeverBeganMayChangeItsSizeAtOnce(t *testing.T) {
	o := running(t, 3, wants(5), func(o *Observed) {
		o.Sidecars, o.Asked = nil, false
		for i := range 3 {
			o.Leases[i].Spec.RenewTime = nil
			o.Members[i].Status = druidv1alpha1.MemberReport{}
			o.Pods[i].Status = corev1.PodStatus{Phase: corev1.PodPending}
		}
	})
	if p := mustDecide(t, o, testSettings); p.Size.Members != 5 || len(p.Joining) > 0 {
		t.Errorf("no pod ever ran: %+v, joining %v, want 5 members that begin together", p.Size, p.Joining)
	}
	for i := range o.Pods {
		o.Pods[i].Status.ContainerStatuses = []corev1.ContainerStatus{{Name: desired.ContainerEtcd, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	}
	if p := mustDecide(t, o, testSettings); p.Size.Members != 3 || p.Size.Waits == "" {
		t.Errorf("pods run and nobody answers: %+v, want to wait", p.Size)
	}
	o.Asked, o.Sidecars = true, map[int]agentapi.Member{}
	for i := range 3 {
		o.Sidecars[i] = agentapi.Member{Name: o.Etcd.MemberName(i), Data: agentapi.Data{State: agentapi.DataMissing}}
	}
	if p := mustDecide(t, o, testSettings); p.Size.Members != 5 {
		t.Errorf("every sidecar says that there are no data: %+v, want 5 members", p.Size)
	}
	o.Etcd.Status.LastKnownRevision = ptr(int64(7))
	if p := mustDecide(t, o, testSettings); p.Size.Members != 3 {
		t.Errorf("the cluster once had a revision: %+v, want to wait", p.Size)
	}
}

func TestTheClaimTemplateThatIsThereIsKept(t *testing.T) {
	template := func(o *Observed) *corev1.PersistentVolumeClaim {
		for _, object := range mustDecide(t, o, testSettings).Objects {
			if s, ok := object.(*appsv1.StatefulSet); ok {
				return &s.Spec.VolumeClaimTemplates[0]
			}
		}
		t.Fatal("there is no StatefulSet")
		return nil
	}
	o := running(t, 3)
	made := template(o).DeepCopy()
	filesystem := corev1.PersistentVolumeFilesystem
	o.StatefulSet.Spec.VolumeClaimTemplates[0].Spec.VolumeMode = &filesystem // as the API server fills it in
	if diff := cmp.Diff(made, template(o)); diff != "" {
		t.Errorf("with what the API server filled in it is another one (-want +got):\n%s", diff)
	}
	o.Etcd.Spec.StorageCapacity = ptr(resource.MustParse("32Gi"))
	if got := template(o).Spec.Resources.Requests[corev1.ResourceStorage]; got.String() != "16Gi" {
		t.Errorf("grown it requests %s, want what it did before, as it cannot be changed", got.String())
	}
}

func TestAMemberThatHasNotJoinedYetKeepsTheOperationOpen(t *testing.T) {
	o := running(t, 3, func(o *Observed) {
		o.Members[2].Annotations = map[string]string{druidv1alpha1.AnnotationCreateAsLearner: "true"}
		for _, m := range o.Sidecars {
			m.Etcd.Members[2].Learner = true
		}
	})
	p := mustDecide(t, o, testSettings)
	if p.Done() || !strings.Contains(p.Waits(), "main-2 to catch up and vote") {
		t.Errorf("done %t, waits %q, want to wait for main-2", p.Done(), p.Waits())
	}
}

func TestAnOperationIsOverWhenThePodThatWasReplacedLastIsReady(t *testing.T) {
	open := &druidv1alpha1.LastOperation{Type: druidv1alpha1.LastOperationReconcile, State: druidv1alpha1.LastOperationProcessing}
	changed := func(o *Observed) {
		o.StatefulSet.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: kube.FieldManager, Operation: metav1.ManagedFieldsOperationApply, Time: ptr(ago(time.Minute))}}
	}
	for phrase, c := range map[string]struct {
		operation *druidv1alpha1.LastOperation
		change    []func(*Observed)
		wantWaits string // empty: it is done
	}{
		"all are ready":                       {open, []func(*Observed){changed}, ""},
		"the last one is not ready":           {open, []func(*Observed){changed, down(2)}, "every pod has the newest template; main-2 is not ready"},
		"the last one is not there yet":       {open, []func(*Observed){changed, func(o *Observed) { o.Pods = o.Pods[:2] }}, "2 of 3 pods exist"},
		"the newest template is not seen yet": {open, []func(*Observed){changed, func(o *Observed) { o.StatefulSet.Generation = 2 }}, "has not seen the newest template yet"},
		"the StatefulSet is as it was made":   {open, []func(*Observed){down(2)}, ""},
		"a pod fails later":                   {&druidv1alpha1.LastOperation{Type: druidv1alpha1.LastOperationReconcile, State: druidv1alpha1.LastOperationSucceeded}, []func(*Observed){changed, down(2)}, ""},
		"a pod fails before the first end":    {&druidv1alpha1.LastOperation{Type: druidv1alpha1.LastOperationCreate, State: druidv1alpha1.LastOperationProcessing}, []func(*Observed){changed, down(2)}, ""},
	} {
		o := running(t, 3, c.change...)
		o.Etcd.Status.LastOperation = c.operation
		p := mustDecide(t, o, testSettings)
		if p.Done() != (c.wantWaits == "") || !strings.Contains(p.Waits(), c.wantWaits) {
			t.Errorf("%s: done %t, waits for %q, want %q", phrase, p.Done(), p.Waits(), c.wantWaits)
		}
	}
}

// TestWhatNobodyWroteDownIsNotForgotten: with the runtime components switched off their status goes too, and with it how far a member had come.
func TestWhatNobodyWroteDownIsNotForgotten(t *testing.T) {
	for known, want := range map[int64]bool{999: false, 1000: true} {
		o := running(t, 1, func(o *Observed) {
			o.Etcd.Annotations = map[string]string{druidv1alpha1.AnnotationDisableRuntimeComponents: ""}
			o.Etcd.Status.LastKnownRevision, o.Pods, o.Sidecars, o.StatefulSet.Spec.Replicas = &known, nil, nil, ptr(int32(0))
		})
		var all []string
		for _, r := range mustDecide(t, o, testSettings).Remove {
			all = append(all, r.Kind+" "+r.Object.GetName())
		}
		if slices.Contains(all, "ServiceAccount main") {
			t.Error("the identity of the Jobs that keep the backup locked goes")
		}
		if got := slices.Contains(all, "EtcdMember main-0"); got != want || !slices.Contains(all, "Service main-client") {
			t.Errorf("revision 1000, %d is written down: removed are %q, want the member among them: %t", known, all, want)
		}
	}
}
