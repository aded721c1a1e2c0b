package datadir

import (
	"encoding/binary"
	"fmt"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/etcd/datadir/boltfile"
)

// The names of etcd's buckets that this package has business with.
const (
	keyBucket            = "key"
	metaBucket           = "meta"
	leaseBucket          = "lease"
	alarmBucket          = "alarm"
	clusterBucket        = "cluster"
	membersBucket        = "members"
	membersRemovedBucket = "members_removed"
	authBucket           = "auth"
	authUsersBucket      = "authUsers"
	authRolesBucket      = "authRoles"
)

// The names of the records in etcd's meta, cluster and auth buckets.
const (
	scheduledCompact = "scheduledCompactRev"
	finishedCompact  = "finishedCompactRev"
	consistentIndex  = "consistent_index"
	raftTerm         = "term"
	raftConfState    = "confState"
	storageVersion   = "storageVersion"
	clusterVersion   = "clusterVersion"
	downgrade        = "downgrade"
	authEnabled      = "authEnabled"
)

// The keys of the key bucket are revisions:
//
//	00 00 00 00 00 00 23 29  5f  00 00 00 00 00 00 00 02  [74]
//	main, big-endian         _   sub                       t: a tombstone
const (
	revisionBytes  = 8 + 1 + 8
	tombstoneBytes = revisionBytes + 1
)

func appendRevision(b []byte, main snapshot.Revision, sub int64, tombstone bool) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(main))
	b = append(b, '_')
	b = binary.BigEndian.AppendUint64(b, uint64(sub))
	if tombstone {
		b = append(b, 't')
	}
	return b
}

func parseRevision(k []byte) (main snapshot.Revision, sub int64, tombstone, ok bool) {
	tombstone = len(k) == tombstoneBytes && k[revisionBytes] == 't'
	if len(k) != revisionBytes && !tombstone || k[8] != '_' {
		return 0, 0, false, false
	}
	main, sub = snapshot.Revision(binary.BigEndian.Uint64(k)), int64(binary.BigEndian.Uint64(k[9:]))
	return main, sub, tombstone, main >= 0 && sub >= 0
}

// stored is a marshalled mvccpb.KeyValue, taken apart without copying.
type stored struct {
	key                         []byte
	create, mod, version, lease int64
}

// parseStored reads what etcd stores for a record. Fields may come in any order, the last of a
// kind counts, unknown ones are skipped, as protobuf wants it.
func parseStored(v []byte) (s stored, ok bool) {
	for len(v) > 0 {
		tag, n := binary.Uvarint(v)
		if n <= 0 {
			return s, false
		}
		v = v[n:]
		switch tag & 7 {
		case 0:
			x, n := binary.Uvarint(v)
			if n <= 0 {
				return s, false
			}
			v = v[n:]
			switch tag >> 3 {
			case 2:
				s.create = int64(x)
			case 3:
				s.mod = int64(x)
			case 4:
				s.version = int64(x)
			case 6:
				s.lease = int64(x)
			}
		case 2:
			size, n := binary.Uvarint(v)
			if n <= 0 || size > uint64(len(v)-n) {
				return s, false
			}
			if tag>>3 == 1 {
				s.key = v[n : n+int(size)]
			}
			v = v[n+int(size):]
		case 1:
			if len(v) < 8 {
				return s, false
			}
			v = v[8:]
		case 5:
			if len(v) < 4 {
				return s, false
			}
			v = v[4:]
		default:
			return s, false
		}
	}
	return s, true
}

// entry is one record of the key bucket.
type entry struct {
	main      snapshot.Revision
	sub       int64
	tombstone bool
	stored
}

// bump tells that the record is the one etcdutl leaves when it raises the revision: an empty
// value, so that it stands for the key "", which no client can use.
func (e *entry) bump() bool { return !e.tombstone && len(e.key) == 0 && e.version == 0 }

// mark makes the tracker's view of the record.
func (e *entry) mark(s *seeds, ordinal uint64) mark {
	m := mark{sum: s.key(e.key), ordinal: ordinal, version: e.version, create: e.create}
	if e.tombstone {
		m.ordinal |= tombstoneFlag
		m.version, m.create = 0, 0
	}
	return m
}

// eachEntry walks the key bucket from the revision on.
func eachEntry(b boltfile.Bucket, from snapshot.Revision, fn func(e *entry, k, v []byte) error) error {
	var start []byte
	if from > 0 {
		start = appendRevision(nil, from, 0, false)
	}
	var e entry
	return b.Each(start, func(k, v []byte) error {
		var ok bool
		if e.main, e.sub, e.tombstone, ok = parseRevision(k); !ok {
			return fmt.Errorf("%w: %x in the key bucket is not a revision", boltfile.ErrCorrupt, k)
		}
		if e.stored, ok = parseStored(v); !ok {
			return fmt.Errorf("%w: revision %d.%d holds no key-value pair", boltfile.ErrCorrupt, e.main, e.sub)
		}
		return fn(&e, k, v)
	})
}

// openKeys opens a database file and finds its key bucket.
func openKeys(path string) (*boltfile.Reader, boltfile.Bucket, error) {
	r, err := boltfile.Open(path)
	if err != nil {
		return nil, boltfile.Bucket{}, err
	}
	keys, ok := r.Bucket(keyBucket)
	if _, meta := r.Bucket(metaBucket); !ok || !meta {
		r.Close()
		return nil, boltfile.Bucket{}, fmt.Errorf("%s: %w: it has the buckets %q", path, ErrNotEtcd, r.Buckets())
	}
	return r, keys, nil
}

// compactRevisions reads both marks of compaction, -1 for what is absent. The compact revision
// that etcd works with is the higher one: it finishes a scheduled compaction when it starts.
func compactRevisions(r *boltfile.Reader) (scheduled, finished snapshot.Revision, err error) {
	meta, _ := r.Bucket(metaBucket)
	read := func(name string) snapshot.Revision {
		v, gerr := meta.Get([]byte(name))
		if gerr != nil {
			err = gerr
		}
		if v == nil {
			return -1
		}
		main, _, _, ok := parseRevision(v)
		if !ok {
			err = fmt.Errorf("%w: %s is %x", boltfile.ErrCorrupt, name, v)
		}
		return main
	}
	scheduled, finished = read(scheduledCompact), read(finishedCompact)
	return scheduled, finished, err
}

// lastRevision is the one an etcd would start with. A compaction may have removed the record of
// the last revision, a deletion, but then it says so.
func lastRevision(keys boltfile.Bucket, compact snapshot.Revision) (snapshot.Revision, error) {
	k, _, err := keys.Last()
	if err != nil {
		return 0, err
	}
	last := max(1, compact)
	if k != nil {
		main, _, _, ok := parseRevision(k)
		if !ok {
			return 0, fmt.Errorf("%w: %x in the key bucket is not a revision", boltfile.ErrCorrupt, k)
		}
		last = max(last, main)
	}
	return last, nil
}
