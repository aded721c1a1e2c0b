package initialize

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"druid.internal/druid/internal/agent/neighbours"
	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/etcd/datadir"
	"druid.internal/druid/internal/etcd/member"
)

// decideSeveral is rules 3 to 5, but for 5.32.
func decideSeveral(f Facts) Decision {
	if d, ok := f.doubled(); ok {
		return d
	}
	clusters := f.View.Clusters()
	switch {
	case f.withData() && len(clusters) > 0:
		return decideAmong(f, clusters)
	case f.withData():
		return decideAlone(f)
	case len(clusters) > 1:
		return waitForCluster("4.0", "%s; remove the data of those that are not to be kept", split(clusters))
	case len(clusters) == 1:
		return decideJoin(f, clusters[0])
	case f.Data.State == datadir.Invalid:
		return decideInvalid(f)
	}
	return decideEmpty(f)
}

// withData says whether there are data with which etcd can be started.
func (f Facts) withData() bool {
	return f.Data.State == datadir.Valid || f.Data.State == datadir.Blank && !f.nothing()
}

// doubled is the decision while an etcd answers as the own member, whose etcd is not started.
func (f Facts) doubled() (Decision, bool) {
	e, ok := f.impostor()
	return waitForCluster("3.0", "an etcd answers at %s, though none was started here; check that no other process runs as %s", e.Endpoint, f.Self), ok
}

// impostor is an etcd that answers as the own member, whose etcd is not started. Where the client
// URLs are those of a load balancer, it may be another member.
func (f Facts) impostor() (neighbours.Etcd, bool) {
	own, ok := f.View.Etcd(f.Self)
	return own, ok && !slices.ContainsFunc(f.View.Etcds, func(e neighbours.Etcd) bool {
		return e.Err == nil && e.Name != f.Self && e.Status.MemberID == own.Status.MemberID
	})
}

// decideAmong is rule 3 while a cluster answers: this member belongs to it, or it does not.
func decideAmong(f Facts, clusters []neighbours.Cluster) Decision {
	for _, c := range clusters {
		if c.ClusterID != f.Data.ClusterID {
			continue
		}
		if p, ok := c.ByID(f.Data.MemberID); ok {
			role := "a voting member"
			if p.Learner {
				role = "a learner"
			}
			d := Decision{Action: Start, Rule: "3.1", Reason: agentapi.DBValidationSucceeded,
				Message: fmt.Sprintf("the data are those of %016x, %s of the cluster", p.ID, role)}
			// etcd before 3.6.12 makes a learner a voter when its URLs are changed.
			if own, ok := f.own(); ok && !p.Learner && !sameSet(p.PeerURLs, own.PeerURLs) {
				d.Cluster = c
			}
			return d
		}
		return f.join("3.2", c, fmt.Sprintf("the data are those of %016x, which the cluster has removed", f.Data.MemberID))
	}
	if len(clusters) > 1 {
		return waitForCluster("3.3", "%s, and the data here are of a third one, %016x; remove the data of those that are not to be kept", split(clusters), f.Data.ClusterID)
	}
	c := clusters[0]
	if f.Data.State == datadir.Blank {
		return f.join("3.4", c, f.unwritten()+", and they are of another cluster")
	}
	if !f.known() {
		return Decision{Action: Refuse, Rule: "3.13", Reason: agentapi.OtherLineage,
			Message: fmt.Sprintf("the data (revision %d) are of cluster %016x, of which no wanted member is one, and cluster %016x answers: nothing of another cluster is replaced; remove the data directory to join the cluster that answers, or bring the volume to where it belongs",
				f.Data.Revision, f.Data.ClusterID, c.ClusterID)}
	}
	if rev := f.View.Revision(c.ClusterID); f.Data.Removed && f.Data.AtMost <= rev {
		return f.join("3.15", c, fmt.Sprintf("the data (revision %d) are those of %016x, which its cluster %016x has removed, and cluster %016x answers, which is at revision %d",
			f.Data.Revision, f.Data.MemberID, f.Data.ClusterID, c.ClusterID, rev))
	}
	if n := f.wantedAmong(c); n < f.quorum() {
		return waitForCluster("3.5", "the data (revision %d) are of cluster %016x, but cluster %016x answers, in which %d of %d wanted members vote; remove the data of those that are not to be kept",
			f.Data.Revision, f.Data.ClusterID, c.ClusterID, n, len(f.Wanted))
	}
	return f.join("3.6", c, fmt.Sprintf("the data (revision %d) are of cluster %016x, but a majority of the wanted members has cluster %016x", f.Data.Revision, f.Data.ClusterID, c.ClusterID))
}

