package agentapi

import "time"

// Snapshot is a snapshot in the original's form, with its field names.
type Snapshot struct {
	CreatedOn      time.Time `json:"createdOn"`
	ImmutableUntil time.Time `json:"immutabilityExpriyTime"` // zero: not known to be locked
	// Inferred: ImmutableUntil was computed from the upload and the bucket's policy, as the store tells no dates of objects.
	Inferred          bool    `json:"immutabilityInferred,omitempty"`
	VersionID         *string `json:"versionID"`
	Kind              string  `json:"kind"` // Full or Incr
	SnapDir           string  `json:"snapDir"`
	SnapName          string  `json:"snapName"`
	Prefix            string  `json:"prefix"`
	CompressionSuffix string  `json:"compressionSuffix"`
	StartRevision     int64   `json:"startRevision"`
	LastRevision      int64   `json:"lastRevision"`
	IsChunk           bool    `json:"isChunk"`
	IsFinal           bool    `json:"isFinal"`
	// ContentRevision is the true last revision of a full, which may be above the one in its name; 0: not told.
	ContentRevision int64  `json:"contentRevision,omitempty"`
	Digest          string `json:"digest,omitempty"` // SHA-256 of the object, in hexadecimal; empty: not told
	Size            int64  `json:"size,omitempty"`   // in bytes; the original has no such field. 0: not asked for
	// AgeSeconds is how long ago it was begun, by the clock of the sidecar that answers, which may give a final one again. The
	// original has no such field. 0: just now, or not told.
	AgeSeconds int64 `json:"ageSeconds,omitempty"`
	// Suspect says why the content may not be what the cluster agreed on, in one sentence. The original has no such field. Empty: it
	// is, or it was not told.
	Suspect string `json:"suspect,omitempty"`
	// Mode is that of the lock: advisory, governance or compliance. The original has no such field. Empty: not known to be locked.
	Mode string `json:"immutabilityMode,omitempty"`
}

// LatestSnapshots is the answer of /snapshot/latest.
type LatestSnapshots struct {
	FullSnapshot   *Snapshot   `json:"fullSnapshot"`
	DeltaSnapshots []*Snapshot `json:"deltaSnapshots"`
}

// Health is the answer of /healthz.
type Health struct {
	Health bool `json:"health"`
}

// Operation is a long piece of work of a sidecar.
type Operation struct {
	Kind    string     `json:"kind"` // restore, defragment, compact, verify
	Status  Outcome    `json:"status"`
	Start   time.Time  `json:"startTime"`
	End     *time.Time `json:"endTime,omitempty"`
	Phase   string     `json:"phase,omitempty"`
	Done    int64      `json:"done,omitempty"`
	Total   int64      `json:"total,omitempty"` // of what Done counts; 0: not known
	Message string     `json:"message,omitempty"`
	// Proved is what a verification that succeeded has read whole; nil: it did not, or is something else.
	Proved *Proved `json:"proved,omitempty"`
}

// Proved is a chain that can be restored.
type Proved struct {
	Base        string `json:"base"`        // name of the full
	EndRevision int64  `json:"endRevision"` // to which it restores
}
