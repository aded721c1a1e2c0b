package storetest

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/store"
)

var lockCases = []conformanceCase{
	{name: "an object without a lock is not said to have one", run: anObjectWithoutALock},
	{name: "a lock is read back exactly", run: aLockIsReadBackExactly},
	{name: "a locked large object is locked", run: aLockedLargeObject},
	{name: "a locked version cannot be deleted", run: aLockedVersionCannotBeDeleted},
	{name: "a marker over a locked version hides nothing", run: aMarkerOverALockedVersion},
	{name: "a foreign overwrite of a locked version loses nothing", run: aForeignOverwriteOfALocked},
}

var (
	extensionCases   = []conformanceCase{{name: "a lock is extended in place and never shortened", run: aLockIsExtended}}
	expiryCases      = []conformanceCase{{name: "a lock ends", run: aLockEnds}}
	defaultLockCases = []conformanceCase{{name: "the default lock is stamped on every object", run: theDefaultLock}}
)

// lockFor is an explicit lock that outlives the test, to the second: no store keeps fractions.
func lockFor(o Options, l Lock) *immutability.Retention {
	return &immutability.Retention{Mode: l.Ask, Until: o.Now().Add(o.LockPeriod).UTC().Truncate(time.Second)}
}

// lockable says whether explicit locks can be proven, and proves their refusal otherwise.
func lockable(t *testing.T, o Options) bool {
	t.Helper()
	if o.Want.ObjectLock {
		return true
	}
	_, err := o.New(t).Put(t.Context(), "a/locked", strings.NewReader("x"), store.PutOptions{Retention: lockFor(o, Lock{Ask: immutability.ModeCompliance})})
	wantError(t, "Put with a lock on a store without", err, store.ErrUnsupported)
	o.note(t, Fallback, "one cannot ask for locks, and is refused")
	return false
}

// wantLocked expects the refusal to delete v, and v to be whole afterwards.
func wantLocked(t *testing.T, s store.Store, v store.Version, until time.Time, hold bool) {
	t.Helper()
	err := deleter(t, s).Delete(t.Context(), v)
	var locked *store.ImmutableError
	if !errors.As(err, &locked) {
		t.Fatalf("Delete(%s) = %v, want *store.ImmutableError", v, err)
	}
	if locked.Version != v || locked.Hold != hold || !locked.Until.Equal(until) {
		t.Errorf("Delete(%s) says version %s, until %s, hold %v; want until %s, hold %v",
			v, locked.Version, locked.Until, locked.Hold, until, hold)
	}
	if stat(t, s, v).Version != v {
		t.Errorf("%s is not there any more", v)
	}
}

func anObjectWithoutALock(t *testing.T, o Options) {
	s := o.New(t)
	v := put(t, s, "a/free", []byte("x"), store.PutOptions{}).Version
	for _, obj := range append(list(t, s, ""), stat(t, s, v)) {
		if r := obj.Retention; r != nil && (r.Hold || !r.Until.IsZero() || r.Mode != immutability.ModeNone && r.Mode != immutability.ModeUnknown) {
			t.Errorf("an object without a lock has %+v", *r)
		}
	}
	if err := deleter(t, s).Delete(t.Context(), v); err != nil {
		t.Errorf("Delete = %v", err)
	}
}

func aLockIsReadBackExactly(t *testing.T, o Options) {
	if !lockable(t, o) {
		return
	}
	s := o.New(t)
	for _, l := range o.Lock {
		key, ask := "a/"+string(l.Ask), lockFor(o, l)
		v := put(t, s, key, []byte("x"), store.PutOptions{Retention: ask}).Version
		want := &immutability.Retention{Mode: l.Want, Until: ask.Until}
		wantRetention(t, "Stat of "+key, stat(t, s, v).Retention, want)
		for _, obj := range list(t, s, "") {
			switch {
			case obj.Key != key:
			case o.Want.InlineRetention:
				wantRetention(t, "List of "+key, obj.Retention, want)
			case obj.Retention != nil:
				t.Errorf("List tells retention, which its capabilities deny: %+v", *obj.Retention)
			}
		}
	}
}

