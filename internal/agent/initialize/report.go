package initialize

import (
	"cmp"
	"context"
	"slices"
	"time"

	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/etcd/datadir"
)

// publish lets the others see what the volume holds and what was promised.
func (a *attempt) publish() {
	boot := a.journal.Published(a.digest)
	secure := a.template.SecurePeers(a.o.Name)
	a.o.Board.Update(func(m *agentapi.Member) {
		m.Bootstrap, m.PeerTLSEnabled = boot, secure
		if a.examined {
			m.Data = dataOf(a.data)
		}
		m.Etcd = nil // it does not run while this is told
	})
}

// dataOf is what others have to know of the data.
func dataOf(i datadir.Inspection) agentapi.Data {
	d := agentapi.Data{Why: i.Why, ID: idText(i.MemberID), ClusterID: idText(i.ClusterID), Revision: int64(i.Revision), Removed: i.Removed, Learner: slices.Contains(i.Learners, i.MemberID)}
	switch {
	case i.State == datadir.Missing, i.State == datadir.Blank && i.ClusterID == 0:
		return agentapi.Data{State: agentapi.DataMissing}
	case i.State == datadir.Blank:
		d.State = agentapi.DataBlank
	case i.State == datadir.Valid:
		d.State = agentapi.DataValid
	default:
		d.State = agentapi.DataInvalid // also what another etcd than this one can use
	}
	return d
}

// confirm lets a lost quorum be the decision only when it has been one at each look for a while.
// A majority of which one is just being killed or started looks the same for a moment.
func (a *attempt) confirm(f Facts, d Decision) Decision {
	switch now := a.o.Now(); {
	case d.Action == AskBackup: // says nothing about the members
		return d
	case d.Action != QuorumLost:
		a.quorumAt = time.Time{}
		return d
	case a.quorumAt.IsZero():
		a.quorumAt = now
	case now.Sub(a.quorumAt) >= a.quorumLostAfter():
		return d
	}
	return waitForCluster(d.Rule, "too few members seem to have data; if that stands for %s, a majority lost them: %s", a.quorumLostAfter(), f.evidence(f.others()))
}

// quorumLostAfter is for how long a lost quorum must be seen: two elections at least.
func (a *attempt) quorumLostAfter() time.Duration {
	return max(quorumLostAfter, 2*a.template.ElectionTimeout())
}

// note logs a decision that is not the one before.
func (a *attempt) note(d Decision) {
	if d.Action == AskBackup { // a look, not a way to go on: what follows from it is said, and paced
		a.o.Log.Debug("the bucket is asked", "rule", d.Rule, "why", d.Message)
		return
	}
	if d.Action != a.last.Action || d.Rule != a.last.Rule {
		a.pause, a.obstacle = firstPause, ""
	} else if d.Message == a.last.Message {
		return
	}
	a.last = d
	a.o.Log.Info("decided how to go on", "action", d.Action, "rule", d.Rule, "reason", d.Reason, "why", d.Message)
}

// hindered logs why what was decided cannot be done yet, and waits.
func (a *attempt) hindered(ctx context.Context, err error) error {
	if err.Error() != a.obstacle {
		a.obstacle = err.Error()
		a.o.Log.Info("waiting", "action", a.last.Action, "error", err)
	}
	a.quorumAt = time.Time{} // nothing was seen
	return a.wait(ctx, Decision{Action: Wait, Message: err.Error()}, longPause)
}

// wait publishes what is waited for, and waits: longer each time, up to most.
func (a *attempt) wait(ctx context.Context, d Decision, most time.Duration) error {
	a.o.Board.Update(func(m *agentapi.Member) { m.Waiting = d.Message }) // before the reason, with which somebody looks for it
	if reason := d.Reason; reason != "" {
		state, sub := agentapi.New, agentapi.SubState("")
		if a.examined && a.data.State != datadir.Missing {
			state, sub = agentapi.Initializing, agentapi.DBValidationFull
			if a.mode == datadir.Sanity {
				sub = agentapi.DBValidationSanity
			}
		}
		a.o.Board.Move(state, sub, reason, d.Message)
	}
	if a.backup.State == BackupUnreachable || a.backup.State == BackupCrowded {
		a.backupAt = time.Time{} // ask again
	}
	pause := min(a.pause, most)
	a.pause = min(time.Duration(float64(a.pause)*pauseGrowth), personPause)
	return a.o.Pause(ctx, pause)
}

// tellStore publishes why the bucket cannot be read, or is another's, and since when, as long as the member waits for that. What the backup
// leader published is its own.
func (a *attempt) tellStore(d Decision) {
	waits := d.Reason == agentapi.WaitingForStore
	if d.Action == AskBackup || !waits && !a.blames { // what was is so until the bucket answers
		return
	}
	now, before := a.o.Now().UTC(), a.blames
	a.o.Board.Update(func(m *agentapi.Member) {
		if !waits {
			m.BackupFailure = nil
			return
		}
		f := agentapi.BackupFailure{Since: now, Reason: cmp.Or(a.backup.Reason, agentapi.StoreNotReachable), Message: a.backup.Why}
		if a.backup.Owned != "" {
			f.Reason, f.Message = agentapi.StoreOwnedByAnother, a.backup.Owned
		}
		if before && m.BackupFailure != nil {
			f.Since = m.BackupFailure.Since
		}
		m.BackupFailure = &f
	})
	a.blames = waits
}

// noteVolume keeps the record of wrong volumes.
func (a *attempt) noteVolume(v Volume) {
	wrong := v.Reason == agentapi.VolumeMismatch
	now := a.o.Now().UTC()
	a.o.Board.Update(func(m *agentapi.Member) {
		var last *agentapi.Mismatch
		if n := len(m.VolumeMismatches); n > 0 && m.VolumeMismatches[n-1].FixedAt == nil {
			last = &m.VolumeMismatches[n-1]
		}
		switch {
		case !wrong && last != nil:
			last.FixedAt = &now
		case wrong && (last == nil || last.VolumeID != v.Owner):
			if last != nil {
				last.FixedAt = &now
			}
			m.VolumeMismatches = append(m.VolumeMismatches, agentapi.Mismatch{IdentifiedAt: now, VolumeID: v.Owner, Restarts: 1})
			if n := len(m.VolumeMismatches); n > maxMismatches {
				m.VolumeMismatches = m.VolumeMismatches[n-maxMismatches:]
			}
		case wrong && !a.counted:
			last.Restarts++
		}
	})
	a.counted = a.counted || wrong
}

// maxMismatches is how many wrong volumes are remembered.
const maxMismatches = 16
