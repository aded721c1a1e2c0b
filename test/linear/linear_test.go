package linear

import (
	"errors"
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"
	"time"
)

// checkTime is more than any check here needs.
const checkTime = 5 * time.Minute

// at makes an operation that lasts from one millisecond to another.
func at(from, to int, o Operation) Operation {
	o.Key, o.Call, o.Return = "k", time.Duration(from)*time.Millisecond, time.Duration(to)*time.Millisecond
	return o
}

func get(value string, mod, rev int64) Operation {
	return Operation{Kind: Get, Found: value != "", Read: value, Mod: mod, Revision: rev}
}

func put(value string, rev int64) Operation {
	return Operation{Kind: Put, Value: value, Revision: rev}
}

func swapped(expect int64, value string, rev int64) Operation {
	return Operation{Kind: Swap, Expect: expect, Value: value, Done: true, Revision: rev}
}

func deleted(rev int64) Operation { return Operation{Kind: Delete, Done: true, Revision: rev} }

func lost(o Operation) Operation {
	o.Unknown, o.Done, o.Revision = true, false, 0
	return o
}

func TestRecordsAreJudgedByWhetherAnOrderExplainsThem(t *testing.T) {
	for what, c := range map[string]struct {
		ops  []Operation
		want bool
	}{
		"nothing":                             {nil, true},
		"a read of what was written":          {[]Operation{at(0, 1, put("a", 2)), at(2, 3, get("a", 2, 2))}, true},
		"a read during a write sees neither":  {[]Operation{at(0, 9, put("a", 2)), at(2, 3, get("", 0, 1))}, true},
		"a lost write":                        {[]Operation{at(0, 1, put("a", 2)), at(2, 3, get("", 0, 2))}, false},
		"a lost write that another hides":     {[]Operation{at(0, 1, put("a", 2)), at(2, 3, put("b", 3)), at(4, 5, get("a", 2, 3))}, false},
		"a stale read":                        {[]Operation{at(0, 1, put("a", 2)), at(2, 3, put("b", 3)), at(4, 5, get("b", 3, 3)), at(6, 7, get("a", 2, 3))}, false},
		"a read from a revision that is over": {[]Operation{at(0, 1, put("a", 2)), at(2, 3, put("b", 3)), at(4, 5, get("a", 2, 2))}, false},
		"two reads in two orders": {[]Operation{at(0, 9, put("a", 2)), at(0, 9, put("b", 3)),
			at(10, 11, get("b", 3, 3)), at(12, 13, get("a", 2, 3))}, false},
		"a swap of what is there":              {[]Operation{at(0, 1, put("a", 2)), at(2, 3, swapped(2, "b", 3)), at(4, 5, get("b", 3, 3))}, true},
		"a swap of what is not there":          {[]Operation{at(0, 1, put("a", 2)), at(2, 3, swapped(9, "b", 3))}, false},
		"two swaps of the same":                {[]Operation{at(0, 1, put("a", 2)), at(2, 9, swapped(2, "b", 3)), at(2, 9, swapped(2, "c", 4))}, false},
		"a swap that makes the key":            {[]Operation{at(0, 1, swapped(0, "a", 2)), at(2, 3, get("a", 2, 2))}, true},
		"a swap that makes what is there":      {[]Operation{at(0, 1, put("a", 2)), at(2, 3, swapped(0, "b", 3))}, false},
		"a swap that was wrongly refused":      {[]Operation{at(0, 1, put("a", 2)), at(2, 3, Operation{Kind: Swap, Expect: 2, Value: "b", Found: true, Read: "a", Mod: 2, Revision: 2})}, false},
		"a swap that was rightly refused":      {[]Operation{at(0, 1, put("a", 2)), at(2, 3, Operation{Kind: Swap, Expect: 7, Value: "b", Found: true, Read: "a", Mod: 2, Revision: 2})}, true},
		"a delete":                             {[]Operation{at(0, 1, put("a", 2)), at(2, 3, deleted(3)), at(4, 5, get("", 0, 3))}, true},
		"a delete that did not last":           {[]Operation{at(0, 1, put("a", 2)), at(2, 3, deleted(3)), at(4, 5, get("a", 2, 3))}, false},
		"a delete that found nothing":          {[]Operation{at(0, 1, Operation{Kind: Delete, Revision: 1}), at(2, 3, put("a", 2))}, true},
		"a delete that missed the key":         {[]Operation{at(0, 1, put("a", 2)), at(2, 3, Operation{Kind: Delete, Revision: 2})}, false},
		"a write without answer that happened": {[]Operation{at(0, 1, lost(put("a", 0))), at(2, 3, get("a", 2, 2))}, true},
		"a write without answer that did not":  {[]Operation{at(0, 1, lost(put("a", 0))), at(2, 3, get("", 0, 1))}, true},
		"a write without answer that came late": {[]Operation{at(0, 1, lost(put("a", 0))), at(2, 3, get("", 0, 1)), at(4, 5, put("b", 2)),
			at(6, 7, get("a", 3, 3))}, true},
		"a write without answer that came and went": {[]Operation{at(0, 1, lost(put("a", 0))), at(2, 3, get("a", 2, 2)), at(4, 5, put("b", 3)),
			at(6, 7, get("a", 2, 3))}, false},
		"a write without answer read before it was asked": {[]Operation{at(0, 1, get("a", 2, 2)), at(2, 3, lost(put("a", 0)))}, false},
		"a value with two revisions":                      {[]Operation{at(0, 1, lost(put("a", 0))), at(2, 3, get("a", 2, 2)), at(4, 5, get("a", 3, 3))}, false},
		"a swap without answer of what was there":         {[]Operation{at(0, 1, put("a", 2)), at(2, 3, lost(swapped(2, "b", 0))), at(4, 5, get("b", 3, 3))}, true},
		"a swap without answer of what was not":           {[]Operation{at(0, 1, put("a", 2)), at(2, 3, lost(swapped(9, "b", 0))), at(4, 5, get("b", 3, 3))}, false},
		"a delete without answer that nobody saw, behind a lost put": {[]Operation{at(0, 1, lost(put("a", 0))), at(2, 3, lost(deleted(0))), at(4, 5, deleted(3)),
			at(6, 7, get("", 0, 3))}, true},
		"a delete of what nobody wrote":   {[]Operation{at(0, 1, deleted(2))}, false},
		"a value that nobody wrote":       {[]Operation{at(0, 1, get("a", 2, 2))}, false},
		"two writes at one revision":      {[]Operation{at(0, 5, put("a", 2)), at(0, 5, put("b", 2))}, false},
		"a write at an earlier revision":  {[]Operation{at(0, 1, put("a", 5)), at(2, 3, put("b", 4))}, false},
		"a read of an earlier revision":   {[]Operation{at(0, 1, put("a", 5)), at(2, 3, get("a", 5, 4))}, false},
		"a mod revision that is not real": {[]Operation{at(0, 1, put("a", 5)), at(2, 3, get("a", 4, 5))}, false},
	} {
		t.Run(what, func(t *testing.T) {
			err := Check(c.ops, checkTime)
			if (err == nil) != c.want {
				t.Errorf("Check: %v, want an order: %v", err, c.want)
			}
			if v := (*Violation)(nil); err != nil && !errors.As(err, &v) {
				t.Errorf("%v is no violation", err)
			}
		})
	}
}

