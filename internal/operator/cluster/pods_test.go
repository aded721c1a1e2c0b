package cluster

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/operator/desired"
	"druid.internal/druid/internal/operator/rollout"
)

// An operator changed the template and died. The next one looks before the StatefulSet's controller does.
func TestAChangeThatNoControllerHasSeenIsNotTheEnd(t *testing.T) {
	o := running(t, 3)
	o.Etcd.Generation, o.StatefulSet.Generation = 2, 2
	o.Etcd.Status.LastOperation = &druidv1alpha1.LastOperation{Type: druidv1alpha1.LastOperationReconcile, State: druidv1alpha1.LastOperationSucceeded}
	told := func() string {
		op := statusOf(o, mustDecide(t, o, testSettings), outcome{}, "run", testNow).LastOperation
		return string(op.State) + ": " + op.Description
	}
	if got, want := told(), "Requeue: the StatefulSet's controller has not seen the newest template yet"; got != want {
		t.Errorf("before the controller has seen it: %s, want %s", got, want)
	}
	o.StatefulSet.Status.ObservedGeneration = 2
	if got, want := told(), "Succeeded: everything is made as the specification wants it"; got != want {
		t.Errorf("afterwards, as no pod had to be replaced: %s, want %s", got, want)
	}
}

func TestANewStatefulSetHasAMomentForItsPods(t *testing.T) {
	made := func(age time.Duration, pods int) func(*Observed) {
		return func(o *Observed) { o.StatefulSet.CreationTimestamp, o.Pods = ago(age), o.Pods[:pods] }
	}
	for phrase, c := range map[string]struct {
		change func(*Observed)
		want   bool
	}{
		"it was made a moment ago":                           {made(time.Second, 1), true},
		"it has all pods":                                    {made(time.Second, 3), false},
		"it has had its time":                                {made(fillsWithin, 1), false},
		"it was made in the future, by the operator's clock": {made(-time.Hour, 1), false},
		"there is none":                                      {func(o *Observed) { o.StatefulSet = nil }, false},
	} {
		if got := running(t, 3, c.change).fills(testNow); got != c.want {
			t.Errorf("%s: %t, want %t", phrase, got, c.want)
		}
	}
}

// Members that were just told to stop do not answer, which is no news of them.
func TestAStatefulSetThatTheOperatorChangedIsNotJudgedByWhatItWas(t *testing.T) {
	for phrase, c := range map[string]struct {
		change func(*Observed)
		after  time.Duration
		want   bool
	}{
		"the cache knows of it":           {func(*Observed) {}, 0, false},
		"of a later change, too":          {func(o *Observed) { o.StatefulSet.Generation = 9 }, 0, false},
		"not yet":                         {func(o *Observed) { o.StatefulSet.Generation = 7 }, hearsWithin - 1, true},
		"not, and it had its time":        {func(o *Observed) { o.StatefulSet.Generation = 7 }, hearsWithin, false},
		"it is another one by now":        {func(o *Observed) { o.StatefulSet.Generation, o.StatefulSet.UID = 1, "another" }, 0, false},
		"somebody deleted it in a moment": {func(o *Observed) { o.StatefulSet = nil }, fillsWithin - 1, true},
		"it is gone":                      {func(o *Observed) { o.StatefulSet = nil }, fillsWithin, false},
	} {
		o := running(t, 3, func(o *Observed) { o.StatefulSet.Generation = 8 })
		r, _ := newReconciler(t, o.Etcd)
		r.now = func() time.Time { return testNow }
		r.wrote(o.Etcd, wroteSet{uid: o.StatefulSet.UID, generation: 8})
		c.change(o)
		if got := r.unheard(o, testNow.Add(c.after)); got != c.want {
			t.Errorf("%s: %t, want %t", phrase, got, c.want)
		}
		if got := r.unheard(o, testNow); !c.want && got {
			t.Errorf("%s: it was known, and is not any more", phrase)
		}
	}
}

func going(i int) func(*Observed) {
	return func(o *Observed) { o.Claims[i].DeletionTimestamp = ptr(ago(time.Minute)) }
}

func noStore(o *Observed) { o.Etcd.Spec.Backup.Store = nil }

// A claim that somebody deletes is kept by the pod that uses it, and by nothing else.
func TestTheLastPodWithTheDataStays(t *testing.T) {
	for phrase, c := range map[string]struct {
		members int32
		change  []func(*Observed)
	}{
		"a rollout, without a store": {1, []func(*Observed){former(0), noStore, going(0)}},
		"a rollout, with a store":    {1, []func(*Observed){former(0), going(0)}},
		"a member that does not run": {1, []func(*Observed){former(0), down(0), going(0)}},
		"none is wanted, no store":   {1, []func(*Observed){wants(0), noStore, going(0)}},
		"none of three, no store":    {3, []func(*Observed){wants(0), noStore, going(1)}},
	} {
		t.Run(phrase, func(t *testing.T) {
			o := running(t, c.members, append([]func(*Observed){relaxed}, c.change...)...)
			p := mustDecide(t, o, testSettings)
			if p.Pod.Kind == rollout.Delete || p.Size.Replicas != c.members {
				t.Errorf("%s %s, replicas %d: with the pod goes the only copy of the data", p.Pod.Kind, p.Pod.Pod, p.Size.Replicas)
			}
			if w := p.Waits(); !strings.Contains(w, "main-main-") {
				t.Errorf("it waits %q, want the claim to be named", w)
			}
			if v := druidv1alpha1.FindCondition(p.Conditions, druidv1alpha1.ConditionDataVolumesReady); o.Etcd.Spec.Replicas > 0 && v.Status != druidv1alpha1.ConditionFalse {
				t.Errorf("DataVolumesReady is %s (%s), want False", v.Status, v.Message)
			}
		})
	}
}

