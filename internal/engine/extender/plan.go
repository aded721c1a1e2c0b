package extender

import (
	"time"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/store"
)

// Kind is what an object is to a restore.
type Kind string

// The kinds.
const (
	Full      Kind = "full"
	Delta     Kind = "delta"
	Manifest  Kind = "manifest"
	Owner     Kind = "owner record"
	Exclusion Kind = "exclusion record"
	Held      Kind = "held" // by an earlier run, whatever it is
)

// restored reports whether a restore reads objects of the kind. The others guard the prefix: they are
// prolonged where that is possible in place.
func (k Kind) restored() bool { return k == Full || k == Delta || k == Manifest }

// subject is one version with what was told of it.
type subject struct {
	kind      Kind
	ref       timeline.Ref
	retention *immutability.Retention
	created   time.Time
}

func (s subject) address() store.Version {
	return store.Version{Key: s.ref.Key.String(), ID: s.ref.Version}
}

// step is the decision about a subject.
type step struct {
	subject
	immutability.Extension
	ways  []immutability.Way // to try in this order, if it is due
	first bool               // it was never prolonged before, as a copy never is: another one is made of it
}

// due reports whether something is to be done.
func (s step) due() bool { return len(s.ways) > 0 }

// broken reports whether the object is, and stays, less protected than it ought to be.
func (s step) broken() bool { return s.Warn() && !s.due() }

// decide plans for every subject at now, in their order. period is what new objects get.
func decide(subjects []subject, policy immutability.ExtensionPolicy, means immutability.Means, now time.Time) []step {
	steps := make([]step, len(subjects))
	for i, of := range subjects {
		ways := means.Ways(of.retention)
		policy.Copies = len(ways) > 0 && ways[0].Moves()
		s := step{subject: of, Extension: immutability.PlanExtension([]immutability.Subject{
			{Key: of.ref.Key.String(), Version: of.ref.Version, Retention: of.retention}}, policy, now)[0]}
		if s.Extend || s.Reason == immutability.ExtensionNoLock {
			s.ways = ways
		}
		if !s.kind.restored() {
			s.ways = inPlace(s.ways)
		}
		s.first = s.retention.Original(s.created, max(policy.Period, means.Period))
		steps[i] = s
	}
	return steps
}

// inPlace are the ways that make no other object.
func inPlace(ways []immutability.Way) []immutability.Way {
	var stay []immutability.Way
	for _, w := range ways {
		if !w.Moves() {
			stay = append(stay, w)
		}
	}
	return stay
}

// mustRead says whether the chain is to be read whole before the steps are carried out, and why not.
// What is needed together is read together: the first step is the base, by which samples are taken.
func mustRead(steps []step, v Verify) (whole bool, why string) {
	due, first := false, false
	for _, s := range steps {
		if s.kind.restored() && s.due() {
			due, first = true, first || s.first
		}
	}
	switch base := steps[0]; {
	case v == VerifyAlways:
		return true, ""
	case !due:
		return false, "no: nothing is to be extended"
	case v == VerifyNever:
		return false, "no: not asked for"
	case first:
		return true, ""
	case base.retention != nil && immutability.Sampled(base.Key, base.Version, base.retention.Until):
		return true, ""
	}
	return false, "no: it was before an earlier extension, and is not in the sample of this run"
}
