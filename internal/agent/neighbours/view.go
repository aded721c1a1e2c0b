// Package neighbours asks the members of a cluster what they are doing: each one's sidecar what
// it knows, and each one's etcd whether there is a cluster that decides. Where the members join a
// cluster outside, the etcds of that are asked too.
//
// It draws no conclusion and remembers nothing. Who does not answer in time is unreachable, which
// says nothing about what it has. Every answer was given after [Asker.Look] was called: nothing is
// kept from earlier looks, because decisions rest on what came after what.
package neighbours

import (
	"cmp"
	"slices"

	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/etcd/member"
)

// View is what the members answered.
type View struct {
	Sidecars map[string]Sidecar // of the wanted members but the own one, by name
	Etcds    []Etcd             // of all wanted members, the own one included, that have client URLs
	Outside  []Etcd             // of a cluster outside, by endpoint and without names
}

// Sidecar is the answer of one sidecar.
type Sidecar struct {
	Member agentapi.Member
	Err    error // not nil: it did not answer, and Member is nothing
}

// Etcd is the answer of the etcd of one wanted member. With several client URLs it is that of the
// first one that answered.
type Etcd struct {
	Name     string // of the wanted member
	Endpoint string // that answered
	Status   member.Status
	Err      error // not nil: it did not answer
	// Members are who belongs to its cluster, as a majority of that cluster confirmed just then; nil:
	// the cluster decides nothing, or a learner was asked.
	Members *member.Membership
	Silence error // why Members is nil
}

// Cluster is a cluster that decides.
type Cluster struct {
	member.Membership
	Endpoints []string // of its members, through which it can be asked; at least one
}

// Clusters are the clusters that decide, by id. There should be one at most.
func (v View) Clusters() []Cluster {
	var out []Cluster
	for _, e := range slices.Concat(v.Etcds, v.Outside) {
		if e.Members == nil {
			continue
		}
		i := slices.IndexFunc(out, func(c Cluster) bool { return c.ClusterID == e.Members.ClusterID })
		if i < 0 {
			i = len(out)
			out = append(out, Cluster{Membership: *e.Members})
		}
		out[i].Endpoints = append(out[i].Endpoints, e.Endpoint)
	}
	slices.SortFunc(out, func(a, b Cluster) int { return cmp.Compare(a.ClusterID, b.ClusterID) })
	return out
}

// Etcd is the answer of the etcd of member name.
func (v View) Etcd(name string) (Etcd, bool) {
	for _, e := range v.Etcds {
		if e.Name == name && e.Err == nil {
			return e, true
		}
	}
	return Etcd{}, false
}

// Revision is the newest one that an etcd of the cluster tells; 0: none does.
func (v View) Revision(clusterID uint64) (rev snapshot.Revision) {
	for _, e := range slices.Concat(v.Etcds, v.Outside) {
		if e.Err == nil && e.Status.ClusterID == clusterID {
			rev = max(rev, e.Status.Revision)
		}
	}
	return rev
}
