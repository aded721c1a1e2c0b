package storetest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"
	"testing"
	"time"

	"druid.internal/druid/internal/store"
)

var putCases = []conformanceCase{
	{name: "what was put is read back", run: whatWasPutIsReadBack},
	{name: "an object may be empty", run: anObjectMayBeEmpty},
	{name: "a stream of unknown size is stored whole", run: aStreamOfUnknownSizeIsStoredWhole},
	{name: "sizes around a power of two are exact", run: sizesAreExact},
	{name: "a failing body leaves nothing", run: aFailingBodyLeavesNothing},
	{name: "a canceled put leaves nothing", run: aCanceledPutLeavesNothing},
	{name: "the body stays the caller's", run: theBodyStaysTheCallers},
	{name: "an impossible option is refused and leaves nothing", run: impossibleOptions},
	{name: "a forbidden key is refused", run: forbiddenKeys},
}

var overwriteCases = []conformanceCase{
	{name: "an existing key is refused or becomes a further version", run: anExistingKey},
	{name: "concurrent puts of one key lose nothing", run: concurrentPuts},
}

// foreignCases are about writers without manners.
var foreignCases = []conformanceCase{
	{name: "a foreign overwrite loses nothing or is refused or shows", run: aForeignOverwrite},
}

func whatWasPutIsReadBack(t *testing.T, o Options) {
	s := o.New(t)
	body := noiseBytes(t, 100_003, 1)
	v := put(t, s, "a/one", body, store.PutOptions{}).Version
	if (v.ID != "") != o.Want.Versions {
		t.Errorf("the version's ID is %q on a store with versions = %v", v.ID, o.Want.Versions)
	}
	wantBytes(t, "the object", read(t, s, v), body)
	wantBytes(t, "the object without a version", read(t, s, store.Version{Key: v.Key}), body)
}

func anObjectMayBeEmpty(t *testing.T, o Options) {
	s := o.New(t)
	v := put(t, s, "a/empty", nil, store.PutOptions{}).Version
	if got := read(t, s, v); len(got) != 0 {
		t.Errorf("the empty object has %d bytes", len(got))
	}
	if got := stat(t, s, v).Size; got != 0 {
		t.Errorf("Stat says %d bytes", got)
	}
	wantKeys(t, s, "a", "a/empty")
}

