package upkeep

import (
	"fmt"
	"slices"
	"time"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/etcd/member"
)

// defaultQuota is etcd's own when none is configured.
const defaultQuota = 2 << 30

// margin is the share of the quota that must be free before NOSPACE is cleared: with less the next
// writes would raise it again.
const margin = 0.1

// Relief is the next step against NOSPACE.
type Relief struct {
	Act     ReliefAct
	Alarm   member.Alarm      // to disarm
	Members []uint64          // to defragment
	Compact snapshot.Revision // history before it goes
	Reason  string
}

// ReliefAct is a kind of step.
type ReliefAct string

// The steps.
const (
	ReliefNone       ReliefAct = "none"
	ReliefDisarm     ReliefAct = "disarm"
	ReliefDefragment ReliefAct = "defragment"
	ReliefCompact    ReliefAct = "compact"
	ReliefReport     ReliefAct = "report" // only a person can help, or time
)

// ReliefFacts are what relief is decided from.
type ReliefFacts struct {
	View
	Quota int64 // bytes as configured: 0 is etcd's default, negative none
	// Compactable is the newest revision whose history etcd's own auto-compaction is entitled to
	// have removed by now, capped by what is uploaded: see [History]. 0: none.
	Compactable snapshot.Revision
	Compacted   snapshot.Revision // what this sidecar compacted to already
	// Tried is when members were last defragmented although all of their files seemed in use.
	Tried, Now time.Time
}

// tryAgain is how long after a defragmentation that was tried in doubt the next one is.
const tryAgain = time.Hour

// DecideRelief goes from the harmless to the costly: clear the alarm if there is room, make room
// of what is free in the files, and only then free what is history. It never deletes a key.
//
// etcd's quota is about the size of the file, so that compaction alone clears nothing. The sidecar
// compacts itself only because etcd's periodic compaction begins a whole period anew when its
// process restarts, and while the alarm lasts nobody can write for that long; it takes no history
// that the configured retention protects, and none that is not uploaded.
//
// A file that seems to be in use is defragmented in doubt, but seldom: etcd counts what a compaction
// has freed only with the next write, which NOSPACE forbids.
func DecideRelief(f ReliefFacts) Relief {
	named := f.raised(member.AlarmNoSpace)
	if len(named) == 0 {
		return Relief{Act: ReliefNone, Reason: "no NOSPACE"}
	}
	first := member.Alarm{MemberID: named[0], Kind: member.AlarmNoSpace}
	for _, id := range named {
		if _, listed := f.Member(id); !listed {
			return Relief{Act: ReliefDisarm, Alarm: member.Alarm{MemberID: id, Kind: member.AlarmNoSpace},
				Reason: fmt.Sprintf("member %x, which raised it, is gone", id)}
		}
	}
	quota := f.Quota
	if quota == 0 {
		quota = defaultQuota
	}
	limit := quota - int64(margin*float64(quota))
	var large, full []Member
	for _, m := range f.Members {
		switch {
		case !m.Started():
		case m.DBSize == 0: // it did not answer
			return Relief{Act: ReliefReport, Reason: fmt.Sprintf("NOSPACE stays while the size of %s is not known: %s", m, m.Ill)}
		case quota > 0 && m.DBSizeInUse >= limit:
			full = append(full, m)
		case quota > 0 && m.DBSize >= limit:
			large = append(large, m)
		}
	}
	switch {
	case len(full) > 0 && f.Compactable > f.Compacted:
		return Relief{Act: ReliefCompact, Compact: f.Compactable,
			Reason: fmt.Sprintf("%s uses %d bytes of a quota of %d: the history before revision %d goes, as auto-compaction's retention allows", full[0], full[0].DBSizeInUse, quota, f.Compactable)}
	case len(full) > 0 && f.Now.Sub(f.Tried) >= tryAgain:
		return f.defragment(full, fmt.Sprintf("the file of %s has %d bytes of a quota of %d, which may be free since the last compaction", full[0], full[0].DBSize, quota))
	case len(full) > 0:
		return Relief{Act: ReliefReport,
			Reason: fmt.Sprintf("%s uses %d bytes of a quota of %d and no more history may go; delete keys and compact, or raise quota-backend-bytes", full[0], full[0].DBSizeInUse, quota)}
	case len(large) > 0:
		return f.defragment(large, fmt.Sprintf("the file of %s has %d bytes of a quota of %d, of which %d are free", large[0], large[0].DBSize, quota, large[0].Free()))
	}
	return Relief{Act: ReliefDisarm, Alarm: first, Reason: fmt.Sprintf("every file is below %d bytes of a quota of %d", limit, quota)}
}

func (f ReliefFacts) defragment(members []Member, why string) Relief {
	r := Relief{Act: ReliefDefragment, Reason: why}
	for _, m := range members {
		r.Members = append(r.Members, m.ID)
	}
	return r
}

// Retention is etcd's auto-compaction setting.
type Retention struct {
	Period    time.Duration // periodic: what is younger stays
	Revisions int64         // revision: so many stay
}

// History remembers which revision was the newest at which time, so that the sidecar knows what
// is older than auto-compaction's period. The zero History knows nothing.
type History struct{ seen []sample }

type sample struct {
	at  time.Time
	rev snapshot.Revision
}

// historyLength bounds the samples kept, which become sparser with the period.
const historyLength = 128

// Add notes that rev was the newest at now, unless the last sample is too fresh.
func (h *History) Add(rev snapshot.Revision, r Retention, now time.Time) {
	n := len(h.seen)
	if n > 0 && (rev < h.seen[n-1].rev || now.Before(h.seen[n-1].at)) {
		h.seen, n = nil, 0 // another history, or another clock: nothing known before is of use
	}
	if n > 0 && now.Sub(h.seen[n-1].at) < r.Period/(historyLength/2) {
		return
	}
	h.seen = append(h.seen, sample{now, rev})
	if len(h.seen) > historyLength {
		h.seen = slices.Delete(h.seen, 0, 1)
	}
}

// Compactable is the newest revision that r does not protect; 0: none, or compaction is left to
// others, who know how much history they need. uploaded caps it: what no backup holds stays.
// negative: there is no backup to wait for.
func (h *History) Compactable(r Retention, newest, uploaded snapshot.Revision, now time.Time) snapshot.Revision {
	var rev snapshot.Revision
	switch {
	case r.Period > 0:
		for _, s := range h.seen {
			if now.Sub(s.at) >= r.Period {
				rev = s.rev
			}
		}
	case r.Revisions > 0:
		rev = max(0, newest-snapshot.Revision(r.Revisions))
	}
	if uploaded >= 0 {
		rev = min(rev, uploaded)
	}
	return rev
}