func TestRevisionsThatGoBackOnAnotherKeyAreFound(t *testing.T) {
	other := at(2, 3, get("", 0, 3))
	other.Key = "another"
	err := Check([]Operation{at(0, 1, put("a", 7)), other}, checkTime)
	if err == nil || !strings.Contains(err.Error(), "go back in time") {
		t.Errorf("Check: %v, want that revisions go back in time", err)
	}
}

// TestPropertyWhatOneRegisterDidIsExplainedAndWhatItForgotIsNot draws records from a register whose
// operations take effect at a moment between call and return, or without an answer later or never.
func TestPropertyWhatOneRegisterDidIsExplainedAndWhatItForgotIsNot(t *testing.T) {
	caught, forgetful := 0, 0
	for seed := range int64(24) {
		ops, _ := simulate(rand.New(rand.NewSource(seed)), 3000, 16, 4, false)
		if err := Check(ops, checkTime); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		ops, forgot := simulate(rand.New(rand.NewSource(seed)), 3000, 16, 4, true)
		if !forgot {
			continue
		}
		forgetful++
		if err := Check(ops, checkTime); err != nil {
			caught++
		}
	}
	// A write that is forgotten and overwritten before anybody looks leaves no trace on its key.
	if forgetful < 20 || caught < forgetful/3 {
		t.Errorf("%d of %d records with a forgotten write were found out", caught, forgetful)
	}
}

