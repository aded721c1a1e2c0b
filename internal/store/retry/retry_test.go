package retry_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/retry"
	"druid.internal/druid/internal/store/storetest"
)

var start = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

// rig is a store with faults behind retries, and a clock that the waits move.
type rig struct {
	*retry.Store
	memory *storetest.Memory
	faulty *storetest.Faulty
	clock  *storetest.Clock
	waits  []time.Duration
}

func newRig(p storetest.Profile, faults ...storetest.Fault) *rig {
	r := &rig{clock: storetest.NewClock(start)}
	p.Now = r.clock.Now
	r.memory = storetest.NewMemory(p)
	r.faulty = storetest.NewFaulty(r.memory)
	r.faulty.Inject(faults...)
	r.Store = retry.New(r.faulty, retry.Options{
		Attempts: 4,
		Base:     time.Second,
		Cap:      10 * time.Second,
		Total:    time.Hour,
		Now:      r.clock.Now,
		Jitter:   func() float64 { return 0.5 },
		Sleep: func(ctx context.Context, d time.Duration) error {
			r.waits = append(r.waits, d)
			r.clock.Advance(d)
			return ctx.Err()
		},
	})
	return r
}

// unseekable is a body that can be read once only.
type unseekable struct{ io.Reader }

func text(n int) []byte {
	var b bytes.Buffer
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "line %d\n", i)
	}
	return b.Bytes()[:n]
}

