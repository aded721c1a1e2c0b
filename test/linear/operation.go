package linear

import (
	"fmt"
	"slices"
	"time"
)

// Kind is what a client asks.
type Kind string

// The kinds.
const (
	Get    Kind = "get"    // linearizable
	Put    Kind = "put"    //
	Swap   Kind = "swap"   // put if the key's mod revision is the expected one, else get
	Delete Kind = "delete" //
)

// Operation is what one client asked about one key, and was told.
type Operation struct {
	Client int
	Kind   Kind
	Key    string
	Value  string // of put and swap; no two operations of a record write the same
	Expect int64  // of swap: the mod revision; 0: there must be no such key

	// Call and Return are counted from the beginning of the record. The operation happened, if it
	// did, between them.
	Call, Return time.Duration

	// Unknown: no answer came. Return is when the client stopped waiting and means nothing else.
	Unknown bool
	Err     string // why there is no answer

	// The answer.
	Revision int64  // of the etcd as it answered; that of the write, if it wrote
	Done     bool   // swap: it wrote; delete: there was something to delete
	Found    bool   // get, and a swap that did not write: there is such a key
	Read     string // its value
	Mod      int64  // its mod revision
}

// Wrote reports whether the client was told that the operation changed the key.
func (o Operation) Wrote() bool {
	return !o.Unknown && (o.Kind == Put || o.Done)
}

// String tells the operation in one line.
func (o Operation) String() string {
	asked := string(o.Kind)
	switch o.Kind {
	case Put:
		asked = fmt.Sprintf("put %q", o.Value)
	case Swap:
		asked = fmt.Sprintf("swap mod %d for %q", o.Expect, o.Value)
	}
	return fmt.Sprintf("[%s, %s] client %d: %s -> %s", o.Call, o.Return, o.Client, asked, o.answer())
}

func (o Operation) answer() string {
	switch {
	case o.Unknown:
		return "no answer: " + o.Err
	case o.Kind == Put, o.Kind == Swap && o.Done:
		return fmt.Sprintf("written at %d", o.Revision)
	case o.Kind == Delete && o.Done:
		return fmt.Sprintf("deleted at %d", o.Revision)
	case o.Kind == Delete:
		return fmt.Sprintf("nothing to delete at %d", o.Revision)
	case !o.Found:
		return fmt.Sprintf("no such key at %d", o.Revision)
	}
	return fmt.Sprintf("%q mod %d at %d", o.Read, o.Mod, o.Revision)
}

// Acknowledged counts the operations that were answered.
func Acknowledged(ops []Operation) int {
	n := 0
	for _, o := range ops {
		if !o.Unknown {
			n++
		}
	}
	return n
}

// Stall is the longest time in which no write was answered, between the first and the last answer
// to a write, and when it began. Fewer than two answers are no stall.
func Stall(ops []Operation) (longest, from time.Duration) {
	var at []time.Duration
	for _, o := range ops {
		if o.Wrote() {
			at = append(at, o.Return)
		}
	}
	slices.Sort(at)
	for i := 1; i < len(at); i++ {
		if d := at[i] - at[i-1]; d > longest {
			longest, from = d, at[i-1]
		}
	}
	return longest, from
}
