package upkeep

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Why members are defragmented.
const (
	BySchedule  = "schedule"
	ByThreshold = "threshold"
	ByRequest   = "request"
	ByAlarm     = "alarm"
)

// Thresholds say when a member is worth a defragmentation.
type Thresholds struct {
	// FreeShare of the file (0..1) and FreeBytes must both be free.
	FreeShare float64
	FreeBytes int64
	// QuotaShare of the quota (0..1) is a file that is defragmented also if less is free than
	// FreeShare and FreeBytes, but not less than QuotaGain of the quota.
	QuotaShare, QuotaGain float64
	// MinInterval lies between two defragmentations of one member for this reason, Unprofitable
	// after one that failed or gave back less than half of what it promised.
	MinInterval, Unprofitable time.Duration
}

// DefaultThresholds keep a file from being twice its content, and from reaching its quota for
// free pages.
func DefaultThresholds() Thresholds {
	return Thresholds{FreeShare: 0.45, FreeBytes: 100 << 20, QuotaShare: 0.8, QuotaGain: 0.1, MinInterval: time.Hour, Unprofitable: 6 * time.Hour}
}

// minGain is the share of a file that must be free for the schedule to defragment it: the stall
// of the member would be for nothing.
const minGain = 0.05

// Attempt is what became of a member's last defragmentation.
type Attempt struct {
	End            time.Time
	Failed         bool
	Promised, Gave int64 // bytes
}

// Exceeds says why a member is worth a defragmentation now. Empty: it is not. quota is in bytes,
// negative: none.
func (t Thresholds) Exceeds(m Member, quota int64, last *Attempt, now time.Time) string {
	if m.DBSize <= 0 {
		return ""
	}
	if last != nil {
		pause := t.MinInterval
		if last.Failed || last.Gave*2 < last.Promised {
			pause = max(pause, t.Unprofitable)
		}
		if now.Sub(last.End) < pause {
			return ""
		}
	}
	free, share := m.Free(), float64(m.Free())/float64(m.DBSize)
	switch {
	case t.FreeShare > 0 && share >= t.FreeShare && free >= t.FreeBytes:
		return fmt.Sprintf("%d of %d bytes are free", free, m.DBSize)
	case t.QuotaShare > 0 && quota > 0 && float64(m.DBSize) >= t.QuotaShare*float64(quota) && free > 0 && float64(free) >= t.QuotaGain*float64(quota):
		return fmt.Sprintf("the file has %d bytes of a quota of %d, of which %d are free", m.DBSize, quota, free)
	}
	return ""
}

// Validate reports the first setting that makes no sense.
func (t Thresholds) Validate() error {
	for _, s := range []struct {
		name  string
		share float64
	}{{"free share", t.FreeShare}, {"quota share", t.QuotaShare}, {"gain share of the quota", t.QuotaGain}} {
		if !(s.share >= 0 && s.share <= 1) {
			return fmt.Errorf("defragmentation: the %s is %v; write a number from 0 (off) to 1", s.name, s.share)
		}
	}
	if t.FreeBytes < 0 || t.MinInterval < 0 || t.Unprofitable < 0 {
		return fmt.Errorf("defragmentation: the free bytes and the intervals must not be negative")
	}
	return nil
}

// gains says whether the schedule has a reason to defragment the member.
func gains(m Member) bool { return m.DBSize > 0 && float64(m.Free()) >= minGain*float64(m.DBSize) }

// Defragmentation is the next step of a run over the members.
type Defragmentation struct {
	Act    DefragAct
	Member uint64 // to defragment, or to skip, or to hand the leadership to
	Reason string
}

// DefragAct is a kind of step.
type DefragAct string

// The steps.
const (
	DefragNext     DefragAct = "defragment"
	DefragSkip     DefragAct = "skip" // this member needs none, or is gone
	DefragHandOn   DefragAct = "hand on"
	DefragPostpone DefragAct = "postpone"
	DefragStop     DefragAct = "stop" // the leadership went elsewhere: its sidecar goes on
	DefragFinish   DefragAct = "finish"
)

