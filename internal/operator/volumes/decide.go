package volumes

import (
	"fmt"
	"slices"
	"strings"
)

// Decide says what is done now. It depends on its argument alone.
//
// What is under way ends before anything else begins. Of the rest a step that can be taken comes before
// what waits or is only reported: a volume that nobody can mend keeps no other from growing.
func Decide(f Facts) Action {
	a := f.next()
	a.Unmet = a.About == AboutGrowth || f.Acts && (len(f.smaller()) > 0 || f.SetUID != "" && f.Template.Cmp(f.Want) != 0)
	return a
}

func (f Facts) next() (first Action) {
	if a := f.underWay(); a.Kind != None {
		return a
	}
	for _, a := range append(f.sick(), f.grow()) {
		switch {
		case a.Acts():
			return a
		case first.Kind == None:
			first = a
		}
	}
	return first
}

// underWay is rule 1: what was begun and is not over.
func (f Facts) underWay() Action {
	if f.SetGoing {
		return wait("1.1", AboutGrowth, "the StatefulSet is being made anew")
	}
	for _, m := range f.Members {
		if m.Claim == nil || !m.Claim.Going || !m.Record.deletes(m.Claim.UID) {
			continue
		}
		about := AboutGrowth
		if r := m.Record.Replace; r != nil && r.Claim == m.Claim.UID {
			about = AboutSickness
		}
		if m.Pod == "" || m.PodGoing {
			return wait("1.2", about, "%s is about to go, and a new one is made with the pod", m.Claim.Name)
		}
		if why := f.endangers(m); why != "" {
			return wait("1.3", about, "%s goes with its pod %s, which stays until %s", m.Claim.Name, m.Pod, why)
		}
		return Action{
			Kind: DeletePod, Rule: "1.4", About: about, Pod: m.Pod, UID: m.PodUID,
			Reason: fmt.Sprintf("%s goes, so that its claim %s goes, and comes back with a new volume", m.Pod, m.Claim.Name),
		}
	}
	for _, m := range f.wanted() {
		claim, about := m.Record.deleted()
		if claim == "" || m.Claim != nil || m.Pod != "" {
			continue
		}
		// As long as the claim was on its way the controller could not make the pod. It tried again after
		// twice the time each time, does not look at claims, and may sleep for minutes by now.
		if f.SetUID != "" && f.Reminded != claim {
			return Action{Kind: Remind, Rule: "1.5", About: about, UID: f.SetUID, Claim: claim,
				Reason: fmt.Sprintf("the former claim of %s is gone: its pod is made now, with a new one", m.Name)}
		}
		return wait("1.6", about, "the pod of %s is being made, with a new claim", m.Name)
	}
	return Action{}
}

// sick is rule 2: volumes that their members cannot work with. Who takes part can work with it,
// whatever stands in the EtcdMember.
func (f Facts) sick() (all []Action) {
	for _, m := range f.wanted() {
		switch {
		case m.Trouble == ReadOnly && !m.Healthy:
			all = append(all, f.readOnly(m))
		case m.Trouble == Mismatch && !m.Healthy:
			all = append(all, f.mismatch(m))
		}
	}
	return all
}

// readOnly replaces a volume that cannot be written to, once.
func (f Facts) readOnly(m Member) Action {
	c, done := m.Claim, m.Record.Replace
	switch {
	case c == nil || c.Volume == "" || c.Going && (m.Pod == "" || m.PodGoing || f.Wanted == 1):
		return Action{} // another one is made, or a person has it go
	case m.Unreadable != "":
		return report("2.1", AboutSickness, "%s is not replaced, as what was done before cannot be read: %s", c.Name, m.Unreadable)
	case f.Wanted == 1:
		return report("2.2", AboutSickness, "%s is not replaced: it is the only member's; look at the node's log and repair the volume, or delete the claim and the pod by hand to restore the backup", c.Name)
	case len(f.troubled(ReadOnly)) > 1:
		return report("2.3", AboutSickness, "none is replaced, as several are read-only: %s; look for what they have in common", strings.Join(f.troubled(ReadOnly), ", "))
	case done != nil && done.Volume == c.Volume && done.Claim != c.UID:
		return report("2.4", AboutSickness, "%s was replaced at %s already, and %s is bound to it again: repair or remove that PersistentVolume", c.Volume, when(done.At), c.Name)
	case done != nil && done.Volume != c.Volume && !m.Worked.After(done.At):
		return report("2.5", AboutSickness, "%s is not replaced, as the one before was at %s and the member has not worked since: look at the node and at the StorageClass %s", c.Name, when(done.At), c.Class)
	case !c.Makes:
		return report("2.6", AboutSickness, "%s is not replaced, as nobody would make another: %s", c.Name, noMaker(*c))
	case !m.Confirmed:
		return wait("2.7", AboutSickness, "%s is replaced when its sidecar says itself that it is read-only", c.Name)
	}
	if why := f.endangers(m); why != "" {
		return wait("2.8", AboutSickness, "%s is not replaced while %s", c.Name, why)
	}
	if done == nil || done.Claim != c.UID {
		next := m.Record
		next.Replace = &Replaced{Volume: c.Volume, Claim: c.UID, At: f.Now.UTC()}
		return f.write("2.9", AboutSickness, m, next, "%s is going to be replaced: its volume %s is read-only", c.Name, c.Volume)
	}
	return Action{
		Kind: DeleteClaim, Rule: "2.10", About: AboutSickness, Claim: c.Name, UID: c.UID,
		Reason: fmt.Sprintf("%s is replaced: its volume %s is read-only, and the other members have the data", c.Name, c.Volume),
	}
}

