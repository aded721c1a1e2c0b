package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"druid.internal/druid/internal/store"
)

var readCases = []conformanceCase{
	{name: "ranges are exact", run: rangesAreExact},
	{name: "a range beyond the end is an unexpected EOF", run: aRangeBeyondTheEnd},
	{name: "parallel ranges of one object fit together", run: parallelRanges},
	{name: "a broken download is an unexpected EOF", run: aBrokenDownload},
	{name: "a canceled read ends", run: aCanceledReadEnds},
	{name: "a missing object is not found", run: aMissingObject},
	{name: "stat tells size and time", run: statTellsSizeAndTime},
	{name: "closing early leaks nothing", run: closingEarlyLeaksNothing},
}

func rangesAreExact(t *testing.T, o Options) {
	s := o.New(t)
	body := noiseBytes(t, 200_001, 10)
	v := put(t, s, "a/ranges", body, store.PutOptions{}).Version
	size := int64(len(body))
	for _, r := range []struct{ off, n int64 }{
		{0, 0}, {0, 1}, {0, size}, {0, -1}, {1, 1}, {1, -1}, {7, 100_000}, {size - 1, 1}, {size - 1, -1},
		{size, 0}, {size, -1}, {100, 0},
	} {
		want := body[r.off:]
		if r.n >= 0 {
			want = want[:r.n]
		}
		wantBytes(t, fmt.Sprintf("the range %d+%d", r.off, r.n), readRange(t, s, v, r.off, r.n), want)
	}
}

func aRangeBeyondTheEnd(t *testing.T, o Options) {
	s := o.New(t)
	v := put(t, s, "a/short", []byte("0123456789"), store.PutOptions{}).Version
	for _, r := range []struct{ off, n int64 }{{0, 11}, {5, 6}, {10, 1}, {11, 1}, {11, -1}, {1 << 40, 5}} {
		_, err := tryRead(t.Context(), s, v, r.off, r.n)
		wantError(t, fmt.Sprintf("reading %d+%d of 10 bytes", r.off, r.n), err, io.ErrUnexpectedEOF)
	}
	if _, err := tryRead(t.Context(), s, v, -1, 1); err == nil {
		t.Error("a negative offset was accepted")
	}
}