// known says whether the cluster of the own data was one of these members: one of its peer URLs is
// at the host and port of a wanted member's. Whether that is https may have changed. So is the one
// outside that they join.
func (f Facts) known() bool {
	hosts := map[string]bool{}
	for _, w := range f.Wanted {
		for _, u := range w.PeerURLs {
			hosts[hostOf(u)] = true
		}
	}
	if f.Outside != nil && f.moved() {
		return true
	}
	return len(f.Data.Membership) == 0 || slices.ContainsFunc(f.Data.Membership, func(m datadir.Member) bool {
		return slices.ContainsFunc(m.PeerURLs, func(u string) bool { return hosts[hostOf(u)] })
	})
}

// hostOf is host and port of a URL.
func hostOf(s string) string {
	_, rest, found := strings.Cut(s, "://")
	if !found {
		return s
	}
	host, _, _ := strings.Cut(rest, "/")
	return host
}

// decideAlone is rule 3 while no cluster answers.
func decideAlone(f Facts) Decision {
	others := f.others()
	switch {
	case f.Data.Removed:
		return waitForCluster("3.7", "the data are those of %016x, which its cluster has removed, and that does not answer", f.Data.MemberID)
	case f.Data.State == datadir.Valid && !f.known() && f.strangers(others) != "":
		// Those who are without a leader for a moment do not count as a cluster that answers. When they do, it
		// is rule 3.13.
		return waitForCluster("3.14", "the data (revision %d) are of cluster %016x, of which no wanted member is one, and %s data of another: their cluster is waited for; remove the data directory to join it, or bring the volume to where it belongs",
			f.Data.Revision, f.Data.ClusterID, f.strangers(others))
	case f.Data.State == datadir.Valid:
		return Decision{Action: Start, Rule: "3.8", Reason: agentapi.DBValidationSucceeded, Message: "the data are valid, and no cluster answers: " + f.evidence(others)}
	}
	// No client ever wrote to the data. Alone they are of no use, and they may keep the others
	// from beginning a cluster.
	switch {
	case f.alive(others) >= f.quorum():
		return Decision{Action: Start, Rule: "3.9", Reason: agentapi.DBValidationSucceeded, Message: "enough members have data, and no cluster answers"}
	case count(others, unreachable, unknown) > 0:
		return waitForCluster("3.10", "%s, and what others have cannot be told: %s", f.unwritten(), f.evidence(others))
	case f.leads(others):
		return Decision{Action: Start, Rule: "3.9", Reason: agentapi.DBValidationSucceeded, Message: "this member alone votes, others learn from it, and no cluster answers"}
	case count(others, hasValid, hasInvalid) > 0:
		return f.quorumLost("3.11", others)
	}
	return Decision{Action: GiveUp, Rule: "3.12", Reason: agentapi.DBValidationFailed,
		Message: f.unwritten() + ", and too few others have any: " + f.evidence(others)}
}

// strangers are the others that say to have data of another cluster, with their verb; empty: nobody does.
func (f Facts) strangers(others []neighbour) string {
	var names []string
	for _, o := range others {
		if (o.condition == hasValid || o.condition == hasInvalid) && o.cluster != "" && !f.sameCluster(o) {
			names = append(names, o.name)
		}
	}
	switch len(names) {
	case 0:
		return ""
	case 1:
		return names[0] + " has"
	}
	return strings.Join(names, ", ") + " have"
}

