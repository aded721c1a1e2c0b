package initialize

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"druid.internal/druid/internal/agent/memberconf"
	"druid.internal/druid/internal/agent/neighbours"
	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/etcd/datadir"
)

// Facts are what a decision rests on. All of them were observed after the last step was done.
type Facts struct {
	Self   string            // name of the own member
	Wanted []memberconf.Peer // in the order of [memberconf.Template.Wanted]
	Digest string            // of the wanted cluster: [memberconf.Template.Bootstrap]

	Volume  Volume
	Data    datadir.Inspection
	Settled bool // the log of the data was settled already: Revision is all they have
	// Unread: a running etcd has the data and nobody looked at them since. Data are what is assumed, that no client ever wrote to them.
	Unread bool

	// View is zero where one member is wanted and there is no cluster outside: nobody is asked then.
	View    neighbours.View
	Backup  Backup
	Journal Journal
	// OthersLeave: members that are not wanted any more may be of the cluster, and nobody asks them.
	OthersLeave bool
	// Outside is the cluster that the wanted members join; nil: they have one of their own.
	Outside *Outside
}

// Outside is a cluster that others began and run.
type Outside struct {
	Members   []memberconf.Peer // by name and peer URLs; at least one
	Endpoints []string          // client URLs; at least one
}

// Volume is what is wrong with the volume; the zero value is nothing.
type Volume struct {
	Reason agentapi.Reason // VolumeMismatch, VolumeReadOnly or empty
	Why    string          // with the remedy
	Owner  string          // of a volume that is somebody else's
}

// BackupState is whether there is anything in the bucket.
type BackupState string

// The states of a backup.
const (
	BackupUnasked       BackupState = ""              // not looked at, because it may not matter
	BackupNotConfigured BackupState = "NotConfigured" // there is no bucket
	BackupUnreachable   BackupState = "Unreachable"   // it cannot be told
	BackupNone          BackupState = "None"          // the bucket answered: nothing to restore from
	BackupExists        BackupState = "Exists"
	// BackupCrowded: the bucket answers and holds too many objects to be read before valid data are
	// served. It counts as BackupUnreachable for any other data.
	BackupCrowded BackupState = "Crowded"
)

// Relation is how the history of the own data relates to the newest one in the bucket.
type Relation string

// The relations. Data that were restored from the newest history and went on are of the same one,
// also before anything of theirs was uploaded.
const (
	RelationUnknown Relation = "Unknown" // the data, or the bucket, do not say which history they hold
	RelationSame    Relation = "Same"
	RelationOther   Relation = "Other"
)

// Backup is what the bucket holds.
type Backup struct {
	State    BackupState
	Latest   snapshot.Revision // the newest revision, which can be restored; 0 if Broken
	Uploaded snapshot.Revision // the newest revision known to have been uploaded
	Broken   string            // of Exists: why the newest state cannot be restored; empty: it can
	Owned    string            // of Exists: why they are another's, and nothing is restored from them; empty: they are not
	Relation Relation          // of Exists
	Why      string            // of Unreachable and Crowded: the error; of RelationOther: which histories

	Reason agentapi.BackupReason // of Unreachable: what kind of error; empty: it does not answer
}

// condition is what another wanted member has, as far as it answered.
type condition int

const (
	unreachable condition = iota // its sidecar does not answer
	unknown                      // it answers, and does not know yet what it has
	differs                      // empty, but its configuration wants another cluster
	empty                        // certainly nothing
	began                        // it was empty and was allowed to begin: it has something by now
	hasBlank                     // data that no client ever wrote to
	hasInvalid                   // data that etcd cannot be started with
	hasValid                     // data
)

// neighbour is another wanted member.
type neighbour struct {
	name      string
	condition condition
	boot      agentapi.Bootstrap
	cluster   string // of its data; empty: not known
	starting  bool   // its data are still examined, so its etcd does not run yet
	serves    bool   // its sidecar says that its etcd sees a leader, or leads
	learner   bool   // of what it has: it does not vote
	detail    string
}

// others are the other wanted members, in order.
func (f Facts) others() []neighbour {
	var out []neighbour
	for _, p := range f.Wanted {
		if p.Name != f.Self {
			out = append(out, f.other(p.Name))
		}
	}
	return out
}

