package extender_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/engine/enginetest"
	"druid.internal/druid/internal/engine/extender"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/retry"
	"druid.internal/druid/internal/store/storetest"
)

// unlocked says whether no full of the chain that a restore uses is locked at this moment.
func (s sleeper) unlocked() bool {
	c, _ := s.Catalog(prefix).Timeline.Lineages[0].NewestChain()
	o, err := s.Stat(s.T.Context(), store.Version{Key: c.Base.Key.String(), ID: c.Base.Version})
	if err != nil {
		s.T.Fatal(err)
	}
	return !o.Retention.Protected(s.Clock.Now(), 0).Protected
}

func ways() map[string]func() storetest.Profile {
	return map[string]func() storetest.Profile{"in place": inPlace, "hold": holding, "copy": copying}
}

// Runs start some seconds later or earlier in their minute than the one before, and one of them some minutes late.
func TestDailyRunsThatJitterLoseNoLock(t *testing.T) {
	jitter := []time.Duration{7 * time.Second, 3 * time.Second, 12 * time.Second, 5 * time.Second, 2 * time.Second, 4 * time.Minute}
	for way, profile := range ways() {
		for _, days := range []int{2, 3, 4, 7} {
			for _, named := range []bool{false, true} {
				p := profile()
				p.Period = time.Duration(days) * day
				s := asleep(t, p, full)
				for i := 1; i <= 60; i++ {
					at := enginetest.Start.Add(time.Duration(i)*day + jitter[i%len(jitter)])
					if i == 31 {
						at = at.Add(9 * time.Minute)
					}
					s.Clock.Advance(at.Sub(s.Clock.Now()))
					if s.unlocked() {
						t.Fatalf("%s, %d days, named %t: unlocked before run %d", way, days, named, i)
					}
					if named {
						s.extend(keeping(full))
					} else {
						s.extend()
					}
				}
			}
		}
	}
}

// Whatever the period and the interval, as long as the documentation allows them together.
func TestNoLockLapsesWhereTheUpkeepHolds(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 6))
	for way, profile := range ways() {
		for range 40 {
			every := time.Hour + time.Duration(r.Int64N(int64(30*day)))
			p := profile()
			p.Period = immutability.Upkeep{Every: every}.Needs() + time.Duration(r.ExpFloat64()*float64(every)/2)
			s := asleep(t, p, full)
			told := func(q *extender.Request) { q.Every = every }
			next := enginetest.Start.Add(time.Duration(r.Int64N(int64(every))))
			for i := range 20 {
				late := time.Duration(r.Int64N(int64(min(30*time.Minute, p.Period/20))))
				s.Clock.Advance(next.Add(late).Sub(s.Clock.Now()))
				if s.unlocked() {
					t.Fatalf("%s, a period of %s, a run every %s: unlocked before run %d", way, p.Period, every, i)
				}
				if r := s.extend(told); !r.Protection.Protected() {
					t.Fatalf("%s: %+v", way, r)
				}
				next = next.Add(every)
			}
		}
	}
}

// What can be done is done, and it is told that this is not enough, with the arithmetic.
func TestRunsThatAreTooRareAreRefusedByName(t *testing.T) {
	weekly := func(q *extender.Request) { q.Every = 7 * day }
	for way, profile := range ways() {
		t.Run(way, func(t *testing.T) {
			s := asleep(t, profile(), full)
			s.Clock.Advance(period - time.Hour)
			_, planned := s.try(s.Memory, weekly, func(q *extender.Request) { q.DryRun = true })
			r, err := s.try(s.Memory, weekly)
			if way == "hold" { // which has no end
				if planned != nil || err != nil {
					t.Errorf("a dry run: %v; a run: %v", planned, err)
				}
				return
			}
			for what, err := range map[string]error{"a dry run": planned, "a run": err} {
				if !errors.Is(err, extender.ErrTooRare) || !strings.Contains(err.Error(), "locks last for 96h from a run, and the next one may be through after 169h") {
					t.Errorf("%s: %v", what, err)
				}
			}
			if !r.Protection.Until.Equal(s.Clock.Now().Add(period)) {
				t.Errorf("%+v", r)
			}
		})
	}
}

