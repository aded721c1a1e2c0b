package storetest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/storetest"
)

func newFaulty(t *testing.T, faults ...storetest.Fault) (*storetest.Faulty, *storetest.Memory) {
	t.Helper()
	m := storetest.NewMemory(storetest.S3Like())
	f := storetest.NewFaulty(m)
	f.Inject(faults...)
	return f, m
}

func putString(f store.Store, key, body string) error {
	_, err := f.Put(context.Background(), key, strings.NewReader(body), store.PutOptions{})
	return err
}

func TestAFaultStrikesTheCallsItIsNarrowedTo(t *testing.T) {
	f, _ := newFaulty(t, storetest.Fail(store.ErrThrottled).On(storetest.OpPut, "Full-").After(2).For(2))
	var got []string
	for i := range 6 {
		for _, key := range []string{"Full-", "Incr-"} {
			if err := putString(f, fmt.Sprint(key, i), "x"); errors.Is(err, store.ErrThrottled) {
				got = append(got, fmt.Sprint(key, i))
			} else if err != nil {
				t.Fatal(err)
			}
		}
	}
	if diff := cmp.Diff([]string{"Full-2", "Full-3"}, got); diff != "" {
		t.Errorf("struck (-want +got):\n%s", diff)
	}
}

func TestALostResponseIsAnOperationThatHappened(t *testing.T) {
	f, m := newFaulty(t, storetest.LoseResponse())
	if err := putString(f, "a", "x"); !errors.Is(err, store.ErrUnknownOutcome) {
		t.Errorf("Put = %v, want %v", err, store.ErrUnknownOutcome)
	}
	if len(m.Versions("a")) != 1 {
		t.Error("the object is not there")
	}
}

func TestATornUploadLeavesNothing(t *testing.T) {
	f, m := newFaulty(t, storetest.Tear(3))
	if err := putString(f, "a", "0123456789"); !errors.Is(err, store.ErrUnreachable) {
		t.Errorf("Put = %v, want %v", err, store.ErrUnreachable)
	}
	if len(m.Versions("a")) != 0 {
		t.Error("something is there")
	}
}

func TestStreamsAreSpoiltAsScripted(t *testing.T) {
	steps := 0
	slow := storetest.Slow(func(context.Context) error { steps++; return nil })
	for name, tc := range map[string]struct {
		fault storetest.Fault
		want  string
		err   error
	}{
		"cut":          {storetest.Cut(4), "0123", io.ErrUnexpectedEOF},
		"cut at once":  {storetest.Cut(0), "", io.ErrUnexpectedEOF},
		"shortened":    {storetest.Shorten(4), "0123", nil},
		"garbled":      {storetest.Garble(4), "0123556789", nil},
		"slow":         {slow, "0123456789", nil},
		"an even cut":  {storetest.Cut(10), "0123456789", io.ErrUnexpectedEOF},
		"a later call": {storetest.Cut(4).After(1), "0123456789", nil},
	} {
		t.Run(name, func(t *testing.T) {
			f, m := newFaulty(t, tc.fault.On(storetest.OpOpen, ""))
			v := m.Overwrite("a", []byte("0123456789"))
			r, err := f.Open(t.Context(), v, 0, -1)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			if got, err := io.ReadAll(r); string(got) != tc.want || !errors.Is(err, tc.err) {
				t.Errorf("read %q, %v, want %q, %v", got, err, tc.want, tc.err)
			}
		})
	}
	if steps < 10 {
		t.Errorf("the slow stream was waited for %d times, want once a byte", steps)
	}
}

func TestListingsBreakOrLieAsScripted(t *testing.T) {
	for name, tc := range map[string]struct {
		fault storetest.Fault
		told  int
		err   error
	}{
		"broken": {storetest.BreakList(2, store.ErrUnreachable), 2, store.ErrUnreachable},
		"lying":  {storetest.LieInList(2), 2, nil},
		"failed": {storetest.Fail(store.ErrForbidden), 0, store.ErrForbidden},
		"late":   {storetest.LieInList(3), 3, nil},
	} {
		t.Run(name, func(t *testing.T) {
			f, m := newFaulty(t, tc.fault.On(storetest.OpList, ""))
			for _, key := range []string{"a", "b", "c"} {
				m.Overwrite(key, nil)
			}
			told := 0
			err := f.List(t.Context(), "", func(store.Object) error { told++; return nil })
			if told != tc.told || !errors.Is(err, tc.err) {
				t.Errorf("told %d, %v, want %d, %v", told, err, tc.told, tc.err)
			}
		})
	}
}

func TestAHangingOperationEndsWithItsContext(t *testing.T) {
	f, _ := newFaulty(t, storetest.Hang())
	ctx, cancel := context.WithCancel(t.Context())
	f.Hook(func(storetest.Op, string, storetest.Phase) { cancel() })
	if _, err := f.Stat(ctx, store.Version{Key: "a"}); !errors.Is(err, context.Canceled) {
		t.Errorf("Stat = %v, want %v", err, context.Canceled)
	}
}

