package initialize

import (
	"context"
	"errors"
	"fmt"
	"time"

	"druid.internal/druid/internal/agent/memberconf"
	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/etcd/datadir"
)

// attempt is one initialization, from being told to start to an outcome. Everything it keeps in
// memory may be lost at any moment: the next one finds the rest on the volume.
type attempt struct {
	*Machine
	template *memberconf.Template
	digest   string
	journal  Journal

	examined bool // data are those of stamp, examined in mode
	stamp    string
	mode     datadir.Mode
	data     datadir.Inspection

	backup   Backup
	backupAt time.Time // zero: not asked
	settled  bool
	restored bool // by this attempt

	last     Decision // that was logged
	obstacle string   // why it could not be done yet, as logged
	pause    time.Duration
	quorumAt time.Time // since when every look has told of a lost quorum; zero: the last one did not
	entered  agentapi.Reason
	counted  bool // the wrong volume

	unreadable bool // the journal, and that was said
}

func newAttempt(m *Machine) *attempt { return &attempt{Machine: m, pause: firstPause} }

// notYet is why facts cannot be had now, though they will be.
type notYet struct{ error }

func (e notYet) Unwrap() error { return e.error }

// run looks, decides and does until etcd may be started.
func (a *attempt) run(ctx context.Context) (*outcome, error) {
	for {
		out, err := a.pass(ctx)
		var wait notYet
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case out != nil:
			return out, nil
		case errors.As(err, &wait):
			err = a.hindered(ctx, err)
		}
		if err != nil {
			return nil, err
		}
	}
}

// pass looks once, decides and does.
func (a *attempt) pass(ctx context.Context) (*outcome, error) {
	f, err := a.gather(ctx)
	if err != nil {
		return nil, err
	}
	d := a.confirm(f, Decide(f))
	a.note(d)
	return a.do(ctx, f, d)
}

// gather observes everything anew, but for the data, which are examined again when they changed,
// and the bucket, which is asked when it matters.
func (a *attempt) gather(ctx context.Context) (Facts, error) {
	leave := a.o.OthersLeave() // before and after the other file is read: both change at once, between two looks
	t, err := a.o.Template()
	if err != nil {
		return Facts{}, notYet{err}
	}
	a.template, a.digest = t, t.Bootstrap()
	f := Facts{Self: a.o.Name, Wanted: t.Wanted(), Digest: a.digest, OthersLeave: leave || a.o.OthersLeave(), Outside: a.o.Outside()}
	if f.Volume, err = a.o.Directory.Volume(); err != nil {
		return Facts{}, err
	}
	a.noteVolume(f.Volume)
	if f.Volume.Reason != "" {
		return f, nil
	}
	if err := a.loadJournal(); err != nil {
		return Facts{}, err
	}
	f.Journal = a.journal
	if err := a.examine(ctx); err != nil {
		return Facts{}, err
	}
	f.Data, f.Settled = a.data, a.settled
	a.publish()
	if f.asks() {
		f.View = a.o.Others.Look(ctx, f.Wanted, f.Self)
	}
	if ctx.Err() != nil {
		return Facts{}, context.Cause(ctx)
	}
	switch {
	case a.o.Backup == nil:
		f.Backup = Backup{State: BackupNotConfigured}
	case !a.backupAt.IsZero() && a.o.Now().Sub(a.backupAt) < backupTrusted:
		f.Backup = a.backup
	}
	return f, nil
}

// loadJournal reads what earlier attempts left. One that cannot be understood says nothing: what
// it may have promised is broken by promising anew.
func (a *attempt) loadJournal() error {
	j, err := a.o.Journals.Load()
	if errors.Is(err, ErrJournal) {
		if !a.unreadable {
			a.o.Log.Warn("the record of the last initialization is not used", "error", err)
		}
		a.unreadable = true
		j, err = Journal{}, nil
	}
	a.journal = j
	return err
}

// save makes the journal durable, and only then lets the others see it.
func (a *attempt) save(j Journal) error {
	if err := a.o.Journals.Save(j); err != nil {
		return err
	}
	a.journal = j
	a.publish()
	return nil
}

// examine inspects the data unless they are as they were.
func (a *attempt) examine(ctx context.Context) error {
	stamp, mode := a.o.Directory.Stamp(), a.wanted()
	if a.examined && stamp == a.stamp && (mode == a.mode || a.mode == datadir.Full) {
		return nil
	}
	if stamp != "" {
		sub, reason, message := agentapi.DBValidationFull, agentapi.DetectedPreviousUncleanExit, "every page and record of the data is read"
		if mode == datadir.Sanity {
			sub, reason, message = agentapi.DBValidationSanity, agentapi.DetectedPreviousCleanExit, "the data are examined briefly"
		}
		a.o.Board.Move(agentapi.Initializing, sub, reason, message)
	}
	a.examined = false
	began := a.o.Now()
	data, err := a.o.Directory.Inspect(ctx, mode, nil)
	switch {
	case errors.Is(err, datadir.ErrBusy):
		return notYet{err}
	case err != nil:
		return err
	}
	if data.State != datadir.Missing {
		a.o.Validated(a.o.Now().Sub(began), data.State == datadir.Valid || data.State == datadir.Blank)
	}
	if a.stamp != stamp {
		a.settled, a.backupAt = false, time.Time{}
	}
	a.examined, a.mode, a.data = true, mode, data
	a.stamp = a.o.Directory.Stamp() // the end of a torn log may have been cut off
	if a.stamp == stamp || data.State != datadir.Missing {
		a.o.Log.Info("examined the data", "state", data.State, "why", data.Why, "mode", mode, "revision", data.Revision,
			"atMost", data.AtMost, "bytes", data.Bytes, "took", a.o.Now().Sub(began))
	}
	if data.Repaired != "" {
		a.o.Log.Warn("the end of the log was torn, as after a power failure, and was cut off", "copy", data.Repaired)
	}
	if data.MembershipDiffers != "" {
		a.o.Log.Warn("the members in the database are not those of the log, which etcd mends in part as it starts", "differences", data.MembershipDiffers)
	}
	return nil
}

// changed says that the data are not what they were.
func (a *attempt) changed() { a.examined, a.backupAt = false, time.Time{} }

// askBackup looks into the bucket.
func (a *attempt) askBackup(ctx context.Context) error {
	b, err := a.o.Backup(ctx, a.data)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		b = Backup{State: BackupUnreachable, Why: err.Error()}
	}
	switch b.State {
	case BackupUnreachable, BackupCrowded, BackupNone, BackupExists, BackupNotConfigured:
	default:
		return fmt.Errorf("the bucket is in no known state: %q", b.State)
	}
	a.backup, a.backupAt = b, a.o.Now()
	return nil
}