// The programs have the store behind one that tries again, which has every capability there is.
func (s sleeper) wrapped() store.Store { return retry.New(s.Memory, retry.Options{}) }

// Where copies are made there is one in nearly a period, and it alone is read, also if a full is to be kept by its name: twice when it
// is made, and once before an expired one is removed.
func TestKeepingANamedFullCopiesNoMoreOften(t *testing.T) {
	for _, named := range []bool{false, true} {
		s := asleep(t, copying(), full)
		size := s.Versions(enginetest.Key(enginetest.MustName(full)))[0].Size
		copies, read, unread := 0, int64(0), 0
		for range 30 {
			s.Clock.Advance(day)
			var change []func(*extender.Request)
			if named {
				change = append(change, keeping(full))
			}
			r, err := s.try(s.wrapped(), change...)
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range r.Objects {
				if o.Kind == extender.Full && o.Copy != "" {
					copies++
				}
			}
			if read += r.BytesRead; r.BytesRead == 0 {
				unread++
			}
		}
		if copies != 10 || read > 30*size || unread < 10 {
			t.Errorf("named %t: %d copies, want one in three days; read as often as %d times, and not at all in %d runs", named, copies, read/size, unread)
		}
	}
}

func TestADryRunSaysInWhichWayTheRunProlongs(t *testing.T) {
	for way, profile := range map[immutability.Way]func() storetest.Profile{
		immutability.WayRetention: inPlace, immutability.WayHold: holding, immutability.WayCopy: copying} {
		s := asleep(t, profile(), full)
		s.Clock.Advance(period - time.Hour)
		planned, err := s.try(s.wrapped(), func(q *extender.Request) { q.DryRun = true })
		if err != nil {
			t.Fatal(err)
		}
		done, err := s.try(s.wrapped())
		if err != nil {
			t.Fatal(err)
		}
		if got, want := planned.Objects[0].Way, done.Objects[0].Way; got != want || want != way {
			t.Errorf("planned %q, done %q, want %q", got, want, way)
		}
	}
}

// ofProvider is a store of another name.
type ofProvider struct {
	*storetest.Faulty
	name string
}

func (o ofProvider) Capabilities() store.Capabilities {
	c := o.Faulty.Capabilities()
	c.Provider = o.name
	return c
}

// A permission is called by each provider what it is called there, and it is the one that is missing.
func TestAMissingPermissionIsNamedAsTheProviderDoes(t *testing.T) {
	for provider, c := range map[string]struct {
		p    storetest.Profile
		op   storetest.Op
		want string
	}{
		"S3":  {inPlace(), storetest.OpExtend, "s3:PutObjectRetention"},
		"ECS": {inPlace(), storetest.OpExtend, "s3:PutObjectRetention"},
		"GCS": {holding(), storetest.OpHold, "storage.objects.update"},
		"ABS": {copying(), storetest.OpCopy, "blobs/write"},
		"OSS": {copying(), storetest.OpPut, "oss:PutObject"},
	} {
		t.Run(provider, func(t *testing.T) {
			s := asleep(t, c.p, full)
			s.Clock.Advance(period - time.Hour)
			f := storetest.NewFaulty(s.Memory)
			f.Inject(storetest.Fail(store.ErrForbidden).On(c.op, "").Always())
			_, err := s.try(ofProvider{f, provider})
			if !errors.Is(err, store.ErrForbidden) || !strings.Contains(err.Error(), c.want) || provider != "S3" && provider != "ECS" && strings.Contains(err.Error(), "s3:") {
				t.Errorf("%v", err)
			}
		})
	}
}
