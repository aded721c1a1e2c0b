package datadir

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/etcd/datadir/boltfile"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	"go.etcd.io/etcd/server/v3/lease/leasepb"
	"go.etcd.io/raft/v3/raftpb"
	"golang.org/x/sys/unix"
)

// DB is an etcd database file opened for reading. No etcd can start on it meanwhile.
type DB struct {
	file    *boltfile.Reader
	keys    boltfile.Bucket
	compact snapshot.Revision
	last    snapshot.Revision
}

// State is what a database says about itself. What an etcd has only in its write-ahead log, up
// to the last 100 ms before it stopped, is not in it.
type State struct {
	Revision        snapshot.Revision // last revision; 1: nothing was ever written
	CompactRevision snapshot.Revision // -1: never compacted
	ConsistentIndex uint64
	Term            uint64
	Voters          []uint64
	Members         []Member
	ClusterVersion  string
	StorageVersion  string // empty: written by etcd before 3.6
	DowngradeTo     string // empty: no downgrade goes on
	AuthEnabled     bool
	Alarms          []string
	Bytes           int64
}

// Member is one record of the members bucket.
type Member struct {
	ID         uint64
	Name       string // empty until the member was started once
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

// OpenDB opens a database file. Errors: [ErrBusy] if an etcd runs on it, boltfile.ErrCorrupt,
// [ErrNotEtcd].
func OpenDB(path string) (*DB, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%s: %w", path, ErrBusy)
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	r, err := boltfile.NewReader(f)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	db := &DB{file: r}
	if err := db.load(); err != nil {
		r.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return db, nil
}

func (db *DB) load() error {
	var ok bool
	if db.keys, ok = db.file.Bucket(keyBucket); !ok {
		return fmt.Errorf("%w: it has the buckets %q", ErrNotEtcd, db.file.Buckets())
	}
	if _, ok := db.file.Bucket(metaBucket); !ok {
		return fmt.Errorf("%w: it has the buckets %q", ErrNotEtcd, db.file.Buckets())
	}
	scheduled, finished, err := compactRevisions(db.file)
	if err != nil {
		return err
	}
	db.compact = max(scheduled, finished)
	db.last, err = lastRevision(db.keys, db.compact)
	return err
}

// OpenDir opens the database of a data directory.
func OpenDir(dir string) (*DB, error) { return OpenDB(databasePath(dir)) }

func databasePath(dir string) string { return filepath.Join(dir, "member", "snap", "db") }

// Revision is the last revision; 1: nothing was ever written.
func (db *DB) Revision() snapshot.Revision { return db.last }

// CompactRevision is -1 if the database was never compacted.
func (db *DB) CompactRevision() snapshot.Revision { return db.compact }

// State reads the small buckets.
func (db *DB) State() (State, error) {
	s := State{Revision: db.last, CompactRevision: db.compact, Bytes: db.file.Size()}
	return s, s.read(db.file)
}

func (s *State) read(r *boltfile.Reader) error {
	for _, part := range []struct {
		bucket string
		read   func(k, v []byte) error
	}{
		{metaBucket, s.readMeta},
		{membersBucket, s.readMember},
		{clusterBucket, s.readCluster},
		{authBucket, func(k, v []byte) error {
			if string(k) == authEnabled {
				s.AuthEnabled = len(v) == 1 && v[0] == 1
			}
			return nil
		}},
		{alarmBucket, func(k, _ []byte) error {
			var a etcdserverpb.AlarmMember
			err := a.Unmarshal(k)
			s.Alarms = append(s.Alarms, fmt.Sprintf("%s of member %x", a.Alarm, a.MemberID))
			return err
		}},
	} {
		b, ok := r.Bucket(part.bucket)
		if !ok {
			continue
		}
		if err := b.Each(nil, part.read); err != nil {
			return fmt.Errorf("bucket %s: %w", part.bucket, err)
		}
	}
	return nil
}

func (s *State) readMeta(k, v []byte) error {
	switch string(k) {
	case consistentIndex, raftTerm:
		if len(v) != 8 {
			return fmt.Errorf("%s has %d bytes", k, len(v))
		}
		if string(k) == raftTerm {
			s.Term = binary.BigEndian.Uint64(v)
		} else {
			s.ConsistentIndex = binary.BigEndian.Uint64(v)
		}
	case raftConfState:
		var c raftpb.ConfState
		if err := json.Unmarshal(v, &c); err != nil {
			return fmt.Errorf("%s: %w", k, err)
		}
		s.Voters = c.Voters
	case storageVersion:
		s.StorageVersion = string(v)
	}
	return nil
}

func (s *State) readMember(_, v []byte) error {
	var m membership.Member
	if err := json.Unmarshal(v, &m); err != nil {
		return err
	}
	s.Members = append(s.Members, Member{ID: uint64(m.ID), Name: m.Name, PeerURLs: m.PeerURLs, ClientURLs: m.ClientURLs, Learner: m.IsLearner})
	return nil
}

func (s *State) readCluster(k, v []byte) (err error) {
	switch string(k) {
	case clusterVersion:
		s.ClusterVersion = string(v)
	case downgrade:
		s.DowngradeTo, err = parseDowngrade(v)
	}
	return err
}

// Leases lists the lease bucket by id.
func (db *DB) Leases() ([]Lease, error) {
	b, ok := db.file.Bucket(leaseBucket)
	if !ok {
		return nil, nil
	}
	var all []Lease
	err := b.Each(nil, func(_, v []byte) error {
		var l leasepb.Lease
		if err := l.Unmarshal(v); err != nil {
			return err
		}
		all = append(all, Lease{ID: l.ID, TTL: l.TTL, RemainingTTL: l.RemainingTTL})
		return nil
	})
	return all, err
}

// HashKV is the hash of the key space at rev, 0 meaning the last revision, as an etcd running on
// this database would report it; and the number of keys alive at rev. The memory it takes is
// bounded as by Options.MemoryLimit, with spill files in scratch (empty: the system's place for
// temporary files). A revision that was compacted or is not reached yet is a [*TargetError].
func (db *DB) HashKV(ctx context.Context, rev snapshot.Revision, memoryLimit int64, scratch string) (snapshot.HashKV, int64, error) {
	if rev == 0 {
		rev = db.last
	}
	if rev < db.compact || rev > db.last {
		return snapshot.HashKV{}, 0, &TargetError{Want: rev, Earliest: max(1, db.compact), Last: db.last}
	}
	if memoryLimit == 0 {
		memoryLimit = DefaultMemoryLimit
	}
	sum, keys, err := hashKV(ctx, db.keys, rev, db.compact, max(memoryLimit, MinMemoryLimit)/2, scratch)
	return snapshot.HashKV{Revision: rev, CompactRevision: db.compact, Hash: sum}, keys, err
}

// Check walks every page and record of the file.
func (db *DB) Check(ctx context.Context) error {
	n := 0
	return db.file.CheckEach(false, func(bucket string, k, v []byte) error {
		if n++; n%4096 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if bucket != keyBucket {
			return nil
		}
		if _, _, _, ok := parseRevision(k); !ok {
			return fmt.Errorf("%w: %x in the key bucket is not a revision", boltfile.ErrCorrupt, k)
		}
		if _, ok := parseStored(v); !ok {
			return fmt.Errorf("%w: revision %x holds no key-value pair", boltfile.ErrCorrupt, k)
		}
		return nil
	})
}

// Close ends the use of the file.
func (db *DB) Close() error { return db.file.Close() }