// alive is how many of the wanted members, this one included, have data of the own cluster, in which they vote, or
// are about to.
func (f Facts) alive(others []neighbour) int {
	alive := 1
	for _, o := range others {
		switch o.condition {
		case hasValid, hasBlank, began:
			if f.sameCluster(o) && !o.learner {
				alive++
			}
		case empty: // it may still begin with what this member began with
			if o.boot.Nonce != "" && f.Journal.Saw[o.name] == o.boot.Nonce {
				alive++
			}
		}
	}
	return alive
}

// leads: the one member that votes is this one, and another one of its cluster learns. Without it that is no cluster.
func (f Facts) leads(others []neighbour) bool {
	return len(f.Data.Voters) == 1 && f.Data.Voters[0] == f.Data.MemberID && slices.ContainsFunc(others, func(o neighbour) bool { return o.learner && f.sameCluster(o) })
}

// decideJoin is rule 4: a cluster answers, and there are no usable data here.
func decideJoin(f Facts, c neighbours.Cluster) Decision {
	if f.stale() {
		return f.withdraw("4.1")
	}
	if saw, ok := f.late(); ok && f.Outside == nil && f.unstarted(c) {
		return Decision{Action: BootstrapLate, Rule: "4.2", Reason: agentapi.NewClusterCreated, Saw: saw,
			Message: "the others have begun the cluster together with this member"}
	}
	why := "there are no data, and a cluster answers"
	if f.Data.State == datadir.Invalid {
		why = f.Data.Why
	}
	return f.join("4.3", c, why)
}

// decideInvalid is rule 5 for a member whose data are damaged.
func decideInvalid(f Facts) Decision {
	others := f.others()
	switch {
	case count(others, unreachable, unknown) > 0:
		return waitForCluster("5.1", "%s, and no cluster answers: %s", f.Data.Why, f.evidence(others))
	case votes(others) >= f.quorum():
		return waitForCluster("5.2", "%s; the other members have data, so their cluster will answer", f.Data.Why)
	}
	return f.quorumLost("5.3", others)
}

// decideEmpty is rule 5 for a member that has nothing.
func decideEmpty(f Facts) Decision {
	others := f.others()
	if f.stale() {
		return f.withdraw("5.4")
	}
	switch {
	case count(others, unreachable) > 0:
		return waitForCluster("5.6", "no cluster answers, and neither %s; whoever does not answer may have data",
			these(others, unreachable, "does the sidecar of %s", "do the sidecars of %s"))
	case count(others, unknown) > 0:
		return waitForCluster("5.7", "no cluster answers, and %s yet", these(others, unknown, "%s has not examined its data", "%s have not examined their data"))
	case count(others, differs) > 0:
		return waitForCluster("5.8", "%s another cluster than the one here; make initial-cluster, the peer URLs and the token the same everywhere",
			these(others, differs, "the configuration of %s wants", "the configurations of %s want"))
	case count(others, empty) == len(others):
		return decideAllEmpty(f, others)
	}
	if saw, ok := f.late(); ok {
		return Decision{Action: BootstrapLate, Rule: "5.9", Reason: agentapi.NewClusterCreated, Saw: saw,
			Message: "the others have begun a cluster together with this member"}
	}
	switch {
	case votes(others) >= f.quorum():
		return waitForCluster("5.10", "a majority has data, so its cluster will answer: %s", f.evidence(others))
	case count(others, hasValid, hasInvalid) == 0:
		return waitForCluster("5.11", "some members have begun a cluster without this one: %s", f.evidence(others))
	}
	return f.quorumLost("5.12", others)
}

