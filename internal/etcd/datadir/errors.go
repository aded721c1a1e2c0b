package datadir

import (
	"errors"
	"fmt"
	"time"

	"druid.internal/druid/internal/backup/snapshot"
)

// What callers branch on.
var (
	// ErrBaseTruncated: the full snapshot ends in the middle: its size is neither that of a
	// database nor that of one with a trailer.
	ErrBaseTruncated = errors.New("full snapshot is truncated")
	// ErrBaseNoTrailer: the size is that of a bare database: the SHA-256 that etcd appends to a
	// snapshot is missing, because the file was copied from a data directory or cut.
	ErrBaseNoTrailer = errors.New("full snapshot lacks etcd's SHA-256 trailer")
	// ErrBaseDigest: the trailer does not fit the content.
	ErrBaseDigest = errors.New("full snapshot does not match its SHA-256 trailer: the content is damaged")
	// ErrBaseSize: the full snapshot unpacks to more than is known of it.
	ErrBaseSize = errors.New("full snapshot unpacks to more than its manifest tells")
	// ErrNotEtcd: a bolt database without etcd's buckets.
	ErrNotEtcd = errors.New("not an etcd database")
	// ErrBaseBehind: the full snapshot holds less than is known of it, as that of a member that
	// lagged behind the one that was asked for the revision in the name.
	ErrBaseBehind = errors.New("full snapshot ends too early")
	// ErrNotAsNamed: a delta does not end at the revision it should end at.
	ErrNotAsNamed = errors.New("content does not fit the name")
	// ErrHashKV: the hash of the key space is not the recorded one.
	ErrHashKV = errors.New("HashKV differs from the recorded one")
	// ErrExists: there is data under the final name and Overwrite was not asked for.
	ErrExists = errors.New("data directory exists")
	// ErrBusy: another process restores into the directory, or an etcd runs on it.
	ErrBusy = errors.New("in use by another process")
	// ErrPlace: no directory can be put under the final name, whatever is restored.
	ErrPlace = errors.New("unusable data directory")
	// ErrNoRoom: a disk that is written to is full, or what is written exceeds a limit on it. It
	// takes room for the database twice: the unpacked full snapshot, and the result.
	ErrNoRoom = errors.New("not enough room on the disk")
	// ErrVerification: what was written is not what was meant. Nothing was given its final name.
	ErrVerification = errors.New("verification of the new database failed")
	// ErrMembership: the new membership is impossible.
	ErrMembership = errors.New("unusable membership")
)

// GapError says that revisions are missing between two consecutive sources.
type GapError struct {
	After  snapshot.Revision // the last revision there is before the gap
	Next   snapshot.Revision // the first one after it
	Before string            // name of the source that ends with After; empty: the empty store
	Source string            // name of the delta that goes on with Next
}

func (e *GapError) Error() string {
	before := e.Before
	if before == "" {
		before = "the empty store"
	}
	return fmt.Sprintf("revisions %d to %d are missing: %s ends at %d and %s goes on at %d",
		e.After+1, e.Next-1, before, e.After, e.Source, e.Next)
}

// OverlapError says that two sources tell different things about the same revision, as when two
// histories of a cluster were written to one prefix.
type OverlapError struct {
	Revision snapshot.Revision
	Source   string // the delta that contradicts what was read before it
	Reason   string
}

func (e *OverlapError) Error() string {
	return fmt.Sprintf("%s contradicts earlier snapshots at revision %d: %s", e.Source, e.Revision, e.Reason)
}

// OrderError says that the records of a delta are not in the order of their revisions.
type OrderError struct {
	Source                         string
	Revision, Previous             snapshot.Revision
	SubRevision, WantedSubRevision int64
}

func (e *OrderError) Error() string {
	return fmt.Sprintf("%s is out of order: revision %d.%d follows revision %d, want sub-revision %d",
		e.Source, e.Revision, e.SubRevision, e.Previous, e.WantedSubRevision)
}

// ChainError says that a change of a key does not continue the key's history: a change in
// between was lost, or the sources belong to different histories.
type ChainError struct {
	Key      []byte
	Revision snapshot.Revision
	Reason   string
}

func (e *ChainError) Error() string {
	return fmt.Sprintf("key %q at revision %d does not continue its history: %s", e.Key, e.Revision, e.Reason)
}

// LateError says that the base holds more than the target time allows: its content is ahead of
// its name. An older base may do.
type LateError struct {
	Base     string            // name of the base
	Source   string            // the delta that tells
	Revision snapshot.Revision // of the base
	Received time.Time         // when the writer of Source received it
	Want     time.Time         // the target
}

func (e *LateError) Error() string {
	return fmt.Sprintf("%s already contains revision %d, which was received at %s according to %s, after %s",
		e.Base, e.Revision, e.Received.UTC().Format(time.RFC3339Nano), e.Source, e.Want.UTC().Format(time.RFC3339Nano))
}

// TargetError says that the sources cannot be brought to the wanted revision.
type TargetError struct {
	Want     snapshot.Revision
	Earliest snapshot.Revision // first revision that can be reached
	Last     snapshot.Revision // last revision that can be reached
}

func (e *TargetError) Error() string {
	return fmt.Sprintf("revision %d cannot be reached: the snapshots lead from revision %d to %d", e.Want, e.Earliest, e.Last)
}