// simulate lets clients work on keys of a register; forget: one acknowledged write is dropped.
func simulate(r *rand.Rand, n, clients, keys int, forget bool) (ops []Operation, forgot bool) {
	states := make([]state, keys)
	rev := int64(1)
	type pending struct {
		o    Operation
		key  int
		does time.Duration
	}
	free := make([]time.Duration, clients)
	var all []pending
	for i := range n {
		c := r.Intn(clients)
		key := r.Intn(keys)
		o := Operation{Client: c, Key: fmt.Sprint("k", key), Value: fmt.Sprintf("%d.%d", c, i), Call: free[c] + time.Duration(1+r.Intn(80))}
		o.Kind = []Kind{Get, Get, Put, Put, Swap, Delete}[r.Intn(6)]
		o.Return = o.Call + time.Duration(2+r.Intn(40))
		free[c] = o.Return
		p := pending{o, key, o.Call + time.Duration(1+r.Intn(int(o.Return-o.Call)-1))}
		if o.Kind != Get && r.Intn(60) == 0 {
			p.o.Unknown, p.o.Err = true, "lost"
			p.does += time.Duration(r.Intn(4000))
		}
		all = append(all, p)
	}
	// In the order in which they take effect.
	order := make([]int, len(all))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return int(all[a].does - all[b].does) })
	drop := -1
	if forget {
		drop = len(order)/2 + r.Intn(100)
	}
	for at, i := range order {
		p := &all[i]
		s := &states[p.key]
		o := &p.o
		read := func() {
			if o.Found = s.found; s.found {
				o.Read, o.Mod = s.value, s.mod
			}
		}
		write := func(next state) {
			rev++
			o.Revision = rev
			if at >= drop && drop >= 0 && !o.Unknown {
				drop, forgot = -1, true
				return
			}
			next.mod, next.least = rev, rev
			if !next.found {
				next.mod = 0
			}
			*s = next
		}
		o.Revision = rev
		switch o.Kind {
		case Get:
			read()
		case Put:
			write(state{found: true, value: o.Value})
		case Swap:
			if o.Expect = s.mod; r.Intn(2) == 0 {
				o.Expect = max(0, s.mod-1)
			}
			if o.Done = s.is(o.Expect); o.Done {
				write(state{found: true, value: o.Value})
			} else {
				read()
			}
		case Delete:
			if o.Done = s.found; o.Done {
				write(state{})
			}
		}
		if o.Unknown {
			o.Done, o.Found, o.Read, o.Mod, o.Revision = false, false, "", 0, 0
		}
		ops = append(ops, *o)
	}
	return ops, forgot
}

func TestACheckEndsWhenItsTimeIsOver(t *testing.T) {
	// Writes without an answer that nobody saw, and deletes that prove that some happened: every
	// subset has to be tried.
	var ops []Operation
	for i := range 40 {
		ops = append(ops, at(i, i+1, lost(put(fmt.Sprint("v", i), 0))), at(i, i+1, lost(deleted(0))))
	}
	for i := range 41 {
		ops = append(ops, at(100+2*i, 101+2*i, deleted(int64(10+i))))
	}
	begun := time.Now()
	err := Check(ops, time.Second)
	if err == nil {
		t.Fatal("forty writes cannot be deleted forty-one times")
	}
	if v := (*Violation)(nil); !errors.As(err, &v) && !errors.Is(err, ErrUndecided) {
		t.Errorf("Check: %v", err)
	}
	if took := time.Since(begun); took > checkTime {
		t.Errorf("it took %s", took)
	}
}

func TestTheLongestStallIsTheLongestTimeWithoutAnAcknowledgedWrite(t *testing.T) {
	longest, from := Stall([]Operation{at(0, 10, put("a", 2)), at(0, 700, get("a", 2, 2)), at(0, 900, put("b", 3)), at(0, 1000, put("c", 4)),
		at(0, 5000, lost(put("d", 0)))})
	if longest != 890*time.Millisecond || from != 10*time.Millisecond {
		t.Errorf("%s from %s, want 890ms from 10ms", longest, from)
	}
}
