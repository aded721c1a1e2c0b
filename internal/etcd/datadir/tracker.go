package datadir

import (
	"hash/maphash"
	"unsafe"
)

// keySum stands for a key: 128 bits under two seeds that are drawn anew for every rebuild. With
// 10^8 keys, two of them collide in one of 10^22 rebuilds, and the collision would show as a
// broken chain of versions.
type keySum [2]uint64

type seeds [3]maphash.Seed

func newSeeds() seeds {
	return seeds{maphash.MakeSeed(), maphash.MakeSeed(), maphash.MakeSeed()}
}

func (s *seeds) key(k []byte) keySum {
	return keySum{maphash.Bytes(s[0], k), maphash.Bytes(s[1], k)}
}

// content is for comparing records of the same revision, not for telling keys apart.
func (s *seeds) content(value []byte, tombstone bool) uint64 {
	h := maphash.Bytes(s[2], value)
	if tombstone {
		h = ^h
	}
	return h
}

// mark is what the tracker has to know of a record. Records are numbered (their ordinals) in the
// order of their revisions, those of the base first.
type mark struct {
	sum     keySum
	ordinal uint64 // and flags in the highest bits
	version int64  // 0: tombstone, or the record that etcdutl leaves when it bumps the revision
	create  int64
}

const (
	markBytes     = int(unsafe.Sizeof(mark{}))
	tombstoneFlag = 1 << 63
	settledFlag   = 1 << 62 // its place in the key's history was judged before
	presentFlag   = 1 << 61 // distinguishes a slot in use from an empty one
	ordinalMask   = presentFlag - 1
)

func (m *mark) index() uint64   { return m.ordinal & ordinalMask }
func (m *mark) tombstone() bool { return m.ordinal&tombstoneFlag != 0 }

// breach is a record that does not continue its key's history.
type breach struct {
	ordinal uint64
	reason  string
}

func (b *breach) Error() string { return b.reason }

// tracker finds out which records are superseded by later records of the same key, and whether
// each continues the history of its key. It keeps the newest record of every key in a table;
// when the table outgrows its limit, marks are spilled, partitioned by key, and every partition
// goes through a table of its own at the end.
type tracker struct {
	limit   int64
	scratch string
	room    *reserve
	table   *table
	spill   *partitions

	// superseded has the ordinals that have a successor. For compaction at a revision before the
	// last, twoSets is true, and supersededEarly has those whose successor is below early.
	superseded      bitmap
	supersededEarly bitmap
	twoSets         bool
	early           uint64

	// The end of the base: a record before it starts its key's history wherever it likes, because
	// earlier ones may have been compacted, and is counted as irregular instead of refused.
	baseEnd   uint64
	irregular int64
	absent    int64 // deletions of keys that did not exist, in the deltas
	live      int64 // keys alive; valid after finish
	deaths    int64 // how many records are known to be dead
}

// firstSlots is the size of a new table.
const firstSlots = 64

// everything is above all ordinals.
const everything = ^uint64(0)

func newTracker(limit int64, scratch string, room *reserve) (*tracker, error) {
	t := &tracker{limit: limit, scratch: scratch, room: room, early: everything, baseEnd: everything}
	var err error
	t.table, err = newTable(firstSlots)
	return t, err
}

func (t *tracker) close() {
	t.table.close()
	if t.spill != nil {
		t.spill.close()
	}
}

func (t *tracker) spilled() int64 {
	if t.spill == nil {
		return 0
	}
	return t.spill.bytes
}

// isDead tells whether compaction drops the record because of a later one.
func (t *tracker) isDead(ordinal uint64) bool {
	if t.twoSets {
		return t.supersededEarly.has(ordinal)
	}
	return t.superseded.has(ordinal)
}

// add takes the next record. A *breach is returned at once, or by finish if it was spilled.
func (t *tracker) add(m mark) error {
	m.ordinal |= presentFlag
	if t.spill != nil {
		return t.spill.add(&m)
	}
	if t.table.crowded() {
		// While it grows, the old and the new table exist.
		if t.table.bytes()*3 > t.limit {
			if err := t.startSpilling(); err != nil {
				return err
			}
			return t.spill.add(&m)
		}
		if err := t.table.grow(); err != nil {
			return err
		}
	}
	return t.apply(&m)
}

func (t *tracker) startSpilling() error {
	p, err := newPartitions(t.scratch, t.room)
	if err != nil {
		return err
	}
	t.spill = p
	for i := range t.table.slots {
		if m := t.table.slots[i]; m.ordinal != 0 {
			m.ordinal |= settledFlag
			if err := p.add(&m); err != nil {
				return err
			}
		}
	}
	t.table.close()
	return nil
}

// apply puts the mark in the place of the one before it.
func (t *tracker) apply(m *mark) error {
	slot, found := t.table.find(m.sum)
	if !found {
		if err := t.judgeFirst(m); err != nil {
			return err
		}
		*slot = *m
		t.table.count++
		return nil
	}
	if err := t.judgeNext(slot, m); err != nil {
		return err
	}
	t.superseded.set(slot.index())
	if t.twoSets && m.index() < t.early {
		t.supersededEarly.set(slot.index())
	}
	t.deaths++
	*slot = *m
	return nil
}

func (t *tracker) judgeFirst(m *mark) error {
	switch {
	case m.index() < t.baseEnd || m.ordinal&settledFlag != 0:
	case m.tombstone():
		t.absent++
	case m.version > 1:
		return &breach{m.index(), "it has earlier versions that are in none of the snapshots"}
	}
	return nil
}

func (t *tracker) judgeNext(prev, m *mark) error {
	reason := ""
	switch {
	case m.ordinal&settledFlag != 0, m.version == 0 && !m.tombstone():
		return nil
	case m.tombstone() && !prev.tombstone():
		return nil
	case m.tombstone():
		if m.index() >= t.baseEnd {
			t.absent++
			return nil
		}
		reason = "it was deleted twice"
	case prev.tombstone() && m.version != 1:
		reason = "it is not the first version after a deletion"
	case !prev.tombstone() && m.version != prev.version+1:
		reason = "its version does not follow the one before: changes in between are missing"
	case !prev.tombstone() && m.create != prev.create:
		reason = "it was created at another revision than the version before"
	default:
		return nil
	}
	if m.index() < t.baseEnd {
		t.irregular++
		return nil
	}
	return &breach{m.index(), reason}
}

// finish judges what was spilled and counts the keys alive.
func (t *tracker) finish() error {
	if t.spill == nil {
		t.live += t.table.alive()
		return nil
	}
	if err := t.spill.flush(); err != nil {
		return err
	}
	var err error
	if t.table, err = newTable(firstSlots); err != nil {
		return err
	}
	for p := range partitionCount {
		t.table.clear()
		err := t.spill.each(p, func(m *mark) error {
			if t.table.crowded() {
				if err := t.table.grow(); err != nil {
					return err
				}
			}
			return t.apply(m)
		})
		if err != nil {
			return err
		}
		t.live += t.table.alive()
	}
	t.table.close()
	return nil
}
