package retry_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/retry"
	"druid.internal/druid/internal/store/storetest"
)

func TestABrokenStreamGoesOnWhereItBroke(t *testing.T) {
	body := text(100_000)
	for name, tc := range map[string]struct{ off, n int64 }{
		"whole":                {0, -1},
		"from an offset":       {777, -1},
		"a range":              {777, 50_000},
		"the range to the end": {777, 100_000 - 777},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(storetest.S3Like(),
				storetest.Cut(1).On(storetest.OpOpen, ""), storetest.Cut(20_000).On(storetest.OpOpen, "").After(1),
				storetest.Fail(store.ErrThrottled).On(storetest.OpOpen, "").After(2), storetest.Tear(9).On(storetest.OpOpen, "").After(3))
			v := mustPut(t, r, "a", body).Version
			st, err := r.Open(t.Context(), v, tc.off, tc.n)
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(st)
			if err != nil {
				t.Fatal(err)
			}
			want := body[tc.off:]
			if tc.n >= 0 {
				want = want[:tc.n]
			}
			if !bytes.Equal(got, want) {
				t.Errorf("read %d bytes, want %d, equal ones", len(got), len(want))
			}
			if n := r.faulty.Count(storetest.OpOpen); n != 5 {
				t.Errorf("opened %d times, want 5", n)
			}
			if err := st.Close(); err != nil {
				t.Error(err)
			}
			if _, err := st.Read(make([]byte, 1)); err != io.EOF {
				t.Errorf("after the end Read = %v, want io.EOF still", err)
			}
		})
	}
}

func TestAStreamThatBreaksAfterItsLastByteIsComplete(t *testing.T) {
	r := newRig(storetest.S3Like(), storetest.Cut(10).On(storetest.OpOpen, ""))
	v := mustPut(t, r, "a", text(10)).Version
	for _, n := range []int64{-1, 10} {
		st, err := r.Open(t.Context(), v, 0, n)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(st); err != nil || len(got) != 10 {
			t.Errorf("reading %d = %d bytes, %v", n, len(got), err)
		}
		st.Close()
	}
}

func TestAStreamThatDoesNotRecoverIsAnError(t *testing.T) {
	r := newRig(storetest.S3Like(), storetest.Cut(5).On(storetest.OpOpen, ""), storetest.Cut(0).On(storetest.OpOpen, "").After(1).Always())
	v := mustPut(t, r, "a", text(100)).Version
	got, err := readAll(t, r, v)
	var end *retry.Error
	if len(got) != 5 || !errors.Is(err, io.ErrUnexpectedEOF) || !errors.As(err, &end) || end.Attempts != 4 {
		t.Errorf("read %d bytes, then %v, want 5 and 4 attempts", len(got), err)
	}
}

func TestAStreamStaysInItsVersion(t *testing.T) {
	r := newRig(storetest.CephLike(), storetest.Cut(5).On(storetest.OpOpen, ""))
	mustPut(t, r, "a", []byte("first version"))
	overwritten := false
	r.faulty.Hook(func(op storetest.Op, _ string, phase storetest.Phase) {
		if op == storetest.OpOpen && phase == storetest.After && !overwritten {
			overwritten = true
			r.memory.Overwrite("a", []byte("SECOND VERSION"))
		}
	})
	got, err := readAll(t, r, store.Version{Key: "a"})
	if err != nil || string(got) != "first version" {
		t.Errorf("read %q, %v, want the version that was the latest at first", got, err)
	}
}

func TestAnObjectReplacedWhileItIsReadIsAnError(t *testing.T) {
	r := newRig(storetest.Bare(), storetest.Cut(5).On(storetest.OpOpen, ""))
	mustPut(t, r, "a", []byte("first"+"-bytes"))
	r.faulty.Hook(func(op storetest.Op, _ string, phase storetest.Phase) {
		if op == storetest.OpOpen && phase == storetest.After {
			r.clock.Advance(1)
			r.memory.Overwrite("a", []byte("other"+"-BYTES"))
		}
	})
	got, err := readAll(t, r, store.Version{Key: "a"})
	if err == nil || !strings.Contains(err.Error(), "replaced") || string(got) != "first" {
		t.Errorf("read %q, %v, want an error instead of a mixture", got, err)
	}
}

