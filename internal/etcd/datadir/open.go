package datadir

import (
	"context"
	"errors"
	"io"

	"druid.internal/druid/internal/backup/snapshot"
)

// DB is an etcd database file opened for reading. No etcd may run on it.
type DB struct{}

// State is what a database says about itself.
type State struct {
	Revision        snapshot.Revision // last revision; 1: nothing was ever written
	CompactRevision snapshot.Revision // -1: never compacted
	ConsistentIndex uint64
	Term            uint64
	Voters          []uint64
	Members         []Member
	ClusterVersion  string
	StorageVersion  string // empty: written by etcd before 3.6
	DowngradeTo     string
	AuthEnabled     bool
	Alarms          []string
	Bytes           int64
}

// Member is one record of the members bucket.
type Member struct {
	ID         uint64
	Name       string
	PeerURLs   []string
	ClientURLs []string
	Learner    bool
}

// Lease is one record of the lease bucket.
type Lease struct {
	ID           int64
	TTL          int64 // seconds granted
	RemainingTTL int64 // seconds left at the last checkpoint; 0: none
}

// OpenDB opens a database file. [ErrBusy]: an etcd runs on it; boltfile.ErrCorrupt, [ErrNotEtcd].
func OpenDB(path string) (*DB, error) { return nil, errors.ErrUnsupported }

// OpenDir opens the database of a data directory.
func OpenDir(dir string) (*DB, error) { return nil, errors.ErrUnsupported }

// State reads the small buckets.
func (db *DB) State() (State, error) { return State{}, errors.ErrUnsupported }

// Leases lists the lease bucket by id.
func (db *DB) Leases() ([]Lease, error) { return nil, errors.ErrUnsupported }

// HashKV is the hash of the key space at rev, 0 meaning the last revision, as an etcd running on
// this database would report it; and the number of keys alive at rev. The memory it takes is
// bounded as by Options.MemoryLimit, with spill files in scratch.
func (db *DB) HashKV(ctx context.Context, rev snapshot.Revision, memoryLimit int64, scratch string) (snapshot.HashKV, int64, error) {
	return snapshot.HashKV{}, 0, errors.ErrUnsupported
}

// Check walks every page of the file.
func (db *DB) Check(ctx context.Context) error { return errors.ErrUnsupported }

// Close ends the use of the file.
func (db *DB) Close() error { return errors.ErrUnsupported }

// WALIdentity reads the cluster and member ids from the write-ahead log of a data directory.
func WALIdentity(dir string) (clusterID, memberID uint64, err error) {
	return 0, 0, errors.ErrUnsupported
}

// NewSnapshotReader reads the database file at path followed by its SHA-256, as etcd streams a
// snapshot. Size is that of the whole stream.
func NewSnapshotReader(path string) (r io.ReadCloser, size int64, err error) {
	return nil, 0, errors.ErrUnsupported
}
