package storetest

import (
	"slices"
	"testing"
)

// Capability is what several cases of the suite are about, one row or column of a table.
type Capability string

// The capabilities, in the order in which a table shows them.
const (
	Writing    Capability = "whole writes"
	Overwrites Capability = "refuses overwrites"
	Foreign    Capability = "survives foreign overwrites"
	Reading    Capability = "exact reads"
	Listing    Capability = "complete listings"
	Versions   Capability = "versions"
	Locking    Capability = "locks"
	Expiry     Capability = "locks end"
	Default    Capability = "default lock"
	Extension  Capability = "extension in place"
	Holding    Capability = "holds"
	Tagging    Capability = "tags"
	Copying    Capability = "server-side copy"
	Describing Capability = "describes the bucket"
	Outages    Capability = "outages"
)

// AllCapabilities are all of them in order.
func AllCapabilities() []Capability {
	return []Capability{
		Writing, Overwrites, Foreign, Reading, Listing, Versions, Locking, Expiry, Default, Extension,
		Holding, Tagging, Copying, Describing, Outages,
	}
}

// Outcome is what a case showed about a store.
type Outcome string

// The outcomes, from worst to best.
const (
	Failed    Outcome = "failed"
	NotProven Outcome = "not proven here" // a hook is missing, or this server cannot show it
	Absent    Outcome = "absent"          // not promised by this store, and nothing stands in its place
	Fallback  Outcome = "fallback proven" // not promised, and what holds in its place was shown
	InPart    Outcome = "proven in part"  // the notes say what is left open
	Proven    Outcome = "proven"
)

// worstFirst is the order in which outcomes of one case prevail.
var worstFirst = []Outcome{Failed, NotProven, Absent, Fallback, InPart, Proven}

// Result is what came of one case.
type Result struct {
	Case       string     `json:"case"`
	Capability Capability `json:"capability"`
	Outcome    Outcome    `json:"outcome"`
	Notes      []string   `json:"notes,omitempty"` // why it is not simply proven
}

// notes are what a case that is running has to say for itself.
type notes struct {
	outcome Outcome
	texts   []string
}

// note says what this run could not show or showed otherwise, so that no promise is skipped in
// silence.
func (o Options) note(t *testing.T, outcome Outcome, what string) {
	t.Helper()
	t.Logf("%s: %s", outcome, what)
	n := o.notes
	if slices.Index(worstFirst, outcome) < slices.Index(worstFirst, n.outcome) {
		n.outcome = outcome
	}
	if !slices.Contains(n.texts, what) {
		n.texts = append(n.texts, what)
	}
}

// result is what the case comes to, when it is over.
func (o Options) result(t *testing.T, c conformanceCase) Result {
	r := Result{Case: c.name, Capability: c.of, Outcome: o.notes.outcome, Notes: o.notes.texts}
	switch {
	case t.Failed():
		r.Outcome = Failed
	case t.Skipped():
		r.Outcome = NotProven
	}
	return r
}
