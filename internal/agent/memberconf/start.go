package memberconf

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// The states of the cluster that etcd is told. Both mean nothing to an etcd that has a
// write-ahead log.
const (
	StateNew      = "new"      // the members of Initial begin a cluster together
	StateExisting = "existing" // the cluster of Initial has the member listed already
)

// Start is how an etcd gets into its cluster.
type Start struct {
	State   string
	Initial []Peer // with StateExisting exactly the members the cluster lists now, this one included
	Token   string // of the new cluster; empty: that of the file
	// At are the peer URLs by which the others know this member, and Listen where it listens for that; none: the wanted ones.
	At, Listen []string
	// Unchecked: etcd does not compare its data with those of the others as it starts. It would wait
	// seven seconds for each one that is starting too, and no cluster would answer so long.
	Unchecked bool
}

// For is the configuration file of one wanted member. Who listens where stays as it is; the
// maps of URLs become those of this member; etcd's checks for corruption, at the start unless s
// says otherwise and at compactions, are on.
func (t *Template) For(member string, s Start) ([]byte, error) {
	own, ok := t.Peer(member)
	if !ok {
		return nil, fmt.Errorf("configuration for etcd: %q is none of the wanted members (%s)", member, strings.Join(names(t.wanted), ", "))
	}
	if s.State != StateNew && s.State != StateExisting {
		return nil, fmt.Errorf("configuration for etcd: no state %q of a cluster", s.State)
	}
	if !slices.ContainsFunc(s.Initial, func(p Peer) bool { return p.Name == member }) {
		return nil, fmt.Errorf("configuration for etcd: member %s is not among the members of its cluster (%s)", member, strings.Join(names(s.Initial), ", "))
	}
	cluster, err := Cluster(s.Initial)
	if err != nil {
		return nil, fmt.Errorf("configuration for etcd: %w", err)
	}
	out := maps.Clone(t.values)
	for _, key := range slices.Concat(past, beforeGate, sortedKeys(refused)) {
		delete(out, key)
	}
	for key := range listening {
		delete(out, key)
		urls, err := t.listen(key)
		if err != nil {
			return nil, err // was checked when the file was read
		}
		if len(urls) > 0 {
			out[key] = strings.Join(urls, ",")
		}
	}
	out["name"] = member
	out["data-dir"] = t.dir
	out[initialCluster] = cluster
	out["initial-cluster-state"] = s.State
	out["initial-cluster-token"] = cmp.Or(s.Token, t.token)
	out[advertisePeer] = strings.Join(own.PeerURLs, ",")
	if len(s.At) > 0 {
		out[listenPeer], out[advertisePeer] = strings.Join(s.Listen, ","), strings.Join(s.At, ",")
	}
	out[advertise] = strings.Join(own.ClientURLs, ",")
	gates := slices.Clone(t.gates)
	for _, g := range decidedHere {
		gates = append(gates, fmt.Sprintf("%s=%t", g, g != initialCheck || !s.Unchecked))
	}
	out["feature-gates"] = strings.Join(gates, ",")
	return yaml.Marshal(out)
}

// Cluster writes members as initial-cluster: NAME=URL,NAME=URL,...
func Cluster(peers []Peer) (string, error) {
	seen := map[string]bool{}
	var entries []string
	for _, p := range peers {
		if p.Name == "" || strings.ContainsAny(p.Name, "=,") || len(p.PeerURLs) == 0 || seen[p.Name] {
			return "", fmt.Errorf("member %q with the peer URLs %q cannot be written into %q", p.Name, p.PeerURLs, initialCluster)
		}
		seen[p.Name] = true
		for _, u := range p.PeerURLs {
			entries = append(entries, p.Name+"="+u)
		}
	}
	return strings.Join(entries, ","), nil
}

func names(peers []Peer) []string {
	var out []string
	for _, p := range peers {
		out = append(out, p.Name)
	}
	return out
}
