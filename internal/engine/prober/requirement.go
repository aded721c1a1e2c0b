package prober

import (
	"errors"
	"fmt"

	"druid.internal/druid/internal/backup/immutability"
)

// Requirement is the least protection that is asked for.
type Requirement string

// The requirements, the weakest first. Each is met by what meets a later one.
const (
	RequireNothing    Requirement = ""
	RequireVersions   Requirement = "versions"   // what is written over is kept
	RequireGovernance Requirement = "governance" // a refused deletion proves a lock, which privileged identities may lift
	RequireCompliance Requirement = "compliance" // a refused deletion proves a lock that nobody can lift
)

// ParseRequirement reads one of the words.
func ParseRequirement(s string) (Requirement, error) {
	switch r := Requirement(s); r {
	case RequireNothing, RequireVersions, RequireGovernance, RequireCompliance:
		return r, nil
	}
	return "", fmt.Errorf("%q is none of %s, %s and %s", s, RequireCompliance, RequireGovernance, RequireVersions)
}

// ErrTooWeak: less protection is proven than was required.
var ErrTooWeak = errors.New("the store protects less than required")

// Meets returns an [ErrTooWeak] that says what is proven if that is less than want.
func (r Report) Meets(want Requirement) error {
	locked := r.Protection == immutability.ModeCompliance
	switch {
	case want == RequireNothing, locked:
		return nil
	case want != RequireCompliance && r.Protection == immutability.ModeGovernance:
		return nil
	case want == RequireVersions && r.Versions:
		return nil
	}
	kept := "what is written over is not kept"
	if r.Versions {
		kept = "what is written over is kept"
	}
	return fmt.Errorf("%w: %s is required of %s, proven is %s, and %s; %s", ErrTooWeak, want, r.Location, r.Protection, kept, r.Deletion.Reason)
}
