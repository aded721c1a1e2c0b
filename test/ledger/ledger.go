// Package ledger remembers what clients of an etcd were told: every acknowledged write with its
// revision, and every write that was not answered. Afterwards it says which acknowledged write a
// key space or a history does not have, be it of the live cluster or of a restored backup.
//
// It keeps promises that were given to clients, not what etcd did: that is package history's.
package ledger

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"druid.internal/druid/test/linear"
)

// enough differences are told; the rest would not help anybody.
const enough = 10

// Ledger is ready as its zero value. It may be used concurrently.
type Ledger struct {
	// Prefix, if set, is of keys that nobody else writes: others there are reported.
	Prefix string

	mu    sync.Mutex
	keys  map[string]*account
	count int
}

// account is what is known about one key.
type account struct {
	told   []Event // acknowledged, in the order they were entered
	sorted bool
	unsure map[string]bool // values that may have been written
	gone   bool            // it may have been deleted without an answer
}

// Put enters an acknowledged write.
func (l *Ledger) Put(key, value string, rev int64) {
	l.enter(Event{Revision: rev, Key: key, Value: value})
}

// Delete enters an acknowledged deletion.
func (l *Ledger) Delete(key string, rev int64) {
	l.enter(Event{Revision: rev, Key: key, Deleted: true})
}

func (l *Ledger) enter(e Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.account(e.Key)
	a.told, a.sorted = append(a.told, e), false
	l.count++
}

// Unsure enters a write without an answer: it may be found, and need not.
func (l *Ledger) Unsure(key, value string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.account(key).unsure[value] = true
}

// UnsureDelete enters a deletion without an answer.
func (l *Ledger) UnsureDelete(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.account(key).gone = true
}

// Add enters recorded operations.
func (l *Ledger) Add(ops []linear.Operation) {
	for _, o := range ops {
		switch {
		case o.Kind == linear.Get:
		case o.Unknown && o.Kind == linear.Delete:
			l.UnsureDelete(o.Key)
		case o.Unknown:
			l.Unsure(o.Key, o.Value)
		case o.Wrote() && o.Kind == linear.Delete:
			l.Delete(o.Key, o.Revision)
		case o.Wrote():
			l.Put(o.Key, o.Value, o.Revision)
		}
	}
}

// Forget drops what was acknowledged after a revision: a restore to it gave that up.
func (l *Ledger) Forget(after int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.keys {
		before := len(a.told)
		a.told = slices.DeleteFunc(a.told, func(e Event) bool { return e.Revision > after })
		l.count -= before - len(a.told)
	}
}

// Acknowledged is how many writes were.
func (l *Ledger) Acknowledged() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count
}

// Newest is the highest acknowledged revision, 0 if there is none.
func (l *Ledger) Newest() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	newest := int64(0)
	for _, a := range l.keys {
		for _, e := range a.told {
			newest = max(newest, e.Revision)
		}
	}
	return newest
}

// account wants l.mu.
func (l *Ledger) account(key string) *account {
	if l.keys == nil {
		l.keys = map[string]*account{}
	}
	a := l.keys[key]
	if a == nil {
		a = &account{unsure: map[string]bool{}}
		l.keys[key] = a
	}
	return a
}

// history is the acknowledged writes in the order of their revisions.
func (a *account) history() []Event {
	if !a.sorted {
		slices.SortFunc(a.told, func(x, y Event) int { return int(x.Revision - y.Revision) })
		a.sorted = true
	}
	return a.told
}

// AgainstKeys says what of the acknowledged writes up to a revision (0: all) is missing or wrong
// in a key space, and what nobody wrote. What is newer than the revision may be there.
func (l *Ledger) AgainstKeys(kvs []*mvccpb.KeyValue, upTo int64) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	found := map[string]*mvccpb.KeyValue{}
	var out []string
	for _, kv := range kvs {
		key := string(kv.Key)
		found[key] = kv
		if l.keys[key] == nil && l.Prefix != "" && strings.HasPrefix(key, l.Prefix) {
			out = append(out, fmt.Sprintf("key %q is there at revision %d, and nobody wrote it", key, kv.ModRevision))
		}
	}
	for key, a := range l.keys {
		if wrong := a.against(found[key], upTo); wrong != "" {
			out = append(out, fmt.Sprintf("key %q: %s", key, wrong))
		}
	}
	slices.Sort(out)
	return out[:min(len(out), enough)]
}

func (a *account) against(kv *mvccpb.KeyValue, upTo int64) string {
	var last Event // of those that must be there
	later := map[int64]Event{}
	for _, e := range a.history() {
		if upTo == 0 || e.Revision <= upTo {
			last = e
		} else {
			later[e.Revision] = e
		}
	}
	if kv == nil {
		if last.Revision == 0 || last.Deleted || a.gone {
			return ""
		}
		for _, e := range later {
			if e.Deleted {
				return ""
			}
		}
		return fmt.Sprintf("it is gone, the write acknowledged at revision %d is lost", last.Revision)
	}
	switch e, known := later[kv.ModRevision]; {
	case kv.ModRevision < last.Revision:
		return fmt.Sprintf("it is of revision %d, what was acknowledged at %d is lost", kv.ModRevision, last.Revision)
	case kv.ModRevision == last.Revision && (last.Deleted || last.Value != string(kv.Value)):
		return fmt.Sprintf("its value at revision %d is not the acknowledged one", kv.ModRevision)
	case kv.ModRevision == last.Revision, known && !e.Deleted && e.Value == string(kv.Value), a.unsure[string(kv.Value)]:
		return ""
	}
	return fmt.Sprintf("its value at revision %d is nobody's", kv.ModRevision)
}

// AgainstEvents says which acknowledged writes up to a revision (0: all) a history does not have
// exactly as they were acknowledged, and which of its events on the ledger's keys nobody asked for.
// The history begins at the revision from; older writes are not looked for.
func (l *Ledger) AgainstEvents(events []Event, from, upTo int64) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	type place struct {
		rev int64
		key string
	}
	at := map[place]Event{}
	told := map[place]bool{}
	var out []string
	for _, e := range events {
		at[place{e.Revision, e.Key}] = e
	}
	for key, a := range l.keys {
		for _, want := range a.history() {
			p := place{want.Revision, key}
			told[p] = true
			if want.Revision < from || upTo != 0 && want.Revision > upTo {
				continue
			}
			if got, ok := at[p]; !ok {
				out = append(out, fmt.Sprintf("the acknowledged %s is lost", want))
			} else if got != want {
				out = append(out, fmt.Sprintf("the acknowledged %s became %s", want, got))
			}
		}
	}
	for _, e := range events {
		a := l.keys[e.Key]
		if a == nil && (l.Prefix == "" || !strings.HasPrefix(e.Key, l.Prefix)) || told[place{e.Revision, e.Key}] {
			continue
		}
		if a == nil || e.Deleted && !a.gone || !e.Deleted && !a.unsure[e.Value] {
			out = append(out, fmt.Sprintf("nobody asked for the %s", e))
		}
	}
	slices.Sort(out)
	return out[:min(len(out), enough)]
}
