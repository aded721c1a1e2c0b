package rollout

// Member is one of ours in the list of members that etcd keeps. The caller tells whose an entry is
// by its name, or, of one that never started, by its peer URLs; members of another cluster, from
// which this one was begun, are left out.
type Member struct {
	Ordinal int
	Name    string
	Voter   bool // else it is a learner, or was added and never started
	Healthy bool // it votes, answers and sees the leader
	// Down: it is known to take no part for longer than [IdleGrace], as [Pod.IdleSince] says.
	Down bool
	// PeerTLS: it is listed with https, and its etcd was started so.
	PeerTLS bool
}

// ScaleFacts are what the number of members and their scheme are decided from.
type ScaleFacts struct {
	// Want is how many members the specification wants, and WantPeerTLS the scheme.
	Want        int32
	WantPeerTLS bool

	// Listed is how many members the configuration names that the sidecars read, and PeerTLS the
	// scheme it names; 0: there is no configuration.
	Listed  int32
	PeerTLS bool
	// Replicas of the StatefulSet; 0 also if there is none.
	Replicas int32
	// Volumes is the highest ordinal that has a volume, plus one.
	Volumes int32
	// Lived is the highest ordinal of whom it is written down that it was a member, and not yet that it left, plus one.
	Lived int32
	// Pods are how many there are. Orphaned: their StatefulSet is gone; one that wants none would end them.
	Pods     int
	Orphaned bool
	// Idle: no pod takes part, each for longer than [IdleGrace].
	Idle bool

	// Members is the list of a member that answers and sees a leader; MembersKnown: there was one.
	Members      []Member
	MembersKnown bool
	// Split is which members are of different clusters; empty: none are. Then no list counts.
	Split string
	// Unborn: it is certain that no cluster was ever begun: no pod started, or each of them says
	// that it never had data.
	Unborn bool

	// Uncertified are pods that have no certificates for peers mounted, and Mounted says that the
	// template of the StatefulSet mounts them.
	Uncertified []string
	Mounted     bool
	// Otherwise says which pods serve clients otherwise than the newest template wants, or are the original's, or that clients are about
	// to be served otherwise. Empty: none.
	Otherwise string
	// CertificateFault is why members could not reach each other with the certificates for peers that the
	// specification names. Empty: they could, or that does not matter now.
	CertificateFault string

	// BackupHealthy, BackupWhy and NoStore are as in [Facts].
	BackupHealthy bool
	BackupWhy     string
	NoStore       bool
	// SleepHold is what must be finished before the last pods go, or the first ones come back, such as "the
	// snapshot before the hibernation". Empty: nothing.
	SleepHold string
}

// ScaleStep is how the objects shall be now, on the way to what is wanted.
type ScaleStep struct {
	Members  int32 // that the configuration lists
	Replicas int32 // of the StatefulSet
	PeerTLS  bool  // the scheme that the configuration names
	// PeerCertificates: the pods' template mounts the certificates for peers. It does so before
	// the first member uses them and until the last one has stopped, whatever the specification
	// says meanwhile.
	PeerCertificates bool

	// Done: nothing remains to be changed, and everybody has joined or left.
	Done bool
	// Reason says what the values are for, Waits what has to happen before they change: one
	// sentence each. Waits is empty if the next look, after these values were applied, may go on.
	Reason string
	Waits  string
	// Hold is for [Facts]: what must be finished before a pod that takes part is replaced.
	Hold string
}

// member is ours with the ordinal.
func (f ScaleFacts) member(ordinal int) (Member, bool) {
	for _, m := range f.Members {
		if m.Ordinal == ordinal {
			return m, true
		}
	}
	return Member{}, false
}

// top is the highest ordinal that etcd lists, plus one.
func (f ScaleFacts) top() (top int32) {
	for _, m := range f.Members {
		top = max(top, int32(m.Ordinal)+1) //nolint:gosec // ordinals of pods are small
	}
	return top
}

// slept is how many members the cluster has, or had when its last pod went, 0 if it never had any.
func (f ScaleFacts) slept() int32 {
	switch {
	case f.Unborn || f.Volumes == 0:
		return 0 // nobody has data
	case f.Listed > 0:
		return f.Listed
	case f.MembersKnown:
		return f.top() | 1 // their pods are there, but not the StatefulSet
	}
	// Volumes of members that left may be among them. Too many members are no harm: those whose
	// data were left behind join anew. Too few would never be a majority. The number is odd.
	return max(f.Volumes|1, 1)
}

// lived is Lived as an odd number, or 0.
func (f ScaleFacts) lived() int32 {
	if f.Lived == 0 {
		return 0
	}
	return f.Lived | 1
}

// votes counts the voters, and those of them that are healthy.
func (f ScaleFacts) votes() (voters, healthy int) {
	for _, m := range f.Members {
		if m.Voter {
			voters++
		}
		if m.Voter && m.Healthy {
			healthy++
		}
	}
	return voters, healthy
}
