package agentapi

import "time"

// State is where a member is in its life.
type State string

// The states.
const (
	New          State = "New"          // nothing was done yet, or the data were given up
	Initializing State = "Initializing" // the data are examined or restored; etcd does not run
	Starting     State = "Starting"     // etcd is about to be, or is, a learner
	Started      State = "Started"      // etcd is a voting member
)

// SubState tells more about a State.
type SubState string

// The sub-states, each of one State; New has none.
const (
	DBValidationSanity SubState = "DBValidationSanity" // of Initializing: quick looks
	DBValidationFull   SubState = "DBValidationFull"   // of Initializing: every page and record
	Restoration        SubState = "Restoration"        // of Initializing: from the backup
	PendingLearner     SubState = "PendingLearner"     // of Starting: waits to be added to the cluster
	Learner            SubState = "Learner"            // of Starting: receives the data from the leader
	Follower           SubState = "Follower"           // of Started
	Leader             SubState = "Leader"             // of Started
)

// Reason says why a member changed its state.
type Reason string

// The reasons.
const (
	ClusterScaledUp             Reason = "ClusterScaledUp"
	NewSingleNodeClusterCreated Reason = "NewSingleNodeClusterCreated"
	NewClusterCreated           Reason = "NewClusterCreated" // of several members at once
	DetectedPreviousCleanExit   Reason = "DetectedPreviousCleanExit"
	DetectedPreviousUncleanExit Reason = "DetectedPreviousUncleanExit"
	DBValidationFailed          Reason = "DBValidationFailed"
	DBValidationSucceeded       Reason = "DBValidationSucceeded"
	DBCorruptionDetected        Reason = "DBCorruptionDetected"
	RestorationSucceeded        Reason = "RestorationSucceeded"
	RestorationFailed           Reason = "RestorationFailed"
	WaitingToJoinAsLearner      Reason = "WaitingToJoinAsLearner"
	JoinedAsLearner             Reason = "JoinedAsLearner"
	PromotedAsVotingMember      Reason = "PromotedAsVotingMember"
	GainedClusterLeadership     Reason = "GainedClusterLeadership"
	LostClusterLeadership       Reason = "LostClusterLeadership"
	WaitingForCluster           Reason = "WaitingForCluster" // nothing may be done until others answer
	WaitingForStore             Reason = "WaitingForStore"   // the bucket does not answer: it is not taken for empty; or it is another's
	QuorumLost                  Reason = "QuorumLost"        // a majority lost its data, some member has any: a person decides
	OtherLineage                Reason = "OtherLineage"      // the data are not of the history in the bucket
	VolumeMismatch              Reason = "VolumeMismatch"    // the volume is another member's
	VolumeReadOnly              Reason = "VolumeReadOnly"
	Quarantined                 Reason = "Quarantined" // etcd raised CORRUPT
)

// Transition is one change of a member's state.
type Transition struct {
	State    State     `json:"state"`
	SubState SubState  `json:"subState,omitempty"`
	Reason   Reason    `json:"reason"`
	Time     time.Time `json:"transitionTime"`
	Message  string    `json:"message,omitempty"`
}

// Member is what a sidecar tells about its member: GET /member.
type Member struct {
	Name string `json:"name"`
	// ID and ClusterID are etcd's, as sixteen hexadecimal digits; empty while etcd never ran.
	ID             string   `json:"id,omitempty"`
	ClusterID      string   `json:"clusterID,omitempty"`
	PeerTLSEnabled bool     `json:"peerTLSEnabled"`
	PeerURLs       []string `json:"peerURLs,omitempty"` // with which its etcd was started
	// Authorities is a digest of the certificate authorities with which its etcd was started; empty:
	// there are none, or it is not known.
	Authorities string       `json:"authorities,omitempty"`
	Transitions []Transition `json:"transitions"` // the newest last; the older ones are forgotten
	// Etcd is how etcd answered last; nil: it does not answer.
	Etcd *Etcd `json:"etcd,omitempty"`
	// Data is what stands on the volume, as far as it was examined; absent while its etcd runs.
	Data Data `json:"data,omitzero"`
	// Initialization is where the initialization is: after Progress its etcd may be started.
	Initialization InitState  `json:"initialization,omitempty"`
	Bootstrap      *Bootstrap `json:"bootstrap,omitempty"`
	// Waiting says in one sentence what the member waits for or refuses, and what to do; empty:
	// nothing.
	Waiting string `json:"waiting,omitempty"`

	// VolumeFull says in one sentence that the volume is full; empty: there is room.
	VolumeFull string `json:"volumeFull,omitempty"`

	// Snapshots are absent unless this sidecar writes the backups and knows the bucket.
	Snapshots *Snapshots `json:"snapshots,omitempty"`
	// BackupFailure is why nothing is uploaded, or why a member that waits for the store cannot read it or may not restore from it; absent after a success.
	BackupFailure       *BackupFailure   `json:"backupFailure,omitempty"`
	LastRestoration     *Restored        `json:"lastRestoration,omitempty"`
	LastDefragmentation *Defragmentation `json:"lastDefragmentation,omitempty"`
	VolumeMismatches    []Mismatch       `json:"volumeMismatches,omitempty"`
	// Refusal is whether the etcd refuses clients; nil: the sidecar is of a version before that could be asked for.
	Refusal *Refusal `json:"refusal,omitempty"`
	// BackupLeader: this sidecar writes the backups.
	BackupLeader bool `json:"backupLeader"`
}

