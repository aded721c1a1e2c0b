package cluster

import (
	"cmp"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/operator/desired"
	"druid.internal/druid/internal/operator/rollout"
)

// size is what is known of the number of members, before the sidecars were asked and after it.
type size struct {
	o    *Observed
	live desired.Live
	want int32
	tls  bool // wanted between members
}

func sizeOf(o *Observed) size {
	return size{o: o, live: o.configured(), want: o.Etcd.WantedMembers(), tls: o.Etcd.Spec.Etcd.PeerUrlTLS != nil}
}

// settled: there are as many members listed, pods and EtcdMembers as wanted, which have all joined, and all
// with the wanted scheme. Then nobody needs to be asked.
func (s size) settled() bool {
	replicas := s.o.replicas()
	if s.want == 0 {
		return replicas == 0 && s.live.Members > 0
	}
	if s.live.Members != s.want || replicas != s.want || s.live.PeerTLS != s.tls {
		return false
	}
	for i := range s.o.Members {
		m := &s.o.Members[i]
		if n, _ := s.o.Etcd.MemberOrdinal(m.Name); n >= int(s.want) {
			return false
		}
		if t := m.Status.PeerTLSEnabled; t != nil && *t != s.tls {
			return false
		}
		if _, joins := m.Annotations[druidv1alpha1.AnnotationCreateAsLearner]; joins {
			return false // its sidecar takes that away when it votes
		}
	}
	return desired.HasPeerCertificates(s.o.StatefulSet.Spec.Template.Spec) == s.tls
}

// asks: what is done next depends on what the sidecars know.
func (s size) asks() bool {
	return (s.o.replicas() > 0 || s.unlisted()) && !s.settled() && (s.want > 0 || s.o.Etcd.BackupsEnabled()) && !s.untouched()
}

// unlisted: pods are left of a StatefulSet that was deleted, and the configuration with their number as well. They alone know it.
func (s size) unlisted() bool {
	return s.o.StatefulSet == nil && s.live.Members == 0 && slices.ContainsFunc(s.o.Pods, podReady)
}

// certifies: members are about to reach each other, or new ones, with certificates that nobody has
// tried.
func (s size) certifies() bool {
	return s.asks() && s.want > 0 && s.tls && (!s.live.PeerTLS || s.want > s.live.Members)
}

// untouched: it is certain without asking anybody that no member ever had data: no pod of the
// StatefulSet ever started a container, and nothing is left of an earlier life.
func (s size) untouched() bool {
	for i := range s.o.Pods {
		if everRan(s.o.Pods[i]) {
			return false
		}
	}
	return s.noTraces()
}

// noTraces: nobody ever wrote down that a member lived, and no volume is older than the StatefulSet, which
// would be one of an earlier life.
func (s size) noTraces() bool {
	e := s.o.Etcd
	if e.Status.LastKnownRevision != nil {
		return false
	}
	for i := range s.o.Leases {
		if s.o.Leases[i].Spec.RenewTime != nil {
			return false
		}
	}
	for i := range s.o.Members {
		if s.o.Members[i].Status.ID != nil {
			return false
		}
	}
	for i := range s.o.Claims {
		if s.o.StatefulSet == nil || s.o.Claims[i].CreationTimestamp.Before(&s.o.StatefulSet.CreationTimestamp) {
			return false
		}
	}
	return true
}

// unborn is like untouched, but also believes sidecars of pods that run: each of them says that its
// member has no data and never had an identity.
func (s size) unborn() bool {
	if s.untouched() {
		return true
	}
	if !s.noTraces() || !s.o.Asked || len(s.o.Pods) == 0 {
		return false
	}
	for i := range s.o.Pods {
		if !everRan(s.o.Pods[i]) {
			continue
		}
		n, _ := s.o.Etcd.PodOrdinal(s.o.Pods[i].Name)
		m, answered := s.o.Sidecars[n]
		if !answered || m.Etcd != nil || m.ID != "" || m.Data.State != agentapi.DataMissing {
			return false
		}
	}
	return true
}

// everRan says that a container of the pod was ever started, as far as its status tells.
func everRan(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		return c.State.Running != nil || c.State.Terminated != nil || c.LastTerminationState.Terminated != nil || c.RestartCount > 0
	})
}

