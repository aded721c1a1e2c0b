package store_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/storetest"
)

func TestAReadOnlyViewHidesEverythingThatWrites(t *testing.T) {
	for name, s := range map[string]store.Reader{
		"directly":            store.ReadOnly(storetest.NewMemory(storetest.S3Like())),
		"through a decorator": store.ReadOnly(storetest.NewFaulty(storetest.NewMemory(storetest.S3Like()))),
		"twice":               store.ReadOnly(store.ReadOnly(storetest.NewMemory(storetest.S3Like()))),
		"under a decorator":   wrapper{store.ReadOnly(storetest.NewMemory(storetest.S3Like()))},
	} {
		has := map[string]bool{}
		_, has["Store"] = store.As[store.Store](s)
		_, has["Deleter"] = store.As[store.Deleter](s)
		_, has["Extender"] = store.As[store.Extender](s)
		_, has["Holder"] = store.As[store.Holder](s)
		_, has["Tagger"] = store.As[store.Tagger](s)
		_, has["Copier"] = store.As[store.Copier](s)
		_, has["Memory"] = store.As[*storetest.Memory](s)
		for what, found := range has {
			if found {
				t.Errorf("%s: a read-only view shows %s", name, what)
			}
		}
		i, ok := store.As[store.Inspector](s)
		if !ok {
			t.Fatalf("%s: a read-only view cannot inspect", name)
		}
		if b, err := i.Inspect(t.Context()); err != nil || !b.Versioned {
			t.Errorf("%s: Inspect = %+v, %v", name, b, err)
		}
	}
}

type wrapper struct{ store.Reader }

func (w wrapper) Unwrap() store.Reader { return w.Reader }

func TestAReadOnlyViewReads(t *testing.T) {
	m := storetest.NewMemory(storetest.S3Like())
	v := m.Overwrite("a/k", []byte("content"))
	s := store.ReadOnly(m)
	if o, err := s.Stat(t.Context(), v); err != nil || o.Size != 7 {
		t.Errorf("Stat = %+v, %v", o, err)
	}
	r, err := s.Open(t.Context(), v, 3, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b := make([]byte, 2)
	if _, err := r.Read(b); err != nil || string(b) != "te" {
		t.Errorf("Read = %q, %v", b, err)
	}
	n := 0
	if err := s.List(t.Context(), "a", func(store.Object) error { n++; return nil }); err != nil || n != 1 {
		t.Errorf("List tells %d, %v", n, err)
	}
	if s.Capabilities() != m.Capabilities() {
		t.Error("its capabilities are others")
	}
}

func TestAnInspectionOfAStoreWithoutIsUnsupported(t *testing.T) {
	i, _ := store.As[store.Inspector](store.ReadOnly(struct{ store.Reader }{storetest.NewMemory(storetest.Bare())}))
	if _, err := i.Inspect(t.Context()); !errors.Is(err, store.ErrUnsupported) {
		t.Errorf("Inspect = %v, want %v", err, store.ErrUnsupported)
	}
}

func TestARefusalSaysWhatProtects(t *testing.T) {
	v := store.Version{Key: "a/k", ID: "7"}
	until := time.Date(2026, 11, 20, 10, 0, 0, 0, time.FixedZone("", 3600))
	for want, e := range map[string]*store.ImmutableError{
		"a/k@7 is under a hold":                         {Version: v, Hold: true, Until: until},
		"a/k@7 is protected by the store":               {Version: v},
		"a/k@7 is protected until 2026-11-20T09:00:00Z": {Version: v, Until: until},
	} {
		if e.Error() != want {
			t.Errorf("the message is %q, want %q", e.Error(), want)
		}
	}
	cause := errors.New("AccessDenied")
	if err := error(&store.ImmutableError{Version: v, Err: cause}); !errors.Is(err, cause) || !strings.Contains(err.Error(), v.String()) {
		t.Errorf("the cause is lost in %v", err)
	}
}
