// Package immutability judges how well an object is protected: lock modes, the moment a lock
// ends, whether something may be deleted at a moment, and when a lock is due for extension.
//
// It asks no store; it only judges what a store answered. What a store did not answer counts
// as protected when deleting and as unprotected when reporting.
package immutability

import "time"

// Mode is how strongly a store refuses to delete or overwrite an object.
type Mode string

// The modes, weakest first.
const (
	ModeNone       Mode = "none"       // read back: there is no lock
	ModeUnknown    Mode = "unknown"    // the store did not tell, or we may not ask
	ModeAdvisory   Mode = "advisory"   // only this project refuses (local file system)
	ModeGovernance Mode = "governance" // privileged identities can lift it
	ModeCompliance Mode = "compliance" // nobody can lift it before it ends
)

// Retention is what a store told about one version of one object.
type Retention struct {
	Mode  Mode      `json:"mode"`
	Until time.Time `json:"until,omitzero"` // when the lock ends, by the store's clock; zero with ModeNone, or when only a hold protects
	// Inferred: the store tells no date of the object itself, and Until was computed from its upload and from
	// what the bucket's policy says now.
	Inferred bool `json:"inferred,omitempty"`
	Hold     bool `json:"hold,omitempty"` // legal or event-based hold: protected until it is released, whatever Until says
}

// Covers reports whether a lock that was read back is at least what was asked for: as strong,
// as long (to the second, since stores keep no fractions), and held if a hold was asked for.
// What the store did not tell covers: it is no proof of the contrary.
func (r *Retention) Covers(asked Retention) bool {
	if r == nil || r.Mode.rank() == ModeUnknown.rank() {
		return true
	}
	if asked.Mode.Locks() && (Compare(r.Mode, asked.Mode) < 0 || r.Until.Before(asked.Until.Truncate(time.Second))) {
		return false
	}
	return r.Hold || !asked.Hold
}
