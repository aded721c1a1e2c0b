package timeline

import (
	"time"

	"druid.internal/druid/internal/backup/snapshot"
)

// Ref addresses one version of one object. Version is empty on stores without versions. It
// is comparable, so it serves as the key of maps.
type Ref struct {
	Key     snapshot.Key
	Version string
}

// String is key@version, for messages.
func (r Ref) String() string {
	if r.Version == "" {
		return r.Key.String()
	}
	return r.Key.String() + "@" + r.Version
}

// Object is one version, or one delete marker, of a snapshot's key as the store listed it.
type Object struct {
	Ref
	Size     int64     // stored bytes
	Modified time.Time // when the version was created, by the store's clock
	Marker   bool      // a delete marker: it has no content
	Latest   bool      // what a reader without versions would see
	Hidden   bool      // the key has neither a version nor a marker that is the latest
	Excluded bool      // tagged x-etcd-snapshot-exclude
	Empty    bool      // the store listed it with zero bytes: nothing can be read from it

	Unreadable string // why the store found no object at the key, such as a symbolic link; empty: it did

	// Digest of the stored bytes where somebody measured it or the store told; zero: unknown.
	// Worth measuring for keys that have several versions and a manifest.
	Digest snapshot.Digest
	// Header is what a native delta says about itself; nil if it was not read or there is
	// none. It is believed where there is no manifest.
	Header *snapshot.Manifest
}

// StoredManifest is one version, or one delete marker, of a manifest's key.
type StoredManifest struct {
	Key      snapshot.Key // of the manifest; Key.Snapshot is what it describes
	Version  string
	Modified time.Time
	Marker   bool
	Hidden   bool               // as of an object
	Manifest *snapshot.Manifest // nil if it could not be read
	Err      error              // why not
	Excluded bool               // as of an object; it counts where there is no object
}

// Foreign is an object below the prefix whose key is not of this layout.
type Foreign struct {
	Key     string
	Version string
	Err     error // what ParseKey said
	Probe   bool  // left by a probe of the store
}

// BadOwner is an owner record that names no owner, and Err says so with its key.
type BadOwner struct {
	Ref
	Err error
}

// Listing is what a complete listing of one prefix found, in any order. Owner records
// are not part of it, but for one that is none. An incomplete listing must never be made into a Listing.
type Listing struct {
	Objects   []Object // snapshots and chunks
	Manifests []StoredManifest
	Foreign   []Foreign
	Omitted   Omitted
	BadOwner  *BadOwner // of the highest number; nil: that is good, or nobody claimed the prefix
}

// Omitted counts the objects that a listing leaves out because nothing can be read from them.
// Anyone who can write to a bucket can add any number of them.
type Omitted struct {
	Foreign int // foreign objects beyond Listing.Foreign
	Probes  int // of these, objects left by probes of the store
	// Empty counts the empty snapshots and manifests that are not in Listing.Objects and
	// Listing.Manifests. EmptyExample is the key of one.
	Empty        int
	EmptyExample string
}
