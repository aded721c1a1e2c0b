package volumes

import (
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Facts are what is decided from.
type Facts struct {
	Now time.Time

	// Acts: the specification is acted on. Otherwise nothing grows.
	Acts bool
	// Want is the size of the volumes in the specification, Template that in the StatefulSet's template
	// for claims, and TemplateKept why the template cannot be made anew; empty: it can.
	Want, Template resource.Quantity
	TemplateKept   string
	// SetUID is the StatefulSet; SetGoing: it is deleted without its pods, to be made anew.
	SetUID   string
	SetGoing bool
	// Reminded is the UID of the claim of whose end the StatefulSet's controller was told last.
	Reminded string

	// Wanted is how many members the specification wants. Members are those with a claim or a pod that
	// are wanted or have not left, by ordinal.
	Wanted  int
	Members []Member
	// MembersKnown: etcd's list of members is known, in which Voters vote. Strangers are those in it
	// that count against a quorum and are none of Members, with what is wrong.
	MembersKnown bool
	Voters       int
	Strangers    string

	// Resizing is what goes on with the number of members, Rolling which pods wait to be replaced.
	// Replacing: the pod of a member is deleted in this very look. Empty, and false: nothing.
	Resizing, Rolling string
	Replacing         bool

	// BackupHealthy: what was acknowledged is in the bucket, but for what is due; BackupWhy: what is
	// wrong. NoStore: there are no backups to be healthy.
	BackupHealthy bool
	BackupWhy     string
	NoStore       bool
}

// Member is a member with its claim and its pod.
type Member struct {
	Ordinal int
	Name    string
	Claim   *Claim // nil: there is none

	Pod, PodUID string // empty: there is none
	PodGoing    bool

	// Voter: etcd lists it so. Healthy: it votes, answers, sees the leader and has no alarm, and Why
	// says what is wrong otherwise.
	Voter, Healthy, Leader bool
	Why                    string

	Trouble Trouble
	Found   string // of Mismatch: whose volume it is
	// Full: there is no room on it, by its own word, so that its etcd ends again and again.
	Full bool
	// Confirmed: its sidecar says the same at this moment. What an EtcdMember says may be old.
	Confirmed bool
	// Worked is when it began to vote last, as far as it says.
	Worked time.Time

	Record Record
	// Unreadable is why the record cannot be read. Then nothing is done that needs one.
	Unreadable string
}

// Trouble is why a member cannot work with its volume, by its own word.
type Trouble string

// The troubles.
const (
	ReadOnly Trouble = "ReadOnly" // nothing can be written to it
	Mismatch Trouble = "Mismatch" // the data on it are somebody else's
)

// Claim is the volume claim of a member.
type Claim struct {
	Name, UID string
	Volume    string // name of the PersistentVolume; empty: it is not bound
	// Asks is the size that it asks for, Has the one that it got.
	Asks, Has resource.Quantity
	Class     string // of its volume
	// Grows: the class can grow volumes. Makes: the class makes volumes by itself.
	Grows, Makes bool
	// Going: it is deleted, and goes with its pod.
	Going bool
}

// Action is what is done next.
type Action struct {
	Kind Kind
	Rule string // by which
	// Reason is one sentence for people.
	Reason string
	About  About
	// Unmet: volumes, or the template for more of them, are not of the size that is wanted.
	Unmet bool

	Member     string            // of Record: whose
	Record     Record            // of Record: what is written down
	Claims     []Claim           // of Expand: which
	Size       resource.Quantity // of Expand: what they ask for then
	Claim, UID string            // of DeleteClaim: the name; the UID also of DeletePod and ReplaceTemplate: a precondition; of Remind: the UID of the claim that is gone, and of the StatefulSet
	Pod        string            // of DeletePod: which
}

// Kind is a kind of action.
type Kind string

// The kinds.
const (
	None            Kind = ""                // nothing is to be done
	Wait            Kind = "Wait"            // for what Reason says
	Report          Kind = "Report"          // nothing is done by itself, or nothing any more: Reason says what a person can do
	Expand          Kind = "Expand"          // have claims ask for more
	ReplaceTemplate Kind = "ReplaceTemplate" // delete the StatefulSet without its pods, to be made anew
	WriteDown       Kind = "WriteDown"       // what the next step acts on
	DeleteClaim     Kind = "DeleteClaim"     // which goes with its pod
	DeletePod       Kind = "DeletePod"       // which its StatefulSet makes anew
	Remind          Kind = "Remind"          // the StatefulSet's controller, which has a pod to make
)

// Acts says that the action changes something.
func (a Action) Acts() bool { return a.Kind != None && a.Kind != Wait && a.Kind != Report }

// Done says that nothing is on its way: what remains does not end by itself.
func (a Action) Done() bool { return a.Kind == None || a.Kind == Report }

// About is what an action is about, for the condition DataVolumesReady.
type About string

// What actions are about.
const (
	AboutSickness About = "sickness" // of a volume; the condition has its own words for that
	AboutGrowth   About = "growth"   // which goes on
	AboutStuck    About = "stuck"    // growth that does not
)

// quorum of so many voters.
func quorum(voters int) int { return voters/2 + 1 }
