package storetest

import (
	"errors"
	"io"
	"testing"
	"time"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/store"
)

// MemoryOptions are what Run needs to try a decorator: for each kind of bucket, named by a
// phrase, the options of such a bucket in memory seen through wrap.
func MemoryOptions() map[string]func(wrap func(store.Store) store.Store) Options {
	all := map[string]func(wrap func(store.Store) store.Store) Options{}
	unmarked := AzureLike()
	unmarked.NoMarkers = true
	for name, p := range map[string]Profile{
		"versions without markers": unmarked,
		"like S3":                  S3Like(), "like Azure": AzureLike(), "like Ceph": CephLike(), "like GCS": GCSLike(), "bare": Bare(),
	} {
		all[name] = func(wrap func(store.Store) store.Store) Options { return memoryOptions(p, wrap) }
	}
	return all
}

func memoryOptions(p Profile, wrap func(store.Store) store.Store) Options {
	clock := NewClock(time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC))
	p.Now = clock.Now
	bucket := func(s store.Store) *Memory {
		m, ok := store.As[*Memory](s)
		if !ok {
			panic("no bucket in memory")
		}
		return m
	}
	o := Options{
		New:  func(*testing.T) store.Store { return wrap(NewMemory(p)) },
		Want: NewMemory(p).Capabilities(),

		Extend: p.ObjectLock, Hold: p.ObjectLock, SetTag: p.Tags, Copy: true, Inspect: true,
		ServerTime: true,
		Lock: []Lock{
			{Ask: immutability.ModeGovernance, Want: immutability.ModeGovernance},
			{Ask: immutability.ModeCompliance, Want: immutability.ModeCompliance},
		},
		ShortLock: time.Second,
		Advance:   func(_ *testing.T, _ store.Store, d time.Duration) { clock.Advance(d) },
		Now:       clock.Now,
		NoBucket: func(*testing.T) store.Store {
			missing := p
			missing.Missing = true
			return wrap(NewMemory(missing))
		},
		Outage: func(*testing.T) store.Store {
			f := NewFaulty(NewMemory(p))
			f.Inject(Fail(store.ErrUnreachable).Always())
			return wrap(f)
		},
		BrokenList: func(_ *testing.T, s store.Store) store.Reader {
			f := NewFaulty(s)
			f.Inject(BreakList(1000, store.ErrUnreachable))
			return f
		},
		Cut: func(t *testing.T, s store.Store, v store.Version) io.ReadCloser {
			f := NewFaulty(s)
			f.Inject(Cut(1 << 20))
			r, err := f.Open(t.Context(), v, 0, -1)
			if err != nil {
				t.Fatal(err)
			}
			return r
		},
		Overwrite: func(_ *testing.T, s store.Store, key string, body []byte) { bucket(s).Overwrite(key, body) },
		Hide: func(t *testing.T, s store.Store, key string) {
			var locked *store.ImmutableError
			if _, err := bucket(s).Hide(key); err != nil && !(p.NoMarkers && errors.As(err, &locked)) {
				t.Fatal(err)
			}
		},
		Leftovers: func(*testing.T, store.Store) int { return 0 },
		NoMarkers: p.NoMarkers,
		LargeSize: 3 << 20,
	}
	if p.ObjectLock {
		o.DefaultLock = func(*testing.T) (store.Store, immutability.Mode, time.Duration) {
			locked := p
			locked.Default, locked.Period = immutability.ModeCompliance, 24*time.Hour
			return wrap(NewMemory(locked)), locked.Default, locked.Period
		}
	}
	return o
}