func TestAnObjectThatIsTooShortIsNotReadForEver(t *testing.T) {
	r := newRig(storetest.S3Like(), storetest.Cut(5).On(storetest.OpOpen, ""))
	v := mustPut(t, r, "a", text(100)).Version
	st, err := r.Open(t.Context(), v, 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	r.memory.Truncate(v, 50)
	if _, err := io.ReadAll(st); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("Read = %v, want %v", err, io.ErrUnexpectedEOF)
	}
	if n := r.faulty.Count(storetest.OpOpen); n != 2 {
		t.Errorf("opened %d times, want 2", n)
	}
}

func TestABrokenListingTellsEverythingOnce(t *testing.T) {
	const objects = 30
	for at := range objects - 1 {
		r := newRig(storetest.CephLike(),
			storetest.BreakList(at, store.ErrUnreachable).On(storetest.OpList, ""),
			storetest.Fail(store.ErrThrottled).On(storetest.OpList, "").After(1),
			storetest.BreakList(at/2, store.ErrUnreachable).On(storetest.OpList, "").After(2),
			storetest.BreakList(at+1, store.ErrThrottled).On(storetest.OpList, "").After(3))
		for i := range objects {
			mustPut(t, r, "a/"+string(rune('a'+i/3)), text(i)) // three versions of every key
		}
		want := keys(t, r.memory)
		if diff := cmp.Diff(want, keys(t, r)); diff != "" {
			t.Fatalf("broken after %d (-want +got):\n%s", at, diff)
		}
		if n := r.faulty.Count(storetest.OpList); n != 5 {
			t.Errorf("broken after %d: listed %d times, want 5", at, n)
		}
	}
}

func TestAListingKeepsItsOrderWhenTheBucketChangesMeanwhile(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(r *rig)
		want   []string
	}{
		"a newer version of the last key told": {
			func(r *rig) { r.memory.Overwrite("b", nil) },
			[]string{"a@v000001", "b@v000003", "b@v000002", "c@v000004"},
		},
		"the last version told was deleted": {
			func(r *rig) { r.memory.Lose(store.Version{Key: "b", ID: "v000003"}) },
			[]string{"a@v000001", "b@v000003", "b@v000002", "c@v000004"},
		},
		"the last key told is gone": {
			func(r *rig) { r.memory.Lose(store.Version{Key: "b"}) },
			[]string{"a@v000001", "b@v000003", "c@v000004"},
		},
		"the last keys are gone, and of the last one told the newest version": {
			func(r *rig) {
				r.memory.Lose(store.Version{Key: "b", ID: "v000003"})
				r.memory.Lose(store.Version{Key: "c"})
			},
			[]string{"a@v000001", "b@v000003", "b@v000002"},
		},
		"an earlier key appears": {
			func(r *rig) { r.memory.Overwrite("aa", nil) },
			[]string{"a@v000001", "b@v000003", "b@v000002", "c@v000004"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(storetest.CephLike(), storetest.BreakList(2, store.ErrUnreachable).On(storetest.OpList, ""))
			for _, key := range []string{"a", "b", "b", "c"} {
				mustPut(t, r, key, nil)
			}
			r.faulty.Hook(func(op storetest.Op, _ string, phase storetest.Phase) {
				if op == storetest.OpList && phase == storetest.After && r.faulty.Count(op) == 1 {
					tc.change(r)
				}
			})
			if diff := cmp.Diff(tc.want, keys(t, r)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheCallbacksErrorEndsAListing(t *testing.T) {
	r := newRig(storetest.S3Like())
	mustPut(t, r, "a", nil)
	stop := store.ErrThrottled // even one that looks as if it would pass
	calls := 0
	err := r.List(t.Context(), "", func(store.Object) error { calls++; return stop })
	if err != stop || calls != 1 {
		t.Errorf("List = %v after %d calls, want fn's error itself after 1", err, calls)
	}
}

func TestAnOutageIsNeverAnEmptyListing(t *testing.T) {
	r := newRig(storetest.S3Like(), storetest.Fail(store.ErrUnreachable).On(storetest.OpList, "").Always())
	err := r.List(t.Context(), "", func(store.Object) error { return nil })
	if !errors.Is(err, store.ErrUnreachable) {
		t.Errorf("List = %v, want %v", err, store.ErrUnreachable)
	}
}
