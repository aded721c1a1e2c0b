package storetest_test

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"time"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/storetest"
)

var start = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

func TestTheBucketInMemoryKeepsTheContract(t *testing.T) {
	for name, profile := range map[string]storetest.Profile{
		"like S3":    storetest.S3Like(),
		"like Azure": storetest.AzureLike(),
		"like Ceph":  storetest.CephLike(),
		"like GCS":   storetest.GCSLike(),
		"bare":       storetest.Bare(),
	} {
		t.Run(name, func(t *testing.T) {
			storetest.Run(t, memoryOptions(profile, func(m *storetest.Memory) store.Store { return m }))
		})
	}
}

func TestAFaultyStoreWithoutFaultsKeepsTheContract(t *testing.T) {
	storetest.Run(t, memoryOptions(storetest.S3Like(), func(m *storetest.Memory) store.Store { return storetest.NewFaulty(m) }))
}

// memoryOptions describe a bucket in memory, seen through wrap.
func memoryOptions(p storetest.Profile, wrap func(*storetest.Memory) store.Store) storetest.Options {
	clock := storetest.NewClock(start)
	p.Now = clock.Now
	bucket := func(s store.Store) *storetest.Memory {
		m, ok := store.As[*storetest.Memory](s)
		if !ok {
			panic("no bucket in memory")
		}
		return m
	}
	o := storetest.Options{
		New:  func(*testing.T) store.Store { return wrap(storetest.NewMemory(p)) },
		Want: storetest.NewMemory(p).Capabilities(),

		Extend: p.ObjectLock, Hold: p.ObjectLock, SetTag: p.Tags, Copy: true, Inspect: true,
		ServerTime: true,
		Lock: []storetest.Lock{
			{Ask: immutability.ModeGovernance, Want: immutability.ModeGovernance},
			{Ask: immutability.ModeCompliance, Want: immutability.ModeCompliance},
		},
		ShortLock: time.Second,
		Advance:   func(_ *testing.T, _ store.Store, d time.Duration) { clock.Advance(d) },
		Now:       clock.Now,
		NoBucket: func(*testing.T) store.Store {
			missing := p
			missing.Missing = true
			return wrap(storetest.NewMemory(missing))
		},
		Outage: func(*testing.T) store.Store {
			f := storetest.NewFaulty(storetest.NewMemory(p))
			f.Inject(storetest.Fail(store.ErrUnreachable).Always())
			return f
		},
		BrokenList: func(_ *testing.T, s store.Store) store.Reader {
			f := storetest.NewFaulty(s)
			f.Inject(storetest.BreakList(1000, store.ErrUnreachable))
			return f
		},
		Cut: func(t *testing.T, s store.Store, v store.Version) io.ReadCloser {
			f := storetest.NewFaulty(s)
			f.Inject(storetest.Cut(1 << 20))
			r, err := f.Open(t.Context(), v, 0, -1)
			if err != nil {
				t.Fatal(err)
			}
			return r
		},
		Overwrite: func(_ *testing.T, s store.Store, key string, body []byte) { bucket(s).Overwrite(key, body) },
		Hide: func(t *testing.T, s store.Store, key string) {
			if _, err := bucket(s).Hide(key); err != nil {
				t.Fatal(err)
			}
		},
		Leftovers: func(*testing.T, store.Store) int { return 0 },
		LargeSize: 3 << 20,
	}
	if p.ObjectLock {
		o.DefaultLock = func(*testing.T) (store.Store, immutability.Mode, time.Duration) {
			locked := p
			locked.Default, locked.Period = immutability.ModeCompliance, 24*time.Hour
			return wrap(storetest.NewMemory(locked)), locked.Default, locked.Period
		}
	}
	return o
}

func TestABucketThatHidesItsLocksEnforcesThem(t *testing.T) {
	p := storetest.S3Like()
	p.MuteRetention, p.Default, p.Period = true, immutability.ModeCompliance, time.Hour
	m := storetest.NewMemory(p)
	o, err := m.Put(t.Context(), "a", bytes.NewReader(nil), store.PutOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if st, err := m.Stat(t.Context(), o.Version); err != nil || st.Retention != nil {
		t.Errorf("Stat = %+v, %v, want no word about retention", st, err)
	}
	var locked *store.ImmutableError
	if err := m.Delete(t.Context(), o.Version); !errors.As(err, &locked) {
		t.Errorf("Delete = %v, want a refusal", err)
	}
}
