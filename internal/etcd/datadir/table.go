package datadir

// table is a hash table with open addressing, from keys to the newest mark of each.
type table struct {
	slots []mark
	raw   []byte
	count int
}

// newTable makes a table with the given number of slots, a power of two.
func newTable(slots int) (*table, error) {
	t := new(table)
	var err error
	t.slots, t.raw, err = mapMarks(slots)
	return t, err
}

func (t *table) bytes() int64 { return int64(len(t.raw)) }

// crowded tells that it must grow before another key is inserted.
func (t *table) crowded() bool { return t.count*4 >= len(t.slots)*3 }

// find returns the slot of the key, or the empty one where it belongs.
func (t *table) find(k keySum) (slot *mark, found bool) {
	mask := uint64(len(t.slots) - 1)
	for i := k[0] & mask; ; i = (i + 1) & mask {
		m := &t.slots[i]
		if m.ordinal == 0 {
			return m, false
		}
		if m.sum == k {
			return m, true
		}
	}
}

func (t *table) grow() error {
	bigger, err := newTable(2 * len(t.slots))
	if err != nil {
		return err
	}
	for i := range t.slots {
		if m := &t.slots[i]; m.ordinal != 0 {
			slot, _ := bigger.find(m.sum)
			*slot = *m
		}
	}
	unmapMemory(t.raw)
	t.slots, t.raw = bigger.slots, bigger.raw
	return nil
}

func (t *table) clear() {
	clear(t.slots)
	t.count = 0
}

// alive counts the keys whose newest record is not a tombstone. The mark of a revision bump
// belongs to no key.
func (t *table) alive() (n int64) {
	for i := range t.slots {
		if m := &t.slots[i]; m.ordinal != 0 && m.version > 0 {
			n++
		}
	}
	return n
}

// close gives the memory back. It may be called again.
func (t *table) close() {
	unmapMemory(t.raw)
	t.slots, t.raw, t.count = nil, nil, 0
}
