package datadir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"druid.internal/druid/internal/backup/snapshot"
)

// Mode is how much of a data directory is examined.
type Mode string

// The modes.
const (
	// Sanity reads the write-ahead log and the small parts of the database. It takes as long as
	// reading the log, a few hundred megabytes at most.
	Sanity Mode = "sanity"
	// Full also reads every page and record of the database.
	Full Mode = "full"
)

// Condition is what a data directory is good for.
type Condition string

// The conditions.
const (
	// Missing: there is certainly nothing: no file at all where etcd keeps its own.
	Missing Condition = "Missing"
	// Invalid: there is something, and etcd must not be started with it.
	Invalid Condition = "Invalid"
	// Valid: etcd can be started with it.
	Valid Condition = "Valid"
	// Blank: valid, or the beginning of a first start, but no client ever wrote anything.
	Blank Condition = "Blank"
	// TooOld: written by etcd 3.4 or before, which etcd 3.6 does not read.
	TooOld Condition = "TooOld"
	// TooNew: written by a later etcd than the one this program contains.
	TooNew Condition = "TooNew"
)

// Inspection is what a data directory turned out to be. What could not be read is zero.
type Inspection struct {
	State Condition
	// Why says in one sentence which file is the reason for the state and what to do; empty: Valid.
	Why string
	// ClusterID and MemberID are those of the write-ahead log; 0: it has none.
	ClusterID, MemberID uint64
	// Revision is the last one that the database contains; 1: none was ever written.
	Revision        snapshot.Revision
	CompactRevision snapshot.Revision // -1: never compacted
	// AtMost is the revision that an etcd starting here may reach by the log alone; 0: the log could not be read to its end.
	AtMost  snapshot.Revision
	Lineage *Identity // nil: the directory has none
	// Membership is the members as of the end of the log, or, if the log is no good, as of the
	// database. Voters and Learners are whom raft counts as such then, by id.
	Membership       []Member
	Voters, Learners []uint64
	// MembershipDiffers says how the members in the database are not those of raft, which etcd
	// before 3.5.26 can bring about; empty: they are the same. When etcd 3.6 starts it repairs a
	// learner that was promoted, and nothing else.
	MembershipDiffers string
	// Removed: the cluster has removed this member. An etcd started here would stop at once.
	Removed                        bool
	StorageVersion, ClusterVersion string // StorageVersion is empty before 3.6
	DowngradeTo                    string // empty: no downgrade goes on
	Alarms                         []string
	Term, Commit                   uint64
	// AppliedIndex is the last entry that is in the database, LastIndex the last in the log.
	// LastIndex 0: raft never got as far as having an entry.
	AppliedIndex, LastIndex uint64
	// Received is the database that a leader sent and etcd has not taken over yet, which it will
	// when it starts; empty: none. Then everything here is about that one.
	Received string
	// Repaired is the copy of a log segment whose torn end was cut off; empty: none was.
	Repaired string
	// Bytes is the size of the database and the log.
	Bytes int64
}

// Self is this member's record, if the database has it.
func (i Inspection) Self() (Member, bool) {
	for _, m := range i.Membership {
		if m.ID == i.MemberID && m.ID != 0 {
			return m, true
		}
	}
	return Member{}, false
}

// Inspect tells what the data directory dir is good for. No etcd can start on it meanwhile.
//
// The end of the log may be torn, as after a power failure. If that is all, it is cut off after
// the segment was copied, as etcd does itself. Nothing else is changed.
//
// progress, which may be nil, is called now and then with how many bytes of how many were read.
//
// An error means that it could not be told: [ErrBusy] if an etcd runs on it, a file that cannot be
// read, ctx. Damage is a result.
func Inspect(ctx context.Context, dir string, mode Mode, progress func(done, total int64)) (Inspection, error) {
	if progress == nil {
		progress = func(int64, int64) {}
	}
	e := &examination{dir: dir, mode: mode, progress: progress, found: Inspection{Revision: 1, CompactRevision: -1}}
	err := withFaults(func() error { return e.run(ctx) })
	e.close()
	var d *damage
	switch {
	case errors.As(err, &d):
		e.found.State, e.found.Why = d.condition, d.why
	case err != nil:
		return Inspection{}, fmt.Errorf("inspect %s: %w", dir, err)
	}
	return e.found, nil
}

// damage is why a directory is not Valid. It ends an examination and is no error to the caller.
type damage struct {
	condition Condition
	why       string
}

func (d *damage) Error() string { return d.why }

func damaged(format string, args ...any) error {
	return &damage{Invalid, fmt.Sprintf(format, args...)}
}

// present tells whether any file of etcd exists below dir.
func present(dir string) error {
	for _, path := range []string{dir, filepath.Join(dir, memberDir)} {
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			return &damage{Missing, path + " does not exist"}
		} else if err != nil {
			return err
		}
		st, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			return damaged("%s is a symbolic link to something that does not exist; mount or make what it points to", path)
		}
		if err != nil {
			return err
		}
		if !st.IsDir() {
			return damaged("%s is not a directory; move it away", path)
		}
	}
	member := filepath.Join(dir, memberDir)
	any := errors.New("found")
	err := filepath.WalkDir(member+string(filepath.Separator), func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			return any
		}
		return err
	})
	switch {
	case err == nil:
		return &damage{Missing, member + " holds no file"}
	case errors.Is(err, any):
		return nil
	}
	return err
}