// Etcd is a running etcd.
type Etcd struct {
	Version     string   `json:"version"`
	Learner     bool     `json:"learner"`
	Leader      string   `json:"leader,omitempty"` // id; empty: it sees none
	Revision    int64    `json:"revision"`
	DBSize      int64    `json:"dbSize"` // bytes
	DBSizeInUse int64    `json:"dbSizeInUse"`
	Alarms      []string `json:"alarms,omitempty"` // NOSPACE, CORRUPT
	// Members are who belongs to the cluster, as far as this etcd has heard; empty: it did not say,
	// as a learner does not.
	Members []Listed `json:"members,omitempty"`
}

// Listed is a member as etcd lists it.
type Listed struct {
	ID       string   `json:"id"`
	Name     string   `json:"name,omitempty"` // empty: it was added and never started
	PeerURLs []string `json:"peerURLs"`
	// ClientURLs are those with which it was started, which may not be those of the configuration any more.
	ClientURLs []string `json:"clientURLs,omitempty"`
	Learner    bool     `json:"learner,omitempty"`
}

// DataState is what a data directory is good for.
type DataState string

// The states of data.
const (
	DataUnknown DataState = ""        // not examined yet
	DataMissing DataState = "Missing" // certainly none
	DataInvalid DataState = "Invalid"
	DataValid   DataState = "Valid"
	DataBlank   DataState = "Blank" // valid, but no client ever wrote: a bootstrap that was not completed
)

// Data is what a member has on its volume.
type Data struct {
	State     DataState `json:"state"`
	Why       string    `json:"why,omitempty"` // of Invalid
	ID        string    `json:"id,omitempty"`  // as Member.ID, from the write-ahead log
	ClusterID string    `json:"clusterID,omitempty"`
	Revision  int64     `json:"revision,omitempty"`
	Removed   bool      `json:"removed,omitempty"` // the data say that their cluster removed the member
	Learner   bool      `json:"learner,omitempty"` // the data say that the member does not vote
}

// Bootstrap is a member that is about to bootstrap, or has bootstrapped, a new cluster together
// with others.
type Bootstrap struct {
	// Cluster tells the wanted cluster from others: a digest of initial-cluster and its token.
	Cluster string `json:"cluster"`
	// Nonce is of this member's volume and attempt: it is given up before etcd starts.
	Nonce string `json:"nonce,omitempty"`
	// Saw are the nonces, by member, of those that were ready when this member started.
	Saw map[string]string `json:"saw,omitempty"`
}

// Snapshots is what the backup leader uploaded last.
type Snapshots struct {
	LastFull             *Uploaded `json:"lastFull,omitempty"`
	LastDelta            *Uploaded `json:"lastDelta,omitempty"`
	AccumulatedDeltaSize int64     `json:"accumulatedDeltaSize"` // bytes of deltas since the full
	// NothingNew is when the last look found nothing to upload.
	NothingNew *time.Time `json:"nothingNew,omitempty"`
	// Proof is how the last proof that the newest chain can be restored ended; absent before there was one.
	Proof *Proof `json:"proof,omitempty"`
	// Bucket is what was found when the bucket was looked through last; absent before that.
	Bucket *Bucket `json:"bucket,omitempty"`
}

// Proof is how a proof ended.
type Proof struct {
	EndedAt time.Time   `json:"endedAt"`
	Result  ProofResult `json:"result"`
	// Base is the full that was the newest then, by its name; empty: that is not known.
	Base        string  `json:"base,omitempty"`
	EndRevision int64   `json:"endRevision,omitempty"` // of Proven: the last that was restored
	Seconds     float64 `json:"seconds,omitempty"`     // of Proven: how long that took
	Message     string  `json:"message,omitempty"`     // why it is not Proven
}

// ProofResult is what a proof showed.
type ProofResult string

// The results of proofs.
const (
	ProofProven  ProofResult = "Proven"
	ProofBroken  ProofResult = "Broken"  // the chain cannot be restored
	ProofUnknown ProofResult = "Unknown" // the store did not answer, or there was no room
)