// decideAllEmpty is rule 5 when nobody has anything.
func decideAllEmpty(f Facts, others []neighbour) Decision {
	nonces := map[string]string{f.Self: f.Journal.Nonce}
	offered := 0
	for _, o := range others {
		nonces[o.name] = o.boot.Nonce
		if o.boot.Nonce != "" {
			offered++
		}
	}
	switch f.Backup.State {
	case BackupUnasked:
		return Decision{Action: AskBackup, Rule: "5.20", Message: "no member has data"}
	case BackupUnreachable, BackupCrowded:
		return waitForStore("5.21", f, "whether there is anything to restore cannot be told, and no member has data")
	case BackupExists:
		first := f.Wanted[0].Name
		switch {
		case f.Journal.Nonce != "":
			return f.withdraw("5.22")
		case f.Backup.Owned != "":
			return ownedByAnother("5.31", f, "no member has data")
		case f.Backup.Broken != "":
			return Decision{Action: Refuse, Rule: "5.30", Reason: agentapi.RestorationFailed,
				Message: fmt.Sprintf("no member has data, and the backups cannot be restored: %s; %s", f.Backup.Broken, brokenRemedy)}
		case first != f.Self:
			return waitForCluster("5.23", "no member has data; %s restores the backup, which reaches revision %d, and this member joins it then", first, f.Backup.Latest)
		case offered > 0:
			return waitForCluster("5.24", "no member has data, and there is a backup, but some members still want to begin without it; they will see it")
		}
		return Decision{Action: RestoreSeed, Rule: "5.25", Reason: agentapi.DBValidationFailed,
			Message: fmt.Sprintf("no member has data, no cluster answers, and the backup reaches revision %d", f.Backup.Latest)}
	}
	switch {
	case f.Journal.Restoring:
		return Decision{Action: Refuse, Rule: "5.26", Reason: agentapi.RestorationFailed,
			Message: "a restore was interrupted, and by now there is nothing to restore from; check the bucket, or remove " + JournalFile + " to begin without data"}
	case f.Journal.Nonce == "":
		return Decision{Action: Offer, Rule: "5.27", Message: "no member has data, and there is no backup"}
	case offered < len(others):
		return waitForCluster("5.28", "no member has data, and there is no backup; the members agree to begin a cluster, of which %d of %d are ready", offered+1, len(f.Wanted))
	}
	return Decision{Action: BootstrapNew, Rule: "5.29", Reason: agentapi.NewClusterCreated, Saw: nonces,
		Message: fmt.Sprintf("no member has data, there is no backup, and all %d members are ready", len(f.Wanted))}
}

// stale says whether the journal speaks of a volume as it was before it was emptied.
func (f Facts) stale() bool {
	j := f.Journal
	return len(j.Saw) > 0 || j.Nonce != "" && j.Cluster != f.Digest
}

func (f Facts) withdraw(rule string) Decision {
	return Decision{Action: Withdraw, Rule: rule, Message: "the offer to begin a cluster does not hold any more"}
}

// late says whether the others have begun a cluster in which the present nonce of this member
// counts: every member that has anything saw the same nonces, among them this one.
func (f Facts) late() (map[string]string, bool) {
	if !f.nothing() || f.Journal.Nonce == "" || f.Journal.Cluster != f.Digest {
		return nil, false
	}
	var saw map[string]string
	for _, o := range f.others() {
		switch o.condition {
		case empty:
		case began, hasBlank, hasValid:
			if o.boot.Cluster != f.Digest || o.boot.Saw[f.Self] != f.Journal.Nonce || saw != nil && !maps.Equal(saw, o.boot.Saw) {
				return nil, false
			}
			saw = o.boot.Saw
		default:
			return nil, false
		}
	}
	return saw, saw != nil && len(saw) == len(f.Wanted)
}

// unstarted says whether the cluster waits for this member: it lists it as a voting one that never
// began.
func (f Facts) unstarted(c neighbours.Cluster) bool {
	own, _ := f.own()
	return slices.ContainsFunc(c.Peers, func(p member.Peer) bool {
		return !p.Learner && len(p.ClientURLs) == 0 && sameSet(p.PeerURLs, own.PeerURLs)
	})
}

