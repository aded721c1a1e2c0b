package prober

import (
	"fmt"
	"time"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/store"
)

// Outcome is what came of trying.
type Outcome string

// The outcomes.
const (
	Refused        Outcome = "refused"         // proven: the store itself refused
	Allowed        Outcome = "allowed"         // proven: it did it
	FurtherVersion Outcome = "further version" // an overwrite left the first version as it was
	Destroyed      Outcome = "destroyed"       // an overwrite replaced what was there
	NotProven      Outcome = "not proven"
)

// Finding is an outcome and the reason, a sentence.
type Finding struct {
	Outcome Outcome `json:"outcome"`
	Reason  string  `json:"reason"`
}

// Report is what a probe found out.
type Report struct {
	Location string        `json:"location"`
	Endpoint string        `json:"endpoint,omitempty"` // and the setting that named it
	Version  store.Version `json:"version"`            // the one that was tried

	// Lock is what was read back; nil if the store did not tell.
	Lock      *immutability.Retention `json:"lock,omitempty"`
	Deletion  Finding                 `json:"deletion"`
	Overwrite Finding                 `json:"overwrite"`

	// Versions: the store keeps what is written over.
	Versions bool `json:"versions"`
	// Protection is the strongest that is proven: compliance, governance, advisory, none, or
	// unknown if nothing is.
	Protection immutability.Mode `json:"protection"`
	// Conclusions are sentences for people.
	Conclusions []string `json:"conclusions"`
	// Remains are the versions that stay behind, because they could not be deleted.
	Remains []store.Version `json:"remains,omitempty"`

	lockHolds bool // the lock read back was in force
}

// conclude judges.
func (r *Report) conclude(caps store.Capabilities) {
	r.Protection = r.protection(caps)
	r.Versions = caps.Versions && (r.Overwrite.Outcome == FurtherVersion || r.Overwrite.Outcome == Refused)
	say := func(format string, args ...any) { r.Conclusions = append(r.Conclusions, fmt.Sprintf(format, args...)) }
	switch r.Protection {
	case immutability.ModeCompliance:
		say("protected: the store refused to delete an object under a compliance lock; nobody can lift it before %s", end(r.Lock))
	case immutability.ModeGovernance:
		say("protected against this identity: the store refused to delete an object under a governance lock until %s; privileged identities can lift it", end(r.Lock))
	case immutability.ModeAdvisory:
		say("not protected: only this program refuses; whoever may write to %s can delete backups", caps.Location)
	case immutability.ModeNone:
		say("not protected: whoever has these credentials can delete backups")
	default:
		switch {
		case r.Deletion.Outcome == Refused && r.Lock != nil && r.Lock.Hold:
			say("not proven for longer: a hold refused the deletion, and holds can be released")
		default:
			say("not proven: %s", r.Deletion.Reason)
		}
	}
	if r.Protection == immutability.ModeUnknown && r.Lock != nil && r.lockHolds {
		say("a lock was read back (%s until %s), but no refusal that it alone explains", r.Lock.Mode, end(r.Lock))
	}
	switch {
	case r.Overwrite.Outcome == Destroyed:
		say("an overwrite destroys what was there: backups under this name are as safe as their writers are careful")
	case r.Overwrite.Outcome == FurtherVersion:
		say("the store does not refuse an overwrite: it keeps versions, and which of them counts is decided by the manifest's digest")
	case r.Overwrite.Outcome == Refused && caps.Versions:
		say("an overwrite by this program is refused; one by a writer that does not ask for that makes at most a further version, and which one counts is decided by the manifest's digest")
	case r.Overwrite.Outcome == Refused && !caps.Advisory:
		say("an overwrite by this program is refused; whether one by a writer that does not ask for that would be, is not proven")
	case r.Overwrite.Outcome == NotProven:
		say("whether an overwrite is refused is not proven: %s", r.Overwrite.Reason)
	}
	if caps.ConditionalPut && (r.Overwrite.Outcome == Destroyed || r.Overwrite.Outcome == FurtherVersion) {
		say("this program took the store for one that refuses an overwrite, and it does not: set conditionalPut to false in its credentials, so that nothing relies on it")
	}
	for _, v := range r.Remains {
		say("%s stays behind%s", v, r.until())
	}
}

// protection is the mode that is proven.
func (r *Report) protection(caps store.Capabilities) immutability.Mode {
	switch {
	case r.Deletion.Outcome == Allowed:
		if caps.Advisory {
			return immutability.ModeAdvisory
		}
		return immutability.ModeNone
	case caps.Advisory:
		return immutability.ModeAdvisory
	case r.Deletion.Outcome == Refused && r.Lock != nil && locks(r.Lock.Mode) && r.lockHolds:
		return r.Lock.Mode
	}
	return immutability.ModeUnknown
}

func (r *Report) until() string {
	if r.Lock == nil || r.Lock.Until.IsZero() {
		return ""
	}
	return " until somebody deletes it after " + end(r.Lock)
}

func end(l *immutability.Retention) string { return l.Until.UTC().Format(time.RFC3339) }

// days is a period in the words of bucket configurations.
func days(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d == day:
		return "1 day"
	case d > 0 && d%day == 0:
		return fmt.Sprintf("%d days", d/day)
	}
	return d.String()
}
