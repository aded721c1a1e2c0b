package hibernation

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/backup/immutability"
)

// Clocks is by how much the operator's clock may differ from that of the store and of the sidecars.
const Clocks = 30 * time.Minute

// Again is when a final snapshot that failed is tried again, and how long apart two are that writes made
// worthless.
const Again = time.Minute

// AgainLocked is the same for one that has no lock, or too short a one: what is locked cannot be removed, and the
// bucket rarely changes its mind.
const AgainLocked = 15 * time.Minute

// ProofLasts is how long a proof counts where nothing locks what was proven.
const ProofLasts = time.Hour

// RefuseFor is for how long members are asked to refuse clients at a time: if the operator dies, they admit them after
// it. They are asked again when less than RefuseAgain is left.
const (
	RefuseFor   = 10 * time.Minute
	RefuseAgain = 7 * time.Minute
)

// RefuseLeast is how much has to be left as the members are told to stop: pods end one after the other, or all together,
// and each gets a grace period.
const RefuseLeast = 5 * time.Minute

// ClosingAtMost is for how long who allows an unproven end waits for members to refuse clients.
const ClosingAtMost = 30 * time.Second

// Facts are what is decided from.
type Facts struct {
	Now        time.Time
	UID        types.UID
	Generation int64

	Wanted   bool  // members are
	Replicas int32 // of the StatefulSet; 0 also if there is none
	Pods     int   // there are
	// Unending is what can be done about pods that do not end; empty: none is late.
	Unending  string
	Untouched bool // no member ever had data
	// Store is where backups are made now; empty: none are. Elsewhere are pods whose sidecars make them in another
	// place, or in another name.
	Store     string
	Elsewhere []string
	Locks     bool // immutability is asked for
	// Kept: the record is of another store than the specification names, where locks were asked for. They are prolonged there,
	// whatever is asked for now.
	Kept bool
	// Mode is the least that a lock must be; empty: what the bucket gives.
	Mode immutability.Mode
	// Skip says who wants no final snapshot; empty: nobody. Unprotected: the members may stop without a good one.
	Skip        string
	Unprotected bool
	// ClosingSince is since when the status says that it is waited for members to refuse clients; zero: it does not.
	ClosingSince time.Time
	// Shared is why the members must not stop, as others depend on them; empty: nobody does.
	Shared string

	Record *druidv1alpha1.HibernationStatus // of the status; nil: there is none
	// Attempt is what this operator knows of the final snapshot of this generation. One that has just begun
	// to work knows nothing.
	Attempt Attempt
	// Members are those that must stand at the snapshot's last revision.
	Members []Member
	// Refusing are members that refuse clients now. Silent are those that may, as they were asked to a short time ago,
	// and do not answer.
	Refusing, Silent []string
	// Differ are members of which etcd says that their data differ from those of others.
	Differ []string
	// Settle is how old what sidecars tell of revisions may be.
	Settle time.Duration
	// NewFull is the name of a full that a member took in the life after the final one; empty: none is known. What is merely
	// newer in the bucket is none: whoever may write can put it there.
	NewFull string

	// Unread is why no run of the extension reads the final full; empty: one does, as far as is known.
	Unread string

	Keep   bool // the volumes stay
	Claims int  // there are
	Going  int  // of them are being deleted
	Slept  int  // members have fallen asleep; 0: not known
	// Revision is the highest at which any member was ever seen.
	Revision int64
}

// Attempt is an attempt to take and prove a final full snapshot.
type Attempt struct {
	Running bool
	Taken   *druidv1alpha1.FinalSnapshot // and proven; nil: not
	Mode    immutability.Mode            // of its lock; empty: a former sidecar does not tell
	Failed  string                       // why the last one was given up
	// Spoilt is the name of the snapshot that the last attempt found not to be good; empty: there was none.
	Spoilt string
	// Began is when the first attempt for the same purpose did, whatever became of it: the sidecar may give what that one took.
	Began time.Time
	Ended time.Time
	// Repeated: a former one was no good, or members served clients after it.
	Repeated bool
}

// Member is a member by what its sidecar told in this look.
type Member struct {
	Name     string
	Known    bool // its etcd answers and votes
	Revision int64
	// Refuses is for how long it refuses clients all the time, Left for how long it still will; with no time left it
	// serves them.
	Refuses, Left time.Duration
	// Cannot is why it cannot be asked to; empty: it can. Its clients can write on, as before there was such a thing,
	// and the revisions alone tell.
	Cannot string
}

