package snapshot

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// LineageID names one history of a cluster's data. It is minted at random, lives beside the
// data and in every snapshot, and changes whenever history forks. The empty id is the
// unnamed lineage: whatever was written without an id, as the original does.
type LineageID string

// Lineage is a history with the place where it left its parent.
//
//	parent  1 ── 2 ── 3 ── 4 ── 5 ── 6        (lost after 4 was restored)
//	                       └── 5'── 6'        lineage with Fork 4
//
// Revisions up to and including Fork are the parent's; later ones with the same number
// are different data, so the two are never joined into one chain.
type Lineage struct {
	ID     LineageID `json:"id"`
	Parent LineageID `json:"parent,omitempty"`
	Fork   Revision  `json:"fork,omitempty"` // last revision shared with Parent; 0: unknown, or there is no parent
}

// Digest is a SHA-256.
type Digest [sha256.Size]byte

// IsZero reports whether no digest was recorded.
func (d Digest) IsZero() bool { return d == Digest{} }

// String is the hexadecimal form.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// MarshalText writes the hexadecimal form, or nothing for the zero digest.
func (d Digest) MarshalText() ([]byte, error) {
	if d.IsZero() {
		return nil, nil
	}
	return []byte(d.String()), nil
}

// UnmarshalText is the inverse of MarshalText.
func (d *Digest) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*d = Digest{}
		return nil
	}
	if len(text) != hex.EncodedLen(len(d)) {
		return fmt.Errorf("digest of %d characters: want %d hexadecimal digits", len(text), hex.EncodedLen(len(d)))
	}
	if _, err := hex.Decode(d[:], text); err != nil {
		return fmt.Errorf("digest %q: want %d hexadecimal digits", text, 2*len(d))
	}
	return nil
}

// HashKV is etcd's hash of its key space. Two hashes are comparable only when revision and
// compact revision agree.
type HashKV struct {
	Revision        Revision `json:"revision"`
	CompactRevision Revision `json:"compactRevision"` // -1: never compacted, as etcd reports it
	Hash            uint32   `json:"hash"`
}

// Manifest tells what could not be known before a snapshot was uploaded. It is written once,
// after the snapshot, under Key.Manifest. Nothing needs a manifest to be restorable.
type Manifest struct {
	Version  int     `json:"version"`  // of this format: ManifestVersion
	Snapshot string  `json:"snapshot"` // Name of the object described
	Lineage  Lineage `json:"lineage"`

	Digest       Digest   `json:"digest"`       // of the stored bytes
	Size         int64    `json:"size"`         // stored bytes
	ContentSize  int64    `json:"contentSize"`  // bytes after unpacking
	LastRevision Revision `json:"lastRevision"` // true last revision of the content: for a full it may be above the name's
	HashKV       *HashKV  `json:"hashKV,omitempty"`

	// AuthRevision of etcd when the stream of a full began: later changes of users, roles and
	// authentication may be missing, as no delta holds them. 0: unknown.
	AuthRevision uint64 `json:"authRevision,omitempty"`

	Events   int64     `json:"events,omitempty"`  // deltas: number of events
	Earliest time.Time `json:"earliest,omitzero"` // deltas: receive time of the first revision
	Latest   time.Time `json:"latest,omitzero"`   // fulls: when the stream ended; deltas: receive time of the last revision
	Previous Digest    `json:"previous,omitzero"` // deltas: Digest of the snapshot this one continues
	// Leases of deltas: what etcd answered about its leases, in the order of the answers.
	Leases []LeaseRecord `json:"leases,omitempty"`

	ClusterID      uint64 `json:"clusterID,omitempty"`
	MemberID       uint64 `json:"memberID,omitempty"`
	EtcdVersion    string `json:"etcdVersion,omitempty"`
	StorageVersion string `json:"storageVersion,omitempty"`
	CompactedFrom  string `json:"compactedFrom,omitempty"` // Name of the base, when compact made this full from other snapshots
	// CopiedFrom is the name of the snapshot whose bytes these are, where the copy was made only to be locked anew.
	CopiedFrom string `json:"copiedFrom,omitempty"`
	Writer     string `json:"writer,omitempty"` // program and version
	// For is what a final full was taken for, as whoever asked for it named that: one hibernation of one Etcd.
	For string `json:"for,omitempty"`
	// Suspect says, in one sentence, why the content may not be what the cluster agreed on: no
	// majority of its members told the same HashKV when the full was taken. Empty: no such doubt.
	Suspect string `json:"suspect,omitempty"`
}

// ManifestVersion is what this project writes. Readers accept it and anything above whose
// fields they understand, because fields are only ever added.
const ManifestVersion = 1

// MaxManifestSize bounds what a reader takes for a manifest, in bytes.
const MaxManifestSize = 64 << 10

// ErrManifest is wrapped by every error of ParseManifest.
var ErrManifest = errors.New("unusable manifest")

// Encode is the object's content: one JSON value and a newline.
func (m Manifest) Encode() []byte {
	b, err := json.Marshal(m)
	if err != nil {
		panic(err) // no field of a Manifest can fail to marshal
	}
	return append(b, '\n')
}

// ParseManifest reads what Encode wrote for the snapshot called name.
func ParseManifest(name Name, content []byte) (Manifest, error) {
	bad := func(format string, args ...any) (Manifest, error) {
		return Manifest{}, fmt.Errorf("%w of %s: %s", ErrManifest, name, fmt.Sprintf(format, args...))
	}
	if len(content) > MaxManifestSize {
		return bad("%d bytes, at most %d are expected", len(content), MaxManifestSize)
	}
	var m Manifest
	dec := json.NewDecoder(bytes.NewReader(content))
	if err := dec.Decode(&m); err != nil {
		return bad("%v", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return bad("text after the JSON value")
	}
	switch {
	case m.Version < ManifestVersion:
		return bad("version %d", m.Version)
	case m.Snapshot != name.String():
		return bad("it describes %q", m.Snapshot)
	case m.Digest.IsZero():
		return bad("no digest")
	case m.Size < 0 || m.ContentSize < 0:
		return bad("negative size")
	case m.LastRevision < name.Last, name.Kind == Delta && m.LastRevision != name.Last:
		return bad("last revision %d does not fit the name", m.LastRevision)
	}
	for _, r := range m.Leases {
		if reason := r.check(); reason != "" {
			return bad("%s", reason)
		}
	}
	return m, nil
}

// Owner is the record that guards a prefix against a second writer. Records are numbered and
// write-once; the highest number counts.
type Owner struct {
	Version int       `json:"version"`
	ID      string    `json:"id"`   // of the data written: the lineage's root id, stable over restarts and members
	Note    string    `json:"note"` // for people: host, cluster name
	Since   time.Time `json:"since,omitzero"`
	// ClusterID of the etcd where no owner was configured: the other members of that cluster
	// may write too, although their data cannot know the ID before it is in a snapshot.
	ClusterID uint64 `json:"clusterID,omitempty"`
}
