package rollout

import "time"

// IdleGrace is how long a pod must have been idle to be replaced as one that takes no part: a
// member that restarts is back sooner, perhaps before it would be with an untried template.
const IdleGrace = 30 * time.Second

// UnreadyGrace is how long a pod must have been not ready to be replaced although its member may take part.
const UnreadyGrace = time.Minute

// Pod is a pod of the cluster, with what is known about its member.
//
// Participating and IdleSince are knowledge, not its absence: a pod that is neither known to take
// part nor known not to is left alone, because those who cannot be asked may be all that the
// quorum rests on.
type Pod struct {
	Name    string
	UID     string // of this pod, so that its successor of the same name is not deleted in its stead
	Ordinal int

	UpToDate bool // it was made from the newest template
	Ready    bool // as the kubelet says
	// SidecarFails: its container ended at least once, and does not run.
	SidecarFails bool
	// UnreadySince is since when it is not, also before it ever was. Zero: it is, or that is not known.
	UnreadySince time.Time
	// Alive: its containers run and its sidecar answers, whether or not its etcd does.
	Alive bool
	// Participating: its etcd votes, answers and sees the leader.
	Participating bool
	// IdleSince is since when its etcd is known to take no part: by the kubelet, for which its
	// containers do not run, or by its own sidecar. Zero: that is not known.
	IdleSince time.Time
	Leader    bool
	// Busy is work that a restart would throw away, such as "restores from the backup", as long as
	// it makes progress. Empty: none.
	Busy string

	// ClaimGoing is the volume claim of the pod if somebody deletes it: then it goes with the pod, and its volume
	// with it. Empty: it stays.
	ClaimGoing string

	Terminating bool
	// Stuck: it has been terminating for longer than it was given, as on a node that is lost.
	Stuck bool
}

// idle says that the pod takes no part for certain. Those of whom two things are told that cannot
// both be true are not.
func (p Pod) idle() bool { return !p.IdleSince.IsZero() && !p.Participating && !p.Ready }

// Facts are what the replacement of a pod is decided from.
type Facts struct {
	Now  time.Time
	Pods []Pod // in any order

	// Replicas is how many pods there shall be at the moment, see [ScaleStep].
	Replicas int32
	// Voters is how many members vote, according to etcd itself; 0: not known.
	Voters int
	// Observed: the StatefulSet's controller has seen the newest template. Before, which pods are
	// up to date is not known.
	Observed bool

	// MembersHealthy: every member votes, answers and has no alarm. MembersWhy says what is wrong.
	MembersHealthy bool
	MembersWhy     string
	// BackupHealthy: what was acknowledged is in the bucket, but for what is due. BackupWhy says
	// what is wrong.
	BackupHealthy bool
	BackupWhy     string
	// NoStore: there are no backups to be healthy.
	NoStore bool
	// MendsBackup: the new template changes what the backups are configured by. Then they are not
	// waited for, as a wrong bucket could never be put right.
	MendsBackup bool

	// Hold is what must be finished before a pod that takes part is replaced, such as "the snapshot
	// before the change of version". Empty: nothing.
	Hold string
}

// Step is what is done next.
type Step struct {
	Kind   StepKind
	Pod    string // of Delete: which goes
	UID    string // of that pod: a precondition of the deletion
	Reason string // one sentence for people
}

// StepKind is a kind of step.
type StepKind string

// The kinds.
const (
	Wait   StepKind = "Wait"   // for what Reason says
	Delete StepKind = "Delete" // the pod, which its StatefulSet makes anew
	Done   StepKind = "Done"   // every pod is up to date and ready
)

// quorum of so many voters.
func quorum(voters int) int { return voters/2 + 1 }
