package restorer

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"druid.internal/druid/internal/backup/restoreplan"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/engine/replay"
	"druid.internal/druid/internal/etcd/datadir"
)

// Bump says by how much to raise the revision of a restored cluster, so that whoever watched the
// lost one lists again instead of silently going back in time.
type Bump struct {
	Auto bool
	By   int64 // without Auto; 0: not at all
}

// The automatic bump: as etcd's own guidance, a number no cluster reaches within a backup period,
// and more if the last revision known to have existed is farther away than that.
const (
	minAutoBump   = 1_000_000_000
	autoBumpNum   = 6 // 1.2 as a fraction
	autoBumpDenom = 5
)

// ParseBump reads "0", a number of revisions, or "auto".
func ParseBump(s string) (Bump, error) {
	if s == "auto" {
		return Bump{Auto: true}, nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 {
		return Bump{}, fmt.Errorf("%q is neither a number of revisions nor auto", s)
	}
	if n > datadir.MaxRevision {
		return Bump{}, fmt.Errorf("%q leaves etcd too few revisions, at most %d do", s, int64(datadir.MaxRevision))
	}
	return Bump{By: n}, nil
}

// String is what ParseBump reads.
func (b Bump) String() string {
	if b.Auto {
		return "auto"
	}
	return strconv.FormatInt(b.By, 10)
}

// revisions is the number of revisions to add when the restored data end at or after lowest and
// revisions up to known are known to have existed.
func (b Bump) revisions(lowest, known snapshot.Revision) int64 {
	if !b.Auto {
		return b.By
	}
	gap := int64(known - lowest)
	if gap > datadir.MaxRevision {
		return gap // beyond what datadir does: it says so
	}
	return max(minAutoBump, gap/autoBumpDenom*autoBumpNum+gap%autoBumpDenom*autoBumpNum/autoBumpDenom+1)
}

// Plan is everything a restore is going to do.
type Plan struct {
	restoreplan.Plan
	BumpBy      int64             // revisions added after the restore
	LastKnown   snapshot.Revision // highest revision that ever existed, by best knowledge
	KeepHistory bool
	Bytes       int64 // stored bytes to read
	Warnings    []string
}

// String describes the plan in several lines for people.
func (p Plan) String() string {
	var b strings.Builder
	b.WriteString(strings.TrimRight(p.Plan.String(), "\n"))
	b.WriteByte('\n')
	if p.KeepHistory {
		b.WriteString("history   kept: every revision the snapshots hold\n")
	} else {
		b.WriteString("history   compacted at the restored revision\n")
	}
	if p.BumpBy > 0 {
		fmt.Fprintf(&b, "bump      revisions are raised by %d and everything before is marked compacted\n", p.BumpBy)
	}
	for _, w := range p.Warnings {
		fmt.Fprintf(&b, "warning   %s\n", w)
	}
	return b.String()
}

// maxGap is how far beyond what is restored a revision is believed to have existed: at a million revisions a second a
// cluster takes 35 years to it. Whoever writes backups can put any number into a name, and with one that is too large no
// restore could be beyond it.
const maxGap = 1 << 50

// lastKnown is the highest revision in any name or manifest of any lineage, and known from elsewhere: clients may have
// seen it, whatever became of it. What is above most is not believed, and returned as well; 0: nothing is.
func lastKnown(t timeline.Timeline, elsewhere, most snapshot.Revision) (known, unbelievable snapshot.Revision) {
	count := func(r snapshot.Revision) {
		if r > most {
			unbelievable = max(unbelievable, r)
		} else {
			known = max(known, r)
		}
	}
	count(elsewhere)
	for _, l := range t.Lineages {
		for _, s := range slices.Concat(l.Snapshots, l.Missing) {
			count(s.Last)
		}
	}
	return known, unbelievable
}

// complete adds to a plan what this package decides.
func (q Request) complete(p restoreplan.Plan) Plan {
	lowest := p.Base.Last
	if p.StopRevision > 0 {
		lowest = min(lowest, p.StopRevision)
	}
	known, unbelievable := lastKnown(q.From.Timeline, q.LastKnown, lowest+maxGap)
	plan := Plan{Plan: p, KeepHistory: q.KeepHistory, Bytes: replay.Bytes(p), LastKnown: known}
	if unbelievable > 0 && q.Bump.Auto {
		plan.Warnings = append(plan.Warnings, fmt.Sprintf("revision %d is named in the bucket, or was told, and is not believed: no cluster gets so far beyond %d; the bump does not reach it", unbelievable, lowest))
	}
	plan.BumpBy = q.Bump.revisions(lowest, plan.LastKnown)
	if plan.BumpBy == 0 {
		plan.Warnings = append(plan.Warnings, "revisions are not bumped: clients that watched the lost cluster (Kubernetes API servers do) would see time go back; "+
			"restart them all, or use --bump-revision=auto")
	}
	return plan
}
