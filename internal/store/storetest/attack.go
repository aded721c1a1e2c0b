package storetest

import (
	"fmt"
	"maps"
	"slices"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/store"
)

// What others, broken disks and bad luck do to a bucket. None of it asks for permission, and
// damage is done to locked versions as well; a call that finds nothing to damage panics, since
// the test would prove nothing.

// Overwrite puts body under key as a foreign writer does, without any condition: a further
// version where there are versions, else in place of what was there.
func (m *Memory) Overwrite(key string, body []byte) store.Version {
	return m.Plant(store.Object{Version: store.Version{Key: key}}, body)
}

// Plant adds a version exactly as described by o, which needs only a key: Modified (zero: now),
// Marker, Retention and Tags are taken from it. The ID is the bucket's choice.
func (m *Memory) Plant(o store.Object, body []byte) store.Version {
	m.mu.Lock()
	defer m.mu.Unlock()
	v := &version{
		body:      slices.Clone(body),
		modified:  o.Modified,
		marker:    o.Marker,
		tags:      maps.Clone(o.Tags),
		retention: immutability.Retention{Mode: immutability.ModeNone},
	}
	if v.modified.IsZero() {
		v.modified = m.profile.Now()
	}
	if o.Retention != nil {
		v.retention = *o.Retention
	}
	m.push(o.Key, v)
	return store.Version{Key: o.Key, ID: v.id}
}

// Hide deletes key without naming a version. Where there are versions that makes a marker and
// the marker is returned, even if there is no such key; where versions come without markers it
// leaves none the latest, unless the latest is locked; else the object goes, unless locked.
func (m *Memory) Hide(key string) (store.Version, error) {
	if m.profile.Versions && !m.profile.NoMarkers {
		return m.Plant(store.Object{Version: store.Version{Key: key}, Marker: true}, nil), nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	v := m.latest(key)
	if v == nil {
		return store.Version{Key: key}, nil
	}
	if v.protected(m.profile.Now()) {
		return store.Version{}, v.refusal(key)
	}
	if m.profile.NoMarkers {
		m.gone[key] = true
		return store.Version{Key: key}, nil
	}
	m.remove(key, v)
	return store.Version{Key: key}, nil
}

// Flip inverts the lowest bit of one byte; a negative offset counts from the end.
func (m *Memory) Flip(v store.Version, off int) {
	m.damage(v, func(b []byte) []byte {
		if off < 0 {
			off += len(b)
		}
		b[off] ^= 1
		return b
	})
}

// Truncate leaves the first n bytes.
func (m *Memory) Truncate(v store.Version, n int) {
	m.damage(v, func(b []byte) []byte { return b[:n] })
}

// Replace changes the content of a version in place.
func (m *Memory) Replace(v store.Version, body []byte) {
	m.damage(v, func([]byte) []byte { return slices.Clone(body) })
}

func (m *Memory) damage(v store.Version, fn func([]byte) []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	found, err := m.content(v)
	if err != nil {
		panic(fmt.Sprintf("damage %s: %v", v, err))
	}
	found.body = fn(slices.Clone(found.body))
}

// Lose removes a version, whatever protects it, and without a version ID the whole key.
func (m *Memory) Lose(v store.Version) {
	m.mu.Lock()
	defer m.mu.Unlock()
	found := m.find(v)
	if found == nil {
		panic(fmt.Sprintf("lose %s: there is no such version", v))
	}
	if v.ID == "" {
		delete(m.keys, v.Key)
		return
	}
	m.remove(v.Key, found)
}

// Rename moves all versions of a key under another one, which must be free.
func (m *Memory) Rename(from, to string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.latest(from) == nil || m.latest(to) != nil {
		panic(fmt.Sprintf("rename %s to %s: the first must exist and the second not", from, to))
	}
	m.keys[to] = m.keys[from]
	delete(m.keys, from)
}
