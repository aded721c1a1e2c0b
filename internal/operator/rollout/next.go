package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Next says which pod is replaced now, or why none is. It depends on its argument alone.
//
// At most one pod is on its way at any time. A pod that takes part goes only if those that stay
// are a quorum, except that of a cluster of one member, which is away for the time of its restart.
func Next(f Facts) Step {
	f.Pods = slices.Clone(f.Pods)
	slices.SortFunc(f.Pods, func(a, b Pod) int { return cmp.Compare(a.Ordinal, b.Ordinal) })
	if f.Replicas == 0 && len(f.Pods) == 0 {
		return Step{Kind: Done, Reason: "no pod is wanted"}
	}
	// A member has left etcd before its pod is superfluous. One that does not end, as on a lost node, holds the others up for nothing.
	f.Pods = slices.DeleteFunc(f.Pods, func(p Pod) bool { return p.Terminating && p.Stuck && p.Ordinal >= int(f.Replicas) && f.Replicas > 0 })
	if why := f.unsteady(); why != "" {
		return wait("%s", why)
	}
	outdated := f.names(func(p Pod) bool { return !p.UpToDate && !p.Terminating })
	if len(outdated) == 0 {
		if why := f.unready(func(Pod) bool { return true }); why != "" {
			return wait("every pod has the newest template; %s", why)
		}
		return Step{Kind: Done, Reason: "every pod has the newest template and is ready"}
	}
	if s, ok := f.replaceIdle(); ok {
		return s
	}
	return f.replaceParticipant(outdated)
}

// unsteady says what is under way and has to end first, whatever else is the case.
func (f Facts) unsteady() string {
	if !f.Observed {
		return "the StatefulSet's controller has not seen the newest template yet"
	}
	for _, p := range f.Pods {
		if p.Terminating && !p.Stuck {
			return fmt.Sprintf("%s is being replaced", p.Name)
		}
	}
	for _, p := range f.Pods {
		if p.Ordinal >= int(f.Replicas) {
			return fmt.Sprintf("%s is one pod more than the %d wanted, and about to be removed", p.Name, f.Replicas)
		}
	}
	if n := len(f.Pods); n < int(f.Replicas) {
		return fmt.Sprintf("%d of %d pods exist; the StatefulSet's events say why, if that lasts", n, f.Replicas)
	}
	return ""
}

// replaceIdle is the step for outdated pods that take no part, if there are any.
func (f Facts) replaceIdle() (Step, bool) {
	var first Step
	for _, p := range slices.Backward(f.Pods) {
		if p.UpToDate || p.Terminating || !p.idle() {
			continue
		}
		s := f.replaceIdlePod(p)
		if s.Kind == Delete {
			return s, true
		}
		first = cmp.Or(first, s)
	}
	return first, first.Kind != ""
}

func (f Facts) replaceIdlePod(p Pod) Step {
	if f.Now.Sub(p.IdleSince) < IdleGrace {
		return wait("%s takes no part since %s; it is replaced if that lasts for %v", p.Name, p.IdleSince.UTC().Format(time.RFC3339), IdleGrace)
	}
	if p.Busy != "" {
		return wait("%s %s, which a restart would begin anew", p.Name, p.Busy)
	}
	if p.ClaimGoing != "" && !f.spares(p) {
		return wait("%s takes no part and stays: its claim %s is being deleted and goes with it, and the others that take part are no majority that has the data; bring them back, or save the data first", p.Name, p.ClaimGoing)
	}
	// A new template that does not even run must not be spread: what is idle now may come back
	// with the former one.
	for _, o := range f.Pods {
		if o.UpToDate && !o.Alive && !o.Ready && !o.Terminating {
			return wait("%s has the newest template and does not run, so %s keeps the former one; correct the specification, or delete that pod by hand if the template is not at fault", o.Name, p.Name)
		}
	}
	return Step{Kind: Delete, Pod: p.Name, UID: p.UID, Reason: fmt.Sprintf("%s has a former template and takes no part: replacing it cannot make anything worse", p.Name)}
}

// spares: a majority takes part without the pod, so that all that was acknowledged is elsewhere.
func (f Facts) spares(p Pod) bool {
	others := 0
	for _, o := range f.Pods {
		if o.Name != p.Name && o.Participating {
			others++
		}
	}
	return f.Voters > 1 && others >= quorum(f.Voters)
}

// replaceParticipant is the step while every outdated pod takes part, or may do so.
func (f Facts) replaceParticipant(outdated []string) Step {
	left := "pods with a former template: " + strings.Join(outdated, ", ")
	if why := f.unready(func(p Pod) bool { return p.UpToDate || p.Terminating }); why != "" {
		return wait("%s; %s", left, why)
	}
	if s, ok := f.replaceUnready(); ok {
		return s
	}
	if s, ok := f.replaceFailing(); ok {
		return s
	}
	for _, p := range f.Pods {
		if !p.Participating {
			return wait("%s; whether %s takes part is not known; delete the pod by hand if that lasts", left, p.Name)
		}
		if !p.Ready {
			return wait("%s; %s is not ready", left, p.Name)
		}
	}
	if why := f.endangered(); why != "" {
		return wait("%s; %s", left, why)
	}
	leaders := f.names(func(p Pod) bool { return p.Leader })
	if f.Voters > 1 && len(leaders) != 1 {
		return wait("%s; members that say they lead: %d, %s", left, len(leaders), cmp.Or(strings.Join(leaders, ", "), "an election is due"))
	}
	for _, p := range slices.Backward(f.Pods) {
		if !p.UpToDate && !p.Leader {
			return Step{Kind: Delete, Pod: p.Name, UID: p.UID, Reason: fmt.Sprintf("%s has a former template; all %d members are healthy, and it does not lead", p.Name, f.Voters)}
		}
	}
	return f.replaceLeader()
}

