package storetest

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"druid.internal/druid/internal/store"
)

var failureCases = []conformanceCase{
	{"a missing bucket is said to be missing", aMissingBucket},
	{"an outage is an error and never an empty listing", anOutageIsAnError},
	{"a listing that breaks off is an error", aListingThatBreaksOff},
}

// operations are all that a store may be asked, each against a key that is not there.
func operations(t *testing.T, s store.Store) map[string]func() error {
	v := store.Version{Key: "a/k"}
	if s.Capabilities().Versions {
		v.ID = "none"
	}
	return map[string]func() error{
		"List": func() error {
			return s.List(t.Context(), "a", func(o store.Object) error { return fmt.Errorf("it lists %+v", o) })
		},
		"List of all": func() error {
			return s.List(t.Context(), "", func(o store.Object) error { return fmt.Errorf("it lists %+v", o) })
		},
		"Stat": func() error { _, err := s.Stat(t.Context(), store.Version{Key: "a/k"}); return err },
		"Open": func() error {
			r, err := s.Open(t.Context(), store.Version{Key: "a/k"}, 0, -1)
			if err != nil {
				return err
			}
			defer r.Close()
			_, err = io.ReadAll(r)
			return err
		},
		"Put": func() error {
			_, err := s.Put(t.Context(), "a/k", &stream{r: strings.NewReader("x")}, store.PutOptions{})
			return err
		},
		"Delete": func() error { return deleter(t, s).Delete(t.Context(), v) },
	}
}

func aMissingBucket(t *testing.T, o Options) {
	for name, op := range operations(t, o.NoBucket(t)) {
		err := op()
		switch {
		case (name == "Put" || name == "Delete") && err == nil:
			// A store may create its container for the first object, and what is not there
			// is deleted already.
		case !errors.Is(err, store.ErrNoBucket):
			t.Errorf("%s without a bucket = %v, want %v", name, err, store.ErrNoBucket)
		}
	}
}

// App. C 12 of the study: an outage was taken for an empty bucket, and data was restored over.
func anOutageIsAnError(t *testing.T, o Options) {
	s := o.Outage(t)
	for name, op := range operations(t, s) {
		err := op()
		switch {
		case err == nil:
			t.Errorf("%s during an outage succeeded", name)
		case errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrNoBucket), errors.Is(err, store.ErrExists):
			t.Errorf("%s during an outage claims to know: %v", name, err)
		case !errors.Is(err, o.OutageError):
			t.Errorf("%s during an outage = %v, want %v", name, err, o.OutageError)
		}
	}
	if s.Capabilities().Provider == "" {
		t.Error("the capabilities of a store that cannot be reached are not told")
	}
}

func aListingThatBreaksOff(t *testing.T, o Options) {
	if o.BrokenList == nil {
		notProven(t, "that a listing which breaks off after its first page is an error")
		return
	}
	s := o.New(t)
	var keys []string
	for i := range o.ManyKeys {
		keys = append(keys, fmt.Sprintf("many/%06d", i))
	}
	putMany(t, s, keys)
	seen := 0
	err := o.BrokenList(t, s).List(t.Context(), "many", func(store.Object) error {
		seen++
		return nil
	})
	if err == nil || seen == len(keys) {
		t.Errorf("List = %v after %d of %d keys, want an error before the last", err, seen, len(keys))
	}
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrNoBucket) {
		t.Errorf("List claims to know: %v", err)
	}
}
