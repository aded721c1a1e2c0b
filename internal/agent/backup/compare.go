package backup

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"druid.internal/druid/internal/agent/metrics"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/engine/snapshotter"
)

// vote is what one voting member told about its data at a revision.
type vote struct {
	id   uint64
	name string
	hash snapshot.HashKV
	err  error // it did not tell
}

// outcome is what votes amount to.
type outcome struct {
	agreement metrics.Agreement
	majority  []vote // the members that agree, where a majority does
}

// alike is what two members with the same data tell alike.
type alike struct {
	compacted snapshot.Revision
	hash      uint32
}

// count judges the votes of all voting members at one revision. Members that did not tell count
// against a majority: of five members three have to agree, whoever answered.
func count(votes []vote, own uint64) outcome {
	var best []vote
	var mine *vote
	groups := map[alike][]vote{}
	for _, v := range votes {
		if v.id == own {
			mine = &v
		}
		if v.err != nil {
			continue
		}
		key := alike{v.hash.CompactRevision, v.hash.Hash}
		groups[key] = append(groups[key], v)
		if len(groups[key]) > len(best) {
			best = groups[key]
		}
	}
	switch {
	case 2*len(best) <= len(votes), mine == nil, mine.err != nil:
		return outcome{agreement: metrics.NoMajority}
	case mine.hash.CompactRevision != best[0].hash.CompactRevision:
		return outcome{agreement: metrics.NoMajority} // this member cannot be compared with it
	case mine.hash.Hash != best[0].hash.Hash:
		return outcome{agreement: metrics.Minority, majority: best}
	}
	told := 0
	for _, v := range votes {
		if v.err == nil && v.hash.CompactRevision == mine.hash.CompactRevision { // the others cannot be compared
			told++
		}
	}
	if len(best) < told {
		return outcome{agreement: metrics.Dissent, majority: best}
	}
	return outcome{agreement: metrics.Agree, majority: best}
}

const (
	// compareRounds is how often no majority has to be found before that is said: members may be
	// compacting, or leadership moving, which is over soon.
	compareRounds = 3
	compareDelay  = time.Second
	// hashPatience bounds one member's answer, which takes it one pass over its data.
	hashPatience = 2 * time.Minute
)

// errMinority: the majority has other data than this member, so no full is taken from it.
var errMinority = errors.New("the majority of the members has other data than this one")

// compare is snapshotter.Config.Compare. The members are asked one after the other, this one last,
// because hashing holds up writes on the member that does it: so a majority goes on all the time.
func (l *Leader) compare(ctx context.Context, m snapshotter.Member, rev snapshot.Revision) (snapshotter.Comparison, error) {
	for round := 1; ; round++ {
		votes, own, err := l.votes(ctx, m, rev)
		switch {
		case err != nil:
			return snapshotter.Comparison{}, err
		case len(votes) == 1:
			return snapshotter.Comparison{}, nil // it is the majority
		}
		o := count(votes, own)
		if o.agreement == metrics.NoMajority && round < compareRounds {
			if err := l.cfg.Wait(ctx, compareDelay); err != nil {
				return snapshotter.Comparison{}, err
			}
			if rev, err = m.Revision(ctx); err != nil {
				return snapshotter.Comparison{}, err
			}
			continue
		}
		l.cfg.Metrics.Compared(o.agreement)
		switch o.agreement {
		case metrics.Agree, metrics.Dissent:
			hash := votes[len(votes)-1].hash
			if o.agreement == metrics.Dissent {
				l.log.Error("a member has other data than the majority, which is backed up; give it up: stop it, remove its data directory, and start it, so that it joins anew", "revision", int64(rev), "why", describe(rev, votes))
				return snapshotter.Comparison{HashKV: &hash}, nil
			}
			l.log.Info("the members have the same data", "revision", int64(rev), "agree", len(o.majority), "members", len(votes))
			return snapshotter.Comparison{HashKV: &hash}, nil
		case metrics.Minority:
			return snapshotter.Comparison{}, l.yield(ctx, rev, votes, o)
		}
		why := describe(rev, votes)
		l.log.Error("no majority of the members has the same data; the full is marked", "revision", int64(rev), "why", why)
		return snapshotter.Comparison{Suspect: why}, nil
	}
}

// votes asks all voting members, m last, for the hash at rev.
func (l *Leader) votes(ctx context.Context, m snapshotter.Member, rev snapshot.Revision) ([]vote, uint64, error) {
	st, err := m.Status(ctx)
	if err != nil {
		return nil, 0, err
	}
	voters, err := l.cfg.Voters(ctx)
	if err != nil {
		return nil, 0, err
	}
	if len(voters) == 1 && voters[0].ID == st.MemberID {
		return []vote{{id: st.MemberID}}, st.MemberID, nil
	}
	var votes []vote
	self := vote{id: st.MemberID, name: "this member"}
	for _, v := range voters {
		if v.ID == st.MemberID {
			self.name = v.Name
			continue
		}
		one := vote{id: v.ID, name: v.Name}
		one.hash, one.err = hashAt(ctx, v.Connect, rev)
		if one.err != nil {
			l.log.Warn("a member does not tell the hash of its data", "member", v.Name, "revision", int64(rev), "error", one.err)
		}
		votes = append(votes, one)
	}
	self.hash, self.err = hashAt(ctx, func(context.Context) (snapshotter.Member, error) { return m, nil }, rev)
	return append(votes, self), self.id, nil
}

// hashAt is a member's hash at rev, which it has when it answered a linearizable read.
func hashAt(ctx context.Context, connect func(context.Context) (snapshotter.Member, error), rev snapshot.Revision) (snapshot.HashKV, error) {
	ctx, cancel := context.WithTimeout(ctx, hashPatience)
	defer cancel()
	m, err := connect(ctx)
	if err != nil {
		return snapshot.HashKV{}, err
	}
	if _, err := m.Revision(ctx); err != nil {
		return snapshot.HashKV{}, err
	}
	h, err := m.HashKV(ctx, rev)
	if err == nil && h.Revision != rev {
		err = fmt.Errorf("it told the hash of revision %d, not %d", h.Revision, rev)
	}
	return h, err
}

// yield hands leadership, and with it the backups, to a member of the majority. It returns why no
// full is taken.
func (l *Leader) yield(ctx context.Context, rev snapshot.Revision, votes []vote, o outcome) error {
	why := fmt.Errorf("%w: %s", errMinority, describe(rev, votes))
	l.log.Error("this member's data differ from the majority's; its leadership is handed over", "why", why, "to", o.majority[0].name)
	local, err := l.cfg.Local(ctx)
	if err != nil {
		return fmt.Errorf("%w; its leadership is not handed over: %w", why, err)
	}
	for _, to := range o.majority {
		if err = local.MoveLeader(ctx, to.id); err == nil || ctx.Err() != nil {
			break
		}
		l.log.Warn("leadership was not handed over", "to", to.name, "error", err)
	}
	if err != nil {
		return fmt.Errorf("%w; its leadership is not handed over: %w", why, err)
	}
	return why
}

// describe tells in one sentence what the members told.
func describe(rev snapshot.Revision, votes []vote) string {
	var told []string
	for _, v := range votes {
		switch {
		case v.err != nil:
			told = append(told, v.name+" did not tell")
		default:
			told = append(told, fmt.Sprintf("%s told %08x (compacted at %d)", v.name, v.hash.Hash, v.hash.CompactRevision))
		}
	}
	return fmt.Sprintf("hashes of the %d members at revision %d: %s", len(votes), rev, strings.Join(told, ", "))
}