func TestHooksSeeEveryOperationFromBothSides(t *testing.T) {
	f, m := newFaulty(t)
	var got []string
	f.Hook(func(op storetest.Op, key string, phase storetest.Phase) {
		got = append(got, fmt.Sprintf("%s %s %s: %d versions", phase, op, key, len(m.Versions("a/k"))))
	})
	ctx := t.Context()
	o, err := f.Put(ctx, "a/k", strings.NewReader("x"), store.PutOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Delete(ctx, o.Version); err != nil {
		t.Fatal(err)
	}
	_ = f.List(ctx, "a", func(store.Object) error { return nil })
	want := []string{
		"before put a/k: 0 versions", "after put a/k: 1 versions", "before delete a/k: 1 versions",
		"after delete a/k: 0 versions", "before list a: 0 versions", "after list a: 0 versions",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if f.Steps() != 6 || f.Count(storetest.OpPut) != 1 {
		t.Errorf("%d steps, calls %v", f.Steps(), f.Calls())
	}
}

func TestADeadProcessChangesNothingMore(t *testing.T) {
	for step, want := range map[int]int{1: 0, 2: 1, 3: 1, 4: 2} {
		f, m := newFaulty(t)
		f.DieAt(step)
		for _, key := range []string{"a", "b", "c"} {
			_ = putString(f, key, "x")
		}
		if err := putString(f, "d", "x"); !errors.Is(err, storetest.ErrDead) {
			t.Errorf("Put after death = %v", err)
		}
		if err := f.Delete(t.Context(), store.Version{Key: "a", ID: "v000001"}); !errors.Is(err, storetest.ErrDead) {
			t.Errorf("Delete after death = %v", err)
		}
		got := 0
		_ = m.List(t.Context(), "", func(store.Object) error { got++; return nil })
		if got != want {
			t.Errorf("killed at step %d: %d objects are there, want %d", step, got, want)
		}
	}
}

func TestAnUploadEndsWithItsProcess(t *testing.T) {
	f, m := newFaulty(t)
	f.DieAt(2) // the second step is the list within the upload
	body := io.MultiReader(strings.NewReader("half"), callback(func() {
		_ = f.List(t.Context(), "", func(store.Object) error { return nil })
	}), strings.NewReader("rest"))
	if _, err := f.Put(t.Context(), "a", body, store.PutOptions{}); !errors.Is(err, storetest.ErrDead) {
		t.Errorf("Put = %v, want %v", err, storetest.ErrDead)
	}
	if len(m.Versions("a")) != 0 {
		t.Error("the upload of a dead process arrived")
	}
}

type callback func()

func (c callback) Read([]byte) (int, error) { c(); return 0, io.EOF }

func TestDamageDoesWhatItsNameSays(t *testing.T) {
	m := storetest.NewMemory(storetest.S3Like())
	text := func(v store.Version) string {
		r, err := m.Open(t.Context(), v, 0, -1)
		if err != nil {
			return err.Error()
		}
		b, _ := io.ReadAll(r)
		return string(b)
	}
	o, err := m.Put(t.Context(), "a", bytes.NewReader([]byte("0123")), store.PutOptions{
		Retention: &immutability.Retention{Mode: immutability.ModeCompliance, Until: time.Now().Add(time.Hour)},
	})
	if err != nil {
		t.Fatal(err)
	}
	v := o.Version
	m.Flip(v, 0)
	m.Flip(v, -1)
	if got := text(v); got != "1122" {
		t.Errorf("flipped: %q", got)
	}
	m.Truncate(v, 2)
	if got := text(v); got != "11" {
		t.Errorf("truncated: %q", got)
	}
	m.Replace(v, []byte("new"))
	m.Rename("a", "b")
	v.Key = "b"
	if got := text(v); got != "new" || len(m.Versions("a")) != 0 {
		t.Errorf("renamed: %q", got)
	}
	second := m.Overwrite("b", []byte("forged"))
	if got := text(store.Version{Key: "b"}); got != "forged" || text(v) != "new" {
		t.Errorf("overwritten: %q", got)
	}
	m.Lose(second)
	if marker, err := m.Hide("b"); err != nil || len(m.Versions("b")) != 2 || !m.Versions("b")[0].Marker || marker.ID == "" {
		t.Errorf("hidden: %+v, %v", m.Versions("b"), err)
	}
	m.Lose(store.Version{Key: "b"})
	if len(m.Versions("b")) != 0 {
		t.Errorf("lost: %+v", m.Versions("b"))
	}
	planted := start.Add(-time.Hour)
	m.Plant(store.Object{Version: store.Version{Key: "c"}, Modified: planted, Tags: map[string]string{"k": "v"}}, []byte("x"))
	if got := m.Versions("c"); len(got) != 1 || !got[0].Modified.Equal(planted) || got[0].Tags["k"] != "v" {
		t.Errorf("planted: %+v", got)
	}
}

var start = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
