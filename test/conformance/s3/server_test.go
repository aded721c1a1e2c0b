// Package s3_test proves internal/store/s3 against real servers that speak S3: MinIO, Ceph's
// object gateway as the second opinion, and rclone as the server whose word is worth nothing.
package s3_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"

	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/s3"
	"druid.internal/druid/test/faults"
	"druid.internal/druid/test/stores"
)

var update = flag.Bool("update", false, "rewrite the committed results")

// server is one real server that serves all tests of the package; each takes buckets of its own.
type server struct {
	*stores.S3
	buckets atomic.Int64
}

// The servers, each started by the first test that needs it and stopped when all are done.
var (
	theMinIO starter[*stores.MinIO]
	theCeph  starter[*stores.Ceph]

	minioServer, cephServer server
)

// starter starts once.
type starter[S interface{ Stop() error }] struct {
	once sync.Once
	s    S
	err  error
	runs bool
}

func (st *starter[S]) get(t *testing.T, start func(context.Context) (S, error)) S {
	t.Helper()
	st.once.Do(func() {
		st.s, st.err = start(context.Background())
		st.runs = st.err == nil
	})
	if st.err != nil {
		t.Fatal(st.err)
	}
	return st.s
}

func (st *starter[S]) stop() error {
	if !st.runs {
		return nil
	}
	return st.s.Stop()
}

func TestMain(m *testing.M) {
	code := m.Run()
	for _, stop := range []func() error{theMinIO.stop, theCeph.stop} {
		if err := stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

func startedMinIO(t *testing.T) *stores.MinIO {
	t.Helper()
	return theMinIO.get(t, func(ctx context.Context) (*stores.MinIO, error) {
		m, err := stores.StartMinIO(ctx, stores.MinIOOptions{})
		if err == nil {
			minioServer.S3 = &m.S3
		}
		return m, err
	})
}

func startedCeph(t *testing.T) *stores.Ceph {
	t.Helper()
	return theCeph.get(t, func(ctx context.Context) (*stores.Ceph, error) {
		c, err := stores.StartCeph(ctx, stores.CephOptions{})
		if err == nil {
			cephServer.S3 = &c.S3
		}
		return c, err
	})
}

func onMinIO(t *testing.T) *server { startedMinIO(t); return &minioServer }
func onCeph(t *testing.T) *server  { startedCeph(t); return &cephServer }

// both are the servers to whom a test means the same, by name.
var both = map[string]func(*testing.T) *server{"MinIO": onMinIO, "Ceph": onCeph}

// newBucket makes a bucket with a name of its own.
func (s *server) newBucket(t *testing.T, p stores.Protection) string {
	t.Helper()
	name := fmt.Sprintf("bucket-%d", s.buckets.Add(1))
	if err := s.CreateBucket(t.Context(), name, p, 1); err != nil {
		t.Fatal(err)
	}
	return name
}

// options reach a bucket of the server as root, unless changed.
func (s *server) options(bucket string) s3.Options {
	return s3.Options{
		Bucket: bucket, Endpoint: s.Endpoint, Region: s.Region, TrustedCAs: s.CA.PEM,
		Keys: func() (s3.Keys, error) { return s3.Keys(s.Root), nil },
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

// gated is a store on a new bucket behind a gate.
func (s *server) gated(t *testing.T, p stores.Protection, change func(*s3.Options)) (*s3.Store, *faults.Gate) {
	t.Helper()
	gate := faults.NewGate(t, s)
	o := s.options(s.newBucket(t, p))
	o.Endpoint = gate.Endpoint
	if change != nil {
		change(&o)
	}
	return open(t, o), gate
}

// through is another store on the bucket of behind, with a gate between it and the server.
func (s *server) through(t *testing.T, behind store.Reader) (*s3.Store, *faults.Gate) {
	t.Helper()
	gate := faults.NewGate(t, s)
	o := s.options(bucketOf(behind))
	o.Endpoint = gate.Endpoint
	o.Attempts = 1
	return open(t, o), gate
}

// noBucket is a store whose bucket disappears after it was opened; opening one that is not
// there fails already.
func (s *server) noBucket(t *testing.T) store.Store {
	name := s.newBucket(t, stores.Unversioned)
	opened := open(t, s.options(name))
	if _, err := s.Client(s.Root).DeleteBucket(t.Context(), &awss3.DeleteBucketInput{Bucket: &name}); err != nil {
		t.Fatal(err)
	}
	return opened
}

// outage is a store whose server goes away after it was opened.
func (s *server) outage(t *testing.T) store.Store {
	link := faults.NewLink(t, s.Address)
	o := s.options(s.newBucket(t, stores.Lockable))
	o.Endpoint = "https://" + link.Address
	o.Attempts = 1
	opened := open(t, o)
	link.Cut()
	return opened
}

func (s *server) brokenList(t *testing.T, opened store.Store) store.Reader {
	behind, gate := s.through(t, opened)
	gate.Inject(faults.Fault{Match: faults.Request(http.MethodGet, "versions", "key-marker"), Status: http.StatusInternalServerError, Code: "InternalError"})
	return behind
}

func (s *server) cutDownload(t *testing.T, opened store.Store, v store.Version) io.ReadCloser {
	behind, gate := s.through(t, opened)
	gate.Inject(faults.Fault{Match: faults.Request(http.MethodGet), Truncate: 512 << 10})
	r, err := behind.Open(t.Context(), v, 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// overwrite puts body under key as others do, without asking whether it is there.
func (s *server) overwrite(t *testing.T, opened store.Store, key string, body []byte) {
	t.Helper()
	if err := s.Raw(s.Root, bucketOf(opened)).Overwrite(t.Context(), key, body); err != nil {
		t.Fatal(err)
	}
}

// hide deletes key without naming a version.
func (s *server) hide(t *testing.T, opened store.Store, key string) {
	t.Helper()
	if err := s.Raw(s.Root, bucketOf(opened)).Hide(t.Context(), key); err != nil {
		t.Fatal(err)
	}
}

// uploadsOf are the multipart uploads that were neither completed nor aborted.
func (s *server) uploadsOf(t *testing.T, bucket string) []string {
	t.Helper()
	out, err := s.Client(s.Root).ListMultipartUploads(t.Context(), &awss3.ListMultipartUploadsInput{Bucket: &bucket, Prefix: aws.String("")})
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, u := range out.Uploads {
		keys = append(keys, aws.ToString(u.Key))
	}
	return keys
}

// listed are all versions in the order of the listing.
func listed(t *testing.T, s store.Reader) []store.Object {
	t.Helper()
	var all []store.Object
	if err := s.List(t.Context(), "", func(o store.Object) error { all = append(all, o); return nil }); err != nil {
		t.Fatal(err)
	}
	return all
}

func content(t *testing.T, s store.Reader, v store.Version) []byte {
	t.Helper()
	r, err := s.Open(t.Context(), v, 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
