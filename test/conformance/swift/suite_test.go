package swift_test

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/storetest"
	"druid.internal/druid/internal/store/swift"
	"druid.internal/druid/test/faults"
	"druid.internal/druid/test/stores"
)

func TestSwiftKeepsTheContractOnCeph(t *testing.T) {
	o := suite()
	storetest.Report{Server: "Ceph RGW " + stores.CephVersion, Bucket: "Swift has neither versions nor locks", Limits: []string{
		"OpenStack Swift itself: that it honours If-None-Match where Ceph ignores it, and how late its listings may be",
	}}.Publish(t, &o, "../results/swift-ceph.json", *update)
	storetest.Run(t, o)
}

func suite() storetest.Options {
	return storetest.Options{
		New:        func(t *testing.T) store.Store { return open(t, options(newContainer(t))) },
		Want:       store.Capabilities{Provider: "Swift", InlineRetention: true},
		LooksFirst: true, Inspect: true, ServerTime: true,
		NoBucket: func(t *testing.T) store.Store {
			name := newContainer(t)
			s := open(t, options(name))
			newRaw(t).ask(t, http.MethodDelete, name, "", "", nil, nil)
			return s
		},
		Outage: func(t *testing.T) store.Store {
			link := faults.NewLink(t, ceph.Address)
			o := through("https://"+link.Address, newContainer(t))
			s := open(t, o)
			link.Cut()
			return s
		},
		BrokenList: func(t *testing.T, s store.Store) store.Reader {
			gate := faults.NewGate(t, ceph)
			gate.Inject(faults.Fault{Match: func(r *http.Request) bool { return r.URL.Query().Get("marker") != "" }, Status: http.StatusServiceUnavailable})
			return open(t, through(gate.Endpoint, containerOf(s)))
		},
		Cut: func(t *testing.T, s store.Store, v store.Version) io.ReadCloser {
			gate := faults.NewGate(t, ceph)
			behind := open(t, through(gate.Endpoint, containerOf(s)))
			gate.Inject(faults.Fault{Match: faults.Request(http.MethodGet), Truncate: 512 << 10})
			r, err := behind.Open(t.Context(), v, 0, -1)
			if err != nil {
				t.Fatal(err)
			}
			return r
		},
		Overwrite: func(t *testing.T, s store.Store, key string, body []byte) {
			newRaw(t).ask(t, http.MethodPut, containerOf(s), key, "", nil, body)
		},
		Hide: func(t *testing.T, s store.Store, key string) {
			newRaw(t).ask(t, http.MethodDelete, containerOf(s), key, "", nil, nil)
		},
		Leftovers: leftovers,
		NoKeys:    []string{strings.Repeat("k", 1025), "not\xffutf8", "a/0000000001"},
		OddKeys:   []string{"odd/000000001", "odd/druid-x"},
	}
}

// through reaches a container by another address of the server.
func through(endpoint, container string) swift.Options {
	o := options(container)
	u, err := url.Parse(ceph.SwiftEndpoint)
	if err != nil {
		panic(err)
	}
	o.StorageURL = endpoint + u.Path
	o.Attempts = 1
	return o
}

// leftovers counts segments that no manifest needs.
func leftovers(t *testing.T, s store.Store) (n int) {
	types := map[string]string{}
	for _, e := range newRaw(t).names(t, containerOf(s)) {
		types[e.Name] = e.Type
		if i := strings.Index(e.Name, "/druid-"); i > 0 && !strings.HasPrefix(types[e.Name[:i]], "application/x-druid-large") {
			n++
		}
	}
	return n
}
