package health

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
)

func TestAMemberIsJudgedByItsLeaseAndItsPod(t *testing.T) {
	for phrase, c := range map[string]struct {
		o          Observation
		want       druidv1alpha1.EtcdMemberConditionStatus
		wantReason string
	}{
		"just renewed":                      {cluster(1), "Ready", "LeaseSucceeded"},
		"renewed by a clock ahead of ours":  {cluster(1, renewed(0, -time.Minute)), "Ready", "LeaseSucceeded"},
		"renewed by a clock far ahead":      {cluster(1, renewed(0, -time.Minute-1)), "Ready", "LeaseSucceeded"},
		"the same, and the pod is not well": {cluster(1, renewed(0, -time.Hour), podDown(0)), "NotReady", "ContainersNotReady"},
		"just renewed, the pod is not well": {cluster(1, podDown(0)), "Ready", "LeaseSucceeded"},
		"almost expired":                    {cluster(1, renewed(0, time.Minute-1)), "Ready", "LeaseSucceeded"},
		"just renewed, there is no pod":     {cluster(1, func(o *Observation) { o.Pods = nil }), "NotReady", "ContainersNotReady"},
		"renewed by a pod that is gone":     {cluster(1, renewed(0, 10*time.Second), func(o *Observation) { o.Pods[0].CreationTimestamp = ago(9 * time.Second) }), "NotReady", "ContainersNotReady"},
		"renewed since its pod was made":    {cluster(1, renewed(0, 9*time.Second), func(o *Observation) { o.Pods[0].CreationTimestamp = ago(9 * time.Second) }), "Ready", "LeaseSucceeded"},
		"expired":                           {cluster(1, renewed(0, time.Minute)), "Unknown", "LeaseExpired"},
		"expired, the pod is not well":      {cluster(1, renewed(0, time.Minute), podDown(0)), "NotReady", "ContainersNotReady"},
		"expired, there is no pod":          {cluster(1, renewed(0, time.Minute), func(o *Observation) { o.Pods = nil }), "NotReady", "ContainersNotReady"},
		"expired, the pod is being deleted": {cluster(1, renewed(0, time.Minute), func(o *Observation) { o.Pods[0].DeletionTimestamp = ptr(ago(0)) }), "NotReady", "ContainersNotReady"},
		"almost given up":                   {cluster(1, renewed(0, 6*time.Minute-1)), "Unknown", "LeaseExpired"},
		"given up":                          {cluster(1, renewed(0, 6*time.Minute)), "NotReady", "UnknownGracePeriodExceeded"},
		"given up, there is no pod":         {cluster(1, renewed(0, 6*time.Minute), func(o *Observation) { o.Pods = nil }), "NotReady", "UnknownGracePeriodExceeded"},
		"given up, the pod is not well":     {cluster(1, renewed(0, 6*time.Minute), podDown(0)), "NotReady", "UnknownGracePeriodExceeded"},
	} {
		t.Run(phrase, func(t *testing.T) {
			want := []druidv1alpha1.EtcdMemberStatus{{Name: "main-0", ID: ptr("a0"), Role: ptr(druidv1alpha1.EtcdRoleLeader), Status: c.want, Reason: c.wantReason, LastTransitionTime: ago(0)}}
			if diff := cmp.Diff(want, Members(c.o, DefaultThresholds(), testNow)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func names(o Observation) (out []string) {
	for _, m := range Members(o, DefaultThresholds(), testNow) {
		out = append(out, m.Name)
	}
	return out
}

func TestWhoIsAMember(t *testing.T) {
	for phrase, c := range map[string]struct {
		o    Observation
		want []string
	}{
		"all":                          {cluster(3), []string{"main-0", "main-1", "main-2"}},
		"none is wanted":               {cluster(0), nil},
		"one was never heard of":       {cluster(3, unheard(1)), []string{"main-0", "main-2"}},
		"one has no Lease":             {cluster(3, func(o *Observation) { o.Leases = o.Leases[1:] }), []string{"main-1", "main-2"}},
		"two are to leave, and remain": {cluster(3, func(o *Observation) { o.Etcd.Spec.Replicas = 1 }), []string{"main-0", "main-1", "main-2"}},
		"two have left, their Leases remain": {cluster(3, func(o *Observation) {
			o.Etcd.Spec.Replicas = 1
			o.Members = o.Members[:1]
		}), []string{"main-0"}},
		"another Etcd's": {cluster(1, func(o *Observation) {
			o.Members = append(o.Members, druidv1alpha1.EtcdMember{ObjectMeta: metav1.ObjectMeta{Name: "main-2-1"}, Status: druidv1alpha1.MemberReport{State: druidv1alpha1.MemberStarted}})
		}), []string{"main-0"}},
		"with a prefix": {cluster(1, func(o *Observation) {
			o.Etcd.Spec.MemberNamePrefix = ptr("pre")
			o.Leases[0].Name = "pre-main-0"
		}), []string{"pre-main-0"}},
	} {
		if diff := cmp.Diff(c.want, names(c.o)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", phrase, diff)
		}
	}
}

func TestAMemberWhoseStatusStaysKeepsTheTimeOfItsTransition(t *testing.T) {
	before := ago(time.Hour)
	o := cluster(1, func(o *Observation) {
		//nolint:staticcheck // deprecated for readers, not for us
		o.Etcd.Status.Members = []druidv1alpha1.EtcdMemberStatus{{Name: "main-0", Status: "Ready", Reason: "LeaseSucceeded", LastTransitionTime: before}}
	})
	if got := Members(o, DefaultThresholds(), testNow)[0].LastTransitionTime; got != before {
		t.Errorf("it is %s, want %s", got, before)
	}
	renewed(0, time.Minute)(&o)
	if got := Members(o, DefaultThresholds(), testNow)[0].LastTransitionTime; got != ago(0) {
		t.Errorf("of one whose status changed it is %s, want now", got)
	}
}

func TestAHolderThatCannotBeReadIsAMemberWithoutId(t *testing.T) {
	for _, holder := range []string{"", "9002", "?:Leader"} {
		got := Members(cluster(1, held(0, holder)), DefaultThresholds(), testNow)
		if len(got) != 1 || got[0].ID != nil || got[0].Role != nil || got[0].Status != "Ready" {
			t.Errorf("%q: %+v", holder, got)
		}
	}
}

func TestWhatIsWrongWithAPodIsSaid(t *testing.T) {
	waiting := func(reason, message string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.Conditions[0].Status = corev1.ConditionFalse
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "etcd", Image: "i:1", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}}
		}
	}
	for phrase, c := range map[string]struct {
		change     func(*corev1.Pod)
		wantReason string
		want       string
	}{
		"well": {func(*corev1.Pod) {}, "", ""},
		"unschedulable": {func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/3 nodes are available:\n3 too small"}}
		}, "PodUnschedulable", "its pod cannot be scheduled (0/3 nodes are available: 3 too small)"},
		"no image":  {waiting("ImagePullBackOff", "not found"), "ImagePullFailed", "the image i:1 of container etcd cannot be pulled (not found)"},
		"no secret": {waiting("CreateContainerConfigError", `secret "s" not found`), "", `container etcd waits: CreateContainerConfigError (secret "s" not found)`},
		"ends again and again": {func(p *corev1.Pod) {
			waiting("CrashLoopBackOff", "back-off 20s restarting failed container=etcd pod=main-0_shop(1b22)")(p)
			p.Status.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 3}
		}, "", "container etcd waits: CrashLoopBackOff (it exits with 3; its log says why)"},
		"still begins": {waiting("ContainerCreating", ""), "", "its pod is not ready"},
	} {
		o := cluster(1)
		c.change(o.Pods[0])
		if reason, why := podTrouble(o.Pods[0]); reason != c.wantReason || why != c.want {
			t.Errorf("%s: got %q, %q", phrase, reason, why)
		}
	}
}

func TestWhyAPodDoesNotExistIsSaid(t *testing.T) {
	o := cluster(3)
	o.Pods = o.Pods[:1]
	refused := func(pod string, ago time.Duration, why string) corev1.Event {
		return corev1.Event{LastTimestamp: metav1.NewTime(testNow.Add(-ago)), Message: "create Pod " + pod + " in StatefulSet main failed error: " + why}
	}
	o.SetEvents = []corev1.Event{refused("main-1", time.Minute, "before"), refused("main-1", time.Second, "exceeded quota: small"), refused("main-10", 0, "another")}
	for ordinal, want := range map[int]string{1: "it has no pod (create Pod main-1 in StatefulSet main failed error: exceeded quota: small)", 2: "it has no pod"} {
		if got := o.evidence(ordinal); !strings.Contains(got, want) || strings.Contains(got, "another") {
			t.Errorf("member %d: %q, want %q", ordinal, got, want)
		}
	}
}
