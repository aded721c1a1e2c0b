package datadir

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"druid.internal/druid/internal/etcd/datadir/boltfile"
	"go.etcd.io/etcd/api/v3/authpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	"go.etcd.io/etcd/server/v3/lease/leasepb"
)

// checkAll reads the whole file, walks every page of its tree and looks at every record. What is
// wrong is *damage. progress hears of the bytes read.
//
// There are no checksums in such a file: another value in the place of a value is found by
// comparing the HashKV of the members, not here.
func (db *DB) checkAll(ctx context.Context, progress func(int64)) error {
	if err := db.readAhead(ctx, progress); err != nil {
		return err
	}
	n := 0
	err := db.file.CheckEach(false, func(bucket string, k, v []byte) error {
		if n++; n%4096 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return checkRecord(bucket, k, v)
	})
	if errors.Is(err, boltfile.ErrCorrupt) {
		return damaged("%s: %v", db.file.Name(), err)
	}
	return err
}

// readAhead loads the file in its order.
func (db *DB) readAhead(ctx context.Context, progress func(int64)) error {
	const step = 8 << 20
	for at := int64(0); at < db.file.Size(); at += step {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := db.file.Load(at, step); err != nil {
			return err
		}
		progress(min(step, db.file.Size()-at))
	}
	return nil
}

// checkRecord tells whether etcd can read the record.
func checkRecord(bucket string, k, v []byte) error {
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("%w: bucket %s: %s", boltfile.ErrCorrupt, bucket, fmt.Sprintf(format, args...))
	}
	switch bucket {
	case keyBucket:
		main, sub, tombstone, ok := parseRevision(k)
		if !ok {
			return wrong("%x is not a revision", k)
		}
		s, plain := plainStored(v)
		if !plain {
			var kv mvccpb.KeyValue
			if kv.Unmarshal(v) != nil {
				return wrong("revision %d.%d holds no key-value pair", main, sub)
			}
			s = stored{key: kv.Key, create: kv.CreateRevision, mod: kv.ModRevision, version: kv.Version, lease: kv.Lease}
		}
		e := entry{main: main, sub: sub, tombstone: tombstone, stored: s}
		switch {
		case e.bump():
		case tombstone && (len(s.key) == 0 || s.mod|s.create|s.version|s.lease != 0):
			return wrong("revision %d.%d is not the deletion that it says it is", main, sub)
		case !tombstone && (len(s.key) == 0 || s.mod != int64(main) || s.create > s.mod || s.create < 1 ||
			s.version < 1 || (s.version == 1) != (s.create == s.mod) || s.version > s.mod-s.create+1):
			return wrong("revision %d.%d says that it is version %d of revision %d, created at %d", main, sub, s.version, s.mod, s.create)
		}
	case leaseBucket:
		var l leasepb.Lease
		if len(k) != 8 || l.Unmarshal(v) != nil {
			return wrong("%x is not a lease", k)
		}
	case membersBucket:
		var m membership.Member
		if err := json.Unmarshal(v, &m); err != nil || m.ID.String() != string(k) {
			return wrong("%q is not a member", k)
		}
	case authUsersBucket:
		var u authpb.User
		if u.Unmarshal(v) != nil {
			return wrong("%q is not a user", k)
		}
	case authRolesBucket:
		var r authpb.Role
		if r.Unmarshal(v) != nil {
			return wrong("%q is not a role", k)
		}
	}
	return nil
}

// plainStored is [parseStored] for a record as etcd writes it: every field at most once, in order.
// It is false for anything else. There are millions of them, so it is written out.
func plainStored(v []byte) (s stored, ok bool) {
	const keyField, valueField = 1<<3 | 2, 5<<3 | 2
	if s.key, v, ok = plainBytes(v, keyField); !ok {
		return s, false
	}
	if s.create, v, ok = plainNumber(v, 2<<3); !ok {
		return s, false
	}
	if s.mod, v, ok = plainNumber(v, 3<<3); !ok {
		return s, false
	}
	if s.version, v, ok = plainNumber(v, 4<<3); !ok {
		return s, false
	}
	if _, v, ok = plainBytes(v, valueField); !ok {
		return s, false
	}
	s.lease, v, ok = plainNumber(v, 6<<3)
	return s, ok && len(v) == 0
}

// plainNumber reads the field if it comes next; otherwise it is 0.
func plainNumber(b []byte, tag byte) (n int64, rest []byte, ok bool) {
	if len(b) < 2 || b[0] != tag {
		return 0, b, true
	}
	x, size := binary.Uvarint(b[1:])
	if size <= 0 {
		return 0, b, false
	}
	return int64(x), b[1+size:], true
}

// plainBytes reads the field if it comes next.
func plainBytes(b []byte, tag byte) (field, rest []byte, ok bool) {
	if len(b) < 2 || b[0] != tag {
		return nil, b, true
	}
	n, size := binary.Uvarint(b[1:])
	if size <= 0 || n > uint64(len(b)-1-size) {
		return nil, b, false
	}
	b = b[1+size:]
	return b[:n:n], b[n:], true
}