// step is what the number of members and their scheme shall be now.
func (s size) step(now time.Time, safe safety) rollout.ScaleStep {
	if step, held := s.held(); held {
		return step
	}
	if s.settled() {
		step := rollout.ScaleStep{
			Members: s.live.Members, Replicas: s.o.replicas(), PeerTLS: s.live.PeerTLS, PeerCertificates: s.tls || s.live.PeerTLS,
			Done: true, Reason: "as many members as wanted",
		}
		if left := s.leaving(now); left != "" {
			step.Done, step.Waits = false, left
		}
		return step
	}
	return rollout.Scale(s.facts(now, safe))
}

// othersRun: others than the first so many members may still be of the cluster: their pods are not let go before they have left, but
// where nobody had data when the size was changed, and those that end may have begun one since. One that does not end, as on a node
// that is lost, is not waited for.
func (o *Observed) othersRun(members int32, now time.Time) bool {
	most := o.replicas()
	for _, p := range o.Pods {
		if stuck(p, now) {
			continue
		}
		if n, ours := o.Etcd.PodOrdinal(p.Name); ours {
			most = max(most, int32(n)+1) //nolint:gosec // ordinals of pods are small
		}
	}
	if most <= members {
		return false
	}
	listed, known := o.listed()
	return !known || slices.ContainsFunc(listed, func(l agentapi.Listed) bool {
		n, ours := o.Etcd.MemberOrdinal(l.Name)
		return !ours || n >= int(members)
	})
}

