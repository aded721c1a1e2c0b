package storetest

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"druid.internal/druid/internal/store"
)

var failureCases = []conformanceCase{
	{name: "a missing bucket is said to be missing", run: aMissingBucket},
	{name: "an outage is an error and never an empty listing", run: anOutageIsAnError},
}

// operation is something a store may be asked.
type operation struct {
	name string
	run  func() error
}

// operations are all of them, each against a key that is not there. Put comes last, because a
// store may create its container for the first object.
func operations(t *testing.T, s store.Store) []operation {
	v := store.Version{Key: "a/k"}
	addressed := v
	if s.Capabilities().Versions {
		addressed.ID = "none"
	}
	unexpected := func(o store.Object) error { return fmt.Errorf("it lists %+v", o) }
	return []operation{
		{"List", func() error { return s.List(t.Context(), "a", unexpected) }},
		{"List of all", func() error { return s.List(t.Context(), "", unexpected) }},
		{"Stat", func() error { _, err := s.Stat(t.Context(), v); return err }},
		{"Open", func() error { _, err := tryRead(t.Context(), s, v, 0, -1); return err }},
		{"Delete", func() error { return deleter(t, s).Delete(t.Context(), addressed) }},
		{"Put", func() error {
			_, err := s.Put(t.Context(), v.Key, &stream{r: strings.NewReader("x")}, store.PutOptions{})
			return err
		}},
	}
}

func aMissingBucket(t *testing.T, o Options) {
	for _, op := range operations(t, o.NoBucket(t)) {
		name, err := op.name, op.run()
		switch {
		case (name == "Put" || name == "Delete") && err == nil:
			// A store may create its container for the first object, and what is not there
			// is deleted already.
		case !errors.Is(err, store.ErrNoBucket):
			t.Errorf("%s without a bucket = %v, want %v", name, err, store.ErrNoBucket)
		}
	}
}

// An outage was taken for an empty bucket, and data was restored over.
func anOutageIsAnError(t *testing.T, o Options) {
	s := o.Outage(t)
	for _, op := range operations(t, s) {
		name, err := op.name, op.run()
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
		o.note(t, NotProven, "that a listing which breaks off after its first page is an error")
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
