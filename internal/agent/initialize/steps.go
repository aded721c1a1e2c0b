package initialize

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"druid.internal/druid/internal/agent/memberconf"
	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/etcd/datadir"
	"druid.internal/druid/internal/etcd/member"
)

// do does what was decided. Every step is on the disk, or in the cluster, before the next begins,
// and after each of them a look leads to the same end. The outcome is nil until etcd may be
// started.
func (a *attempt) do(ctx context.Context, f Facts, d Decision) (*outcome, error) {
	a.tellStore(d)
	switch d.Action {
	case Wait:
		if d.Reason == agentapi.WaitingForStore {
			return nil, a.wait(ctx, d, personPause)
		}
		return nil, a.wait(ctx, d, longPause)
	case Refuse, QuorumLost:
		return nil, a.wait(ctx, d, personPause)
	}
	if d.Action == AskBackup { // which may be what is waited for
		return nil, a.askBackup(ctx)
	}
	a.o.Board.Update(func(m *agentapi.Member) { m.Waiting = "" })
	switch d.Action {
	case Settle:
		return nil, a.settle(ctx)
	case Offer:
		return nil, a.save(Journal{Cluster: f.Digest, Nonce: newNonce(), Restoring: a.journal.Restoring})
	case Withdraw:
		return nil, a.save(Journal{Restoring: a.journal.Restoring})
	case GiveUp:
		a.o.Board.Move(agentapi.New, "", d.Reason, d.Message)
		return nil, a.setAside(false)
	case RestoreSole, RestoreSeed:
		return nil, a.restore(ctx, d)
	case JoinAsLearner:
		return a.join(ctx, f, d)
	case BootstrapSole:
		return a.bootstrap(f, d, map[string]string{f.Self: newNonce()})
	case BootstrapNew, BootstrapLate:
		return a.bootstrap(f, d, d.Saw)
	case Start:
		return a.start(ctx, f, d)
	}
	return nil, fmt.Errorf("no way to do %q", d.Action)
}

// settlePatience bounds applying a log to the database, which reads what etcd left since its last
// snapshot, seconds as a rule. Nothing but a disk that hardly answers, or an etcd that hangs, takes
// so long; without a bound nobody would learn of it.
const settlePatience = 30 * time.Minute

// settle applies to the data what is only in their log.
func (a *attempt) settle(ctx context.Context) error {
	bounded, cancel := context.WithTimeoutCause(ctx, settlePatience, fmt.Errorf("the log was not applied to the database within %s; check the disk of the data directory, "+
		"or remove the data directory to restore from the backup, which reaches revision %d", settlePatience, max(a.backup.Latest, a.backup.Uploaded)))
	defer cancel()
	err := a.o.Directory.Settle(bounded)
	a.changed()
	if err == nil {
		a.settled, a.stamp = true, a.o.Directory.Stamp() // what changed is what was settled
	}
	return err
}

// setAside puts what is on the volume where no etcd finds it. Nothing but a person removes what is to be kept.
func (a *attempt) setAside(keep bool) error {
	if a.data.State == datadir.Missing {
		return nil
	}
	err := a.o.Directory.SetAside(keep)
	a.changed()
	if errors.Is(err, datadir.ErrBusy) {
		return notYet{err}
	}
	return err
}