// join is the decision to join c, for which what the cluster knows this member by is removed
// first.
func (f Facts) join(rule string, c neighbours.Cluster, why string) Decision {
	if d, other := f.stranger(c); other {
		return d
	}
	own, _ := f.own()
	d := Decision{Action: JoinAsLearner, Rule: rule, Reason: agentapi.WaitingToJoinAsLearner, Cluster: c, Message: why}
	for _, p := range c.Peers {
		named := p.Started() && p.Name == f.Self
		placed := slices.ContainsFunc(p.PeerURLs, func(u string) bool { return slices.Contains(own.PeerURLs, u) })
		etcds := slices.Concat(f.View.Etcds, f.View.Outside)
		runs := slices.IndexFunc(etcds, func(e neighbours.Etcd) bool { return e.Err == nil && e.Status.MemberID == p.ID })
		mine := p.ID == f.Data.MemberID && c.ClusterID == f.Data.ClusterID
		switch {
		case !named && !placed && !mine:
		case f.Outside != nil && !placed && !mine && !sharesHost(p.PeerURLs, own.PeerURLs):
			return waitForCluster("7.5", "%s, but the cluster has another member of the name %s, at %s; give this one another name", why, f.Self, strings.Join(p.PeerURLs, ","))
		case runs >= 0:
			return waitForCluster(rule, "%s, but member %016x, which the cluster knows as this one, runs at %s; check that no other process runs as %s", why, p.ID, etcds[runs].Endpoint, f.Self)
		case !named && p.Started() && f.wants(p.Name):
			return waitForCluster(rule, "%s, but the cluster has its peer URL as that of %s; correct the peer URLs", why, p.Name)
		case p.ID == f.Journal.Learner && !f.Journal.HandedOut && p.Learner && !p.Started() && sameSet(p.PeerURLs, own.PeerURLs):
			d.Listed = p.ID // it never ran anywhere: this volume added it and told nobody
		default:
			d.Remove = append(d.Remove, p.ID)
		}
	}
	return d
}

// wants says whether a member of that name is wanted.
func (f Facts) wants(name string) bool {
	for _, p := range f.Wanted {
		if p.Name == name {
			return true
		}
	}
	return false
}

// wantedAmong is how many of the wanted members vote in c.
func (f Facts) wantedAmong(c neighbours.Cluster) int {
	n := 0
	for _, w := range f.Wanted {
		if slices.ContainsFunc(c.Peers, func(p member.Peer) bool {
			return !p.Learner && (p.Started() && p.Name == w.Name || sameSet(p.PeerURLs, w.PeerURLs))
		}) {
			n++
		}
	}
	return n
}

// quorumLost is for a person to decide, unless an etcd is still about to start, or serves and only does not answer here.
func (f Facts) quorumLost(rule string, others []neighbour) Decision {
	for _, o := range others {
		switch {
		case o.condition == hasValid && o.starting:
			return waitForCluster(rule, "%s still examines its data, and its cluster may answer then: %s", o.name, f.evidence(others))
		case o.serves && !o.learner: // who learns names a leader for as long as there is no other
			return waitForCluster(rule, "the etcd of %s serves, but does not answer here: if client URLs or their certificates were changed, set them back until this member has joined: %s", o.name, f.evidence(others))
		}
	}
	return Decision{Action: QuorumLost, Rule: rule, Reason: agentapi.QuorumLost,
		Message: fmt.Sprintf("a majority of the members lost its data, and some member still has any, so nothing is restored by itself: %s; bring the data of a majority back, or remove the data directories of all members to restore from the backup", f.evidence(others))}
}

func waitForCluster(rule, format string, args ...any) Decision {
	return Decision{Action: Wait, Rule: rule, Reason: agentapi.WaitingForCluster, Message: fmt.Sprintf(format, args...)}
}

// split describes several clusters behind the same members.
func split(clusters []neighbours.Cluster) string {
	var parts []string
	for _, c := range clusters {
		parts = append(parts, fmt.Sprintf("%016x at %s", c.ClusterID, strings.Join(c.Endpoints, " and ")))
	}
	return fmt.Sprintf("%d clusters answer for the wanted members: %s", len(clusters), strings.Join(parts, ", "))
}

func sameSet(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}
