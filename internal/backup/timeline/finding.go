package timeline

import "druid.internal/druid/internal/backup/snapshot"

// Code names a kind of finding. The set is closed.
type Code string

// The findings.
const (
	Gap              Code = "gap"              // deltas are missing: the next delta does not continue anything before it
	Hole             Code = "hole"             // between the end of a chain and the next full: single revisions in between cannot be restored
	Orphan           Code = "orphan"           // deltas without any usable full before them
	Overlap          Code = "overlap"          // two deltas share revisions, as two leaders write them
	Duplicate        Code = "duplicate"        // two objects claim the same content
	Versions         Code = "versions"         // a key has several versions: somebody overwrote, or an upload was repeated
	Marker           Code = "marker"           // a delete marker hides a key from readers without versions
	Hidden           Code = "hidden"           // a key was deleted by its name in a store without markers: versions are there, none is current
	Gone             Code = "gone"             // of a key only delete markers are left
	ForeignObject    Code = "foreign"          // an object whose key is not of this layout
	Flood            Code = "flood"            // so many objects of one kind that only their number is told
	EmptyObject      Code = "empty"            // an object with the name of a snapshot has no bytes
	UnreadableObject Code = "unreadable"       // at the name of a snapshot is no object, such as a symbolic link in a directory of files
	ProbeLeft        Code = "probe"            // what "store probe" wrote and the store's lock does not let go yet
	NoMetadata       Code = "no-metadata"      // a snapshot without manifest or header in a prefix where others have one
	DigestMismatch   Code = "digest-mismatch"  // no version has the digest and size its manifest tells
	BadManifest      Code = "bad-manifest"     // a manifest could not be read, or does not fit its key
	BadOwnerRecord   Code = "bad-owner"        // the owner record that counts names no owner
	ManyManifests    Code = "many-manifests"   // a manifest has several versions
	MissingSnapshot  Code = "missing-snapshot" // a manifest describes a snapshot that is not there
	UnknownSuffix    Code = "unknown-suffix"   // the content cannot be unpacked by this program
	Chunk            Code = "chunk"            // parts of an upload, left by the original
	ExcludedObject   Code = "excluded"         // tagged x-etcd-snapshot-exclude, it or a manifest that is all there is of it: visible, not used
	FullAhead        Code = "full-ahead"       // the content of a full reaches beyond the revision in its name
	Suspect          Code = "suspect"          // no majority of the members told the same hash when a full was taken
	HeaderMismatch   Code = "header-mismatch"  // a delta's header and its manifest or name disagree
	BrokenLink       Code = "broken-link"      // a delta names a predecessor with another digest
	UnknownParent    Code = "unknown-parent"   // nothing of a lineage's parent is left, or it was never here
	Stranger         Code = "stranger"         // the newest lineage is another cluster's, and has nothing to do with one that was here before
	RolledBack       Code = "rolled-back"      // a lineage begins, in the cluster of its parent, before the end of that: the data went back
	LineageConflict  Code = "lineage-conflict" // a lineage's parent or fork is told in different ways, or is its own ancestor
	BeforeFork       Code = "before-fork"      // a snapshot of a lineage that ends before the lineage began
	StaleWriter      Code = "stale-writer"     // an ancestor was still written after a lineage forked from it
)

// Severity grades a finding.
type Severity int

// The severities.
const (
	Info    Severity = iota // worth knowing, nothing to do
	Warning                 // something happened that should not; nothing known is lost by it
	Danger                  // something known cannot be restored, or somebody tampered
)

// String is the word for it.
func (s Severity) String() string { return [...]string{"info", "warning", "danger"}[s] }

// Finding is one thing about a listing that a person should know.
type Finding struct {
	Code     Code
	Severity Severity
	Lineage  snapshot.LineageID
	Key      string // of the object it is about; empty if it is about a lineage
	Version  string
	Text     string // one sentence
}

// String is severity, code and text in one line.
func (f Finding) String() string { return f.Severity.String() + " " + string(f.Code) + ": " + f.Text }
