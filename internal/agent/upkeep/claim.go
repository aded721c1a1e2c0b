package upkeep

import (
	"fmt"
	"slices"
	"time"
)

// Claim says whether the own member shall lead instead of one outside.
type Claim struct {
	Act    ClaimAct
	Reason string
}

// ClaimAct is a kind of step.
type ClaimAct string

// The steps.
const (
	ClaimNone ClaimAct = "none" // a member of this cluster leads, or nobody does
	ClaimWait ClaimAct = "wait"
	ClaimLead ClaimAct = "lead"
)

// ClaimFacts are what a claim is decided from.
type ClaimFacts struct {
	View
	Wanted []Wanted
	// Since is when a member outside was first seen to lead.
	Since time.Time
	Grace time.Duration
	Now   time.Time
}

// DecideClaim has one of these members lead where one does that was never of them: backups are made
// beside the leader, and the one outside has no sidecar. That waits until all of these are healthy
// voters, so that a cluster that is just being joined keeps its leader; then it is the one of the lowest
// ordinal.
func DecideClaim(f ClaimFacts) Claim {
	own := ours(f.Wanted)
	leader, listed := f.Member(f.Leader)
	if len(own) == 0 || !listed || !foreign(leader, own) {
		return Claim{Act: ClaimNone, Reason: "no member outside leads"}
	}
	says := fmt.Sprintf("%s leads, a member outside without a sidecar: no backups are written until a member of this cluster leads", leader)
	if why := f.incomplete(own); why != "" {
		return Claim{Act: ClaimWait, Reason: fmt.Sprintf("%s, which one does when all of them are healthy voters: %s", says, why)}
	}
	first := slices.MinFunc(own, func(a, b Wanted) int { return byOrdinal(a.Name, b.Name) })
	self, _ := f.Member(f.Self)
	switch {
	case !isWanted(self, []Wanted{first}):
		return Claim{Act: ClaimWait, Reason: fmt.Sprintf("%s, which %s is about to", says, first.Name)}
	case f.Now.Sub(f.Since) < f.Grace:
		return Claim{Act: ClaimWait, Reason: fmt.Sprintf("%s, which this one asks for if that lasts for %v", says, f.Grace)}
	}
	return Claim{Act: ClaimLead, Reason: says}
}
