package cluster

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/operator/desired"
	"druid.internal/druid/internal/operator/rollout"
)

// stuckAfter is for how long a pod may be terminating beyond the time that it was given.
const stuckAfter = 30 * time.Second

// fillsWithin is how long a new StatefulSet has to make its pods before anything is said about them.
const fillsWithin = 2 * time.Second

// fills: the StatefulSet was made a moment ago and makes its pods one after the other. All that could be done is to say
// after each how many there are.
func (o *Observed) fills(now time.Time) bool {
	s := o.StatefulSet
	if s == nil || len(o.Pods) >= int(o.replicas()) || o.foreign() {
		return false
	}
	age := now.Sub(s.CreationTimestamp.Time)
	return age >= 0 && age < fillsWithin
}

// early is in how long it is time to look at what the operator did a moment ago; 0: now.
func (r *Reconciler) early(o *Observed, now time.Time) time.Duration {
	switch {
	case o.fills(now):
		return togetherWithin
	case !r.unheard(o, now):
		return 0
	case o.StatefulSet == nil:
		return togetherWithin
	}
	return soon // the StatefulSet has the Etcd be looked at when it is heard of
}

// hearsWithin is how long the cache has to know of a change of the StatefulSet.
const hearsWithin = 30 * time.Second

// wroteSet is a StatefulSet as the operator left it.
type wroteSet struct {
	at         time.Time
	uid        types.UID // of the StatefulSet; empty: it was made
	generation int64
}

// wrote takes note that the StatefulSet was changed, or made with all else of a new cluster.
func (r *Reconciler) wrote(e *druidv1alpha1.Etcd, w wroteSet) {
	w.at = r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writes[e.UID] = w
}

// unheard: the StatefulSet was made or changed a moment ago, and the cache does not know of it yet. Members that were just told to stop
// would seem to fail, and all that could be done is to be refused to do it again.
func (r *Reconciler) unheard(o *Observed, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	w, is := r.writes[o.Etcd.UID]
	if !is {
		return false
	}
	behind, within := o.StatefulSet == nil, fillsWithin
	if s := o.StatefulSet; s != nil {
		behind, within = s.UID == w.uid && s.Generation < w.generation, hearsWithin
	}
	if behind && now.Sub(w.at) < within {
		return true
	}
	delete(r.writes, o.Etcd.UID)
	return false
}

// outdated are the pods that were not made from the newest template.
func outdated(o *Observed) (names []string) {
	if o.StatefulSet == nil {
		return nil
	}
	// One that its controller has not seen yet has no revision, and pods only if it was made anew around
	// them.
	seen := o.StatefulSet.Status.UpdateRevision != ""
	for _, p := range o.Pods {
		if (seen || desired.OfOriginal(p.Spec)) && !upToDate(p, o.StatefulSet) {
			names = append(names, p.Name)
		}
	}
	return names
}

// rolling: the StatefulSet was changed by the operation that is not over yet, so it is over only when the
// pod that was replaced last is ready.
func (o *Observed) rolling() bool {
	op, s := o.Etcd.Status.LastOperation, o.StatefulSet
	if op == nil || op.Type != druidv1alpha1.LastOperationReconcile || op.State == druidv1alpha1.LastOperationSucceeded || s == nil || o.replicas() == 0 {
		return false
	}
	changed := appliedAt(s)
	return s.CreationTimestamp.Before(&changed)
}

// unseen: the StatefulSet was changed for a specification of which nothing was told yet, as the operator
// that did so died, and its controller has not seen that. Until then all pods seem to have the newest template.
func (o *Observed) unseen() bool {
	told, s := o.Etcd.Status.ObservedGeneration, o.StatefulSet
	return told != nil && *told != o.Etcd.Generation && s != nil && s.Status.ObservedGeneration < s.Generation
}

// podStep is which pod is replaced now; the zero value if all have the newest template, and have had it
// for longer than this operation. hold is what comes before a pod is replaced whose member takes part.
func podStep(o *Observed, hold string, safe safety, now time.Time) rollout.Step {
	if len(outdated(o)) == 0 && !o.rolling() && !o.unseen() {
		return rollout.Step{}
	}
	f := rollout.Facts{
		Now: now, Replicas: o.replicas(),
		Observed:      o.StatefulSet.Status.ObservedGeneration >= o.StatefulSet.Generation,
		BackupHealthy: safe.backedUp, BackupWhy: safe.why, NoStore: safe.noStore,
		MendsBackup: mendsBackup(o), Hold: hold,
	}
	for i := range o.Pods {
		f.Pods = append(f.Pods, podOf(o, o.Pods[i], now))
	}
	f.Voters, f.MembersWhy = membersHealth(o)
	f.MembersHealthy = f.MembersWhy == ""
	return rollout.Next(f)
}

