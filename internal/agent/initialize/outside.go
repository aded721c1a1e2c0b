package initialize

import (
	"fmt"
	"slices"
	"strings"

	"druid.internal/druid/internal/agent/memberconf"
	"druid.internal/druid/internal/agent/neighbours"
	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/etcd/datadir"
	"druid.internal/druid/internal/etcd/member"
)

// decideOutside is rule 7, and rules 3 and 4 as they are for members that join a cluster outside. As
// long as that is named, no cluster is begun, none is restored from the backup, and data of another
// one are not started: whatever does not answer may be what is to be joined.
func decideOutside(f Facts) Decision {
	if d, ok := f.doubled(); ok {
		return d
	}
	clusters := f.View.Clusters()
	switch {
	case f.withData() && len(clusters) > 0:
		return decideAmong(f, clusters)
	case f.withData():
		return decideApart(f)
	case len(clusters) > 1:
		return waitForCluster("4.0", "%s; remove the data of those that are not to be kept", split(clusters))
	case len(clusters) == 1:
		return decideJoin(f, clusters[0])
	}
	why := "there are no data here"
	if f.Data.State == datadir.Invalid {
		why = f.Data.Why
	}
	return waitForCluster("7.1", "%s, and the cluster to join does not answer: %s; until it does, no cluster is begun and no backup restored. If it is gone for good and its data came here, take it out of the configuration, and the backup is restored", why, f.silence())
}

// decideApart is for data while no cluster answers. Those of the cluster outside may be all that is
// left of it, when its own members are gone.
func decideApart(f Facts) Decision {
	others := f.others()
	switch {
	case f.Data.Removed:
		return waitForCluster("3.7", "the data are those of %016x, which its cluster has removed, and that does not answer", f.Data.MemberID)
	case !f.moved():
		return waitForCluster("7.3", "the data (revision %d) are of cluster %016x, which is not known to be the one to join, and that does not answer: %s; remove the data directory if they are not needed, or take that cluster out of the configuration to go on with them",
			f.Data.Revision, f.Data.ClusterID, f.silence())
	case f.Data.State == datadir.Valid:
		return Decision{Action: Start, Rule: "3.8", Reason: agentapi.DBValidationSucceeded, Message: "the data are valid, and no cluster answers: " + f.evidence(others)}
	case f.alive(others) >= f.quorum():
		return Decision{Action: Start, Rule: "3.9", Reason: agentapi.DBValidationSucceeded, Message: "enough members have data, and no cluster answers"}
	}
	return waitForCluster("7.4", "%s, and the cluster they are of does not answer: %s", f.unwritten(), f.silence())
}

// moved says whether the data came from the cluster outside: this volume was added to their cluster
// as a learner while that was to be joined, or one of its members is recorded in them.
func (f Facts) moved() bool {
	if f.Journal.Outside != 0 && f.Journal.Outside == f.Data.ClusterID {
		return true
	}
	return slices.ContainsFunc(f.Data.Membership, func(m datadir.Member) bool { return f.Outside.has(m.Name, m.PeerURLs) })
}

// stranger says why c must not be joined, if there is a cluster outside: it is not that one, or its
// etcd is too old.
func (f Facts) stranger(c neighbours.Cluster) (Decision, bool) {
	if f.Outside == nil {
		return Decision{}, false
	}
	ours := func(p member.Peer) bool {
		return slices.ContainsFunc(f.Wanted, func(w memberconf.Peer) bool { return sharesHost(w.PeerURLs, p.PeerURLs) })
	}
	if !slices.ContainsFunc(c.Peers, func(p member.Peer) bool { return f.Outside.has(p.Name, p.PeerURLs) || ours(p) }) {
		var listed []string
		for _, p := range c.Peers {
			listed = append(listed, fmt.Sprintf("%s (%s)", p.Name, strings.Join(p.PeerURLs, ",")))
		}
		return waitForCluster("7.2", "cluster %016x answers at %s, and it is not the one to join: of the members %s it has none, its own are %s; correct the client URLs or the members of the cluster to join",
			c.ClusterID, strings.Join(c.Endpoints, " and "), f.Outside.names(), strings.Join(listed, ", ")), true
	}
	for _, e := range f.View.Outside {
		if e.Err == nil && e.Status.ClusterID == c.ClusterID && tooOld(e.Status.Version) {
			return waitForCluster("7.6", "the etcd at %s is version %s, whose data cannot be taken over; upgrade the cluster to etcd 3.5.26 or later 3.5 first", e.Endpoint, e.Status.Version), true
		}
	}
	return Decision{}, false
}

// tooOld says whether an etcd of the version cannot send its data to a learner of this one.
func tooOld(version string) bool {
	var major, minor int
	if _, err := fmt.Sscanf(version, "%d.%d.", &major, &minor); err != nil {
		return false // it does not say
	}
	return major < 3 || major == 3 && minor < 5
}

// silence is what was heard at the endpoints outside, none of which answered for a cluster.
func (f Facts) silence() string {
	var parts []string
	for _, e := range f.View.Outside {
		switch {
		case e.Err != nil:
			parts = append(parts, fmt.Sprintf("%s: %v", e.Endpoint, e.Err))
		case e.Silence != nil:
			parts = append(parts, fmt.Sprintf("%s: its etcd runs, but its cluster decides nothing: %v", e.Endpoint, e.Silence))
		}
	}
	if parts == nil {
		return strings.Join(f.Outside.Endpoints, ", ")
	}
	return strings.Join(parts, "; ")
}

// has says whether a member that a cluster lists is one of those outside.
func (o *Outside) has(name string, urls []string) bool {
	return slices.ContainsFunc(o.Members, func(m memberconf.Peer) bool {
		return name != "" && m.Name == name || sharesHost(m.PeerURLs, urls)
	})
}

func (o *Outside) names() string {
	var out []string
	for _, m := range o.Members {
		out = append(out, m.Name)
	}
	return strings.Join(out, ", ")
}

// sharesHost says whether two members have a host and port in common. Whether that is https may
// have changed.
func sharesHost(a, b []string) bool {
	return slices.ContainsFunc(a, func(u string) bool {
		return slices.ContainsFunc(b, func(v string) bool { return hostOf(u) == hostOf(v) })
	})
}