// start lets etcd run on its data. If they should disappear before it does, it must neither begin a
// cluster nor come back empty under its old id: it is told that there is a cluster, but of nobody
// whom it could ask for its id. With data it does not look at that.
func (a *attempt) start(ctx context.Context, f Facts, d Decision) (*outcome, error) {
	if err := a.relist(ctx, f, d); err != nil {
		return nil, err
	}
	if j := a.journal; j.Nonce != "" || j.Restoring {
		// Somebody brought data back, or a restore is complete: what was promised before is over.
		j.Nonce, j.Restoring = "", false
		if len(j.Saw) == 0 {
			j.Cluster = ""
		}
		if err := a.save(j); err != nil {
			return nil, err
		}
	}
	own, _ := f.own()
	silent := f.asks() && len(f.View.Clusters()) == 0
	start := memberconf.Start{State: memberconf.StateExisting, Initial: []memberconf.Peer{own}, Unchecked: silent}
	if silent {
		start.At, start.Listen = a.lookedForAt(f, own)
	}
	if len(start.At) > 0 {
		start.Initial[0].PeerURLs = start.At
		a.o.Log.Info("etcd listens where the others look for it, until the cluster answers and is told the new peer URLs", "urls", start.At, "wanted", own.PeerURLs)
	}
	return &outcome{decision: d, data: a.data, reason: a.reason(d), start: start}, nil
}

// lookedForAt are the peer URLs by which the data say that the others know this member, and where it listens for that, if none of them is
// wanted any more: the configuration changed while nobody ran. Members that listen elsewhere would not find each other, and nobody could be
// told. None: it listens where it is wanted.
func (a *attempt) lookedForAt(f Facts, own memberconf.Peer) (at, listen []string) {
	self, ok := f.Data.Self()
	if !ok || slices.ContainsFunc(self.PeerURLs, func(u string) bool {
		return slices.Contains(own.PeerURLs, u) || !slices.ContainsFunc(own.PeerURLs, func(w string) bool { return memberconf.Hostname(w) == memberconf.Hostname(u) })
	}) {
		return nil, nil
	}
	if listen = a.template.ListenAt(f.Self, self.PeerURLs); len(listen) == 0 {
		return nil, nil
	}
	return self.PeerURLs, listen
}

// relist tells the cluster where etcd is about to listen, if it looks for this member elsewhere: the
// configuration changed while the member did not run. The others would wait for its health with changing
// theirs, and it would not get it before they do.
func (a *attempt) relist(ctx context.Context, f Facts, d Decision) error {
	endpoints := d.Cluster.Endpoints
	if len(endpoints) == 0 {
		return nil
	}
	own, _ := f.own()
	err := a.o.Others.UpdatePeerURLs(ctx, endpoints, f.Data.MemberID, own.PeerURLs)
	switch {
	case err == nil:
		a.o.Log.Info("the peer URLs were changed", "urls", own.PeerURLs, "reason", "etcd is about to be started with them")
	case errors.Is(err, member.ErrNoLeader), errors.Is(err, member.ErrUnreachable):
		return notYet{err} // perhaps it has been done, or the cluster does not answer any more
	default:
		a.o.Log.Warn("the peer URLs could not be changed; etcd is started nevertheless", "urls", own.PeerURLs, "error", err)
	}
	return nil
}

// reason is how the member came to its data.
func (a *attempt) reason(d Decision) agentapi.Reason {
	if a.entered != "" {
		return a.entered
	}
	return d.Reason
}

// bootstrap lets etcd begin a cluster of those whose nonces are given.
func (a *attempt) bootstrap(f Facts, d Decision, saw map[string]string) (*outcome, error) {
	if err := a.setAside(false); err != nil { // what an etcd left that did not get as far as a log
		return nil, err
	}
	if err := a.save(Journal{Cluster: f.Digest, Saw: maps.Clone(saw)}); err != nil {
		return nil, err
	}
	a.o.Board.Move(agentapi.New, "", d.Reason, d.Message)
	a.handOut()
	return &outcome{decision: d, reason: d.Reason,
		start: memberconf.Start{State: memberconf.StateNew, Initial: f.Wanted, Token: tokenOf(a.template.Token(), saw)},
		// As far as it matters: something is there, and no client wrote to it.
		data: datadir.Inspection{State: datadir.Blank, ClusterID: unknownID}, unread: true}, nil
}

// unknownID is the id of data that etcd is about to make.
const unknownID = 1

// handOut lets the others know that the volume may hold anything from now on.
func (a *attempt) handOut() {
	a.changed()
	a.o.Board.Update(func(m *agentapi.Member) { m.Data = agentapi.Data{} })
}

