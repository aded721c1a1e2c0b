package storetest

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/store"
)

// locking says whether a mode is one a store can be asked to enforce.
func locking(m immutability.Mode) bool {
	return m == immutability.ModeGovernance || m == immutability.ModeCompliance
}

// protected says whether v may not be deleted at now. Markers never are.
func (v *version) protected(now time.Time) bool {
	return !v.marker && (v.retention.Hold || locking(v.retention.Mode) && now.Before(v.retention.Until))
}

func (v *version) refusal(key string) error {
	e := &store.ImmutableError{Version: store.Version{Key: key, ID: v.id}, Hold: v.retention.Hold}
	if !e.Hold {
		e.Until = v.retention.Until
	}
	return e
}

// Extend implements store.Extender.
func (m *Memory) Extend(ctx context.Context, v store.Version, until time.Time) (immutability.Retention, error) {
	var r immutability.Retention
	err := m.change(ctx, "extend", v, m.profile.ObjectLock, func(found *version) error {
		if !locking(found.retention.Mode) {
			return fmt.Errorf("there is no lock to extend: %w", store.ErrUnsupported)
		}
		if until.Before(found.retention.Until) {
			return &store.ImmutableError{Version: v, Until: found.retention.Until}
		}
		found.retention.Until = until
		r = found.retention
		return nil
	})
	return r, err
}

// SetHold implements store.Holder.
func (m *Memory) SetHold(ctx context.Context, v store.Version, on bool) error {
	return m.change(ctx, "hold", v, m.profile.ObjectLock || m.profile.HoldsOnly, func(found *version) error {
		found.retention.Hold = on
		return nil
	})
}

// SetTag implements store.Tagger. Locked versions can be tagged.
func (m *Memory) SetTag(ctx context.Context, v store.Version, key, value string) error {
	return m.change(ctx, "tag", v, m.profile.Tags, func(found *version) error {
		found.tags = maps.Clone(found.tags)
		if found.tags == nil {
			found.tags = map[string]string{}
		}
		found.tags[key] = value
		return nil
	})
}

// change finds v and lets fn alter it, if the bucket can do that at all.
func (m *Memory) change(ctx context.Context, verb string, v store.Version, can bool, fn func(*version) error) error {
	if err := m.reachable(ctx, verb, v.String()); err != nil {
		return err
	}
	if !can {
		return fmt.Errorf("%s %s: %w", verb, v, store.ErrUnsupported)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	found, err := m.content(v)
	if err == nil {
		err = fn(found)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", verb, v, err)
	}
	return nil
}

// Copy implements store.Copier between two of these buckets, which must differ in nothing
// but their content.
func (m *Memory) Copy(ctx context.Context, from store.Reader, src store.Version, key string, opts store.PutOptions) (store.Object, error) {
	source, ok := store.As[*Memory](from)
	if !ok {
		return store.Object{}, fmt.Errorf("copy %s: the source is another kind of store: %w", src, store.ErrUnsupported)
	}
	if err := m.reachable(ctx, "copy", key); err != nil {
		return store.Object{}, err
	}
	if err := m.allowed(opts); err != nil {
		return store.Object{}, fmt.Errorf("copy %s: %w", key, err)
	}
	r, err := source.Open(ctx, src, 0, -1)
	if err != nil {
		return store.Object{}, err
	}
	body, err := io.ReadAll(r)
	if err != nil {
		return store.Object{}, fmt.Errorf("copy %s: %w", src, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.profile.Versions && m.latest(key) != nil {
		return store.Object{}, fmt.Errorf("copy %s: %w", key, store.ErrExists)
	}
	return m.add(key, body, opts)
}

// Inspect implements store.Inspector.
func (m *Memory) Inspect(ctx context.Context) (store.Bucket, error) {
	if err := m.reachable(ctx, "inspect", "the bucket"); err != nil {
		return store.Bucket{}, err
	}
	b := store.Bucket{Versioned: m.profile.Versions, Default: m.profile.Default, Period: m.profile.Period}
	if b.Default == "" {
		b.Default = immutability.ModeNone
	}
	if m.profile.MuteRetention {
		b.Notes = append(b.Notes, "this identity may not read the locks of objects")
	}
	return b, nil
}

// Versions lists what is stored under key, newest first, bypassing capabilities, for a
// test's expectations.
func (m *Memory) Versions(key string) []store.Object {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []store.Object
	for _, v := range slices.Backward(m.keys[key]) {
		all = append(all, m.describe(key, v, false))
	}
	return all
}