func mustPut(t *testing.T, s store.Store, key string, body []byte) store.Object {
	t.Helper()
	o, err := s.Put(t.Context(), key, bytes.NewReader(body), store.PutOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func readAll(t *testing.T, s store.Reader, v store.Version) ([]byte, error) {
	t.Helper()
	r, err := s.Open(t.Context(), v, 0, -1)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

func keys(t *testing.T, s store.Reader) []string {
	t.Helper()
	var all []string
	if err := s.List(t.Context(), "", func(o store.Object) error {
		all = append(all, o.String())
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestWaitsDoubleUpToTheirBoundAndPatienceEnds(t *testing.T) {
	r := newRig(storetest.S3Like(), storetest.Fail(store.ErrThrottled).Always())
	_, err := r.Stat(t.Context(), store.Version{Key: "a"})
	var end *retry.Error
	if !errors.As(err, &end) || !errors.Is(err, store.ErrThrottled) {
		t.Fatalf("Stat = %v, want a *retry.Error with the last cause", err)
	}
	if diff := cmp.Diff([]time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second}, r.waits); diff != "" {
		t.Errorf("waits (-want +got):\n%s", diff)
	}
	want := "stat a: gave up after 4 attempts in 3.5s: stat a: the store asks to slow down"
	if err.Error() != want {
		t.Errorf("the message is %q, want %q", err, want)
	}
}

func TestWaitsAreCapped(t *testing.T) {
	var waits []time.Duration
	m := storetest.NewFaulty(storetest.NewMemory(storetest.Bare()))
	m.Inject(storetest.Fail(store.ErrUnreachable).Always())
	s := retry.New(m, retry.Options{
		Attempts: 100, Base: time.Second, Cap: 5 * time.Second, Total: time.Hour,
		Jitter: func() float64 { return 1 },
		Sleep:  func(_ context.Context, d time.Duration) error { waits = append(waits, d); return nil },
	})
	if _, err := s.Stat(t.Context(), store.Version{Key: "a"}); !errors.Is(err, store.ErrUnreachable) {
		t.Fatal(err)
	}
	if len(waits) != 99 || slices.Max(waits) != 5*time.Second || waits[2] != 4*time.Second {
		t.Errorf("%d waits, up to %s: %v", len(waits), slices.Max(waits), waits[:5])
	}
}

func TestTheTotalTimeIsBounded(t *testing.T) {
	clock := storetest.NewClock(start)
	m := storetest.NewFaulty(storetest.NewMemory(storetest.Bare()))
	m.Inject(storetest.Fail(store.ErrUnreachable).Always())
	s := retry.New(m, retry.Options{
		Attempts: 1000, Base: time.Minute, Cap: time.Minute, Total: 10 * time.Minute,
		Now: clock.Now, Jitter: func() float64 { return 1 },
		Sleep: func(_ context.Context, d time.Duration) error { clock.Advance(d); return nil },
	})
	_, err := s.Stat(t.Context(), store.Version{Key: "a"})
	if !errors.Is(err, store.ErrUnreachable) || clock.Now().Sub(start) != 10*time.Minute || m.Count(storetest.OpStat) != 11 {
		t.Errorf("Stat = %v after %s and %d attempts, want 10 minutes and 11", err, clock.Now().Sub(start), m.Count(storetest.OpStat))
	}
}

func TestWhatDoesNotPassIsAnsweredAtOnce(t *testing.T) {
	for _, cause := range []error{
		store.ErrNotFound, store.ErrNoBucket, store.ErrExists, store.ErrForbidden, store.ErrCredentials,
		store.ErrUnsupported, store.ErrNoSpace, &store.ImmutableError{}, io.ErrUnexpectedEOF, errors.New("else"),
	} {
		r := newRig(storetest.S3Like(), storetest.Fail(cause).Always())
		for name, op := range map[string]func() error{
			"stat":   func() error { _, err := r.Stat(t.Context(), store.Version{Key: "a"}); return err },
			"open":   func() error { _, err := r.Open(t.Context(), store.Version{Key: "a", ID: "1"}, 0, -1); return err },
			"list":   func() error { return r.List(t.Context(), "", nil) },
			"delete": func() error { return r.Delete(t.Context(), store.Version{Key: "a", ID: "1"}) },
			"put": func() error {
				_, err := r.Put(t.Context(), "a", strings.NewReader("x"), store.PutOptions{})
				return err
			},
		} {
			before := len(r.faulty.Calls())
			var end *retry.Error
			if err := op(); !errors.Is(err, cause) || errors.As(err, &end) {
				t.Errorf("%s failing with %v = %v", name, cause, err)
			}
			if n := len(r.faulty.Calls()) - before; n != 1 {
				t.Errorf("%s failing with %v was tried %d times", name, cause, n)
			}
		}
	}
}

// An eventually consistent store refuses to change what was written a moment ago, and soon does not.
func TestALateRefusalOfAChangeIsRepeated(t *testing.T) {
	for op, change := range map[storetest.Op]func(*rig, store.Version) error{
		storetest.OpExtend: func(r *rig, v store.Version) error {
			_, err := r.Extend(t.Context(), v, start.Add(48*time.Hour))
			return err
		},
		storetest.OpHold: func(r *rig, v store.Version) error { return r.SetHold(t.Context(), v, true) },
		storetest.OpTag:  func(r *rig, v store.Version) error { return r.SetTag(t.Context(), v, "a", "b") },
	} {
		for _, cause := range []error{store.ErrForbidden, store.ErrNotFound} {
			profile := storetest.S3Like()
			profile.Default, profile.Period = immutability.ModeCompliance, 24*time.Hour
			r := newRig(profile)
			v := mustPut(t, r, "a", []byte("x")).Version
			refusal := func(n int) storetest.Fault {
				return storetest.Fail(cause).On(op, "").For(n)
			}
			r.faulty.Inject(refusal(2))
			if err := change(r, v); err != nil || len(r.waits) != 2 {
				t.Errorf("%s, %v twice: %v after %d waits, want success after 2", op, cause, err, len(r.waits))
			}
			r.faulty.Inject(refusal(4))
			if err := change(r, v); !errors.Is(err, cause) || errors.Is(err, store.ErrUnreachable) {
				t.Errorf("%s, %v for ever: %v", op, cause, err)
			}
			r.clock.Advance(time.Minute)
			r.waits = nil
			r.faulty.Inject(refusal(1))
			if err := change(r, v); !errors.Is(err, cause) || len(r.waits) != 0 {
				t.Errorf("%s of what is a minute old, %v: %v after %d waits, want the refusal at once", op, cause, err, len(r.waits))
			}
		}
	}
}

func TestTimeoutsPass(t *testing.T) {
	r := newRig(storetest.S3Like(), storetest.Fail(context.DeadlineExceeded).For(2))
	mustPut(t, r, "a", []byte("x"))
	if n := r.faulty.Count(storetest.OpPut); n != 3 {
		t.Errorf("%d attempts, want 3", n)
	}
}

func TestTheCallersContextEndsTheWaiting(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	m := storetest.NewFaulty(storetest.NewMemory(storetest.Bare()))
	m.Inject(storetest.Fail(store.ErrThrottled).Always())
	s := retry.New(m, retry.Options{
		Base: time.Hour, Cap: time.Hour, Total: 100 * time.Hour,
		Notify: func(string, string, int, time.Duration, error) { cancel() },
	})
	_, err := s.Stat(ctx, store.Version{Key: "a"})
	if !errors.Is(err, context.Canceled) || !errors.Is(err, store.ErrThrottled) {
		t.Errorf("Stat = %v, want both the cancellation and what failed before", err)
	}
	if n := len(m.Calls()); n != 1 {
		t.Errorf("%d attempts after the cancellation, want none", n-1)
	}
}

func TestEveryChangeIsRepeated(t *testing.T) {
	r := newRig(storetest.S3Like())
	until := start.Add(time.Hour)
	o, err := r.Put(t.Context(), "a", strings.NewReader("x"), store.PutOptions{
		Retention: &immutability.Retention{Mode: immutability.ModeCompliance, Until: until},
	})
	if err != nil {
		t.Fatal(err)
	}
	later := until.Add(time.Hour)
	for op, do := range map[storetest.Op]func() error{
		storetest.OpExtend:  func() error { _, err := r.Extend(t.Context(), o.Version, later); return err },
		storetest.OpHold:    func() error { return r.SetHold(t.Context(), o.Version, true) },
		storetest.OpTag:     func() error { return r.SetTag(t.Context(), o.Version, "k", "v") },
		storetest.OpInspect: func() error { _, err := r.Inspect(t.Context()); return err },
		storetest.OpStat:    func() error { _, err := r.Stat(t.Context(), o.Version); return err },
		storetest.OpDelete:  func() error { return r.Delete(t.Context(), store.Version{Key: "none", ID: "none"}) },
	} {
		r.faulty.Inject(storetest.Fail(store.ErrUnreachable).On(op, ""), storetest.LoseResponse().On(op, "").After(1))
		if err := do(); err != nil {
			t.Errorf("%s = %v", op, err)
		}
		if n := r.faulty.Count(op); n != 3 {
			t.Errorf("%s was tried %d times, want 3: refused, response lost, done", op, n)
		}
	}
	st, err := r.Stat(t.Context(), o.Version)
	if err != nil || !st.Retention.Until.Equal(later) || !st.Retention.Hold || st.Tags["k"] != "v" {
		t.Errorf("Stat = %+v, %v", st, err)
	}
}

func TestTheContractHoldsBehindRetries(t *testing.T) {
	instant := func(s store.Store) store.Store {
		return retry.New(s, retry.Options{Sleep: func(context.Context, time.Duration) error { return nil }})
	}
	for name, o := range storetest.MemoryOptions() {
		t.Run(name, func(t *testing.T) { storetest.Run(t, o(instant)) })
	}
}
