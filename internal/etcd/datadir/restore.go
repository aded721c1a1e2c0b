package datadir

import (
	"context"
	"os"
	"path/filepath"
)

// Target is the data directory to make.
type Target struct {
	Dir       string // final name; its parent must exist
	Overwrite bool   // replace what is there; it is kept until the new one is complete
	Member    Membership
	Identity  *Identity // written beside the data, with the revision reached as its fork; nil: none

	at      func(step) error // tests stop here
	renames bool             // tests do without the exchange of names
	mounted bool             // tests do as if a file system were mounted at Dir
}

// Restored is what Restore made.
type Restored struct {
	Report
	ClusterID uint64
	MemberID  uint64
	Replaced  *Contents // what was under the name before, and is removed; nil: nothing
}

// step is a moment of a restore at which it may be interrupted.
type step string

// The steps in their order. Until replaced, the directory is as it was; from then on it is the
// new one.
const (
	locked     step = "locked"     // nobody else restores into this directory
	recovered  step = "recovered"  // nothing is left of earlier runs
	staged     step = "staged"     // DIR.part exists
	rebuilt    step = "rebuilt"    // with the database
	wrapped    step = "wrapped"    // with the write-ahead log of the new cluster
	identified step = "identified" // with the lineage
	synced     step = "synced"     // all of it on the disk
	setAside   step = "set aside"  // the old directory, where the two cannot be exchanged
	replaced   step = "replaced"   // the new directory has its name
	durable    step = "durable"    // also after a power failure
	cleaned    step = "cleaned up" // the old directory is gone
)

// Restore rebuilds src into a complete data directory for one member of a new cluster. The
// directory is made as Dir.part and appears as Dir only when complete, verified and synced.
// Whatever happens before that moment, Dir stays as it was, or the next run puts it back. If Dir is a mount
// point, the same is done with the "member" inside it; what else lies there stays untouched.
//
// Only what etcd and this package made is replaced: anything else in the way is an [ErrForeign].
//
// Besides the errors of [Rebuild]: [ErrExists], [ErrForeign], [ErrBusy], [ErrPlace], [ErrMembership].
func Restore(ctx context.Context, src Source, o Options, t Target) (_ *Restored, err error) {
	records, err := t.Member.records()
	if err != nil {
		return nil, err
	}
	if t.at == nil {
		t.at = func(step) error { return nil }
	}
	p, err := openPlace(t.Dir, t.mounted)
	if err != nil {
		return nil, err
	}
	defer p.close()
	p.renames = t.renames
	if err := t.at(locked); err != nil {
		return nil, err
	}
	if err := p.recover(); err != nil {
		return nil, err
	}
	if err := t.at(recovered); err != nil {
		return nil, err
	}
	old, err := p.allows(t.Overwrite)
	if err != nil {
		return nil, err
	}
	done := &Restored{ClusterID: uint64(records.cluster.ID()), MemberID: uint64(records.self.ID), Replaced: old}
	defer func() {
		if err != nil {
			p.discard()
		}
	}()
	if err := build(ctx, src, o, t, p.part, records, done); err != nil {
		return nil, noRoom(err)
	}
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	if err := p.replace(old != nil, t.at); err != nil {
		return nil, err
	}
	return done, nil
}

// build makes the whole directory below part and syncs it.
func build(ctx context.Context, src Source, o Options, t Target, part string, records *membershipRecords, done *Restored) error {
	member := filepath.Join(part, memberDir)
	if err := os.MkdirAll(filepath.Join(member, "snap"), 0o700); err != nil {
		return err
	}
	if o.ScratchDir == "" {
		o.ScratchDir = part
	}
	if err := t.at(staged); err != nil {
		return err
	}
	report, err := rebuildWith(ctx, src, o, databasePath(part), records)
	if err != nil {
		return err
	}
	done.Report = *report
	if err := t.at(rebuilt); err != nil {
		return err
	}
	if err := records.writeRaft(member); err != nil {
		return err
	}
	if err := t.at(wrapped); err != nil {
		return err
	}
	if t.Identity != nil {
		id := *t.Identity
		id.Lineage.Fork = report.Reached
		if err := WriteIdentity(part, id); err != nil {
			return err
		}
	}
	if err := t.at(identified); err != nil {
		return err
	}
	if err := syncTree(part); err != nil {
		return err
	}
	return t.at(synced)
}
