package health

import (
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
)

// Members are the members as their Leases show them, by ordinal. Those whose Lease was never
// renewed, or not since the cluster slept, are left out: nothing is known of them, and they do not count as working.
//
//	before its pod was made, or there is none    NotReady  ContainersNotReady
//	renewed within Unknown                       Ready     LeaseSucceeded
//	later, and the pod is missing or not ready   NotReady  ContainersNotReady
//	later, the pod being ready                   Unknown   LeaseExpired
//	later than Unknown and NotReady together     NotReady  UnknownGracePeriodExceeded
//
// Of a renewal further in the future than Unknown the pod says whether it still counts: by a clock that far ahead a member that fell silent
// would be Ready until ours is as far.
func Members(o Observation, t Thresholds, now time.Time) []druidv1alpha1.EtcdMemberStatus {
	var out []druidv1alpha1.EtcdMemberStatus
	for _, i := range o.ordinals() {
		l := o.lease(i)
		if l == nil || l.Spec.RenewTime == nil || o.former(i, l) && o.sleptSince(l) {
			continue
		}
		m := druidv1alpha1.EtcdMemberStatus{Name: o.Etcd.MemberName(i), LastTransitionTime: metav1.NewTime(now)}
		if id, ok := identity(l); ok {
			m.ID, m.Role = &id.ID, &id.Role
		}
		m.Status, m.Reason = judge(now.Sub(l.Spec.RenewTime.Time), t, o.former(i, l), podReady(o.pod(i)))
		//nolint:staticcheck // deprecated for readers, not for us: its times must be kept
		before := named(o.Etcd.Status.Members, m.Name, func(s *druidv1alpha1.EtcdMemberStatus) string { return s.Name })
		if before != nil && before.Status == m.Status {
			m.LastTransitionTime = before.LastTransitionTime
		}
		out = append(out, m)
	}
	return out
}

// former: the pod that renewed the Lease is gone, so that what it told of its member counts for nothing. Of members that are to leave
// the pod goes first, when etcd does not list them any more.
func (o Observation) former(ordinal int, l *coordinationv1.Lease) bool {
	p := o.pod(ordinal)
	return ordinal < o.expected() && (p == nil || l.Spec.RenewTime.Time.Before(p.CreationTimestamp.Time))
}

// sleptSince: the cluster slept after the Lease was renewed.
func (o Observation) sleptSince(l *coordinationv1.Lease) bool {
	h := o.Etcd.Status.Hibernation
	return h != nil && h.EtcdUID == o.Etcd.UID && (h.AwakeSince == nil || l.Spec.RenewTime.Time.Before(h.AwakeSince.Time))
}

// judge is the table above.
func judge(age time.Duration, t Thresholds, former, podReady bool) (druidv1alpha1.EtcdMemberConditionStatus, string) {
	switch {
	case former && age < t.Unknown+t.NotReady:
		return druidv1alpha1.EtcdMemberStatusNotReady, druidv1alpha1.ReasonContainersNotReady
	case age < t.Unknown && (age >= -t.Unknown || podReady):
		return druidv1alpha1.EtcdMemberStatusReady, druidv1alpha1.ReasonLeaseSucceeded
	case age >= t.Unknown+t.NotReady:
		return druidv1alpha1.EtcdMemberStatusNotReady, druidv1alpha1.ReasonUnknownGracePeriodExceeded
	case !podReady:
		return druidv1alpha1.EtcdMemberStatusNotReady, druidv1alpha1.ReasonContainersNotReady
	}
	return druidv1alpha1.EtcdMemberStatusUnknown, druidv1alpha1.ReasonLeaseExpired
}

// identity of a Lease's holder, if it can be read.
func identity(l *coordinationv1.Lease) (Identity, bool) {
	if l == nil || l.Spec.HolderIdentity == nil {
		return Identity{}, false
	}
	id, err := ParseIdentity(*l.Spec.HolderIdentity)
	return id, err == nil
}