// leaving are pods that their StatefulSet does not want any more.
func (s size) leaving(now time.Time) string {
	var names []string
	late := ""
	for _, p := range s.o.Pods {
		if s.o.leaves(p) {
			names = append(names, p.Name)
			if stuck(p, now) {
				late = unending
			}
		}
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return strings.Join(names, ", ") + " to end" + late
}

// keep is everything as it is.
func (s size) keep(why string) rollout.ScaleStep {
	return rollout.ScaleStep{Members: s.live.Members, Replicas: s.o.replicas(), PeerTLS: s.live.PeerTLS, PeerCertificates: s.live.PeerTLS, Done: true, Reason: why}
}

// present is the size as if nothing else were wanted than there is, where the StatefulSet or the ConfigMap may be gone:
// nobody is, of a cluster that sleeps.
func (s size) present() size {
	e := s.o.Etcd
	asleep := (s.o.stops() || holds(e.Status.Conditions, druidv1alpha1.ConditionHibernated)) && len(s.o.Pods) == 0
	if s.want = s.o.replicas(); s.o.StatefulSet == nil && !asleep && !e.RuntimeComponentsDisabled() && len(s.o.Members)+len(s.o.Pods) > 0 {
		if s.want = s.live.Members; s.want == 0 {
			for i := range s.o.Members {
				n, _ := e.MemberOrdinal(s.o.Members[i].Name)
				s.want = max(s.want, int32(n)+1)
			}
		}
	}
	if s.live.Members > 0 {
		s.tls = s.live.PeerTLS
		return s
	}
	for i := range s.o.Members {
		if t := s.o.Members[i].Status.PeerTLSEnabled; t != nil {
			s.tls = *t
		}
	}
	return s
}

// incomplete: what the pods of a running cluster are made of is not all there.
func (o *Observed) incomplete() bool { return o.StatefulSet == nil || o.ConfigMap == nil }

// safety is what steps that take something away depend on.
type safety struct {
	backedUp bool
	why      string // it is not
	noStore  bool
	sleep    string // what comes before the last pods go, or the first ones come back; empty: nothing
}

func (s size) facts(now time.Time, safe safety) rollout.ScaleFacts {
	f := rollout.ScaleFacts{
		Want: s.want, WantPeerTLS: s.tls,
		Listed: s.live.Members, PeerTLS: s.live.PeerTLS, Replicas: s.o.replicas(),
		Unborn:        s.unborn(),
		BackupHealthy: safe.backedUp, BackupWhy: safe.why, NoStore: safe.noStore, SleepHold: safe.sleep,
		CertificateFault: s.o.CertificateFault,
	}
	for i := range s.o.Claims {
		if n, ours := s.o.claimOrdinal(s.o.Claims[i].Name); ours && n < 100 {
			f.Volumes = max(f.Volumes, int32(n)+1)
		}
	}
	if s.o.StatefulSet != nil {
		f.Mounted = desired.HasPeerCertificates(s.o.StatefulSet.Spec.Template.Spec)
	}
	f.Otherwise = s.otherwise(now)
	for _, p := range s.o.Pods {
		if s.o.superfluous(p, now) {
			continue
		}
		if !desired.HasPeerCertificates(p.Spec) {
			f.Uncertified = append(f.Uncertified, p.Name)
		}
	}
	for i := range s.o.Members {
		if n, ours := s.o.Etcd.MemberOrdinal(s.o.Members[i].Name); ours && n < 100 && s.o.Members[i].Status.ID != nil && metav1.IsControlledBy(&s.o.Members[i], s.o.Etcd) {
			f.Lived = max(f.Lived, int32(n)+1)
		}
	}
	f.Pods, f.Orphaned = len(s.o.Pods), s.o.StatefulSet == nil && len(s.o.Pods) > 0
	f.Idle = s.idle(now)
	listed, known := s.o.listed()
	f.MembersKnown, f.Split = known, s.o.split()
	for _, l := range listed {
		if m, ours := s.memberOf(l, now); ours {
			f.Members = append(f.Members, m)
		}
	}
	return f
}

// otherwise says which pods serve clients otherwise than wanted, as they have or lack certificates for that, or cannot be told to reach
// their peers otherwise, as they are the original's. Empty: none.
func (s size) otherwise(now time.Time) string {
	if s.live.Clients != "" && s.live.Clients != desired.ListenClients(s.o.Etcd) {
		return "clients are served otherwise first"
	}
	var names []string
	for _, p := range s.o.Pods {
		if !s.o.superfluous(p, now) && (desired.OfOriginal(p.Spec) || desired.HasClientCertificates(p.Spec) != (s.o.Etcd.Spec.Etcd.ClientUrlTLS != nil)) {
			names = append(names, p.Name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// idle: no pod takes part, each for longer than a restart takes.
func (s size) idle(now time.Time) bool {
	for i := range s.o.Pods {
		n, _ := s.o.Etcd.PodOrdinal(s.o.Pods[i].Name)
		if since := s.o.idleSince(n); since.IsZero() || now.Sub(since) < rollout.IdleGrace {
			return false
		}
	}
	return len(s.o.Pods) > 0
}

// split says which members are of different clusters, each of which has a leader. Nobody's list counts then.
func (o *Observed) split() string {
	of := map[string][]string{}
	for _, m := range o.Sidecars {
		if participates(m) && m.ClusterID != "" {
			of[m.ClusterID] = append(of[m.ClusterID], m.Name)
		}
	}
	if len(of) < 2 {
		return ""
	}
	var parts []string
	for id, names := range of {
		slices.Sort(names)
		parts = append(parts, strings.Join(names, " and ")+" of "+id)
	}
	slices.Sort(parts)
	return "the members are of different clusters, " + strings.Join(parts, ", ") + ": delete pods and claims of those that are not to be kept"
}

// listed is the list of members of the sidecar that knows best: whose etcd sees a leader, or leads
// itself, and has come furthest.
func (o *Observed) listed() (list []agentapi.Listed, known bool) {
	if o.split() != "" {
		return nil, false
	}
	var best *agentapi.Member
	for _, m := range o.Sidecars {
		if !participates(m) || len(m.Etcd.Members) == 0 {
			continue
		}
		if best == nil || cmp.Or(compareBool(leads(m), leads(*best)), cmp.Compare(m.Etcd.Revision, best.Etcd.Revision), cmp.Compare(best.Name, m.Name)) > 0 {
			best = &m
		}
	}
	if best == nil {
		return nil, false
	}
	return best.Etcd.Members, true
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// leads says whether a member leads, by its own word.
func leads(m agentapi.Member) bool { return m.Etcd != nil && m.ID != "" && m.Etcd.Leader == m.ID }

// participates says whether a member votes, answers and sees the leader, by its own word.
func participates(m agentapi.Member) bool {
	return m.Etcd != nil && !m.Etcd.Learner && m.Etcd.Leader != ""
}

// memberOf is a listed member if it is one of ours. One that never started is known by its peer URLs.
func (s size) memberOf(l agentapi.Listed, now time.Time) (rollout.Member, bool) {
	e := s.o.Etcd
	n, ours := e.MemberOrdinal(l.Name)
	if l.Name == "" {
		n, ours = s.ordinalAt(l.PeerURLs)
	}
	if !ours {
		return rollout.Member{}, false
	}
	m := rollout.Member{Ordinal: n, Name: e.MemberName(n), Voter: l.Name != "" && !l.Learner}
	sidecar, answered := s.o.Sidecars[n]
	m.Healthy = m.Voter && answered && participates(sidecar) && !slices.Contains(sidecar.Etcd.Alarms, alarmCorrupt)
	m.PeerTLS = len(l.PeerURLs) > 0 && strings.HasPrefix(l.PeerURLs[0], "https://") && (!answered || sidecar.PeerTLSEnabled || sidecar.Etcd == nil)
	since := s.o.idleSince(n)
	m.Down = !since.IsZero() && now.Sub(since) >= rollout.IdleGrace
	return m, true
}

// alarmCorrupt is etcd's word for a member whose data differ from the others'.
const alarmCorrupt = "CORRUPT"

// ordinalAt is whose peer URLs they are by the name of the host.
func (s size) ordinalAt(urls []string) (int, bool) {
	for i := range 100 {
		host := "://" + s.o.Etcd.PeerHost(i) + ":"
		if slices.ContainsFunc(urls, func(u string) bool { return strings.Contains(u, host) }) {
			return i, true
		}
	}
	return 0, false
}

// idleSince is since when the member of a pod is known to take no part: by the kubelet, for which its
// etcd does not run, or its sidecar never did, without which etcd is not started, or by its own sidecar. Zero: that is not known.
func (o *Observed) idleSince(ordinal int) time.Time {
	p := o.pod(ordinal)
	if p == nil || podReady(p) {
		return time.Time{}
	}
	since := unreadySince(p)
	switch {
	case sidecarNeverRan(p):
		return since
	case !etcdRuns(p):
		if stopped := etcdStopped(p); stopped.After(since) {
			return stopped
		}
		return since
	}
	if m, answered := o.Sidecars[ordinal]; answered && !participates(m) {
		return since
	}
	return time.Time{}
}

// etcdRuns is what the kubelet said last of the container of etcd.
func etcdRuns(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		return c.Name == desired.ContainerEtcd && c.State.Running != nil
	})
}

// etcdStopped is when the container of etcd ended last, as the kubelet says, which starts it again at once; zero: that is not known, or
// it waits longer each time because it always ends.
func etcdStopped(p *corev1.Pod) time.Time {
	for _, c := range p.Status.ContainerStatuses {
		if c.Name != desired.ContainerEtcd || c.State.Waiting != nil && c.State.Waiting.Reason == "CrashLoopBackOff" {
			continue
		}
		for _, ended := range []*corev1.ContainerStateTerminated{c.State.Terminated, c.LastTerminationState.Terminated} {
			if ended != nil {
				return ended.FinishedAt.Time
			}
		}
	}
	return time.Time{}
}

// sidecarNeverRan: the kubelet says of the container that it was never started in this pod.
func sidecarNeverRan(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		return c.Name == desired.ContainerSidecar && c.State.Waiting != nil && c.LastTerminationState.Terminated == nil && c.RestartCount == 0
	})
}

// sidecarFails: the kubelet says of the container that it ended at least once, and does not run.
func sidecarFails(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		return c.Name == desired.ContainerSidecar && c.State.Running == nil && (c.RestartCount > 0 || c.LastTerminationState.Terminated != nil)
	})
}

func podReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// unreadySince is when the pod was ready last, or made.
func unreadySince(p *corev1.Pod) time.Time {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status != corev1.ConditionTrue && !c.LastTransitionTime.IsZero() {
			return c.LastTransitionTime.Time
		}
	}
	return p.CreationTimestamp.Time
}

// upToDate says whether a pod was made from the newest template.
func upToDate(p *corev1.Pod, s *appsv1.StatefulSet) bool {
	return s.Status.UpdateRevision != "" && p.Labels[appsv1.ControllerRevisionHashLabelKey] == s.Status.UpdateRevision
}

// joins says whether a member that has no pod yet joins a cluster that runs.
func (s size) joins(ordinal int) bool {
	return s.o.replicas() > 0 && ordinal >= int(s.o.replicas()) && !s.unborn()
}