func parallelRanges(t *testing.T, o Options) {
	s := o.New(t)
	const parts, size = 8, 250_007
	body := noiseBytes(t, parts*size, 11)
	v := put(t, s, "a/parallel", body, store.PutOptions{}).Version
	got := make([]byte, len(body))
	failed := make(chan error)
	for i := range parts {
		go func() {
			b, err := tryRead(t.Context(), s, v, int64(i*size), size)
			copy(got[i*size:], b)
			failed <- err
		}()
	}
	for range parts {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
	wantBytes(t, "the object read in parts", got, body)
}

func aBrokenDownload(t *testing.T, o Options) {
	if o.Cut == nil {
		o.note(t, NotProven, "that a download which breaks off is an error")
		return
	}
	s := o.New(t)
	body := noiseBytes(t, 4<<20, 12)
	v := put(t, s, "a/broken", body, store.PutOptions{}).Version
	r := o.Cut(t, s, v)
	defer r.Close()
	got, err := io.ReadAll(r)
	wantError(t, "reading a stream that breaks off", err, io.ErrUnexpectedEOF)
	if len(got) >= len(body) || !bytes.Equal(got, body[:len(got)]) {
		t.Errorf("what came before the break is %s", digest(got))
	}
}

func aCanceledReadEnds(t *testing.T, o Options) {
	s := o.New(t)
	v := put(t, s, "a/canceled", noiseBytes(t, 8<<20, 13), store.PutOptions{}).Version
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := s.Open(ctx, v, 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := io.CopyN(io.Discard, r, 1000); err != nil {
		t.Fatal(err)
	}
	cancel()
	_, err = io.Copy(io.Discard, r)
	wantError(t, "reading on after cancel", err, context.Canceled)
	_, err = s.Open(ctx, v, 0, -1)
	wantError(t, "Open with a canceled context", err, context.Canceled)
	_, err = s.Stat(ctx, v)
	wantError(t, "Stat with a canceled context", err, context.Canceled)
	err = s.List(ctx, "", func(store.Object) error { return nil })
	wantError(t, "List with a canceled context", err, context.Canceled)
}

func aMissingObject(t *testing.T, o Options) {
	s := o.New(t)
	v := put(t, s, "a/b/c", []byte("x"), store.PutOptions{}).Version
	missing := map[string]store.Version{
		"another key":                  {Key: "a/b/d"},
		"the directory of a key":       {Key: "a/b"},
		"below a key":                  {Key: "a/b/c/d"},
		"a key that begins like one":   {Key: "a/b/c2"},
		"another key's version":        {Key: "a/b/d", ID: v.ID},
		"the directory with a slash":   {Key: "a/b/"},
		"an upper-case spelling of it": {Key: "A/b/c"},
	}
	if o.Want.Versions {
		gone := put(t, s, "a/gone", []byte("x"), store.PutOptions{}).Version
		if err := deleter(t, s).Delete(t.Context(), gone); err != nil {
			t.Fatal(err)
		}
		missing["a version that was deleted"] = gone
		missing["the version of another key"] = store.Version{Key: v.Key, ID: gone.ID}
	}
	for what, v := range missing {
		_, err := tryRead(t.Context(), s, v, 0, -1)
		wantError(t, "opening "+what, err, store.ErrNotFound)
		_, err = s.Stat(t.Context(), v)
		wantError(t, "stat of "+what, err, store.ErrNotFound)
	}
}

func statTellsSizeAndTime(t *testing.T, o Options) {
	s := o.New(t)
	const tolerance = 2 * time.Minute // between the test's clock and the store's
	before := o.Now()
	v := put(t, s, "a/stat", []byte("0123456789"), store.PutOptions{}).Version
	got := stat(t, s, v)
	if got.Version != v || got.Size != 10 || got.Marker || !got.Latest {
		t.Errorf("Stat(%s) = %+v", v, got)
	}
	if d := got.Modified.Sub(before); d < -tolerance || d > tolerance {
		t.Errorf("modified at %s, which is %s from now", got.Modified, d)
	}
	switch d := got.ServerTime.Sub(o.Now()); {
	case !o.ServerTime && !got.ServerTime.IsZero():
		t.Errorf("the store tells its time, %s; expect that in Options.ServerTime", got.ServerTime)
	case o.ServerTime && (d < -tolerance || d > tolerance):
		t.Errorf("the store's time is %s, which is %s from now", got.ServerTime, d)
	}
	if !o.ServerTime {
		o.note(t, InPart, "the store does not tell its clock")
	}
	listed := list(t, s, "a")
	if len(listed) != 1 || listed[0].Version != v || listed[0].Size != 10 || !listed[0].Latest || listed[0].Marker {
		t.Fatalf("List shows %+v", listed)
	}
	if d := listed[0].Modified.Sub(got.Modified); d < -time.Second || d > time.Second {
		t.Errorf("List says modified at %s, Stat at %s", listed[0].Modified, got.Modified)
	}
	if latest := stat(t, s, store.Version{Key: v.Key}); latest.Version != v {
		t.Errorf("Stat without a version describes %s, want %s", latest.Version, v)
	}
}

func closingEarlyLeaksNothing(t *testing.T, o Options) {
	s := o.New(t)
	v := put(t, s, "a/leak", noiseBytes(t, 4<<20, 14), store.PutOptions{}).Version
	round := func(i int) {
		r, err := s.Open(t.Context(), v, 0, -1)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.CopyN(io.Discard, r, 10); err != nil {
			t.Fatal(err)
		}
		if err := r.Close(); err != nil {
			t.Errorf("Close in the middle = %v", err)
		}
		_, err = s.Put(t.Context(), fmt.Sprintf("a/leak-%d", i), failing{r: noise(70_000, 15)}, store.PutOptions{})
		wantError(t, "Put of a failing body", err, errBody)
		stop := errors.New("seen enough")
		err = s.List(t.Context(), "", func(store.Object) error { return stop })
		if err != stop {
			t.Errorf("List = %v, want fn's own error, unwrapped", err)
		}
	}
	round(0)
	before := goroutines(o)
	const rounds = 20
	for i := range rounds {
		round(i + 1)
	}
	if !settle(5*time.Second, func() bool { return goroutines(o) <= before+rounds/4 }) {
		t.Errorf("%d goroutines before, %d after %d streams were closed early", before, goroutines(o), rounds)
	}
}
