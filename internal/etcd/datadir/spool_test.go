package datadir

import (
	"bytes"
	"fmt"
	"testing"

	"druid.internal/druid/internal/backup/snapshot"
)

func TestASpoolStaysWithinItsMemoryAndKeepsTheOrder(t *testing.T) {
	const records, limit = 20_000, 256 << 10
	for name, c := range map[string]struct {
		dies      func(ordinal uint64) (victim uint64, ok bool) // as the record is added
		wantSpill bool
	}{
		"nothing dies":              {func(o uint64) (uint64, bool) { return 0, false }, true},
		"all but the newest 50 die": {func(o uint64) (uint64, bool) { return o - 50, o >= 50 }, false},
		"every second one dies":     {func(o uint64) (uint64, bool) { return o - 1, o%2 == 1 }, true},
	} {
		t.Run(name, func(t *testing.T) {
			tr, err := newTracker(1<<20, t.TempDir(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer tr.close()
			s := newSpool(limit, t.TempDir(), nil, tr)
			defer s.close()
			value := func(o uint64) []byte { return bytes.Repeat([]byte{byte(o)}, int(o*o%300)) }
			for o := range uint64(records) {
				if victim, ok := c.dies(o); ok {
					tr.superseded.set(victim)
					tr.deaths++
				}
				v := value(o)
				if o == 777 {
					v = bytes.Repeat(v[:1], 3*limit) // one that never fits
				}
				if err := s.add(spooled{ordinal: o, main: snapshot.Revision(o), sub: 3, lease: -1, tombstone: o%3 == 0, value: v}); err != nil {
					t.Fatal(err)
				}
				if all := s.held + int64(len(s.spare)*s.chunk); o != 777 && o > 800 && all > limit+int64(2*s.chunk) {
					t.Fatalf("record %d: %d bytes in memory, the limit is %d", o, all, limit)
				}
			}
			next := uint64(0)
			if err := s.each(func(r spooled) error {
				for next < r.ordinal && tr.isDead(next) {
					next++
				}
				want := value(next)
				if next == 777 {
					want = bytes.Repeat(want[:1], 3*limit)
				}
				if r.ordinal != next || r.main != snapshot.Revision(next) || r.sub != 3 || r.lease != -1 || r.tombstone != (next%3 == 0) || !bytes.Equal(r.value, want) {
					return fmt.Errorf("record %d is %d with %d bytes", next, r.ordinal, len(r.value))
				}
				next++
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			if next != records {
				t.Errorf("the last record is %d", next-1)
			}
			if spilled := s.bytes > 4*limit; spilled != c.wantSpill {
				t.Errorf("%d bytes were spilled", s.bytes)
			}
		})
	}
}