// join makes the member a learner of the cluster that answers.
func (a *attempt) join(ctx context.Context, f Facts, d Decision) (*outcome, error) {
	endpoints := d.Cluster.Endpoints
	if a.data.State == datadir.Invalid {
		a.o.Board.Move(agentapi.New, "", agentapi.DBCorruptionDetected, d.Message)
	} else if a.o.Board.State().State == "" {
		a.o.Board.Move(agentapi.New, "", agentapi.ClusterScaledUp, d.Message)
	}
	a.o.Board.Move(agentapi.Starting, agentapi.PendingLearner, agentapi.WaitingToJoinAsLearner, d.Message)
	if j := a.journal; j.Nonce != "" || len(j.Saw) > 0 || j.Restoring || d.Listed == 0 && j.Learner != 0 {
		if err := a.save(Journal{}); err != nil {
			return nil, err
		}
	}
	for _, id := range d.Remove {
		if err := a.o.Others.Remove(ctx, endpoints, id); err != nil {
			return nil, later(err)
		}
		a.o.Log.Info("removed from the cluster what this member was", "member", idText(id), "cluster", idText(d.Cluster.ClusterID))
	}
	if err := a.setAside(false); err != nil {
		return nil, err
	}
	own, _ := f.own()
	outside := uint64(0)
	if f.Outside != nil {
		outside = d.Cluster.ClusterID
	}
	id := d.Listed
	if id == 0 {
		began := a.o.Now()
		added, err := a.o.Others.AddLearner(ctx, endpoints, own.PeerURLs)
		a.o.LearnerAdded(a.o.Now().Sub(began), err == nil)
		if err != nil {
			return nil, later(err)
		}
		id = added.ID
		if err := a.save(Journal{Learner: id, Outside: outside}); err != nil {
			return nil, err
		}
	}
	listed, err := a.o.Others.Members(ctx, endpoints)
	if err != nil {
		return nil, later(err)
	}
	if p, ok := listed.ByID(id); !ok || p.Started() || listed.ClusterID != d.Cluster.ClusterID {
		return nil, notYet{fmt.Errorf("the cluster changed while learner %016x was about to join it", id)}
	}
	if err := a.save(Journal{Learner: id, HandedOut: true, Outside: outside}); err != nil {
		return nil, err
	}
	a.o.Board.Move(agentapi.Starting, agentapi.Learner, agentapi.JoinedAsLearner, fmt.Sprintf("learner %016x of cluster %016x", id, listed.ClusterID))
	a.handOut()
	now := a.o.Now().UTC()
	a.o.Board.Update(func(m *agentapi.Member) {
		m.LastRestoration = &agentapi.Restored{Type: agentapi.FromLeader, Status: agentapi.InProgress, Start: now, Message: d.Message}
	})
	return &outcome{decision: d, reason: agentapi.JoinedAsLearner,
		start: memberconf.Start{State: memberconf.StateExisting, Initial: initial(listed, id, f.Self)},
		data:  datadir.Inspection{State: datadir.Blank, ClusterID: listed.ClusterID, MemberID: id}, unread: true}, nil
}

// later makes answers of the cluster that pass by themselves reasons to wait.
func later(err error) error {
	for _, passing := range []error{member.ErrTooManyLearners, member.ErrUnhealthy, member.ErrNoLeader, member.ErrUnreachable,
		member.ErrPeerURLExists, member.ErrLearner, member.ErrMemberNotFound} {
		if errors.Is(err, passing) {
			return notYet{err}
		}
	}
	return err
}

// initial are the members as etcd has to be told of them: exactly those of the list. The names of
// the others do not matter, but have to differ.
func initial(listed member.Membership, own uint64, name string) []memberconf.Peer {
	var out []memberconf.Peer
	taken := map[string]bool{name: true}
	for _, p := range listed.Peers {
		peer := memberconf.Peer{Name: p.Name, PeerURLs: slices.Clone(p.PeerURLs), ClientURLs: slices.Clone(p.ClientURLs)}
		switch {
		case p.ID == own:
			peer.Name = name
		case p.Name == "" || taken[p.Name]:
			peer.Name = fmt.Sprintf("member-%016x", p.ID)
		}
		taken[peer.Name] = true
		out = append(out, peer)
	}
	return out
}