func podOf(o *Observed, p *corev1.Pod, now time.Time) rollout.Pod {
	n, _ := o.Etcd.PodOrdinal(p.Name)
	m, answered := o.Sidecars[n]
	pod := rollout.Pod{
		Name: p.Name, UID: string(p.UID), Ordinal: n,
		UpToDate: upToDate(p, o.StatefulSet), Ready: podReady(p),
		Alive:         answered && etcdRuns(p),
		Participating: answered && participates(m),
		Leader:        answered && leads(m),
		IdleSince:     o.idleSince(n),
		Terminating:   p.DeletionTimestamp != nil,
		ClaimGoing:    o.claimGoing(n),
	}
	if answered {
		pod.Busy = busy(m)
	}
	if !pod.Ready {
		pod.UnreadySince, pod.SidecarFails = unreadySince(p), sidecarFails(p)
	}
	pod.Stuck = stuck(p, now)
	return pod
}

// stuck: the pod has been terminating for longer than it was given.
func stuck(p *corev1.Pod, now time.Time) bool {
	return p.DeletionTimestamp != nil && now.Sub(p.DeletionTimestamp.Time) > stuckAfter
}

// leaves: the StatefulSet does not want the pod any more, whose member has left etcd.
func (o *Observed) leaves(p *corev1.Pod) bool {
	n, ours := o.Etcd.PodOrdinal(p.Name)
	return ours && n >= int(o.replicas())
}

// superfluous: the pod leaves and does not end, as on a lost node. It holds up nobody who stays.
func (o *Observed) superfluous(p *corev1.Pod, now time.Time) bool {
	return o.replicas() > 0 && o.leaves(p) && stuck(p, now)
}

// unending is what can be done about pods that are stuck.
const unending = "; if its node is lost for good, remove the node, or delete the pod by force"

// unending is that if any pod is late to end.
func (o *Observed) unending(now time.Time) string {
	if slices.ContainsFunc(o.Pods, func(p *corev1.Pod) bool { return stuck(p, now) }) {
		return unending
	}
	return ""
}

// claimGoing is the claim of a member if it is being deleted, so that it goes with the pod.
func (o *Observed) claimGoing(ordinal int) string {
	for i := range o.Claims {
		if n, ours := o.claimOrdinal(o.Claims[i].Name); ours && n == ordinal && o.Claims[i].DeletionTimestamp != nil {
			return o.Claims[i].Name
		}
	}
	return ""
}

// busy is work that a restart would begin anew.
func busy(m agentapi.Member) string {
	if m.Etcd != nil && !m.Etcd.Learner || m.Initialization != agentapi.InitProgress && m.Etcd == nil {
		return ""
	}
	if r := m.LastRestoration; r != nil && r.Status == agentapi.InProgress {
		if r.Type == agentapi.FromLeader {
			return "receives the data from the leader"
		}
		return "restores from the backup"
	}
	if n := len(m.Transitions); n > 0 && m.Transitions[n-1].SubState == agentapi.DBValidationFull && m.Waiting == "" { // it stays in that state while it waits
		return "examines its data"
	}
	return ""
}

// membersHealth counts the members that vote, and says what is wrong with any; 0: not known.
func membersHealth(o *Observed) (voters int, wrong string) {
	listed, known := o.listed()
	if !known {
		return 0, cmp.Or(o.split(), "no member answers that sees a leader")
	}
	var all []string
	for _, l := range listed {
		n, ours := o.Etcd.MemberOrdinal(l.Name)
		m, answered := o.Sidecars[n]
		switch {
		case l.Learner:
			all = append(all, fmt.Sprintf("%s has no vote yet", name(l)))
			continue
		case l.Name == "":
			all = append(all, fmt.Sprintf("%s was added and never started", name(l)))
		case !ours:
			all = append(all, fmt.Sprintf("%s is none of this Etcd's", name(l)))
		case !answered:
			all = append(all, fmt.Sprintf("the sidecar of %s does not answer", l.Name))
		case !participates(m):
			all = append(all, fmt.Sprintf("%s takes no part", l.Name))
		case slices.Contains(m.Etcd.Alarms, alarmCorrupt): // of a lack of space the newest template may be the remedy
			all = append(all, fmt.Sprintf("%s raised %s", l.Name, alarmCorrupt))
		}
		voters++
	}
	slices.Sort(all)
	return voters, strings.Join(all, "; ")
}

// name is a listed member for people.
func name(l agentapi.Listed) string {
	if l.Name != "" {
		return l.Name
	}
	return "the member at " + strings.Join(l.PeerURLs, ", ")
}

// mendsBackup says whether the newest template has the backups go elsewhere, or be made by other means, than a pod that has a
// former one.
func mendsBackup(o *Observed) bool {
	return movesBackup(o) || slices.ContainsFunc(o.Pods, func(p *corev1.Pod) bool {
		was := p.Annotations[druidv1alpha1.AnnotationBackupMeansChecksum] // empty: of an operator that did not tell
		return !upToDate(p, o.StatefulSet) && was != "" && was != o.StatefulSet.Spec.Template.Annotations[druidv1alpha1.AnnotationBackupMeansChecksum]
	})
}

// movesBackup: the newest template has the backups go elsewhere, or in another name, than a pod that has a former one.
func movesBackup(o *Observed) bool {
	want := o.StatefulSet.Spec.Template.Annotations[druidv1alpha1.AnnotationBackupChecksum]
	return slices.ContainsFunc(o.Pods, func(p *corev1.Pod) bool {
		return !upToDate(p, o.StatefulSet) && p.Annotations[druidv1alpha1.AnnotationBackupChecksum] != want
	})
}