func podReady(p *corev1.Pod) bool {
	if p == nil || p.DeletionTimestamp != nil {
		return false
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.ContainersReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// report is when a member was heard of, for a message; zero: never.
func (o Observation) report(ordinal int) time.Time {
	if l := o.lease(ordinal); l != nil && l.Spec.RenewTime != nil {
		return l.Spec.RenewTime.Time
	}
	return time.Time{}
}

// evidence is what there is to say about a member that does not work, but when it was heard of.
func (o Observation) evidence(ordinal int) (text string) {
	if _, why := podTrouble(o.pod(ordinal)); why != "" {
		text += ", " + why
	}
	if o.pod(ordinal) == nil {
		text += detail(o.notMade(ordinal))
	}
	if m := o.member(ordinal); m != nil {
		if m.Status.State != "" && !started(m) {
			text += ", " + string(m.Status.State)
			if m.Status.SubState != "" {
				text += " (" + string(m.Status.SubState) + ")"
			}
		}
		if m.Status.Waiting != "" {
			text += ", it says: " + m.Status.Waiting
		}
	}
	return text
}

// why is the evidence about members, for the end of a message. Members of which the same is to say are named together.
func (o Observation) why(ordinals []int) string {
	var out saidOf
	for _, i := range ordinals {
		var reports []time.Time
		for _, j := range ordinals {
			if o.evidence(j) == o.evidence(i) && o.report(j).IsZero() == o.report(i).IsZero() {
				reports = append(reports, o.report(j))
			}
		}
		out.add(o.Etcd.MemberName(i), heard(reports, o.speaks(i))+o.evidence(i))
	}
	return out.String()
}

// speaks: the sidecar of a member says something, though its etcd may never have worked.
func (o Observation) speaks(ordinal int) bool {
	m := o.member(ordinal)
	return m != nil && m.Status.Waiting != ""
}

// heard says when members were heard of: all of them, or none.
func heard(reports []time.Time, speaks bool) string {
	first, last := slices.MinFunc(reports, time.Time.Compare), slices.MaxFunc(reports, time.Time.Compare)
	switch {
	case last.IsZero() && speaks:
		return "its etcd never worked"
	case last.IsZero():
		return "it never reported"
	case at(first) == at(last):
		return "it reported last at " + at(last)
	}
	return "it reported last between " + at(first) + " and " + at(last)
}

// saidOf is what there is to say, each text once, with all it is said of.
type saidOf []said

type said struct {
	who  []string
	text string
}

func (s *saidOf) add(who, text string) {
	for i := range *s {
		if (*s)[i].text == text {
			(*s)[i].who = append((*s)[i].who, who)
			return
		}
	}
	*s = append(*s, said{[]string{who}, text})
}

func (s saidOf) String() string {
	var all []string
	for _, x := range s {
		who := x.who[0]
		if n := len(x.who) - 1; n > 0 {
			who = "each of " + strings.Join(x.who[:n], ", ") + " and " + x.who[n]
		}
		all = append(all, who+": "+x.text)
	}
	return strings.Join(all, "; ")
}

// notMade is why the StatefulSet could not make a pod, as it was told last.
func (o Observation) notMade(ordinal int) string {
	var last *corev1.Event
	for i := range o.SetEvents {
		e := &o.SetEvents[i]
		if slices.Contains(strings.Fields(e.Message), o.Etcd.PodName(ordinal)) && (last == nil || last.LastTimestamp.Before(&e.LastTimestamp)) {
			last = e
		}
	}
	if last == nil {
		return ""
	}
	return last.Message
}

// podTrouble says what is wrong with a pod, as a reason and for people.
func podTrouble(p *corev1.Pod) (reason, why string) {
	if p == nil {
		return "", "it has no pod"
	}
	if p.DeletionTimestamp != nil {
		return "", "its pod is being deleted"
	}
	if reason, why := PodHindered(p); why != "" {
		return reason, why
	}
	if !podReady(p) {
		return "", "its pod is not ready"
	}
	return "", ""
}

// PodHindered says what keeps the containers of a pod from running, as a reason, if there is one, and for
// people; "": nothing that is known.
func PodHindered(p *corev1.Pod) (reason, why string) {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return druidv1alpha1.ReasonPodUnschedulable, "its pod cannot be scheduled" + detail(c.Message)
		}
	}
	var all []corev1.ContainerStatus
	all = append(append(all, p.Status.InitContainerStatuses...), p.Status.ContainerStatuses...)
	for _, c := range all {
		switch w := c.State.Waiting; {
		case w == nil:
		case w.Reason == "ErrImagePull" || w.Reason == "ImagePullBackOff" || w.Reason == "InvalidImageName" || w.Reason == "ErrImageNeverPull":
			return druidv1alpha1.ReasonImagePullFailed, fmt.Sprintf("the image %s of container %s cannot be pulled%s", c.Image, c.Name, detail(w.Message))
		case w.Reason == "CrashLoopBackOff": // its message names the pod and the pause, and not why
			why := ""
			if ended := c.LastTerminationState.Terminated; ended != nil {
				why = fmt.Sprintf(" (it exits with %d; its log says why)", ended.ExitCode)
			}
			return "", fmt.Sprintf("container %s waits: %s%s", c.Name, w.Reason, why)
		case w.Reason != "" && w.Reason != "PodInitializing" && w.Reason != "ContainerCreating":
			return "", fmt.Sprintf("container %s waits: %s%s", c.Name, w.Reason, detail(w.Message))
		}
	}
	return "", ""
}

// detail appends somebody else's message.
func detail(message string) string {
	if message == "" {
		return ""
	}
	const most = 200
	if len(message) > most {
		message = message[:most] + "..."
	}
	return " (" + strings.Join(strings.Fields(strings.ToValidUTF8(message, "")), " ") + ")"
}

// at is a time in a message. Messages name times and no ages, which would make a new message with
// every look.
func at(t time.Time) string { return t.UTC().Format(time.RFC3339) }
