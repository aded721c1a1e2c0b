package collector

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"druid.internal/druid/internal/backup/retention"
	"druid.internal/druid/internal/backup/snapshot"
)

// Result is what became of a version that was to be deleted.
type Result string

// The results.
const (
	Deleted Result = "deleted"
	Gone    Result = "gone"    // somebody else had removed it
	Blocked Result = "blocked" // a lock or hold protects it, or nobody can tell; the next run asks again
	Spared  Result = "spared"  // something changed since it was planned, or what has to go before it is still there
	Failed  Result = "failed"  // the store could not delete it
	Untried Result = "untried" // Execute had stopped before
)

// Outcome is what became of one version.
type Outcome struct {
	Key      string         `json:"key"`
	Version  string         `json:"version,omitempty"`
	Kind     retention.Kind `json:"kind"`
	Snapshot string         `json:"snapshot"`
	Size     int64          `json:"size,omitempty"`
	Result   Result         `json:"result"`
	Why      string         `json:"why,omitempty"`  // empty where there is nothing to explain
	Until    time.Time      `json:"until,omitzero"` // when a blocked version may be deleted, if anybody knows
}

// Remainder is something still listed under a key from which something was deleted.
type Remainder struct {
	Key     string `json:"key"`
	Version string `json:"version,omitempty"`
	Marker  bool   `json:"marker,omitempty"`
	Why     string `json:"why"`
}

// Report is what Execute did.
type Report struct {
	Location string          `json:"location"`
	Prefix   snapshot.Prefix `json:"prefix"`
	// Outcomes of every version that the plan deletes, in the order of deletion.
	Outcomes []Outcome `json:"outcomes"`
	// Remaining is what a listing after the last deletion still shows although it should
	// not. Some stores take a while to agree with themselves; the next run knows.
	Remaining []Remainder `json:"remaining,omitempty"`
	// Proven, Waiting and Notes are those of the plan.
	Proven  []retention.Proven `json:"proven,omitempty"`
	Waiting retention.Total    `json:"waiting,omitzero"`
	Notes   []string           `json:"notes,omitempty"`
}

// Total sums up what ended in one result.
func (r Report) Total(result Result) retention.Total {
	var t retention.Total
	for _, o := range r.Outcomes {
		if o.Result == result {
			t.Objects++
			t.Bytes += o.Size
		}
	}
	return t
}

// WriteTable prints the report for people.
func (r Report) WriteTable(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	if len(r.Outcomes)+len(r.Remaining) > 0 {
		fmt.Fprintln(t, "OBJECT\tVERSION\tKIND\tRESULT\tNOT BEFORE\tWHY")
	}
	for _, o := range r.Outcomes {
		until := "-"
		if o.Result == Blocked {
			until = "unknown"
		}
		if !o.Until.IsZero() {
			until = moment(o.Until)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", below(r.Prefix, o.Key), dash(o.Version), o.Kind, o.Result, until, dash(o.Why))
	}
	for _, m := range r.Remaining {
		fmt.Fprintf(t, "%s\t%s\t-\tremains\t-\t%s\n", below(r.Prefix, m.Key), dash(m.Version), m.Why)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if r.Waiting.Objects > 0 {
		fmt.Fprintf(w, waitingLine, sum(r.Waiting))
	}
	_, err := fmt.Fprintf(w, "%s: deleted %s, blocked %d, spared %d, gone %d, failed %d, untried %d\n", where(r.Location, r.Prefix),
		sum(r.Total(Deleted)), r.Total(Blocked).Objects, r.Total(Spared).Objects, r.Total(Gone).Objects, r.Total(Failed).Objects, r.Total(Untried).Objects)
	return err
}