// replaceUnready is the step for an outdated pod that is not ready, such as one with a container that cannot run, if all others are
// ready, take part and are a majority: they are just as many without it, whether or not its member takes part. Backups are waited for
// unless it is its sidecar that fails, which may be the one that makes them.
func (f Facts) replaceUnready() (Step, bool) {
	well := func(p Pod) bool { return p.Ready && p.Participating }
	i := slices.IndexFunc(f.Pods, func(p Pod) bool { return !well(p) })
	if i < 0 || slices.ContainsFunc(f.Pods[i+1:], func(p Pod) bool { return !well(p) }) {
		return Step{}, false
	}
	p := f.Pods[i]
	if p.UpToDate || p.Ready || !f.lasts(p) || p.Busy != "" || p.Terminating || f.Voters != int(f.Replicas) || !f.spares(p) || f.Hold != "" || !f.savedOrNoMatter() && !p.SidecarFails {
		return Step{}, false
	}
	return Step{Kind: Delete, Pod: p.Name, UID: p.UID, Reason: fmt.Sprintf("%s has a former template and is not ready since %s; all others are ready and take part", p.Name, p.UnreadySince.UTC().Format(time.RFC3339))}, true
}

// lasts: the pod is not ready for long enough to be replaced for that.
func (f Facts) lasts(p Pod) bool {
	return !p.UnreadySince.IsZero() && f.Now.Sub(p.UnreadySince) >= UnreadyGrace
}

// replaceFailing is the step for the outdated pod of a single member whose sidecar fails. Nobody is sent to its etcd, as the pod is not
// ready, and its volume stays.
func (f Facts) replaceFailing() (Step, bool) {
	if len(f.Pods) != 1 || f.Replicas != 1 {
		return Step{}, false
	}
	p := f.Pods[0]
	if p.UpToDate || p.Ready || !p.SidecarFails || !f.lasts(p) || p.Busy != "" || p.Terminating || p.ClaimGoing != "" || f.Hold != "" {
		return Step{}, false
	}
	return Step{Kind: Delete, Pod: p.Name, UID: p.UID, Reason: fmt.Sprintf("%s has a former template, and its sidecar fails; the pod is not ready since %s", p.Name, p.UnreadySince.UTC().Format(time.RFC3339))}, true
}

// savedOrNoMatter: what was acknowledged is in the bucket, or backups are not waited for.
func (f Facts) savedOrNoMatter() bool { return f.NoStore || f.BackupHealthy || f.MendsBackup }

// endangered says why no pod that takes part may go. The pods themselves are known to be well.
func (f Facts) endangered() string {
	switch {
	case f.Voters == 0:
		return "how many members vote is not known"
	case f.Voters != int(f.Replicas):
		return fmt.Sprintf("%d members vote and %d pods are wanted: the change of size ends first%s", f.Voters, f.Replicas, because(f.MembersWhy))
	case f.Voters == 1 && f.Pods[0].ClaimGoing != "":
		return fmt.Sprintf("%s stays: its claim %s is being deleted and goes with it, and no other member has the data: set spec.replicas to 3, delete the pod when all are ready, and go back to 1 when they are again", f.Pods[0].Name, f.Pods[0].ClaimGoing)
	case f.Voters > 1 && len(f.Pods)-1 < quorum(f.Voters):
		return fmt.Sprintf("of %d members that vote all are needed for a majority", f.Voters)
	case !f.MembersHealthy:
		return "not all members are healthy" + because(f.MembersWhy)
	case f.Hold != "":
		return f.Hold + " comes first"
	case !f.savedOrNoMatter():
		one := ""
		if f.Voters == 1 {
			one = ", and there is no other member"
		}
		return "the backups are not healthy" + because(f.BackupWhy) + one + "; mend them, or delete the pod by hand"
	}
	return ""
}

// replaceLeader is the step when the leader's pod is the last. Its wrapper hands the leadership over when it is stopped, before etcd ends.
func (f Facts) replaceLeader() Step {
	i := slices.IndexFunc(f.Pods, func(p Pod) bool { return p.Leader || f.Voters == 1 })
	p := f.Pods[i]
	why := "has a former template, is the last one, and leads: it hands the leadership over when it is stopped"
	if f.Voters == 1 {
		why = "has a former template, and is the only member: the cluster is away until it is back"
	}
	return Step{Kind: Delete, Pod: p.Name, UID: p.UID, Reason: p.Name + " " + why}
}

// unready says which of the pods is not ready, and what that means to people.
func (f Facts) unready(which func(Pod) bool) string {
	for _, p := range f.Pods {
		switch {
		case !which(p):
		case p.Stuck:
			return fmt.Sprintf("%s does not end; if its node is lost for good, remove the node, or delete the pod by force", p.Name)
		case p.Busy != "" && !p.Ready:
			return fmt.Sprintf("%s is not ready: it %s", p.Name, p.Busy)
		case !p.Ready:
			return fmt.Sprintf("%s is not ready", p.Name)
		}
	}
	return ""
}

func (f Facts) names(which func(Pod) bool) (names []string) {
	for _, p := range f.Pods {
		if which(p) {
			names = append(names, p.Name)
		}
	}
	return names
}

func wait(format string, args ...any) Step {
	return Step{Kind: Wait, Reason: fmt.Sprintf(format, args...)}
}

// because appends a reason to a sentence, if there is one.
func because(why string) string {
	if why == "" {
		return ""
	}
	return " (" + why + ")"
}