func aStreamOfUnknownSizeIsStoredWhole(t *testing.T, o Options) {
	s := o.New(t)
	h := sha256.New()
	obj, err := s.Put(t.Context(), "a/large", &stream{r: io.TeeReader(noise(o.LargeSize+12_345, 2), h)}, store.PutOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if obj.Size != o.LargeSize+12_345 {
		t.Errorf("Put says %d bytes, want %d", obj.Size, o.LargeSize+12_345)
	}
	if got := stat(t, s, obj.Version).Size; got != obj.Size {
		t.Errorf("Stat says %d bytes, want %d", got, obj.Size)
	}
	wantDigest(t, s, obj.Version, h)
}

func wantDigest(t *testing.T, s store.Reader, v store.Version, want hash.Hash) {
	t.Helper()
	r, err := s.Open(t.Context(), v, 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	got := sha256.New()
	n, err := io.Copy(got, r)
	if err != nil {
		t.Fatalf("reading %s broke after %d bytes: %v", v, n, err)
	}
	if !bytes.Equal(got.Sum(nil), want.Sum(nil)) {
		t.Errorf("%s was read back differently, %d bytes", v, n)
	}
}

func sizesAreExact(t *testing.T, o Options) {
	s := o.New(t)
	for _, size := range []int64{1, 511, 512, 513, 65_535, 65_536, 65_537, 1<<20 - 1, 1 << 20, 1<<20 + 1} {
		body := noiseBytes(t, size, 3)
		obj, err := s.Put(t.Context(), fmt.Sprintf("a/%d", size), &stream{r: bytes.NewReader(body)}, store.PutOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if obj.Size != size {
			t.Errorf("Put of %d bytes says %d", size, obj.Size)
		}
		wantBytes(t, obj.Key, read(t, s, obj.Version), body)
	}
}

func aFailingBodyLeavesNothing(t *testing.T, o Options) {
	s := o.New(t)
	for _, size := range []int64{0, 1, 100_000, o.LargeSize} {
		_, err := s.Put(t.Context(), fmt.Sprintf("a/fail-%d", size), failing{r: noise(size, 4)}, store.PutOptions{})
		wantError(t, fmt.Sprintf("Put of a body that fails after %d bytes", size), err, errBody)
	}
	wantKeys(t, s, "")
	wantNoLeftovers(t, o, s)
}

func wantNoLeftovers(t *testing.T, o Options, s store.Store) {
	t.Helper()
	if o.Leftovers == nil {
		o.note(t, InPart, "that failed uploads leave no parts behind is not shown")
		return
	}
	if n := o.Leftovers(t, s); n != 0 {
		t.Errorf("%d leftovers of failed uploads", n)
	}
}

func aCanceledPutLeavesNothing(t *testing.T, o Options) {
	s := o.New(t)
	for _, size := range []int64{0, 100_000, o.LargeSize / 2} {
		ctx, cancel := context.WithCancel(t.Context())
		body := io.MultiReader(noise(size, 5), callAtEnd{cancel}, noise(1<<20, 6))
		_, err := s.Put(ctx, fmt.Sprintf("a/canceled-%d", size), &stream{r: body}, store.PutOptions{})
		cancel()
		wantError(t, fmt.Sprintf("Put canceled after %d bytes", size), err, context.Canceled)
	}
	wantKeys(t, s, "")
	wantNoLeftovers(t, o, s)
	put(t, s, "a/canceled-0", []byte("later"), store.PutOptions{})
}

// callAtEnd is an empty stream that calls fn when it is read.
type callAtEnd struct{ fn func() }

func (c callAtEnd) Read([]byte) (int, error) {
	c.fn()
	return 0, io.EOF
}

func theBodyStaysTheCallers(t *testing.T, o Options) {
	s := o.New(t)
	check := func(what, key string, ctx context.Context, r io.Reader) {
		body := &stream{r: r}
		_, err := s.Put(ctx, key, body, store.PutOptions{})
		body.returned.Store(true)
		if n := body.closed.Load(); n != 0 {
			t.Errorf("%s: the body was closed", what)
		}
		if settle(20*time.Millisecond, func() bool { return body.late.Load() > 0 }) {
			t.Errorf("%s: the body was read after Put returned %v", what, err)
		}
	}
	check("success", "a/1", t.Context(), noise(100_000, 7))
	check("failure", "a/2", t.Context(), failing{r: noise(100_000, 7)})
	ctx, cancel := context.WithCancel(t.Context())
	check("cancellation", "a/3", ctx, io.MultiReader(noise(100_000, 7), callAtEnd{cancel}, noise(o.LargeSize, 7)))
	check("refusal", "a/1", t.Context(), noise(o.LargeSize, 7))
}

func anExistingKey(t *testing.T, o Options) {
	s := o.New(t)
	first := put(t, s, "a/key", []byte("first"), store.PutOptions{}).Version
	for _, size := range []int64{6, o.LargeSize} {
		second := noiseBytes(t, size, 8)
		obj, err := s.Put(t.Context(), "a/key", &stream{r: bytes.NewReader(second)}, store.PutOptions{})
		switch {
		case o.Want.ConditionalPut || o.LooksFirst:
			wantError(t, fmt.Sprintf("second Put, of %d bytes", size), err, store.ErrExists)
			wantBytes(t, "the first object", read(t, s, first), []byte("first"))
			wantKeys(t, s, "", "a/key")
		case err != nil:
			t.Fatalf("a store that claims to overwrite says %v", err)
		case o.Want.Versions:
			wantBytes(t, "the first version", read(t, s, first), []byte("first"))
			wantBytes(t, "the second version", read(t, s, obj.Version), second)
		default:
			wantBytes(t, "the object", read(t, s, obj.Version), second)
			wantKeys(t, s, "", "a/key")
		}
	}
	switch {
	case o.LooksFirst:
		o.note(t, Fallback, "the server does not promise to refuse an overwrite; the provider looks first and refuses itself")
	case !o.Want.ConditionalPut && o.Want.Versions:
		wantKeys(t, s, "", "a/key", "a/key", "a/key")
		o.note(t, Fallback, "an overwrite is not refused, it makes a further version and the first stays")
	case !o.Want.ConditionalPut:
		o.note(t, Fallback, "an overwrite is not refused and replaces what was there, whole; only its digest tells")
	}
	wantNoLeftovers(t, o, s)
}

func concurrentPuts(t *testing.T, o Options) {
	s := o.New(t)
	const writers = 8
	type outcome struct {
		obj  store.Object
		body []byte
		err  error
	}
	outcomes, start := make(chan outcome), make(chan struct{})
	for i := range writers {
		body := []byte(strings.Repeat(string(rune('a'+i)), 50_000))
		go func() {
			<-start
			obj, err := s.Put(t.Context(), "a/race", &stream{r: bytes.NewReader(body)}, store.PutOptions{})
			outcomes <- outcome{obj, body, err}
		}()
	}
	close(start)
	var won []outcome
	for range writers {
		r := <-outcomes
		switch {
		case r.err == nil:
			won = append(won, r)
		case !o.Want.ConditionalPut && !o.LooksFirst || !errors.Is(r.err, store.ErrExists):
			t.Errorf("a writer that did not win was told %v", r.err)
		}
	}
	switch {
	case o.Want.ConditionalPut && len(won) != 1:
		t.Fatalf("%d of %d writers of one key won, want 1", len(won), writers)
	case len(won) == 0:
		t.Fatal("none of the writers won")
	case !o.Want.ConditionalPut && !o.Want.Versions:
		o.note(t, Absent, "which of several writers wins is open: the store keeps neither versions nor promises")
		return
	}
	if !o.Want.ConditionalPut {
		o.note(t, Fallback, "every writer wins, each a version of its own")
	}
	for _, w := range won {
		wantBytes(t, "what a winner wrote", read(t, s, w.obj.Version), w.body)
	}
	if got := list(t, s, ""); len(got) != len(won) {
		t.Errorf("%d versions are listed, want %d", len(got), len(won))
	}
}

func impossibleOptions(t *testing.T, o Options) {
	s := o.New(t)
	if !o.Want.ObjectLock {
		_, err := s.Put(t.Context(), "a/locked", strings.NewReader("x"), store.PutOptions{Retention: lockFor(o, Lock{Ask: "compliance"})})
		wantError(t, "Put with a lock on a store without", err, store.ErrUnsupported)
	} else {
		r := lockFor(o, o.Lock[0])
		r.Until = o.Now().Add(-o.LockPeriod)
		if _, err := s.Put(t.Context(), "a/locked", strings.NewReader("x"), store.PutOptions{Retention: r}); err == nil {
			t.Error("a lock that ended in the past was accepted")
		}
	}
	if !o.Want.Tags {
		_, err := s.Put(t.Context(), "a/tagged", strings.NewReader("x"), store.PutOptions{Tags: map[string]string{"k": "v"}})
		wantError(t, "Put with tags on a store without", err, store.ErrUnsupported)
	}
	wantKeys(t, s, "")
}

func forbiddenKeys(t *testing.T, o Options) {
	s := o.New(t)
	for _, key := range append([]string{""}, o.NoKeys...) {
		if _, err := s.Put(t.Context(), key, strings.NewReader("x"), store.PutOptions{}); err == nil {
			t.Errorf("Put accepted the key %q", key)
		}
	}
	wantKeys(t, s, "")
}
