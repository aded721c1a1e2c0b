package swift_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/storetest"
	"druid.internal/druid/internal/store/swift"
)

func TestSwiftKeepsTheContract(t *testing.T) {
	storetest.Run(t, suite(t, newFake(t), nil))
}

func TestSwiftKeepsTheContractWhereTheServerRefusesToOverwrite(t *testing.T) {
	f := newFake(t)
	f.conditions = true
	yes := true
	o := suite(t, f, &yes)
	o.Want.ConditionalPut = true
	storetest.Run(t, o)
}

// suite describes swift on a fake.
func suite(t *testing.T, f *fake, conditional *bool) storetest.Options {
	options := func(container string) swift.Options {
		o := f.options(container)
		o.ConditionalPut = conditional
		return o
	}
	var opened []*swift.Store
	return storetest.Options{
		New: func(t *testing.T) store.Store {
			s := open(t, options(f.container(t)))
			opened = append(opened, s)
			return s
		},
		Want:       store.Capabilities{Provider: "Swift", InlineRetention: true},
		LooksFirst: conditional == nil, Inspect: true, ServerTime: true,
		NoBucket: func(t *testing.T) store.Store {
			name := f.container(t)
			s := open(t, options(name))
			f.remove(t, name, "")
			return s
		},
		Outage: func(t *testing.T) store.Store {
			gone := newFake(t)
			o := gone.options(gone.container(t))
			o.Attempts = 1
			s := open(t, o)
			gone.CloseClientConnections()
			gone.Close()
			return s
		},
		BrokenList: func(t *testing.T, s store.Store) store.Reader {
			f.set(func() {
				f.fault = func(r *http.Request) fault {
					if r.URL.Query().Get("marker") != "" {
						return fault{status: http.StatusServiceUnavailable}
					}
					return fault{}
				}
			})
			t.Cleanup(func() { f.set(func() { f.fault = nil }) })
			return s
		},
		Cut: func(t *testing.T, s store.Store, v store.Version) io.ReadCloser {
			f.set(func() { f.fault = func(*http.Request) fault { return fault{truncate: 512 << 10} } })
			t.Cleanup(func() { f.set(func() { f.fault = nil }) })
			r, err := s.Open(t.Context(), v, 0, -1)
			if err != nil {
				t.Fatal(err)
			}
			return r
		},
		Overwrite: func(t *testing.T, s store.Store, key string, body []byte) { f.put(t, containerOf(s), key, body, nil) },
		Hide:      func(t *testing.T, s store.Store, key string) { f.remove(t, containerOf(s), key) },
		Leftovers: func(t *testing.T, s store.Store) (n int) {
			names, types := f.names(t, containerOf(s))
			for _, name := range names {
				if i := strings.Index(name, "/druid-"); i > 0 && !strings.HasPrefix(types[name[:i]], "application/x-druid-large") {
					n++
				}
			}
			return n
		},
		NoKeys:  []string{strings.Repeat("k", 1025), "not\xffutf8", "a/0000000001", "a/druid-ABCDEFGHIJKLMNOPQRSTUVWXYZ-00000001"},
		OddKeys: []string{"odd/000000001", "odd/druid-x", "odd//double", "odd/trailing/"},
		CloseIdle: func() {
			for _, s := range opened {
				s.CloseIdle()
			}
			http.DefaultClient.CloseIdleConnections()
		},
	}
}

func contentOf(t *testing.T, s store.Reader, key string) ([]byte, error) {
	t.Helper()
	r, err := s.Open(t.Context(), store.Version{Key: key}, 0, -1)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

func listed(t *testing.T, s store.Reader, prefix string) []store.Object {
	t.Helper()
	var all []store.Object
	if err := s.List(t.Context(), prefix, func(o store.Object) error { all = append(all, o); return nil }); err != nil {
		t.Fatal(err)
	}
	return all
}

func isOneLine(t *testing.T, err error) {
	t.Helper()
	if err != nil && strings.Contains(err.Error(), "\n") {
		t.Errorf("%q is more than one line", err)
	}
}

func wants(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s = %v, want %v", what, err, want)
	}
}