func wantRetention(t *testing.T, what string, got, want *immutability.Retention) {
	t.Helper()
	if got != nil {
		utc := *got
		utc.Until = utc.Until.UTC()
		got = &utc
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func aLockedLargeObject(t *testing.T, o Options) {
	if !lockable(t, o) {
		return
	}
	s := o.New(t)
	l := o.Lock[len(o.Lock)-1]
	ask := lockFor(o, l)
	obj, err := s.Put(t.Context(), "a/large", &stream{r: noise(o.LargeSize, 20)}, store.PutOptions{Retention: ask})
	if err != nil {
		t.Fatal(err)
	}
	wantRetention(t, "Stat", stat(t, s, obj.Version).Retention, &immutability.Retention{Mode: l.Want, Until: ask.Until})
	wantLocked(t, s, obj.Version, ask.Until, false)
}

func aLockedVersionCannotBeDeleted(t *testing.T, o Options) {
	if !lockable(t, o) {
		return
	}
	s := o.New(t)
	for _, l := range o.Lock {
		ask := lockFor(o, l)
		v := put(t, s, "a/"+string(l.Ask), []byte("precious"), store.PutOptions{Retention: ask}).Version
		wantLocked(t, s, v, ask.Until, false)
		wantBytes(t, "the object", read(t, s, v), []byte("precious"))
	}
}

func aMarkerOverALockedVersion(t *testing.T, o Options) {
	if !lockable(t, o) {
		return
	}
	if !o.Want.Versions {
		o.note(t, Absent, "the store keeps no versions that a marker could hide")
		return
	}
	s := o.New(t)
	ask := lockFor(o, o.Lock[0])
	v := put(t, s, "a/k", []byte("precious"), store.PutOptions{Retention: ask}).Version
	o.Hide(t, s, "a/k")
	if o.NoMarkers {
		wantKeys(t, s, "a", "a/k")
	} else {
		wantKeys(t, s, "a", "a/k", "a/k")
	}
	wantBytes(t, "the object under the marker", read(t, s, v), []byte("precious"))
	wantRetention(t, "Stat", stat(t, s, v).Retention, &immutability.Retention{Mode: o.Lock[0].Want, Until: ask.Until})
	wantLocked(t, s, v, ask.Until, false)
}

func aForeignOverwriteOfALocked(t *testing.T, o Options) {
	switch {
	case !lockable(t, o):
		return
	case o.Overwrite == nil:
		o.note(t, NotProven, "a foreign overwrite of a locked version")
		return
	case !o.Want.Versions:
		o.note(t, NotProven, "that what is locked cannot be overwritten, where there are no versions")
		return
	}
	s := o.New(t)
	ask := lockFor(o, o.Lock[0])
	v := put(t, s, "a/k", []byte("genuine"), store.PutOptions{Retention: ask}).Version
	o.Overwrite(t, s, "a/k", []byte("forged"))
	wantBytes(t, "the genuine version", read(t, s, v), []byte("genuine"))
	wantLocked(t, s, v, ask.Until, false)
	wantKeys(t, s, "", "a/k", "a/k")
}

func aLockIsExtended(t *testing.T, o Options) {
	s := o.New(t)
	e, ok := store.As[store.Extender](s)
	if !o.Extend {
		v := put(t, s, "a/k", []byte("x"), store.PutOptions{}).Version
		if ok {
			_, err := e.Extend(t.Context(), v, o.Now().Add(o.LockPeriod))
			wantError(t, "Extend", err, store.ErrUnsupported)
		}
		o.note(t, Fallback, "the store extends no lock, and says so")
		return
	}
	if !ok {
		t.Fatal("the store has no Extender")
	}
	for _, l := range o.Lock {
		ask := lockFor(o, l)
		v := put(t, s, "a/"+string(l.Ask), []byte("x"), store.PutOptions{Retention: ask}).Version
		later := ask.Until.Add(o.LockPeriod)
		for range 2 { // the second changes nothing and succeeds
			got, err := e.Extend(t.Context(), v, later)
			if err != nil {
				t.Fatalf("Extend = %v", err)
			}
			wantRetention(t, "Extend", &got, &immutability.Retention{Mode: l.Want, Until: later})
		}
		_, err := e.Extend(t.Context(), v, ask.Until)
		var locked *store.ImmutableError
		if !errors.As(err, &locked) {
			t.Errorf("shortening = %v, want *store.ImmutableError", err)
		}
		wantRetention(t, "Stat", stat(t, s, v).Retention, &immutability.Retention{Mode: l.Want, Until: later})
		wantLocked(t, s, v, later, false)
	}
	free := put(t, s, "a/free", []byte("x"), store.PutOptions{}).Version
	_, err := e.Extend(t.Context(), free, o.Now().Add(o.LockPeriod))
	wantError(t, "extending what has no lock", err, store.ErrUnsupported)
	_, err = e.Extend(t.Context(), store.Version{Key: "a/never", ID: free.ID}, o.Now().Add(o.LockPeriod))
	wantError(t, "extending what is not there", err, store.ErrNotFound)
}

func aLockEnds(t *testing.T, o Options) {
	switch {
	case !lockable(t, o):
		return
	case o.ShortLock == 0:
		o.note(t, NotProven, "that a lock ends: no short period works here")
		return
	}
	s := o.New(t)
	d := deleter(t, s)
	for _, l := range o.Lock {
		until := o.Now().Add(o.ShortLock).UTC().Truncate(time.Second).Add(time.Second)
		v := put(t, s, "a/"+string(l.Ask), []byte("x"), store.PutOptions{
			Retention: &immutability.Retention{Mode: l.Ask, Until: until},
		}).Version
		wantLocked(t, s, v, until, false)
		if o.Advance != nil {
			o.Advance(t, s, until.Sub(o.Now()))
		}
		if !settle(o.ShortLock+30*time.Second, func() bool { return d.Delete(t.Context(), v) == nil }) {
			t.Errorf("%s is still locked after %s", v, until)
		}
		if early := until.Sub(o.Now()); early > 5*time.Second {
			t.Errorf("%s could be deleted %s before its lock ended", v, early)
		}
	}
	wantKeys(t, s, "")
}

func theDefaultLock(t *testing.T, o Options) {
	if o.DefaultLock == nil {
		if !o.Want.ObjectLock {
			o.note(t, Absent, "the bucket locks nothing by default")
			return
		}
		o.note(t, NotProven, "a lock that the bucket gives by default")
		return
	}
	s, mode, period := o.DefaultLock(t)
	const tolerance = 2 * time.Minute
	for key, size := range map[string]int64{"a/small": 10, "a/large": o.LargeSize} {
		obj, err := s.Put(t.Context(), key, &stream{r: noise(size, 21)}, store.PutOptions{})
		if err != nil {
			t.Fatal(err)
		}
		r := stat(t, s, obj.Version).Retention
		if r == nil || r.Mode != mode {
			t.Fatalf("the lock of %s is %+v, want mode %s", key, r, mode)
		}
		if d := r.Until.Sub(o.Now().Add(period)); d < -tolerance || d > tolerance {
			t.Errorf("%s is locked until %s, which is %s off", key, r.Until, d)
		}
		wantLocked(t, s, obj.Version, r.Until, false)
	}
	if o.Inspect {
		b := inspect(t, s)
		if b.Default != mode || b.Period != period {
			t.Errorf("Inspect says %s for %s, want %s for %s", b.Default, b.Period, mode, period)
		}
	}
}
