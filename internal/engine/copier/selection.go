package copier

import (
	"fmt"
	"slices"
	"time"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
)

// Left is an object that is not copied, and why.
type Left struct {
	Key string `json:"key"`
	Why string `json:"why"`
}

// selection is what of a timeline is to be copied: from the oldest chosen full of each lineage
// on, everything usable. Oldest lineage first, in the order of snapshot.Compare.
type selection struct {
	chosen   []timeline.Snapshot
	left     []Left
	warnings []string
}

// choose applies the filters: the newest maxBackups fulls (negative: all) that were created no
// longer than maxAge ago (negative: whenever), counted from the newest lineage backwards, each
// with the deltas up to the next one.
//
//	Full ─ d ─ d ─ Full ─ d ─ Full ─ d        MaxBackups 2
//	└── left ───┘  └─────── chosen ─────┘
func choose(t timeline.Timeline, maxBackups int, maxAge time.Duration, now time.Time) selection {
	var sel selection
	var groups [][]timeline.Snapshot
	for _, l := range t.Lineages { // newest first
		from := -1 // index of the oldest chosen full
		for i, s := range slices.Backward(l.Snapshots) {
			if !s.Full() || !s.Usable() {
				continue
			}
			if maxBackups == 0 || maxAge >= 0 && s.Name().CreatedAt().Before(now.Add(-maxAge)) {
				break
			}
			from = i
			maxBackups--
		}
		var group []timeline.Snapshot
		var end snapshot.Revision
		for i, s := range l.Snapshots {
			switch {
			case s.Excluded:
				sel.leave(s, "it is excluded")
			case s.Problem != "":
				sel.leave(s, s.Problem)
			case from < 0 || i < from:
				sel.leave(s, older(l, i))
			default:
				group = append(group, s)
				end = max(end, s.Last)
			}
		}
		for _, s := range l.Missing {
			if s.Excluded {
				sel.leave(s, "it is excluded")
				continue
			}
			sel.leave(s, s.Problem)
		}
		if from >= 0 && end < l.Newest {
			sel.warnings = append(sel.warnings, fmt.Sprintf("of %s revisions up to %d are known to have been uploaded, but what can be copied ends at %d: the destination will not know of the rest",
				timeline.Title(l.ID), l.Newest, end))
		}
		groups = append(groups, group)
	}
	for _, group := range slices.Backward(groups) {
		sel.chosen = append(sel.chosen, group...)
	}
	if len(sel.chosen) == 0 {
		sel.warnings = append(sel.warnings, "nothing is to be copied: the filters let no usable full of the source through")
	}
	return sel
}

// restorable refuses a source of which nothing could be restored: with a mistyped prefix too, a
// copy of nothing would look like a success.
func restorable(t timeline.Timeline, where string) error {
	if len(t.Lineages) == 0 {
		return fmt.Errorf("%w: there are no snapshots in %s; check the container and the prefix", ErrNothing, where)
	}
	for _, l := range t.Lineages {
		if slices.ContainsFunc(l.Snapshots, func(s timeline.Snapshot) bool { return s.Full() && s.Usable() }) {
			return nil
		}
	}
	return fmt.Errorf("%w: there is no usable full in %s; list shows what there is and why it is of no use", ErrNothing, where)
}

// older says why the i-th snapshot of a lineage is before what is copied.
func older(l timeline.Lineage, i int) string {
	for _, s := range l.Snapshots[:i+1] {
		if s.Full() && s.Usable() {
			return "older than what was asked for"
		}
	}
	return "no usable full comes before it"
}

func (sel *selection) leave(s timeline.Snapshot, why string) {
	sel.left = append(sel.left, Left{Key: s.Key.String(), Why: why})
}