// An image that was named by mistake and taken back: etcd's container runs, but etcd is not started without the sidecar.
func TestAPodWhoseSidecarNeverRanIsReplaced(t *testing.T) {
	waits := func(change ...func(*corev1.ContainerStatus)) func(*Observed) {
		return func(o *Observed) {
			former(1)(o)
			p := o.Pods[1]
			for i := range p.Status.Conditions {
				p.Status.Conditions[i].Status, p.Status.Conditions[i].LastTransitionTime = corev1.ConditionFalse, ago(10*time.Minute)
			}
			c := corev1.ContainerStatus{Name: desired.ContainerSidecar, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}}
			for _, f := range change {
				f(&c)
			}
			p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, c)
			delete(o.Sidecars, 1)
		}
	}
	ran := func(c *corev1.ContainerStatus) { c.RestartCount = 1 }
	ended := func(c *corev1.ContainerStatus) {
		c.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{}
	}
	failing := func(o *Observed) { o.Members[2].Status.Snapshots.NothingNew = ptr(ago(time.Hour)) }
	for phrase, c := range map[string]struct {
		seen []func(*Observed)
		want string
	}{
		"it never ran":                           {[]func(*Observed){waits(), failing}, "Delete main-1"},
		"it ran before":                          {[]func(*Observed){waits(ran), failing}, "Delete main-1"},
		"it ended before":                        {[]func(*Observed){waits(ended), failing}, "Delete main-1"},
		"it ran before, and the others are well": {[]func(*Observed){waits(ran)}, "Delete main-1"},
	} {
		if p := mustDecide(t, running(t, 3, c.seen...), testSettings); string(p.Pod.Kind)+" "+p.Pod.Pod != c.want {
			t.Errorf("%s: %s %s, want %s: %s", phrase, p.Pod.Kind, p.Pod.Pod, c.want, p.Pod.Reason)
		}
	}
}

// One that is going counts as outdated, and is not named among those that are replaced.
func TestOutdatedPodsAreNamedOnce(t *testing.T) {
	p := mustDecide(t, running(t, 3, former(0), former(1), func(o *Observed) { o.Pods[1].DeletionTimestamp = ptr(ago(time.Hour)) }), testSettings)
	c := druidv1alpha1.FindCondition(p.Conditions, druidv1alpha1.ConditionAllMembersUpdated)
	if c == nil || strings.Count(c.Message, "former template") != 1 || !strings.Contains(c.Message, "main-1 does not end") {
		t.Errorf("%+v", c)
	}
}

// The alarm about space stays until etcd has the quota of the newest template, so it must not keep the template from the pods.
func TestAMemberWithoutSpaceGetsTheNewTemplate(t *testing.T) {
	for alarm, want := range map[string]rollout.StepKind{"NOSPACE": rollout.Delete, alarmCorrupt: rollout.Wait} {
		raised := func(o *Observed) {
			for i, m := range o.Sidecars {
				etcd := *m.Etcd
				etcd.Alarms, m.Etcd = []string{alarm}, &etcd
				o.Sidecars[i] = m
			}
		}
		if p := mustDecide(t, running(t, 3, former(0), former(1), former(2), raised), testSettings); p.Pod.Kind != want {
			t.Errorf("%s: %s, want %s: %s", alarm, p.Pod.Kind, want, p.Pod.Reason)
		}
	}
}

func TestAMemberIsIdleSinceItsEtcdStopped(t *testing.T) {
	unready, stopped := ago(10*time.Minute), ago(time.Second)
	ended := &corev1.ContainerStateTerminated{FinishedAt: stopped}
	for phrase, c := range map[string]struct {
		etcd corev1.ContainerStatus
		want time.Time
	}{
		"it ended a moment ago":          {corev1.ContainerStatus{State: corev1.ContainerState{Terminated: ended}}, stopped.Time},
		"it is about to start again":     {corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}, LastTerminationState: corev1.ContainerState{Terminated: ended}}, stopped.Time},
		"it always ends":                 {corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}, LastTerminationState: corev1.ContainerState{Terminated: ended}}, unready.Time},
		"it never ran":                   {corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}}, unready.Time},
		"it ended before it was unready": {corev1.ContainerStatus{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: ago(time.Hour)}}}, unready.Time},
	} {
		o := running(t, 1, func(o *Observed) {
			p := o.Pods[0]
			for i := range p.Status.Conditions {
				p.Status.Conditions[i].Status, p.Status.Conditions[i].LastTransitionTime = corev1.ConditionFalse, unready
			}
			c.etcd.Name = desired.ContainerEtcd
			p.Status.ContainerStatuses = []corev1.ContainerStatus{c.etcd}
		})
		if got := o.idleSince(0); !got.Equal(c.want) {
			t.Errorf("%s: idle since %s, want %s", phrase, got, c.want)
		}
	}
}

func TestAMemberThatWaitsWithExaminedDataIsNotBusy(t *testing.T) {
	m := agentapi.Member{Initialization: agentapi.InitProgress, Transitions: []agentapi.Transition{
		{State: agentapi.Initializing, SubState: agentapi.DBValidationFull, Reason: agentapi.DetectedPreviousUncleanExit},
	}}
	if got := busy(m); got != "examines its data" {
		t.Errorf("a member that examines its data: busy %q", got)
	}
	m.Transitions[0].Reason, m.Waiting = agentapi.WaitingForStore, "the bucket cannot be read"
	if got := busy(m); got != "" {
		t.Errorf("a member that waits for its store, of which the newest template may be the remedy: busy %q", got)
	}
}
