package catalog

import (
	"slices"
	"sync"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/store"
)

// The bounds of a Memory.
const (
	// maxRemembered bounds the objects that a Memory holds. One needs less than 1 KB.
	maxRemembered = 20_000
	// refreshed is how many tags and locks one reading requests again.
	refreshed = 50
)

// Memory remembers what earlier readings of a prefix learned about objects, so that the next one
// does not request it again. Its zero value is empty. It is safe for concurrent use.
//
// The content of a version never changes: headers, manifests and digests are requested once. Tags
// and locks may change. Each reading requests the next [refreshed] of them again, and those of a
// key of which the delete markers changed. If one of these locks changed, the reading after it
// requests all. So a Memory suits reports; a reading that decides what
// to restore or delete uses none.
type Memory struct {
	mu    sync.Mutex
	known map[identity]*learned
	next  string // key from which on tags and locks are requested again
}

// identity is a version of an object. Without versions, size and time tell an overwrite.
type identity struct {
	store.Version
	size     int64
	modified int64 // Unix nanoseconds
}

// learned is what requests about one version brought.
type learned struct {
	content  bool               // manifest, err, header or excludes are known
	manifest *snapshot.Manifest // of a manifest
	err      error              // why there is none
	header   *snapshot.Manifest // of a delta
	excludes bool               // of an exclusion record: what it says
	digest   snapshot.Digest    // measured

	stat      bool // tags, retention and untagged are known
	hidden    bool // the key had a delete marker then
	tags      map[string]string
	retention *immutability.Retention
	untagged  bool // its tags may not be read

	again bool // stat was known, and is requested again
	moved bool // that brought another lock
}

func (it *item) identity() identity { return identity{it.Version, it.Size, it.Modified.UnixNano()} }

// recall tells it what is remembered of it.
func (m *Memory) recall(items []*item) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, it := range items {
		if l := m.known[it.identity()]; l != nil {
			it.learned = *l
		}
	}
}

// remember keeps what is known of the items, and forgets all others.
func (m *Memory) remember(items []*item) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	moved := slices.ContainsFunc(items, func(it *item) bool { return it.moved })
	m.known = make(map[identity]*learned, min(len(items), maxRemembered))
	for _, it := range items {
		if len(m.known) == maxRemembered {
			return
		}
		if it.refused == nil && (it.content || it.stat || !it.digest.IsZero()) {
			l := it.learned
			l.stat, l.again, l.moved = l.stat && !moved, false, false
			m.known[it.identity()] = &l
		}
	}
}

// stale makes the next of the items whose tags and locks are remembered be requested again. They
// come in the order of their keys, and after the last the first follow.
func (m *Memory) stale(items []*item) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for _, it := range items {
		if !it.stat || it.Key < m.next {
			continue
		}
		if n == refreshed {
			m.next = it.Key
			return
		}
		it.stat, it.again = false, true
		n++
	}
	m.next = ""
}
