package volumes

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// grow is rule 3: volumes that are smaller than the specification wants.
func (f Facts) grow() Action {
	if !f.Acts {
		return Action{}
	}
	smaller := f.smaller()
	if can := expandable(smaller); len(can) > 0 {
		// It takes nothing away, and may be the only help of a cluster whose volumes are full: neither
		// health nor a quorum is asked for.
		return Action{Kind: Expand, Rule: "3.1", About: AboutGrowth, Claims: can, Size: f.Want,
			Reason: fmt.Sprintf("%s: the volumes grow to %s", names(can), f.Want.String())}
	}
	for _, look := range []func([]Member) Action{f.template, f.anew, f.shrink, f.growing} {
		if a := look(smaller); a.Kind != None {
			return a
		}
	}
	return Action{}
}

// smaller are members whose claims ask for less than is wanted.
func (f Facts) smaller() (all []Member) {
	for _, m := range f.Members {
		if m.Claim != nil && !m.Claim.Going && m.Claim.Asks.Cmp(f.Want) < 0 {
			all = append(all, m)
		}
	}
	return all
}

// expandable are the claims that may ask for more: of a volume that is bound, of a class that grows.
func expandable(smaller []Member) (all []Claim) {
	for _, m := range smaller {
		if m.Claim.Grows && m.Claim.Volume != "" {
			all = append(all, *m.Claim)
		}
	}
	return all
}

// template makes the StatefulSet anew, whose template of claims cannot be changed. The pods run on
// without it for a moment, so nothing else may be going on that it has a part in.
func (f Facts) template([]Member) Action {
	if f.SetUID == "" || f.Template.Cmp(f.Want) >= 0 {
		return Action{}
	}
	switch {
	case f.TemplateKept != "":
		return report("3.2", AboutStuck, "the StatefulSet's template of claims stays at %s: %s", f.Template.String(), f.TemplateKept)
	case f.Resizing != "":
		return wait("3.3", AboutGrowth, "the StatefulSet's template of claims changes to %s after this: %s", f.Want.String(), f.Resizing)
	case f.Rolling != "" && !slices.ContainsFunc(f.Members, Member.gaveOut): // it waits for who comes back with a larger volume alone
		return wait("3.4", AboutGrowth, "the StatefulSet's template of claims changes to %s after the pods: %s", f.Want.String(), f.Rolling)
	}
	return Action{Kind: ReplaceTemplate, Rule: "3.5", About: AboutGrowth, UID: f.SetUID,
		Reason: fmt.Sprintf("the StatefulSet is made anew around its pods: its template of claims changes from %s to %s", f.Template.String(), f.Want.String())}
}

// anew gives members new volumes, one after the other.
func (f Facts) anew(smaller []Member) Action {
	if len(smaller) == 0 {
		return Action{}
	}
	m := f.first(smaller)
	c, done, want := m.Claim, m.Record.Grow, f.Want.String()
	cannot := fmt.Sprintf("%s cannot grow from %s to %s (%s)", c.Name, c.Asks.String(), want, noGrower(*c))
	switch {
	case c.Grows:
		return wait("3.6", AboutGrowth, "%s grows to %s when it is bound", c.Name, want)
	case !c.Makes:
		return report("3.7", AboutStuck, "%s, and the member gets no new one: %s", cannot, noMaker(*c))
	case f.Wanted == 0:
		return report("3.8", AboutStuck, "%s, and the members get new ones when the cluster is awake", cannot)
	case f.Wanted == 1:
		return report("3.9", AboutStuck, "%s, and the volume of the only member is never given up: set spec.replicas to 3 until all volumes have %s, or make a new Etcd with such volumes and restore the backup into it", cannot, want)
	case m.Unreadable != "":
		return report("3.10", AboutStuck, "%s, and the member gets no new one, as what was done before cannot be read: %s", cannot, m.Unreadable)
	case done != nil && done.Size.Cmp(f.Want) == 0 && done.Claim != c.UID:
		return report("3.11", AboutStuck, "%s, and the member got a new one for that at %s, which is no larger: delete the claim and its pod by hand, one member at a time", cannot, when(done.At))
	}
	if why := f.unsettled(m); why != "" {
		return wait("3.12", AboutStuck, "%s, and the member gets no new one now: %s", cannot, why)
	}
	if done == nil || done.Claim != c.UID || done.Size.Cmp(f.Want) != 0 {
		next := m.Record
		next.Grow = &Grown{Size: f.Want, Claim: c.UID, At: f.Now.UTC()}
		return f.write("3.13", AboutGrowth, m, next, "%s is going to get a new volume of %s", m.Name, want)
	}
	return Action{Kind: DeleteClaim, Rule: "3.14", About: AboutGrowth, Claim: c.Name, UID: c.UID,
		Reason: fmt.Sprintf("%s is replaced by one of %s: its class cannot grow it, and the other members have the data", c.Name, want)}
}

