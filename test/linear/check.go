package linear

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"
)

// ErrUndecided: the time was over before an order was found or excluded.
var ErrUndecided = errors.New("the time to check was over")

// A Violation is a record that no order of its operations explains.
type Violation struct {
	Key  string // empty: it is about several
	Text string // what cannot be explained, on several lines
}

func (v *Violation) Error() string {
	if v.Key == "" {
		return "not linearizable: " + v.Text
	}
	return fmt.Sprintf("not linearizable: key %s: %s", v.Key, v.Text)
}

// Check is nil if the operations are linearizable, key by key, and if revisions follow the order
// of time over all keys. It returns a [Violation], or wraps [ErrUndecided] after atMost.
func Check(ops []Operation, atMost time.Duration) error {
	if err := ordered(ops); err != nil {
		return err
	}
	return eachKey(settle(ops), atMost)
}

// ordered holds revisions against time: who asks after somebody else was answered sees the other's
// revision or a later one, and writes have revisions of their own.
func ordered(ops []Operation) error {
	var answered []Operation
	for _, o := range ops {
		if !o.Unknown {
			answered = append(answered, o)
		}
	}
	writes := map[int64]Operation{}
	for _, o := range answered {
		if !o.Wrote() {
			continue
		}
		if other, ok := writes[o.Revision]; ok {
			return &Violation{Text: fmt.Sprintf("two writes were acknowledged at one revision\n  %s: %s\n  %s: %s", other.Key, other, o.Key, o)}
		}
		writes[o.Revision] = o
	}
	calls := slices.Clone(answered)
	slices.SortFunc(calls, func(a, b Operation) int { return int(a.Call - b.Call) })
	slices.SortFunc(answered, func(a, b Operation) int { return int(a.Return - b.Return) })
	var newest Operation
	for _, o := range calls {
		for len(answered) > 0 && answered[0].Return < o.Call {
			if answered[0].Revision > newest.Revision {
				newest = answered[0]
			}
			answered = answered[1:]
		}
		if o.Revision < newest.Revision || o.Wrote() && o.Revision == newest.Revision {
			return &Violation{Text: fmt.Sprintf("revisions go back in time\n  %s: %s\n  %s: %s", newest.Key, newest, o.Key, o)}
		}
	}
	return nil
}

// settle finds out what became of writes without an answer whose values somebody read: they
// happened, at the mod revision that was read, before the reader was answered. Values are unlike
// each other, so this is certain, and it saves the search most of its work.
func settle(ops []Operation) []Operation {
	type sight struct {
		mod    int64
		before time.Duration
	}
	seen := map[string]sight{}
	for _, o := range ops {
		if o.Unknown || !o.Found {
			continue
		}
		if s, ok := seen[o.Read]; !ok || o.Return < s.before {
			seen[o.Read] = sight{o.Mod, o.Return}
		}
	}
	ops = slices.Clone(ops)
	for i, o := range ops {
		s, ok := seen[o.Value]
		// What was read before it was written is for the check to object to.
		if !o.Unknown || o.Kind == Delete || !ok || s.before < o.Call {
			continue
		}
		ops[i].Unknown, ops[i].Done, ops[i].Revision, ops[i].Return = false, o.Kind == Swap, s.mod, s.before
	}
	return ops
}

// eachKey checks the keys, as many at once as there are processors.
func eachKey(ops []Operation, atMost time.Duration) error {
	byKey := map[string][]porcupine.Operation{}
	for _, o := range ops {
		end := int64(o.Return)
		if o.Unknown {
			end = math.MaxInt64
		}
		byKey[o.Key] = append(byKey[o.Key], porcupine.Operation{ClientId: o.Client, Input: o, Call: int64(o.Call), Output: nil, Return: end})
	}
	deadline := time.Now().Add(atMost)
	keys := slices.Sorted(maps.Keys(byKey))
	errs := make([]error, len(keys))
	var next atomic.Int64
	var failed atomic.Bool
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for !failed.Load() {
				i := int(next.Add(1)) - 1
				if i >= len(keys) {
					return
				}
				if errs[i] = oneKey(keys[i], byKey[keys[i]], deadline); errs[i] != nil {
					failed.Store(true)
				}
			}
		})
	}
	workers.Wait()
	for _, err := range errs {
		if v := (*Violation)(nil); errors.As(err, &v) {
			return err
		}
	}
	return errors.Join(errs...)
}

func oneKey(key string, ops []porcupine.Operation, deadline time.Time) error {
	left := time.Until(deadline)
	if left <= 0 {
		return fmt.Errorf("key %s with %d operations: %w", key, len(ops), ErrUndecided)
	}
	switch porcupine.CheckOperationsTimeout(model, ops, left) {
	case porcupine.Ok:
		return nil
	case porcupine.Illegal:
		return &Violation{Key: key, Text: explain(ops, max(time.Until(deadline), time.Minute))}
	}
	return fmt.Errorf("key %s with %d operations: %w", key, len(ops), ErrUndecided)
}

// explain tells how far an order could be found and what nobody can place after it.
func explain(ops []porcupine.Operation, atMost time.Duration) string {
	_, info := porcupine.CheckOperationsVerbose(model, ops, atMost)
	var longest []porcupine.Operation
	for _, partition := range info.PartialLinearizationsOperations() {
		for _, found := range partition {
			if len(found) > len(longest) {
				longest = found
			}
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d of %d operations have an order", len(longest), len(ops))
	s, placed := state{}, map[Operation]bool{}
	for _, o := range longest {
		_, s = s.step(o.Input.(Operation))
		placed[o.Input.(Operation)] = true
	}
	const few = 6
	if len(longest) > 0 {
		fmt.Fprintf(&b, ", of which the last are")
	}
	for _, o := range longest[max(0, len(longest)-few):] {
		fmt.Fprintf(&b, "\n    %s", o.Input.(Operation))
	}
	fmt.Fprintf(&b, "\n  after them the key is: %s, and these have no place", s)
	var rest []Operation
	for _, o := range ops {
		if o := o.Input.(Operation); !placed[o] {
			rest = append(rest, o)
		}
	}
	slices.SortFunc(rest, func(a, b Operation) int { return int(a.Return - b.Return) })
	for _, o := range rest[:min(few, len(rest))] {
		fmt.Fprintf(&b, "\n    %s", o)
	}
	return b.String()
}
