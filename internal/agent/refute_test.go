package agent

import (
	"testing"

	"druid.internal/druid/internal/backup/snapshot"
)

func TestDataAreGivenUpOnlyAgainstAMajority(t *testing.T) {
	h := func(hash uint32) snapshot.HashKV {
		return snapshot.HashKV{Revision: 9, CompactRevision: 4, Hash: hash}
	}
	other := snapshot.HashKV{Revision: 9, CompactRevision: 5, Hash: 2}
	for name, c := range map[string]struct {
		others map[uint64]snapshot.HashKV
		voters int
		want   bool
	}{
		"both others agree on something else":        {map[uint64]snapshot.HashKV{1: h(2), 2: h(2)}, 3, true},
		"the others agree with it":                   {map[uint64]snapshot.HashKV{1: h(1), 2: h(1)}, 3, false},
		"one agrees with it":                         {map[uint64]snapshot.HashKV{1: h(1), 2: h(2)}, 3, false},
		"the others do not agree":                    {map[uint64]snapshot.HashKV{1: h(2), 2: h(3)}, 3, false},
		"one does not answer":                        {map[uint64]snapshot.HashKV{1: h(2)}, 3, false},
		"of two members nobody is a majority":        {map[uint64]snapshot.HashKV{1: h(2)}, 2, false},
		"three of five agree":                        {map[uint64]snapshot.HashKV{1: h(2), 2: h(2), 3: h(2), 4: h(1)}, 5, true},
		"two of five agree":                          {map[uint64]snapshot.HashKV{1: h(2), 2: h(2), 3: h(3), 4: h(4)}, 5, false},
		"the others are compacted to another":        {map[uint64]snapshot.HashKV{1: other, 2: other}, 3, false},
		"nobody answers":                             {nil, 3, false},
		"a majority agrees, one is not compacted so": {map[uint64]snapshot.HashKV{1: h(2), 2: h(2), 3: h(2), 4: other}, 5, true},
	} {
		if why := outvoted(h(1), c.others, c.voters); (why != "") != c.want {
			t.Errorf("%s: %q, want given up: %v", name, why, c.want)
		}
	}
}