// wrong is the volume of which a restart may rid the member: whose it is, and which of that owner's is bound.
func (m Member) wrong() string {
	if m.Claim == nil || m.Claim.Volume == "" || m.Claim.Volume == m.Found {
		return m.Found
	}
	return m.Found + " on " + m.Claim.Volume
}

// mismatch restarts a pod on whose volume somebody else's data are, once. The volume is not touched.
func (f Facts) mismatch(m Member) Action {
	const remedy = "attach the right volume, or remove what does not belong on it by hand"
	switch {
	case m.Unreadable != "":
		return report("2.11", AboutSickness, "%s is not restarted, as what was done before cannot be read: %s", m.Name, m.Unreadable)
	case m.Record.restarted(m.wrong()) && m.Record.Restart.Pod != m.PodUID:
		return report("2.12", AboutSickness, "the pod was restarted once, at %s, and that did not help: %s", when(m.Record.Restart.At), remedy)
	case m.Pod == "" || m.PodGoing:
		return wait("2.13", AboutSickness, "the pod of %s is being made anew", m.Name)
	case m.Claim != nil && m.Claim.Going:
		return report("2.18", AboutSickness, "%s is not restarted, as %s is being deleted and would go with it: %s", m.Pod, m.Claim.Name, remedy)
	case !m.Confirmed:
		return wait("2.14", AboutSickness, "%s is restarted when its sidecar says itself that the volume is wrong", m.Pod)
	}
	if f.Wanted > 1 {
		if why := f.endangers(m); why != "" {
			return wait("2.15", AboutSickness, "%s is not restarted while %s", m.Pod, why)
		}
	}
	if !m.Record.restarted(m.wrong()) {
		return f.write("2.16", AboutSickness, m, m.Record.restart(m.wrong(), m.PodUID, f.Now.UTC()), "%s is going to be restarted once: its volume is that of %q", m.Pod, m.Found)
	}
	return Action{
		Kind: DeletePod, Rule: "2.17", About: AboutSickness, Pod: m.Pod, UID: m.PodUID,
		Reason: fmt.Sprintf("%s is restarted once: its volume is that of %q, and another may be mounted", m.Pod, m.Found),
	}
}

// endangers says why nothing may be taken from a member: everybody else must vote, be healthy, and be
// a quorum without it.
func (f Facts) endangers(m Member) string {
	if !f.MembersKnown {
		return "no member answers that sees a leader"
	}
	if f.Replacing {
		return "another pod is being replaced"
	}
	others := 0
	for _, o := range f.Members {
		switch {
		case o.Ordinal == m.Ordinal:
		case !o.Healthy:
			return o.Why
		case o.Claim != nil && o.Claim.Going:
			return o.Claim.Name + " is being deleted"
		default:
			others++
		}
	}
	switch {
	case f.Strangers != "":
		return f.Strangers
	case others < quorum(f.Voters):
		return fmt.Sprintf("the others are no majority: %d of %d that vote", others, f.Voters)
	}
	return ""
}

// troubled are the claims of members with a trouble.
func (f Facts) troubled(with Trouble) (all []string) {
	for _, m := range f.wanted() {
		if m.Trouble == with && !m.Healthy && m.Claim != nil {
			all = append(all, m.Claim.Name)
		}
	}
	return all
}

// wanted are the members that do not leave.
func (f Facts) wanted() []Member {
	i := slices.IndexFunc(f.Members, func(m Member) bool { return m.Ordinal >= f.Wanted })
	if i < 0 {
		return f.Members
	}
	return f.Members[:i]
}

func (f Facts) write(rule string, about About, m Member, r Record, format string, args ...any) Action {
	return Action{Kind: WriteDown, Rule: rule, About: about, Member: m.Name, Record: r, Reason: fmt.Sprintf(format, args...)}
}

func wait(rule string, about About, format string, args ...any) Action {
	return Action{Kind: Wait, Rule: rule, About: about, Reason: fmt.Sprintf(format, args...)}
}

func report(rule string, about About, format string, args ...any) Action {
	return Action{Kind: Report, Rule: rule, About: about, Reason: fmt.Sprintf(format, args...)}
}
