package datadir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/etcd/datadir/boltfile"
	"go.etcd.io/etcd/api/v3/version"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/raft/v3/raftpb"
	"golang.org/x/sys/unix"
)

// examination is one run of [Inspect].
type examination struct {
	dir      string
	mode     Mode
	progress func(done, total int64)
	found    Inspection

	log     raftLog
	db      *DB // the file "db", whose lock keeps every etcd away
	state   State
	current *DB // what an etcd would work with: db, or one that was received
	done    int64
	total   int64
}

// Everything is read that can be, because it is evidence; then the questions are asked in their
// order. The first *damage is the result.
func (e *examination) run(ctx context.Context) error {
	if err := present(e.dir); err != nil {
		return err
	}
	var first error
	for _, read := range []func(context.Context) error{e.openDatabase, e.readLog, e.readDatabase, e.readLineage} {
		err := read(ctx)
		var d *damage
		if err != nil && !errors.As(err, &d) {
			return err
		}
		if first == nil {
			first = err
		}
	}
	if first != nil {
		return first
	}
	for _, judge := range []func(context.Context) error{
		e.judgeStart, e.judgeVersion, e.judgeLog, e.judgeMembership, e.checkPages, e.repair, e.judgeBlank,
	} {
		if err := judge(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (e *examination) close() {
	if e.current != nil && e.current != e.db {
		e.current.Close()
	}
	if e.db != nil {
		e.db.Close()
	}
}

func (e *examination) advance(n int64) {
	e.done += n
	e.progress(e.done, max(e.total, e.done))
}

// openDatabase takes the lock. A database that cannot be opened is judged later, when the log has
// told whose it was.
func (e *examination) openDatabase(context.Context) error {
	path := databasePath(e.dir)
	db, err := openRegular(path)
	var d *damage
	if err != nil && !errors.As(err, &d) && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	e.db, e.current = db, db
	if db != nil {
		e.found.Bytes = db.file.Size()
	}
	return nil
}

// openRegular opens a database file; what cannot be a database is *damage.
func openRegular(path string) (*DB, error) {
	st, err := os.Stat(path)
	if err != nil {
		if _, lerr := os.Lstat(path); lerr == nil && errors.Is(err, fs.ErrNotExist) {
			return nil, damaged("%s is a symbolic link to something that does not exist", path)
		}
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, damaged("%s is not a regular file", path)
	}
	db, err := OpenDB(path)
	if errors.Is(err, boltfile.ErrCorrupt) || errors.Is(err, ErrNotEtcd) {
		return nil, damaged("%v", err)
	}
	return db, err
}

func (e *examination) readLog(ctx context.Context) error {
	segments, err := listSegments(e.dir)
	if errors.Is(err, fs.ErrNotExist) {
		segments, err = nil, nil
	}
	if err != nil {
		return err
	}
	e.log.segments = segments
	e.found.Bytes += e.log.bytes()
	e.total = e.log.bytes()
	if e.mode == Full && e.db != nil {
		e.total += e.db.file.Size()
	}
	err = e.log.read(ctx, e.advance)
	l := &e.log
	e.found.ClusterID, e.found.MemberID = l.clusterID, l.memberID
	e.found.Term, e.found.Commit, e.found.LastIndex = l.state.Term, l.state.Commit, l.last
	return err
}

// readDatabase reads the small parts of the database.
func (e *examination) readDatabase(context.Context) error {
	path := databasePath(e.dir)
	if e.db == nil {
		_, err := openRegular(path)
		switch {
		case err == nil:
			return fmt.Errorf("%s changes while it is examined", path)
		case errors.Is(err, fs.ErrNotExist):
			return damaged("%s is missing, and there are other files of etcd", path)
		}
		return e.unopened(path, err)
	}
	return e.readState()
}

// unopened judges a database that cannot be opened. An etcd that is killed in its very first
// moment leaves an empty file and no log.
func (e *examination) unopened(path string, err error) error {
	st, serr := os.Stat(path)
	if serr == nil && st.Mode().IsRegular() && st.Size() == 0 && len(e.log.segments) == 0 {
		return &damage{Blank, path + " is empty and there is no write-ahead log: the first start was interrupted"}
	}
	return err
}

func (e *examination) readState() error {
	s, err := e.current.State()
	if err != nil {
		return damaged("%s: %v", databasePath(e.dir), err)
	}
	e.state = s
	f := &e.found
	f.Revision, f.CompactRevision = s.Revision, s.CompactRevision
	f.Membership, f.StorageVersion, f.ClusterVersion, f.DowngradeTo = s.Members, s.StorageVersion, s.ClusterVersion, s.DowngradeTo
	f.Alarms, f.AppliedIndex = s.Alarms, s.ConsistentIndex
	return nil
}

func (e *examination) readLineage(context.Context) error {
	id, err := ReadIdentity(e.dir)
	switch {
	case err == nil:
		e.found.Lineage = &id
	case errors.Is(err, ErrNoIdentity):
	default:
		return e.identityDamage(err)
	}
	return nil
}

func (e *examination) identityDamage(err error) error {
	var local *fs.PathError
	if errors.As(err, &local) && !errors.Is(err, unix.EISDIR) {
		return err
	}
	return damaged("%v; nobody can tell to which history the data belong: restore the file or move the directory away", err)
}

// judgeStart finds out from which snapshot etcd would start and whether what follows it is there.
func (e *examination) judgeStart(context.Context) error {
	l := &e.log
	if len(l.segments) == 0 {
		wal := filepath.Join(e.dir, memberDir, "wal")
		if e.state.Revision == 1 && e.state.CompactRevision < 1 && e.state.ConsistentIndex == 0 {
			return &damage{Blank, "there is no write-ahead log in " + wal + " and nothing in the database: the first start was interrupted"}
		}
		return damaged("there is no write-ahead log in %s, and the database has revision %d", wal, e.state.Revision)
	}
	chosen, err := chooseSnapshot(e.dir, l)
	if err != nil {
		return err
	}
	from := raftpb.SnapshotMetadata{}
	if chosen != nil {
		from = *chosen
	}
	if _, ok := l.segmentOf(from.Index); !ok || l.first > 0 && l.last >= from.Index && l.first > from.Index+1 {
		if chosen == nil {
			return damaged("the write-ahead log begins with entry %d, and there is no whole snapshot file to start from", max(l.first, l.segments[0].first))
		}
		return damaged("the write-ahead log lacks entries after %d, where the newest whole snapshot file ends", from.Index)
	}
	if l.last < from.Index {
		l.begin(from.Index + 1)
		e.found.LastIndex = l.last
	}
	if from.Index > e.state.ConsistentIndex {
		return e.takeReceived(from)
	}
	e.judgeMembers(from.ConfState)
	return nil
}

// takeReceived goes on with the database that came with the snapshot.
func (e *examination) takeReceived(from raftpb.SnapshotMetadata) error {
	path := receivedPath(e.dir, from.Index)
	db, err := openRegular(path)
	if errors.Is(err, fs.ErrNotExist) {
		return damaged("%s has the state of entry %d, before the snapshot at entry %d, and %s is missing", databasePath(e.dir), e.state.ConsistentIndex, from.Index, path)
	}
	if err != nil {
		return err
	}
	e.current, e.found.Received = db, path
	e.found.Bytes += db.file.Size()
	if e.mode == Full {
		e.total += db.file.Size()
	}
	if err := e.readState(); err != nil {
		return err
	}
	if e.state.ConsistentIndex < from.Index {
		return damaged("%s has the state of entry %d, before the snapshot at entry %d with which it came", path, e.state.ConsistentIndex, from.Index)
	}
	e.judgeMembers(from.ConfState)
	return nil
}

// judgeMembers compares the members in the database with those of raft, both as of the applied
// entry, and goes on to those at the end of the log.
func (e *examination) judgeMembers(from raftpb.ConfState) {
	l, f, applied := &e.log, &e.found, e.state.ConsistentIndex
	at := roles{from.Voters, from.Learners}.follow(l.changes, applied)
	if has := rolesOf(e.state.Members); !has.equal(at) {
		f.MembershipDiffers = fmt.Sprintf("the database has the %v, and raft has the %v", has, at)
	}
	end := at.follow(slices.DeleteFunc(slices.Clone(l.changes), func(c memberEntry) bool { return c.index <= applied }), l.last)
	f.Voters, f.Learners = end.voters, end.learners
	f.Membership = followMembers(e.state.Members, l.changes, applied)
}

// judgeVersion tells whether this etcd reads the data. etcd writes the term beside its index since
// 3.5, and the storage version since 3.6.
func (e *examination) judgeVersion(context.Context) error {
	s := e.state
	if s.ConsistentIndex > 0 && s.Term == 0 {
		return &damage{TooOld, fmt.Sprintf("%s was written by etcd 3.4 or before; start etcd 3.5 on it once, or restore a backup", databasePath(e.dir))}
	}
	for _, v := range []struct{ what, is string }{{"the storage version", s.StorageVersion}, {"the cluster version", s.ClusterVersion}} {
		if later(v.is) && s.DowngradeTo == "" {
			return &damage{TooNew, fmt.Sprintf("%s of %s is %s, and this etcd is %s; use a later release, or downgrade the cluster first", v.what, databasePath(e.dir), v.is, version.Version)}
		}
	}
	return nil
}

// judgeLog compares the log with the database.
func (e *examination) judgeLog(context.Context) error {
	l, applied := &e.log, e.state.ConsistentIndex
	last := l.lastName()
	switch {
	case applied > l.last:
		return damaged("the write-ahead log ends at entry %d (%s), and the database contains entry %d: the end of the log is lost", l.last, last, applied)
	case l.state.Commit > l.last:
		return damaged("the write-ahead log ends at entry %d (%s), and says that entry %d is committed: its end is lost", l.last, last, l.state.Commit)
	}
	e.found.AtMost = e.found.Revision + snapshot.Revision(l.writesAfter(applied))
	return nil
}

func (e *examination) judgeMembership(context.Context) (err error) {
	e.found.Removed, err = e.current.removed(e.log.memberID)
	if err != nil {
		return damaged("%s: %v", databasePath(e.dir), err)
	}
	return nil
}

func (e *examination) checkPages(ctx context.Context) error {
	if e.mode != Full {
		return nil
	}
	for _, db := range []*DB{e.db, e.current} {
		if db == e.db && e.current != e.db {
			continue // it is replaced without being read
		}
		if err := db.checkAll(ctx, e.advance); err != nil {
			return err
		}
	}
	return nil
}

func (e *examination) repair(context.Context) (err error) {
	if e.log.torn != nil {
		e.found.Repaired, err = e.log.torn.cut()
	}
	return err
}

// judgeBlank is asked last: the data are good.
func (e *examination) judgeBlank(context.Context) error {
	e.found.State = Valid
	if e.found.AtMost > 1 || e.found.CompactRevision > 0 || !e.log.complete() || e.log.client {
		return nil
	}
	used, err := e.current.used()
	if err != nil {
		return damaged("%s: %v", databasePath(e.dir), err)
	}
	if !used {
		e.found.State, e.found.Why = Blank, "no client ever wrote to "+e.dir
	}
	return nil
}

// removed tells whether the cluster has removed the member for good.
func (db *DB) removed(member uint64) (bool, error) {
	b, ok := db.file.Bucket(membersRemovedBucket)
	if !ok {
		return false, nil
	}
	v, err := b.Get([]byte(types.ID(member).String()))
	return v != nil, err
}

// used tells whether anything but keys was ever made by a client.
func (db *DB) used() (bool, error) {
	for _, name := range []string{keyBucket, leaseBucket, authUsersBucket, authRolesBucket} {
		b, ok := db.file.Bucket(name)
		if !ok {
			continue
		}
		if k, _, err := b.Last(); k != nil || err != nil {
			return true, err
		}
	}
	return false, nil
}

// later tells whether the version is of a later minor release than the etcd of this program.
func later(v string) bool {
	minor := func(s string) (n int, ok bool) {
		var major, rest int
		if _, err := fmt.Sscanf(s, "%d.%d", &major, &rest); err != nil {
			return 0, false
		}
		return major<<16 + rest, true
	}
	is, ok := minor(v)
	own, _ := minor(version.Version)
	return ok && is > own
}
