package oss_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	osssdk "github.com/aliyun/alibabacloud-oss-go-sdk-v2/oss"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/storetest"
	"druid.internal/druid/test/faults"
)

func TestOSSKeepsTheContract(t *testing.T) {
	for name, versions := range map[string]bool{"unversioned": false, "versioned": true} {
		t.Run(name, func(t *testing.T) {
			o := newServer(t).suite(versions)
			bucket := "no versions; its own lock in a bucket with a retention policy"
			if versions {
				bucket = "versions; its own lock in a bucket with a retention policy"
			}
			storetest.Report{Server: "ossfake, our reading of the documentation of OSS", Bucket: bucket, Limits: []string{
				"OSS itself: the fake shows that we follow its documentation, not that OSS does",
				"whether OSS lets tags be changed, or a delete marker be made, under a retention policy: its documentation does not say",
				"signatures of requests: the fake knows keys by their IDs only, so a wrong secret is not refused here",
			}}.Publish(t, &o, "../results/oss-"+name+".json", *update)
			storetest.Run(t, o)
		})
	}
}

func (s *server) suite(versions bool) storetest.Options {
	o := storetest.Options{
		New: func(t *testing.T) store.Store { return open(t, s.options(s.newBucket(t, kind{versions: versions}))) },
		Want: store.Capabilities{
			Provider: "OSS", Versions: versions, ConditionalPut: !versions, Tags: true, InlineRetention: true,
		},
		SetTag: true, Copy: true, Inspect: true, ServerTime: true,
		Now:      s.fake.Now,
		TagValue: "a b+c=d_e.f/g:h",
		DefaultLock: func(t *testing.T) (store.Store, immutability.Mode, time.Duration) {
			return open(t, s.options(s.newBucket(t, kind{versions: versions, days: 30}))), immutability.ModeCompliance, 30 * day
		},
		NoBucket: func(t *testing.T) store.Store {
			name := s.newBucket(t, kind{versions: versions})
			opened := open(t, s.options(name))
			if _, err := s.client().DeleteBucket(t.Context(), &osssdk.DeleteBucketRequest{Bucket: &name}); err != nil {
				t.Fatal(err)
			}
			return opened
		},
		Outage: func(t *testing.T) store.Store {
			link := faults.NewLink(t, strings.TrimPrefix(s.listener.URL, "https://"))
			o := s.options(s.newBucket(t, kind{versions: versions}))
			o.Endpoint, o.Attempts = "https://"+link.Address, 1
			opened := open(t, o)
			link.Cut()
			return opened
		},
		BrokenList: func(t *testing.T, opened store.Store) store.Reader {
			gate := faults.NewGate(t, s)
			gate.Inject(faults.Fault{Match: func(r *http.Request) bool { return r.URL.Query().Get("key-marker") != "" }, Status: http.StatusInternalServerError, Code: "InternalError"})
			o := s.options(bucketOf(opened))
			o.Endpoint, o.Attempts = gate.Endpoint, 1
			return open(t, o)
		},
		Cut: func(t *testing.T, opened store.Store, v store.Version) io.ReadCloser {
			gate := faults.NewGate(t, s)
			o := s.options(bucketOf(opened))
			o.Endpoint, o.Attempts = gate.Endpoint, 1
			behind := open(t, o)
			gate.Inject(faults.Fault{Match: faults.Request(http.MethodGet), Truncate: 512 << 10})
			r, err := behind.Open(t.Context(), v, 0, -1)
			if err != nil {
				t.Fatal(err)
			}
			return r
		},
		Overwrite: func(t *testing.T, opened store.Store, key string, body []byte) {
			t.Helper()
			if err := s.overwrite(t.Context(), bucketOf(opened), key, body); err != nil {
				t.Fatal(err)
			}
		},
		Hide: func(t *testing.T, opened store.Store, key string) {
			t.Helper()
			if err := s.hide(t.Context(), bucketOf(opened), key); err != nil {
				t.Fatal(err)
			}
		},
		Leftovers: func(t *testing.T, opened store.Store) int { return s.uploads(t, bucketOf(opened)) },
		NoKeys:    []string{strings.Repeat("k", 1024), "not\xffutf8", "/a", `\a`},
		OddKeys:   []string{"odd//double", "odd/trailing/"},
	}
	return o
}

// uploads counts multipart uploads that were neither completed nor aborted.
func (s *server) uploads(t *testing.T, bucket string) int {
	t.Helper()
	out, err := s.client().ListMultipartUploads(t.Context(), &osssdk.ListMultipartUploadsRequest{Bucket: &bucket})
	if err != nil {
		t.Fatal(err)
	}
	return len(out.Uploads)
}