// gaveOut: the member ended because its volume is full, and comes back with a larger one alone.
func (m Member) gaveOut() bool { return m.Full && !m.Healthy }

// first is whose turn it is: who was written down already, then who is down for it, then the highest ordinal, then who leads.
func (f Facts) first(smaller []Member) Member {
	turn := func(m Member) int {
		switch g := m.Record.Grow; {
		case g != nil && g.Claim == m.Claim.UID && g.Size.Cmp(f.Want) == 0:
			return 0
		case m.gaveOut():
			return 1
		case !m.Leader:
			return 2
		}
		return 3
	}
	return slices.MinFunc(smaller, func(a, b Member) int {
		if d := turn(a) - turn(b); d != 0 {
			return d
		}
		return b.Ordinal - a.Ordinal
	})
}

// unsettled says why a member may not lose its volume now. One that is down as it is full may: the others have its data.
func (f Facts) unsettled(m Member) string {
	switch {
	case f.Resizing != "":
		return f.Resizing
	case f.Rolling != "" && !m.gaveOut(): // which waits for it
		return f.Rolling
	case !m.Healthy && f.MembersKnown && !m.gaveOut():
		return m.Why
	}
	if why := f.endangers(m); why != "" {
		return why
	}
	switch {
	case !f.NoStore && !f.BackupHealthy:
		return "the backups are not healthy" + because(f.BackupWhy)
	case f.NoStore && f.Voters < 3:
		return "there is no backup, and fewer than three members vote"
	}
	return ""
}

// shrink names what does not become smaller.
func (f Facts) shrink([]Member) Action {
	if f.SetUID == "" || f.Template.Cmp(f.Want) <= 0 {
		return Action{}
	}
	return report("3.15", AboutGrowth, "spec.storageCapacity is %s and the volumes have %s: volumes cannot shrink; set it to %s, or make a new Etcd with smaller volumes and restore the backup into it",
		f.Want.String(), f.Template.String(), f.Template.String())
}

// growing names the claims that have not got yet what they ask for. The change is told when it comes.
func (f Facts) growing([]Member) Action {
	var all []Claim
	for _, m := range f.Members {
		if c := m.Claim; c != nil && !c.Going && c.Volume != "" && c.Has.Cmp(c.Asks) < 0 {
			all = append(all, *c)
		}
	}
	if len(all) == 0 {
		return Action{}
	}
	var text []string
	for _, c := range all {
		text = append(text, fmt.Sprintf("%s from %s to %s", c.Name, c.Has.String(), c.Asks.String()))
	}
	return report("3.16", AboutGrowth, "volumes that grow: %s", strings.Join(text, ", "))
}

// noGrower says why a claim cannot grow.
func noGrower(c Claim) string {
	switch {
	case c.Class == "":
		return "it has no StorageClass"
	case !c.Makes && !c.Grows:
		return fmt.Sprintf("its StorageClass %s grows none", c.Class)
	}
	return fmt.Sprintf("its StorageClass %s has no allowVolumeExpansion: true", c.Class)
}

// noMaker says why no new volume would be made for a claim.
func noMaker(c Claim) string {
	if c.Class == "" {
		return "it has no StorageClass; make a new Etcd with one and restore the backup into it"
	}
	return fmt.Sprintf("the StorageClass %s is gone, or makes no volumes by itself; make it anew, with allowVolumeExpansion: true if its driver can", c.Class)
}

func names(claims []Claim) string {
	var all []string
	for _, c := range claims {
		all = append(all, c.Name)
	}
	return strings.Join(all, ", ")
}

func when(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// because appends a reason to a sentence, if there is one.
func because(why string) string {
	if why == "" {
		return ""
	}
	return " (" + why + ")"
}
