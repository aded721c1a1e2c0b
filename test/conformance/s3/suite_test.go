// Package s3_test proves internal/store/s3 against real servers that speak S3.
package s3_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/s3"
	"druid.internal/druid/internal/store/storetest"
	"druid.internal/druid/test/faults"
	"druid.internal/druid/test/stores"
)

// minio serves all tests of the package; each takes buckets of its own.
var minio *stores.MinIO

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	var err error
	if minio, err = stores.StartMinIO(context.Background(), stores.MinIOOptions{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if err := minio.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

var buckets atomic.Int64

// newBucket makes a bucket with a name of its own.
func newBucket(t *testing.T, p stores.Protection) string {
	t.Helper()
	name := fmt.Sprintf("bucket-%d", buckets.Add(1))
	if err := minio.CreateBucket(t.Context(), name, p, 1); err != nil {
		t.Fatal(err)
	}
	return name
}

// options reach a bucket of the server as root, unless changed.
func options(bucket string) s3.Options {
	return s3.Options{
		Bucket: bucket, Endpoint: minio.Endpoint, Region: minio.Region, TrustedCAs: minio.CA.PEM,
		Keys: func() (s3.Keys, error) { return s3.Keys(minio.Root), nil },
	}
}

func open(t *testing.T, o s3.Options) *s3.Store {
	t.Helper()
	s, err := s3.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.CloseIdle)
	return s
}

// bucketOf finds the name of a store's bucket, for what the suite does behind its back.
func bucketOf(s store.Reader) string {
	return strings.Fields(s.Capabilities().Location)[1]
}

func TestS3KeepsTheContractInAVersionedBucketWithLocks(t *testing.T) {
	o := suite(stores.Lockable)
	o.Lock = []storetest.Lock{
		{Ask: immutability.ModeCompliance, Want: immutability.ModeCompliance},
		{Ask: immutability.ModeGovernance, Want: immutability.ModeGovernance},
	}
	o.Extend, o.Hold = true, true
	o.ShortLock = 3 * time.Second
	o.DefaultLock = func(t *testing.T) (store.Store, immutability.Mode, time.Duration) {
		return open(t, options(newBucket(t, stores.Compliance))), immutability.ModeCompliance, 24 * time.Hour
	}
	storetest.Run(t, o)
}

func TestS3KeepsTheContractInAVersionedBucketWithoutLocks(t *testing.T) {
	storetest.Run(t, suite(stores.Versioned))
}

func TestS3KeepsTheContractInABucketWithoutVersions(t *testing.T) {
	storetest.Run(t, suite(stores.Unversioned))
}

// suite describes s3 in buckets of one protection.
func suite(p stores.Protection) storetest.Options {
	locks := p != stores.Unversioned && p != stores.Versioned
	versions := p != stores.Unversioned
	o := storetest.Options{
		New: func(t *testing.T) store.Store { return open(t, options(newBucket(t, p))) },
		Want: store.Capabilities{
			Provider: "S3", Versions: versions, ConditionalPut: true, ObjectLock: locks, Tags: true,
		},
		SetTag: true, Copy: true, Inspect: true, ServerTime: true,
		NoBucket:   noBucket,
		Outage:     outage,
		BrokenList: brokenList,
		Cut:        cutDownload,
		Overwrite:  overwrite,
		Leftovers:  unfinishedUploads,

		SparesMarkers: true,
		NoKeys:        []string{strings.Repeat("k", 1025), "not\xffutf8"},
		OddKeys:       []string{"a/with space", "a/plus+sign", "a/percent%41", "a/umlaut-\u00e4", "a/question?mark", "a/amp&er=sand", "a/<xml>"},
	}
	if versions {
		o.Hide = hide
	}
	return o
}

// noBucket is a store whose bucket disappears after it was opened; opening one that is not
// there fails already.
func noBucket(t *testing.T) store.Store {
	name := newBucket(t, stores.Unversioned)
	s := open(t, options(name))
	if _, err := minio.Client(minio.Root).DeleteBucket(t.Context(), &awss3.DeleteBucketInput{Bucket: &name}); err != nil {
		t.Fatal(err)
	}
	return s
}

// outage is a store whose server goes away after it was opened.
func outage(t *testing.T) store.Store {
	link := faults.NewLink(t, minio.Address)
	o := options(newBucket(t, stores.Lockable))
	o.Endpoint = "https://" + link.Address
	o.Attempts = 1
	s := open(t, o)
	link.Cut()
	return s
}

// through is another store on the bucket of s, behind a gate.
func through(t *testing.T, s store.Reader) (*s3.Store, *faults.Gate) {
	t.Helper()
	gate := faults.NewGate(t, minio)
	o := options(bucketOf(s))
	o.Endpoint = gate.Endpoint
	o.Attempts = 1
	return open(t, o), gate
}

func brokenList(t *testing.T, s store.Store) store.Reader {
	behind, gate := through(t, s)
	gate.Inject(faults.Fault{Match: faults.Request(http.MethodGet, "versions", "key-marker"), Status: http.StatusInternalServerError, Code: "InternalError"})
	return behind
}

func cutDownload(t *testing.T, s store.Store, v store.Version) io.ReadCloser {
	behind, gate := through(t, s)
	gate.Inject(faults.Fault{Match: faults.Request(http.MethodGet), Truncate: 512 << 10})
	r, err := behind.Open(t.Context(), v, 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func overwrite(t *testing.T, s store.Store, key string, body []byte) {
	t.Helper()
	_, err := minio.Client(minio.Root).PutObject(t.Context(), &awss3.PutObjectInput{Bucket: aws.String(bucketOf(s)), Key: &key, Body: bytes.NewReader(body)})
	if err != nil {
		t.Fatal(err)
	}
}

func hide(t *testing.T, s store.Store, key string) {
	t.Helper()
	_, err := minio.Client(minio.Root).DeleteObject(t.Context(), &awss3.DeleteObjectInput{Bucket: aws.String(bucketOf(s)), Key: &key})
	if err != nil {
		t.Fatal(err)
	}
}

// unfinishedUploads counts multipart uploads that were neither completed nor aborted.
func unfinishedUploads(t *testing.T, s store.Store) int {
	t.Helper()
	return len(uploadsOf(t, bucketOf(s), ""))
}

func uploadsOf(t *testing.T, bucket, prefix string) []string {
	t.Helper()
	out, err := minio.Client(minio.Root).ListMultipartUploads(t.Context(), &awss3.ListMultipartUploadsInput{Bucket: &bucket, Prefix: &prefix})
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, u := range out.Uploads {
		keys = append(keys, aws.ToString(u.Key))
	}
	return keys
}