// closing are members that serve clients, or soon will, although they could be asked not to. A member that does not
// answer is not waited for here: it is before the members stop.
func (f Facts) closing() (names []string) {
	for _, m := range f.Members {
		if m.Known && m.Cannot == "" && m.Left < RefuseLeast {
			names = append(names, m.Name)
		}
	}
	return names
}

// early are members that refuse clients for so short a time that what they tell may be from before.
func (f Facts) early() (names []string) {
	for _, m := range f.Members {
		if m.Known && m.Cannot == "" && m.Refuses < f.Settle {
			names = append(names, m.Name)
		}
	}
	return names
}

// refuse says whether members are to be asked to refuse clients now.
func (f Facts) refuse() bool {
	return slices.ContainsFunc(f.Members, func(m Member) bool { return m.Known && m.Cannot == "" && m.Left < RefuseAgain })
}

// writable says which members serve clients to the end, and why.
func (f Facts) writable() string {
	for _, m := range f.Members {
		if m.Cannot != "" {
			return fmt.Sprintf("; %s does not refuse clients (%s): stop them, as nothing but the revisions tells whether they write", m.Name, m.Cannot)
		}
	}
	return ""
}

// mine is the record if it counts for this Etcd.
func (f Facts) mine() *druidv1alpha1.HibernationStatus {
	if f.Record == nil || f.Record.EtcdUID != f.UID {
		return nil
	}
	return f.Record
}

// final is the snapshot that lets members stop: taken for this generation, in the life that is about to end,
// and where the cluster will wake up from.
func (f Facts) final() *druidv1alpha1.FinalSnapshot {
	if f.Attempt.Taken != nil {
		return f.Attempt.Taken
	}
	if r := f.mine(); r != nil && r.Generation == f.Generation && r.AwakeSince == nil && f.reaches(r.FinalSnapshot) {
		return r.FinalSnapshot
	}
	return nil
}

// served are members that served clients after a final snapshot, as they were started anew, or no operator was there. Users, roles
// and leases may have been made since, which raise no revision. Of one of which the record alone tells it is known when it was
// proven. Of another, when it was asked for: not before all members refused clients for as long as makes up for how both are measured.
func (f Facts) served(final *druidv1alpha1.FinalSnapshot) (names []string) {
	if f.Attempt.Taken != nil && f.Unprotected {
		return nil // it was not waited for that all refuse clients
	}
	return f.unfenced(final)
}

// unfenced is served, also of who allows it.
func (f Facts) unfenced(final *druidv1alpha1.FinalSnapshot) (names []string) {
	since := final.VerifiedAt.Add(f.Settle)
	// Whoever proved it has another clock than this operator, so that nothing can be told from that moment.
	unknown := f.Attempt.Taken == nil && f.Now.Before(final.VerifiedAt.Time)
	if f.Attempt.Taken != nil {
		since = f.Attempt.Began
	}
	for _, m := range f.Members {
		if m.Known && m.Cannot == "" && !since.IsZero() && (unknown || m.Refuses < f.Now.Sub(since)) {
			names = append(names, m.Name)
		}
	}
	return names
}

// reaches says whether a snapshot is where the specification has the members look for it.
func (f Facts) reaches(s *druidv1alpha1.FinalSnapshot) bool {
	return s != nil && f.Store != "" && s.Store == f.Store
}

// locked says whether nobody can delete a snapshot now, by any clock.
func (f Facts) locked(s *druidv1alpha1.FinalSnapshot) bool {
	return s.Held || s.ProtectedUntil != nil && s.ProtectedUntil.Sub(f.Now) > Clocks
}

// weak says whether the lock of what was taken is known to be weaker than was asked for. Of what is recorded it was not.
func (f Facts) weak() bool {
	return f.Attempt.Taken != nil && f.Mode != "" && f.Attempt.Mode != "" && immutability.Compare(f.Attempt.Mode, f.Mode) < 0
}

// fresh says whether somebody looked at a snapshot a short time ago. A time to come, by a clock that was set
// back, says nothing.
func (f Facts) fresh(s *druidv1alpha1.FinalSnapshot) bool {
	at := s.VerifiedAt.Time
	if l := s.LookedAt; l != nil && l.After(at) {
		at = l.Time
	}
	age := f.Now.Sub(at)
	return age >= -Clocks && age <= ProofLasts
}

// ended is when the attempt ended. Who has just begun to work knows when its snapshot was proven.
func (f Facts) ended() time.Time {
	if final := f.final(); f.Attempt.Ended.IsZero() && final != nil {
		return final.VerifiedAt.Time
	}
	return f.Attempt.Ended
}