// handedOnFor is how long after it gave the leadership away a sidecar may still begin with its
// own member; settle is how long a new leader's sidecar waits before it defragments anything. The
// former is shorter, so that the two never work at once; later the member that is being
// defragmented answers no probe.
const (
	handedOnFor = 30 * time.Second
	settle      = time.Minute
	// settleAlarmed is the shortest that is safe, for an alarm: nobody can write meanwhile.
	settleAlarmed = handedOnFor + 5*time.Second
)

// DefragFacts are what the next step is decided from.
type DefragFacts struct {
	View
	Reason string
	Left   []uint64 // the members that are still to be treated
	// HandedOn is when this run gave the leadership away; zero: it did not.
	HandedOn time.Time
	// Longest is what a follower took in this run; zero: none was defragmented. A leader that may
	// take as long is defragmented without handing on if that is not longer than Stall.
	Longest, Stall time.Duration
	Now            time.Time
}

// DefaultStall is half of the time after which etcd's followers elect another leader.
const DefaultStall = 500 * time.Millisecond

// DecideDefragmentation chooses one step: followers by ordinal, the leader last. While its database
// is locked a leader holds up the writes that reach it, so that another member leads first, unless
// it will be locked for less than an election takes: a change of leaders is not free either, for
// writes that are on their way from a follower to the former leader are lost, and their clients
// wait for etcd's timeout.
func DecideDefragmentation(f DefragFacts) Defragmentation {
	if len(f.Left) == 0 {
		return Defragmentation{Act: DefragFinish, Reason: "every member had its turn"}
	}
	for _, id := range f.Left {
		m, ok := f.Member(id)
		switch {
		case !ok:
			return Defragmentation{Act: DefragSkip, Member: id, Reason: "the member is gone"}
		case f.Reason == BySchedule && m.Healthy() && !gains(m):
			return Defragmentation{Act: DefragSkip, Member: id, Reason: fmt.Sprintf("%d of %d bytes are free: nothing to gain", m.Free(), m.DBSize)}
		}
	}
	if f.Leader != 0 && !f.Leads() {
		own := len(f.Left) == 1 && f.Left[0] == f.Self
		if f.HandedOn.IsZero() || !own || f.Now.Sub(f.HandedOn) >= handedOnFor {
			return Defragmentation{Act: DefragStop, Reason: fmt.Sprintf("%s leads now: its sidecar goes on", f.name(f.Leader))}
		}
	}
	if why := f.unquiet(); why != "" {
		return Defragmentation{Act: DefragPostpone, Reason: why}
	}
	next := slices.MinFunc(f.Left, func(a, b uint64) int {
		x, _ := f.Member(a)
		y, _ := f.Member(b)
		return cmp.Or(f.last(x)-f.last(y), byOrdinal(x.Name, y.Name), cmp.Compare(a, b))
	})
	m, _ := f.Member(next)
	short := f.Longest > 0 && f.Longest <= f.Stall
	if voters, _ := f.votes(); next == f.Leader && voters > 1 && !short {
		to, ok := f.successor(func(Member) bool { return true })
		if !ok {
			return Defragmentation{Act: DefragPostpone, Reason: "nobody can lead instead of " + m.String()}
		}
		return Defragmentation{Act: DefragHandOn, Member: to.ID, Reason: fmt.Sprintf("%s leads instead of %s while that is defragmented", to, m)}
	}
	return Defragmentation{Act: DefragNext, Member: next, Reason: fmt.Sprintf("%d of %d bytes are free (%s)", m.Free(), m.DBSize, f.Reason)}
}

func (f DefragFacts) last(m Member) int {
	if m.ID == f.Leader {
		return 1
	}
	return 0
}