func (f Facts) other(name string) neighbour {
	n := neighbour{name: name}
	s, ok := f.View.Sidecars[name]
	if !ok || s.Err != nil {
		n.detail = "its sidecar does not answer"
		return n
	}
	m := s.Member
	if m.Bootstrap != nil {
		n.boot = *m.Bootstrap
	}
	n.cluster = cmp.Or(m.ClusterID, m.Data.ClusterID)
	n.starting = m.Initialization == agentapi.InitProgress
	n.serves = m.Etcd != nil && m.Etcd.Leader != ""
	etcd, running := f.View.Etcd(name)
	switch {
	case m.Etcd != nil:
		n.learner = m.Etcd.Learner
	case running:
		n.learner = etcd.Status.Learner
	default:
		n.learner = m.Data.Learner
	}
	switch {
	case m.Data.Removed && m.Etcd == nil && !running:
		n.condition, n.detail = hasInvalid, fmt.Sprintf("it has data up to revision %d of a member that its cluster has removed", m.Data.Revision)
	case m.Etcd != nil && m.Etcd.Revision > 1, running && etcd.Status.Revision > 1, m.Data.State == agentapi.DataValid:
		n.condition, n.detail = hasValid, fmt.Sprintf("it has data up to revision %d", revisionOf(m, etcd))
	case m.Data.State == agentapi.DataInvalid:
		n.condition, n.detail = hasInvalid, "its data are damaged: "+m.Data.Why
	case m.Data.State == agentapi.DataBlank:
		n.condition, n.detail = hasBlank, "it has data that no client ever wrote to"
	case len(n.boot.Saw) > 0:
		n.condition, n.detail = began, "it has just begun a cluster"
	case m.Etcd != nil || running:
		n.condition, n.detail = hasValid, "its etcd runs"
	case m.Data.State != agentapi.DataMissing:
		n.condition, n.detail = unknown, "its sidecar has not examined its data yet"
	case n.boot.Cluster != f.Digest:
		n.condition, n.detail = differs, "it has no data, but its configuration has other members, peer URLs or another token"
	default:
		n.condition, n.detail = empty, "it has no data"
	}
	if n.learner {
		n.detail += "; it is a learner, which does not vote"
	}
	return n
}

// votes is how many of the others have data of one cluster, in which they vote: of that of which most have.
func votes(others []neighbour) int {
	of := map[string]int{}
	unknown, most := 0, 0
	for _, o := range others {
		switch {
		case o.condition != hasValid || o.learner:
		case o.cluster == "":
			unknown++
		default:
			of[o.cluster]++
			most = max(most, of[o.cluster])
		}
	}
	return most + unknown
}

// revisionOf is the newest revision another member told of.
func revisionOf(m agentapi.Member, etcd neighbours.Etcd) int64 {
	rev := max(m.Data.Revision, int64(etcd.Status.Revision))
	if m.Etcd != nil {
		rev = max(rev, m.Etcd.Revision)
	}
	return rev
}

// asks says whether anybody else may have a cluster of this member.
func (f Facts) asks() bool { return len(f.Wanted) > 1 || f.Outside != nil }

// quorum is the majority of the wanted members.
func (f Facts) quorum() int { return len(f.Wanted)/2 + 1 }

// own is the own member as it is wanted.
func (f Facts) own() (memberconf.Peer, bool) {
	i := slices.IndexFunc(f.Wanted, func(p memberconf.Peer) bool { return p.Name == f.Self })
	if i < 0 {
		return memberconf.Peer{}, false
	}
	return f.Wanted[i], true
}

// sameCluster says whether what another member has can be of the cluster of the own data, as far
// as it is known.
func (f Facts) sameCluster(o neighbour) bool {
	if o.condition == began {
		return maps.Equal(o.boot.Saw, f.Journal.Saw)
	}
	return o.cluster == "" || o.cluster == idText(f.Data.ClusterID)
}

// nothing says whether the own volume holds nothing that raft ever knew of. Files of a first
// start that did not get as far as a write-ahead log may be there.
func (f Facts) nothing() bool {
	return f.Data.State == datadir.Missing || f.Data.State == datadir.Blank && f.Data.ClusterID == 0
}

// unwritten is what is said of data that no client ever wrote to.
func (f Facts) unwritten() string {
	if f.Unread {
		return "the data here are not looked at while etcd runs with them"
	}
	return "no client ever wrote to the data here"
}

// evidence is who has what, in one line.
func (f Facts) evidence(others []neighbour) string {
	var parts []string
	own := map[datadir.Condition]string{
		datadir.Missing: "has no data", datadir.Invalid: "has damaged data", datadir.Blank: "has data that no client ever wrote to",
		datadir.Valid: fmt.Sprintf("has data up to revision %d", f.Data.Revision),
	}[f.Data.State]
	if f.Unread {
		own = "has the data of the etcd that runs"
	}
	parts = append(parts, fmt.Sprintf("%s (this one) %s", f.Self, own))
	for _, n := range others {
		parts = append(parts, n.name+": "+n.detail)
	}
	return strings.Join(parts, "; ")
}

// count is how many of the others are in one of the conditions.
func count(others []neighbour, in ...condition) int {
	n := 0
	for _, o := range others {
		if slices.Contains(in, o.condition) {
			n++
		}
	}
	return n
}

// these puts the names of the others that are in a condition into one or many, whichever their
// number asks for.
func these(others []neighbour, in condition, one, many string) string {
	var names []string
	for _, o := range others {
		if o.condition == in {
			names = append(names, o.name)
		}
	}
	if n := len(names); n > 1 {
		return fmt.Sprintf(many, strings.Join(names[:n-1], ", ")+" and "+names[n-1])
	}
	return fmt.Sprintf(one, strings.Join(names, ""))
}

// idText is an id as a sidecar tells it; empty: none.
func idText(id uint64) string {
	if id == 0 {
		return ""
	}
	return fmt.Sprintf("%016x", id)
}