// restore replaces what is on the volume by the newest backup.
func (a *attempt) restore(ctx context.Context, d Decision) error {
	if a.restored {
		return fmt.Errorf("what was restored is not what the bucket holds: %s", d.Message)
	}
	if err := a.save(Journal{Restoring: true}); err != nil {
		return err
	}
	// Data that are good are all there is until the backup is proven to be more: they stay until what takes their place is complete,
	// and reaches as far as was decided by. The bucket may be another one by then, as when somebody excludes what claimed too much.
	replace, atLeast := a.data.State == datadir.Valid && !d.Keep, snapshot.Revision(0)
	if replace {
		atLeast = a.backup.Latest
	} else {
		if err := a.setAside(d.Keep); err != nil {
			return err
		}
	}
	kept, err := a.o.Directory.Kept()
	if err != nil {
		return err
	}
	if len(kept) > 0 { // also by an attempt before this one
		d.Message += fmt.Sprintf("; damaged data that were kept before a restore, until somebody has saved what they can of what the backup lacks, and removes them: %s", strings.Join(kept, ", "))
	}
	own, ok := a.template.Peer(a.o.Name)
	if !ok {
		return notYet{fmt.Errorf("%s is none of the wanted members any more", a.o.Name)}
	}
	cluster, err := memberconf.Cluster([]memberconf.Peer{own})
	if err != nil {
		return err
	}
	began := a.o.Now().UTC()
	report := func(change func(*agentapi.Restored)) {
		a.o.Board.Update(func(m *agentapi.Member) {
			r := agentapi.Restored{Type: agentapi.FromSnapshot, Status: agentapi.InProgress, Start: began, Message: d.Message}
			change(&r)
			m.LastRestoration = &r
		})
	}
	a.o.Board.Move(agentapi.Initializing, agentapi.Restoration, d.Reason, d.Message)
	report(func(*agentapi.Restored) {})
	err = a.o.Restore(ctx, RestoreOrder{
		DataDir:    a.template.DataDir(),
		Replace:    replace,
		AtLeast:    atLeast,
		Member:     datadir.Membership{Name: own.Name, InitialCluster: cluster, Token: tokenOf(a.template.Token(), map[string]string{own.Name: newNonce()}), PeerURLs: own.PeerURLs},
		QuotaBytes: a.template.QuotaBytes(),
		Progress: func(phase string, done, total int64) {
			report(func(r *agentapi.Restored) { r.Phase, r.Done, r.Total = phase, done, total })
		},
	})
	a.changed()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	ended := a.o.Now().UTC()
	if err != nil {
		err = fmt.Errorf("restore the backup: %w", err)
		passes := errors.Is(err, ErrUnavailable) || errors.Is(err, ErrChanged) || errors.Is(err, datadir.ErrBusy)
		if replace && !passes {
			err = fmt.Errorf("%w; the data (revision %d) stay as they are", err, a.data.Revision)
			if errors.Is(err, ErrBackup) {
				err = fmt.Errorf("%w: if the backup claims what never was, exclude that (etcdbrctl exclude), and the member starts with them", err)
			}
		}
		report(func(r *agentapi.Restored) { r.Status, r.End, r.Message = agentapi.Failed, &ended, err.Error() })
		a.o.Board.Move(agentapi.Initializing, agentapi.Restoration, agentapi.RestorationFailed, err.Error())
		if passes {
			return notYet{err}
		}
		return err
	}
	report(func(r *agentapi.Restored) { r.Status, r.End = agentapi.Success, &ended })
	a.restored, a.entered = true, agentapi.RestorationSucceeded
	return nil
}
