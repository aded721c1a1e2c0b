// Package gcs_test proves package gcs against fake-gcs-server behind the shim that adds locks,
// holds and preconditions, and on request against a real bucket.
package gcs_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/gcs"
	"druid.internal/druid/internal/store/storetest"
	"druid.internal/druid/test/faults"
	"druid.internal/druid/test/stores"
)

// server serves all tests of the package; each takes buckets of its own.
var server *stores.GCS

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	var err error
	if server, err = stores.StartGCS(context.Background(), stores.GCSOptions{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if err := server.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

var buckets atomic.Int64

// newBucket makes a bucket with a name of its own.
func newBucket(t *testing.T, b stores.GCSBucket) string {
	t.Helper()
	name := fmt.Sprintf("bucket-%d", buckets.Add(1))
	if err := server.CreateBucket(t.Context(), name, b); err != nil {
		t.Fatal(err)
	}
	return name
}

// options reach a bucket of the server without an identity, unless changed.
func options(bucket string) gcs.Options {
	return gcs.Options{Bucket: bucket, Endpoint: server.Endpoint, Anonymous: true, TrustedCAs: server.CA.PEM, ChunkSize: chunk}
}

// chunk is how much one request of a large upload carries here.
const chunk = 5 << 20

func open(t *testing.T, o gcs.Options) *gcs.Store {
	t.Helper()
	s, err := gcs.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.CloseIdle)
	return s
}

// bucketOf finds the name of a store's bucket, for what the suite does behind its back.
func bucketOf(s store.Reader) string { return strings.Fields(s.Capabilities().Location)[1] }

var update = flag.Bool("update", false, "rewrite the committed results")

func TestGCSKeepsTheContract(t *testing.T) {
	for name, c := range map[string]struct {
		bucket stores.GCSBucket
		file   string
	}{
		"in a plain bucket":                           {stores.GCSBucket{}, "plain"},
		"in a bucket with object retention":           {stores.GCSBucket{ObjectLock: true}, "locks"},
		"in a versioned bucket":                       {stores.GCSBucket{Versioned: true}, "versions"},
		"in a versioned bucket with object retention": {stores.GCSBucket{Versioned: true, ObjectLock: true}, "versions-locks"},
	} {
		t.Run(name, func(t *testing.T) {
			o := suite(c.bucket)
			storetest.Report{Server: "fake-gcs-server " + stores.FakeGCSVersion + " behind a shim of our own", Bucket: strings.TrimPrefix(name, "in "), Limits: []string{
				"Google's own behaviour: the shim does what Google documents about retention, holds and preconditions, which is not observed behaviour",
			}}.Publish(t, &o, "../results/gcs-"+c.file+".json", *update)
			storetest.Run(t, o)
		})
	}
}

// suite describes gcs in buckets of one kind.
func suite(b stores.GCSBucket) storetest.Options {
	o := storetest.Options{
		New: func(t *testing.T) store.Store { return open(t, options(newBucket(t, b))) },
		Want: store.Capabilities{
			Provider: "GCS", Versions: b.Versioned, ConditionalPut: true, ObjectLock: b.ObjectLock, Tags: true,
			InlineRetention: true, InlineTags: true,
		},
		Extend: b.ObjectLock, Hold: true, SetTag: true, Copy: true, Inspect: true, ServerTime: true,
		ShortLock: 3 * time.Second,
		Advance:   func(_ *testing.T, _ store.Store, d time.Duration) { server.Shim.Advance(d) },
		Now:       func() time.Time { return server.Shim.Now() },
		DefaultLock: func(t *testing.T) (store.Store, immutability.Mode, time.Duration) {
			policed := b
			policed.Policy, policed.Locked = 24*time.Hour, true
			return open(t, options(newBucket(t, policed))), immutability.ModeCompliance, policed.Policy
		},
		NoBucket:   noBucket,
		Outage:     outage,
		BrokenList: brokenList,
		Cut:        cutDownload,
		Overwrite:  overwrite,
		Hide:       hide,
		NoMarkers:  true,
		Leftovers:  func(_ *testing.T, s store.Store) int { return server.Shim.Uploads(bucketOf(s)) },

		NoKeys:  []string{strings.Repeat("k", 1025), "not\xffutf8", "a/line\nbreak", "."},
		OddKeys: []string{"a/rewriteTo/b/c/o/d", "a/compose", "b/o/acl", "/leading", "a//b"},
	}
	if b.ObjectLock {
		o.Lock = []storetest.Lock{
			{Ask: immutability.ModeGovernance, Want: immutability.ModeGovernance},
			{Ask: immutability.ModeCompliance, Want: immutability.ModeCompliance},
		}
	}
	return o
}

// noBucket is a store whose bucket disappears after it was opened; opening one that is not
// there fails already.
func noBucket(t *testing.T) store.Store {
	name := newBucket(t, stores.GCSBucket{})
	s := open(t, options(name))
	if _, err := server.Do(t.Context(), http.MethodDelete, "/storage/v1/b/"+name, nil); err != nil {
		t.Fatal(err)
	}
	return s
}

// outage is a store whose server goes away after it was opened.
func outage(t *testing.T) store.Store {
	link := faults.NewLink(t, server.Address)
	o := options(newBucket(t, stores.GCSBucket{}))
	o.Endpoint = "https://" + link.Address
	o.Attempts = 1
	s := open(t, o)
	link.Cut()
	return s
}

// through is another store on the bucket of s, behind a gate.
func through(t *testing.T, s store.Reader) (*gcs.Store, *faults.Gate) {
	t.Helper()
	gate := faults.NewGate(t, server)
	o := options(bucketOf(s))
	o.Endpoint = gate.Endpoint
	o.Attempts = 1
	return open(t, o), gate
}

func brokenList(t *testing.T, s store.Store) store.Reader {
	behind, gate := through(t, s)
	gate.Inject(faults.Fault{Match: faults.Request(http.MethodGet, "pageToken"), Status: http.StatusInternalServerError})
	return behind
}

func cutDownload(t *testing.T, s store.Store, v store.Version) io.ReadCloser {
	behind, gate := through(t, s)
	gate.Inject(faults.Fault{Match: faults.Request(http.MethodGet, "alt=media"), Truncate: 512 << 10})
	r, err := behind.Open(t.Context(), v, 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// overwrite puts something under a key on no condition.
func overwrite(t *testing.T, s store.Store, key string, body []byte) {
	t.Helper()
	if err := server.Raw(bucketOf(s)).Overwrite(t.Context(), key, body); err != nil {
		t.Fatal(err)
	}
}

// hide deletes a key without naming a generation. What is not there is hidden already, and a
// lock may refuse it.
func hide(t *testing.T, s store.Store, key string) {
	t.Helper()
	err := server.Raw(bucketOf(s)).Hide(t.Context(), key)
	if err != nil && !strings.Contains(err.Error(), "No such object") && !strings.Contains(err.Error(), "retentionPolicyNotMet") {
		t.Fatal(err)
	}
}

// object is the path of an object.
func object(s store.Reader, key string) string {
	return "/storage/v1/b/" + bucketOf(s) + "/o/" + url.PathEscape(key)
}
