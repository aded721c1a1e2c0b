package retry_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/storetest"
)

func TestABodyThatCanBeReadAgainIs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "body")
	if err := os.WriteFile(file, []byte("skipped"+string(text(50_000))), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Seek(7, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	r := newRig(storetest.S3Like(), storetest.Tear(100).On(storetest.OpPut, ""), storetest.Fail(store.ErrThrottled).On(storetest.OpPut, "").After(1))
	o, err := r.Put(t.Context(), "a", f, store.PutOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := readAll(t, r, o.Version); err != nil || !bytes.Equal(got, text(50_000)) {
		t.Errorf("stored %d bytes, %v", len(got), err)
	}
	if n := r.faulty.Count(storetest.OpPut); n != 3 {
		t.Errorf("%d attempts, want 3", n)
	}
}

func TestAStreamIsPutAgainOnlyIfNothingOfItWasRead(t *testing.T) {
	r := newRig(storetest.S3Like(), storetest.Fail(store.ErrThrottled).On(storetest.OpPut, ""))
	if _, err := r.Put(t.Context(), "a", unseekable{strings.NewReader("x")}, store.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	r = newRig(storetest.S3Like(), storetest.Tear(1).On(storetest.OpPut, ""))
	_, err := r.Put(t.Context(), "a", unseekable{strings.NewReader("xyz")}, store.PutOptions{})
	if !errors.Is(err, store.ErrUnreachable) || !strings.Contains(err.Error(), "cannot be read again") {
		t.Errorf("Put = %v, want the cause and that the body cannot be read again", err)
	}
	if got := keys(t, r); len(got) != 0 || r.faulty.Count(storetest.OpPut) != 1 {
		t.Errorf("%q are there after %d attempts", got, r.faulty.Count(storetest.OpPut))
	}
}

func TestABodysOwnErrorIsNotRepeated(t *testing.T) {
	r := newRig(storetest.S3Like())
	broken := io.MultiReader(strings.NewReader("x"), failing{store.ErrThrottled})
	_, err := r.Put(t.Context(), "a", broken, store.PutOptions{})
	if !errors.Is(err, store.ErrThrottled) || r.faulty.Count(storetest.OpPut) != 1 {
		t.Errorf("Put = %v after %d attempts", err, r.faulty.Count(storetest.OpPut))
	}
}

func TestABodysOwnErrorIsNotRepeatedEvenIfItCanGoBack(t *testing.T) {
	r := newRig(storetest.S3Like())
	_, err := r.Put(t.Context(), "a", seekable{failing{store.ErrThrottled}}, store.PutOptions{})
	if !errors.Is(err, store.ErrThrottled) || r.faulty.Count(storetest.OpPut) != 1 {
		t.Errorf("Put = %v after %d attempts", err, r.faulty.Count(storetest.OpPut))
	}
}

type seekable struct{ io.Reader }

func (seekable) Seek(int64, int) (int64, error) { return 0, nil }

type failing struct{ error }

func (f failing) Read([]byte) (int, error) { return 0, f.error }

func TestALostResponseToAPutThatHappenedIsSuccess(t *testing.T) {
	for name, p := range map[string]storetest.Profile{
		"conditional puts": storetest.S3Like(), "versions alone": storetest.CephLike(), "bare": storetest.Bare(),
	} {
		for _, size := range []int{0, 1, 100_000} {
			t.Run(fmt.Sprint(name, " ", size), func(t *testing.T) {
				r := newRig(p, storetest.LoseResponse().On(storetest.OpPut, ""))
				o, err := r.Put(t.Context(), "a", unseekable{bytes.NewReader(text(size))}, store.PutOptions{})
				if err != nil {
					t.Fatal(err)
				}
				all := r.memory.Versions("a")
				if len(all) != 1 || o.Version != all[0].Version || o.Size != int64(size) {
					t.Errorf("Put returned %+v, and %+v are there", o, all)
				}
				if n := r.faulty.Count(storetest.OpPut); n != 1 {
					t.Errorf("it was written %d times", n)
				}
			})
		}
	}
}

func TestALostResponseToALockedPutIsSuccessOnlyIfTheLockIsThere(t *testing.T) {
	body := text(100)
	lock := store.PutOptions{Retention: &immutability.Retention{Mode: immutability.ModeCompliance, Until: time.Now().Add(time.Hour)}}
	r := newRig(storetest.S3Like(), storetest.LoseResponse().On(storetest.OpPut, ""))
	if _, err := r.Put(t.Context(), "a", bytes.NewReader(body), lock); err != nil {
		t.Errorf("with the lock: %v", err)
	}
	r = newRig(storetest.S3Like(), storetest.LoseResponse().On(storetest.OpPut, ""))
	r.faulty.Hook(func(op storetest.Op, key string, phase storetest.Phase) {
		if op == storetest.OpPut && phase == storetest.After { // a store that forgets the lock
			r.memory.Lose(store.Version{Key: key})
			r.memory.Overwrite(key, body)
		}
	})
	_, err := r.Put(t.Context(), "a", bytes.NewReader(body), lock)
	if want := "without the lock"; !errors.Is(err, store.ErrUnknownOutcome) || !strings.Contains(err.Error(), want) {
		t.Errorf("without the lock: %v, want it to say %q", err, want)
	}
}

func TestALostResponseToAPutThatDidNotHappenIsRepeated(t *testing.T) {
	lost := storetest.Fail(store.ErrUnknownOutcome).On(storetest.OpPut, "")
	r := newRig(storetest.S3Like(), lost)
	mustPut(t, r, "a", text(100))
	if n := r.faulty.Count(storetest.OpPut); n != 2 {
		t.Errorf("%d attempts, want 2", n)
	}
	// A stream that was read cannot be repeated: the outcome stays unknown to the caller.
	r = newRig(storetest.S3Like(), storetest.LoseResponse().On(storetest.OpPut, ""))
	r.faulty.Hook(func(op storetest.Op, key string, phase storetest.Phase) {
		if op == storetest.OpPut && phase == storetest.After {
			r.memory.Lose(store.Version{Key: key})
		}
	})
	_, err := r.Put(t.Context(), "a", unseekable{bytes.NewReader(text(100))}, store.PutOptions{})
	if !errors.Is(err, store.ErrUnknownOutcome) {
		t.Errorf("Put = %v, want %v", err, store.ErrUnknownOutcome)
	}
}

func TestAPutThatArrivesLateIsRecognised(t *testing.T) {
	// The response is lost, the object is not there when we look, and there at the second attempt.
	body := text(1000)
	r := newRig(storetest.S3Like(), storetest.Fail(store.ErrUnknownOutcome).On(storetest.OpPut, ""))
	r.faulty.Hook(func(op storetest.Op, key string, phase storetest.Phase) {
		if op == storetest.OpStat && phase == storetest.After && r.faulty.Count(op) == 1 {
			r.memory.Overwrite("a", body)
		}
	})
	if o := mustPut(t, r, "a", body); o.Size != 1000 || len(r.memory.Versions("a")) != 1 {
		t.Errorf("Put returned %+v, and %+v are there", o, r.memory.Versions("a"))
	}
}

func TestAPutThatArrivesLateIsRecognisedByAStoreThatRefusesUnread(t *testing.T) {
	body := text(1000)
	r := newRig(storetest.S3Like(),
		storetest.Fail(store.ErrUnknownOutcome).On(storetest.OpPut, ""), storetest.Fail(store.ErrExists).On(storetest.OpPut, "").After(1))
	r.faulty.Hook(func(op storetest.Op, key string, phase storetest.Phase) {
		if op == storetest.OpStat && phase == storetest.After && r.faulty.Count(op) == 1 {
			r.memory.Overwrite("a", body)
		}
	})
	if o := mustPut(t, r, "a", body); o.Size != 1000 || r.faulty.Count(storetest.OpPut) != 2 {
		t.Errorf("Put returned %+v after %d attempts", o, r.faulty.Count(storetest.OpPut))
	}
}

func TestALostResponseWithAnothersContentThereIsAConflict(t *testing.T) {
	for name, theirs := range map[string][]byte{"another size": []byte("theirs"), "the same size": text(101)[1:]} {
		t.Run(name, func(t *testing.T) {
			r := newRig(storetest.S3Like(), storetest.LoseResponse().On(storetest.OpPut, ""))
			r.memory.Overwrite("a", theirs)
			_, err := r.Put(t.Context(), "a", unseekable{bytes.NewReader(text(100))}, store.PutOptions{})
			if !errors.Is(err, store.ErrExists) {
				t.Errorf("Put = %v, want %v", err, store.ErrExists)
			}
		})
	}
}

func TestAnOutageWhileLookingLeavesTheOutcomeUnknown(t *testing.T) {
	r := newRig(storetest.S3Like(), storetest.LoseResponse().On(storetest.OpPut, ""), storetest.Fail(store.ErrUnreachable).On(storetest.OpStat, "").Always())
	_, err := r.Put(t.Context(), "a", bytes.NewReader(text(100)), store.PutOptions{})
	if !errors.Is(err, store.ErrUnknownOutcome) || r.faulty.Count(storetest.OpPut) != 1 {
		t.Errorf("Put = %v after %d attempts, want an unknown outcome after 1", err, r.faulty.Count(storetest.OpPut))
	}
}

func TestACopyIsRepeatedAndRecognised(t *testing.T) {
	r := newRig(storetest.S3Like(),
		storetest.Fail(store.ErrThrottled).On(storetest.OpCopy, ""), storetest.LoseResponse().On(storetest.OpCopy, "").After(1))
	src := mustPut(t, r, "a", text(1000)).Version
	o, err := r.Copy(t.Context(), r, src, "b", store.PutOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := readAll(t, r, o.Version); err != nil || !bytes.Equal(got, text(1000)) {
		t.Errorf("the copy is %d bytes, %v", len(got), err)
	}
	if n := r.faulty.Count(storetest.OpCopy); n != 2 || len(r.memory.Versions("b")) != 1 {
		t.Errorf("%d attempts and %d versions, want 2 and 1", n, len(r.memory.Versions("b")))
	}
	r.memory.Overwrite("c", []byte("theirs"))
	r.faulty.Inject(storetest.LoseResponse().On(storetest.OpCopy, "c"))
	if _, err := r.Copy(t.Context(), r, src, "c", store.PutOptions{}); !errors.Is(err, store.ErrExists) {
		t.Errorf("Copy = %v, want %v", err, store.ErrExists)
	}
}