// Bucket is what a look through the bucket found.
type Bucket struct {
	LookedAt time.Time `json:"lookedAt"`
	// First and Last are the ends of what can be restored of the cluster's own history; absent: nothing.
	First *Restorable `json:"first,omitempty"`
	Last  *Restorable `json:"last,omitempty"`
	// Level is how well the newest chain is protected, which is its weakest object: none, unknown, advisory,
	// governance or compliance. Until is the earliest end among its locks; absent: there is none, or holds
	// alone protect. Protection says it in one phrase.
	Level      string     `json:"level"`
	Until      *time.Time `json:"until,omitempty"`
	Protection string     `json:"protection"`
	// Inferred: the end of some of the locks was computed from the bucket's policy, not told.
	Inferred bool `json:"inferred,omitempty"`
	// Period is how long the newest object of the chain was locked from its upload, in seconds; 0: not told.
	Period int64 `json:"periodSeconds,omitempty"`
	// Tampering is what somebody may have done to the bucket, the gravest first, and Excluded the snapshots
	// that restores leave out. Of both the first few are told, and how many there are.
	Tampering      []Tampering `json:"tampering,omitempty"`
	TamperingCount int         `json:"tamperingCount,omitempty"`
	Excluded       []string    `json:"excluded,omitempty"`
	ExcludedCount  int         `json:"excludedCount,omitempty"`
}

// Restorable is a state of the cluster to which one can restore.
type Restorable struct {
	Time     time.Time `json:"time"`
	Revision int64     `json:"revision"`
}

// Tampering is a finding of the listing that a store does not come to by itself.
type Tampering struct {
	Code string `json:"code"` // as "etcdbrctl list" has it, such as marker
	Text string `json:"text"` // one sentence
}

// Uploaded is a snapshot in the bucket.
type Uploaded struct {
	Timestamp     time.Time `json:"timestamp"`
	Name          string    `json:"name"`
	Size          int64     `json:"size"` // bytes, uncompressed where that is known
	StartRevision int64     `json:"startRevision"`
	EndRevision   int64     `json:"endRevision"`
	// Taken: this sidecar took it since it was started. Otherwise it found it in the bucket.
	Taken bool `json:"taken,omitempty"`
}

// BackupFailure is why the backup leader uploads nothing, or another member cannot read the bucket, or may not restore from it, before its etcd may start.
type BackupFailure struct {
	Since   time.Time    `json:"since"` // the first since the last success
	Reason  BackupReason `json:"reason"`
	Message string       `json:"message"`
}

// BackupReason says why backups fail. They are the reasons of the operator's condition BackupReady.
type BackupReason string

// The reasons.
const (
	BackupFailed          BackupReason = "BackupFailed" // none of the others; the message says why
	StoreNotReachable     BackupReason = "StoreNotReachable"
	StoreAccessDenied     BackupReason = "StoreAccessDenied"
	StoreContainerMissing BackupReason = "StoreContainerMissing"
	StoreOwnedByAnother   BackupReason = "StoreOwnedByAnother"
)

// Outcome of a long operation.
type Outcome string

// The outcomes.
const (
	InProgress Outcome = "In-Progress"
	Success    Outcome = "Success"
	Failed     Outcome = "Failed"
)

// Restored is a restoration of a member.
type Restored struct {
	Type    string     `json:"type"` // FromSnapshot or FromLeader
	Status  Outcome    `json:"status"`
	Start   time.Time  `json:"startTime"`
	End     *time.Time `json:"endTime,omitempty"`
	Message string     `json:"message,omitempty"`
	// Progress while it goes on.
	Phase string `json:"phase,omitempty"`
	Done  int64  `json:"done,omitempty"`  // bytes
	Total int64  `json:"total,omitempty"` // bytes; 0: not known
}

// Where the data of a restoration came from.
const (
	FromSnapshot = "FromSnapshot"
	FromLeader   = "FromLeader"
)

// Defragmentation of a member.
type Defragmentation struct {
	Start         time.Time  `json:"startTime"`
	End           *time.Time `json:"endTime,omitempty"`
	Status        Outcome    `json:"status"`
	Reason        string     `json:"reason"` // schedule, threshold, request or alarm
	Message       string     `json:"message,omitempty"`
	InitialDBSize int64      `json:"initialDBSize"`
	FinalDBSize   int64      `json:"finalDBSize,omitempty"`
}

// Mismatch is a volume that belongs elsewhere.
type Mismatch struct {
	IdentifiedAt time.Time  `json:"identifiedAt"`
	FixedAt      *time.Time `json:"fixedAt,omitempty"`
	VolumeID     string     `json:"volumeID"`
	Restarts     int        `json:"numRestarts"`
}
