package datadir

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/etcdserver/version"

	"druid.internal/druid/internal/backup/snapshot"
)

// writeSmallBuckets copies all buckets but the keys from the base, with the changes that a new
// history needs. Buckets that an etcd makes when it starts are made here too.
func (r *rebuild) writeSmallBuckets(neededLeases map[int64]snapshot.Revision) error {
	names := []string{metaBucket, leaseBucket, clusterBucket, membersBucket, membersRemovedBucket, authBucket, authUsersBucket, authRolesBucket, alarmBucket}
	if r.base != nil {
		for _, name := range r.base.Buckets() {
			if name != keyBucket && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	for _, name := range names {
		r.out.begin(name)
		var err error
		switch {
		case name == metaBucket:
			err = r.writeMeta()
		case name == leaseBucket:
			err = r.writeLeases(neededLeases)
		case name == alarmBucket:
			err = r.writeAlarms()
		case name == membersBucket && r.members != nil:
			err = r.writeSorted(r.members.records)
		case name == membersRemovedBucket && r.members != nil:
		default:
			err = r.eachBase(name, r.out.put)
		}
		if err != nil {
			return fmt.Errorf("bucket %s: %w", name, err)
		}
	}
	return r.note()
}

// eachBase walks a bucket of the base; none is an empty one.
func (r *rebuild) eachBase(bucket string, fn func(k, v []byte) error) error {
	if r.base == nil {
		return nil
	}
	b, ok := r.base.Bucket(bucket)
	if !ok {
		return nil
	}
	return b.Each(nil, fn)
}

func (r *rebuild) writeSorted(records map[string][]byte) error {
	for _, k := range slices.Sorted(maps.Keys(records)) {
		if err := r.out.put([]byte(k), records[k]); err != nil {
			return err
		}
	}
	return nil
}

// writeMeta writes the compact revision and, for a new cluster, where raft begins: its consistent
// index would otherwise make etcd ignore as many entries as the old cluster had.
func (r *rebuild) writeMeta() error {
	meta := map[string][]byte{}
	if err := r.eachBase(metaBucket, func(k, v []byte) error {
		meta[string(k)] = slices.Clone(v)
		return nil
	}); err != nil {
		return err
	}
	if compact := r.report.CompactRevision; compact > 0 && (!r.o.KeepHistory || r.o.BumpRevision > 0) {
		mark := appendRevision(nil, compact, 0, false)
		meta[scheduledCompact] = mark
		if !r.o.KeepHistory { // else etcd compacts when it starts, as after etcdutl's --bump-revision
			meta[finishedCompact] = mark
		}
	}
	index, term, voters := uint64(1), uint64(1), []byte("{}")
	if r.members != nil {
		index, voters = r.members.commit, r.members.confState
	}
	if r.members != nil || r.base == nil {
		meta[consistentIndex] = binary.BigEndian.AppendUint64(nil, index)
		meta[raftTerm] = binary.BigEndian.AppendUint64(nil, term)
		meta[raftConfState] = voters
	}
	return r.writeSorted(meta)
}

// writeAlarms is called last, when the size of the file is known but for a few pages.
func (r *rebuild) writeAlarms() error {
	const rest = 1 << 20
	return r.eachBase(alarmBucket, func(k, v []byte) error {
		var a etcdserverpb.AlarmMember
		if err := a.Unmarshal(k); err != nil {
			return fmt.Errorf("alarm %x: %w", k, err)
		}
		text := fmt.Sprintf("%s of member %x", a.Alarm, a.MemberID)
		if a.Alarm == etcdserverpb.AlarmType_NOSPACE && r.out.Written()+rest < r.o.QuotaBytes {
			r.report.AlarmsCleared = append(r.report.AlarmsCleared, text)
			return nil
		}
		r.report.AlarmsKept = append(r.report.AlarmsKept, text)
		return r.out.put(k, v)
	})
}

// note reports what a person should know about the rest of the base.
func (r *rebuild) note() error {
	if r.base == nil {
		return nil
	}
	s := State{Revision: r.baseLast}
	if err := s.read(r.base); err != nil {
		return err
	}
	r.report.AuthEnabled, r.report.DowngradeTo = s.AuthEnabled, s.DowngradeTo
	return nil
}

// parseDowngrade reads the record of the cluster bucket; empty: no downgrade goes on.
func parseDowngrade(v []byte) (string, error) {
	var d version.DowngradeInfo
	if len(v) == 0 {
		return "", nil
	}
	if err := json.Unmarshal(v, &d); err != nil {
		return "", fmt.Errorf("downgrade information: %w", err)
	}
	if !d.Enabled {
		return "", nil
	}
	return d.TargetVersion, nil
}
