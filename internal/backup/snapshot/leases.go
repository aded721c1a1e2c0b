package snapshot

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
)

// MaxLeaseTTL is the longest time to live that etcd grants, in seconds. An etcd that starts with a
// longer one overflows and revokes the lease at once.
const MaxLeaseTTL = 9_000_000_000

// Values of LeaseState.TTL that are not a granted time to live.
const (
	LeaseGone    = 0  // etcd has no such lease
	LeaseUnknown = -1 // a key was attached to the lease, and etcd did not answer for how long it was granted
)

// LeaseRecord is what etcd answered about leases at one revision. etcd's watch shows no lease, so a
// delta carries in its manifest what its writer asked. Each record holds only what differs from the
// records before it:
//
//	full             lease 7: 60 s
//	delta  2 to 40   at 31: lease 9: 300 s     at 40: lease 7: 86400 s (granted again)
//	delta 41 to 55   at 55: lease 9: gone
//
// A record may be of a revision beyond the end of its delta, because etcd writes on while it is asked.
type LeaseRecord struct {
	Revision Revision `json:"revision"`
	// Between, if set, says that etcd had no leases with ids in this range other than those in States.
	Between *LeaseRange `json:"between,omitempty"`
	States  LeaseStates `json:"leases,omitempty"`
}

// LeaseRange is the first and the last id of a range, in the order of CompareLeases.
type LeaseRange [2]int64

// Contains reports whether id is in the range.
func (r LeaseRange) Contains(id int64) bool {
	return CompareLeases(r[0], id) <= 0 && CompareLeases(id, r[1]) <= 0
}

// LeaseState is one lease: its granted time to live in seconds, LeaseGone or LeaseUnknown.
type LeaseState struct{ ID, TTL int64 }

// LeaseStates are sorted by id, without duplicates. As JSON they are one list of numbers, two for each lease: its id
// less the id before it (of the first: its id), and its time to live. Ids that an etcd makes follow each other closely.
type LeaseStates []LeaseState

// CompareLeases is the order of ids in etcd's lease bucket, which takes them as unsigned.
func CompareLeases(a, b int64) int { return cmp.Compare(uint64(a), uint64(b)) }

// MarshalJSON writes the list of numbers.
func (s LeaseStates) MarshalJSON() ([]byte, error) {
	numbers := make([]int64, 0, 2*len(s))
	before := int64(0)
	for _, l := range s {
		numbers = append(numbers, l.ID-before, l.TTL) // wraps around, as UnmarshalJSON does
		before = l.ID
	}
	return json.Marshal(numbers)
}

// UnmarshalJSON is the inverse of MarshalJSON. It rejects everything that MarshalJSON does not write for sorted leases.
func (s *LeaseStates) UnmarshalJSON(text []byte) error {
	var numbers []int64
	if err := json.Unmarshal(text, &numbers); err != nil {
		return err
	}
	if len(numbers)%2 != 0 {
		return fmt.Errorf("leases: %d numbers, want two for each lease", len(numbers))
	}
	states := make(LeaseStates, 0, len(numbers)/2)
	for id := int64(0); len(numbers) > 0; numbers = numbers[2:] {
		next, ttl := id+numbers[0], numbers[1]
		switch {
		case CompareLeases(id, next) >= 0:
			return errors.New("leases: an id that does not follow the one before it")
		case ttl < LeaseUnknown, ttl > MaxLeaseTTL:
			return fmt.Errorf("leases: lease %x has a time to live of %d s, want %d to %d", uint64(next), ttl, LeaseUnknown, int64(MaxLeaseTTL))
		}
		states, id = append(states, LeaseState{next, ttl}), next
	}
	*s = states
	return nil
}

// check says what is wrong with a record, or nothing.
func (r LeaseRecord) check() string {
	switch {
	case r.Revision <= 0:
		return fmt.Sprintf("leases at revision %d", r.Revision)
	case r.Between != nil && CompareLeases(r.Between[0], r.Between[1]) > 0:
		return fmt.Sprintf("leases between %x and %x", uint64(r.Between[0]), uint64(r.Between[1]))
	}
	return ""
}
