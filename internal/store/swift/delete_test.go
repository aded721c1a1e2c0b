package swift_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"druid.internal/druid/internal/store"
)

func TestADeletionTakesTheManifestFirstAndNothingButItsSegments(t *testing.T) {
	f := newFake(t)
	container := f.container(t)
	f.original(t, container, "a/k", "one", "two")
	others := []string{"a/k.gz", "a/k/more", "a/k/more/0000000001", "a/k0", "a/k2/0000000001"}
	for _, name := range others {
		f.put(t, container, name, []byte("x"), nil)
	}
	s := open(t, f.options(container))
	n := len(f.seen(0))
	if err := s.Delete(t.Context(), store.Version{Key: "a/k"}); err != nil {
		t.Fatal(err)
	}
	if names, _ := f.names(t, container); !slices.Equal(names, others) {
		t.Errorf("there are %q, want %q", names, others)
	}
	var order []string
	for _, r := range f.seen(n) {
		if what, is := strings.CutPrefix(r, http.MethodDelete+" "); is {
			order = append(order, what)
		}
	}
	if len(order) != 3 || !strings.HasSuffix(order[0], "/a/k") {
		t.Errorf("deleted were %q, want the manifest first", order)
	}
}

// A deletion that was interrupted, or the answer to which was lost, is made again.
func TestADeletionMadeAgainRemovesWhatIsLeft(t *testing.T) {
	f := newFake(t)
	container := f.container(t)
	f.original(t, container, "a/k", "one", "two", "three")
	s := open(t, f.options(container))
	f.set(func() {
		f.fault = func(r *http.Request) fault {
			if r.Method == http.MethodDelete && strings.HasSuffix(r.URL.Path, "2") {
				return fault{status: http.StatusForbidden}
			}
			return fault{}
		}
	})
	err := s.Delete(t.Context(), store.Version{Key: "a/k"})
	wants(t, "Delete", err, store.ErrForbidden)
	isOneLine(t, err)
	if all := listed(t, s, "a"); len(all) != 1 || all[0].Key != "a/k/0000000002" {
		t.Errorf("List = %+v, want what is left, on its own", all)
	}
	f.set(func() { f.fault = nil })
	for range 2 {
		if err := s.Delete(t.Context(), store.Version{Key: "a/k"}); err != nil {
			t.Error(err)
		}
	}
	if names, _ := f.names(t, container); len(names) != 0 {
		t.Errorf("%q are left", names)
	}
}
