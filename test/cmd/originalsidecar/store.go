package main

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// store is the prefix of a bucket, and what of an etcd is in it.
type store struct {
	etcd           *clientv3.Client
	s3             *s3.Client
	bucket, prefix string

	mu      sync.Mutex // held while a snapshot is taken
	last    int64      // the revision up to which the bucket has everything
	working bool       // last is known: this sidecar makes the backups
}

// snapshot is how the original tells of one.
type snapshot struct {
	Kind              string    `json:"kind"`
	SnapName          string    `json:"snapName"`
	Prefix            string    `json:"prefix"`
	CompressionSuffix string    `json:"compressionSuffix"`
	CreatedOn         time.Time `json:"createdOn"`
	StartRevision     int64     `json:"startRevision"`
	LastRevision      int64     `json:"lastRevision"`
}

func (s snapshot) write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(s)
}

// openStore reads the credentials from the directory of their Secret.
func openStore(flag map[string]string, etcd *clientv3.Client) (*store, error) {
	dir := os.Getenv("AWS_APPLICATION_CREDENTIALS")
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(read(dir, "trustedCaCert"))) {
		return nil, errors.New("the credentials have no trustedCaCert")
	}
	return &store{
		etcd: etcd, bucket: os.Getenv("STORAGE_CONTAINER"), prefix: path.Join(flag["store-prefix"], "v2"),
		s3: s3.New(s3.Options{
			Region: read(dir, "region"), BaseEndpoint: aws.String(flag["store-endpoint-override"]), UsePathStyle: true,
			Credentials: credentials.NewStaticCredentialsProvider(read(dir, "accessKeyID"), read(dir, "secretAccessKey"), ""),
			HTTPClient:  &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}},
		}),
	}, nil
}

func (s *store) works() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.working
}

// rest leaves the backups to another sidecar.
func (s *store) rest() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.working = false
}

// begin finds the last revision in the bucket, and whether a full is there.
func (s *store) begin(ctx context.Context) (full bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all, err := s.s3.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: &s.bucket, Prefix: aws.String(s.prefix + "/")})
	if err != nil {
		return false, err
	}
	s.last = 0
	for _, o := range all.Contents {
		var start, last, at int64
		name := path.Base(*o.Key)
		if _, err := fmt.Sscanf(strings.TrimPrefix(strings.TrimPrefix(name, "Full-"), "Incr-"), "%d-%d-%d", &start, &last, &at); err != nil {
			continue // of somebody else
		}
		full = full || strings.HasPrefix(name, "Full-")
		s.last = max(s.last, last)
	}
	s.working = true
	return full, nil
}

func (s *store) revision(ctx context.Context) (int64, error) {
	r, err := s.etcd.Get(ctx, "\x00", clientv3.WithLimit(1))
	if err != nil {
		return 0, err
	}
	return r.Header.Revision, nil
}

// full uploads etcd's database as etcd streams it, with its trailer. Its name says the revision before.
func (s *store) full(ctx context.Context) (snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, err := s.revision(ctx)
	if err != nil {
		return snapshot{}, err
	}
	stream, err := s.etcd.Snapshot(ctx)
	if err != nil {
		return snapshot{}, err
	}
	defer stream.Close()
	content, err := io.ReadAll(stream)
	if err != nil {
		return snapshot{}, err
	}
	taken, err := s.put(ctx, "Full", 0, at, content)
	if err == nil {
		s.last = at
	}
	return taken, err
}

// event is one in a delta.
type event struct {
	Event *clientv3.Event `json:"etcdEvent"`
	Time  time.Time       `json:"time"`
}

// delta uploads what happened since, and returns up to where the bucket has everything.
func (s *store) delta(ctx context.Context) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	end, err := s.revision(ctx)
	if err != nil || end <= s.last {
		return s.last, err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var events []event
	last := s.last
	for r := range s.etcd.Watch(clientv3.WithRequireLeader(ctx), "\x00", clientv3.WithFromKey(), clientv3.WithRev(s.last+1)) {
		if err := r.Err(); err != nil {
			return s.last, err
		}
		for _, e := range r.Events {
			events, last = append(events, event{e, time.Now().UTC()}), e.Kv.ModRevision
		}
		if last >= end {
			break
		}
	}
	if last < end {
		return s.last, fmt.Errorf("the watch from %d ended at %d: %w", s.last+1, last, cmp.Or(ctx.Err(), io.ErrUnexpectedEOF))
	}
	text, err := json.Marshal(events)
	if err != nil {
		return s.last, err
	}
	sum := sha256.Sum256(text)
	if _, err = s.put(ctx, "Incr", s.last+1, last, append(text, sum[:]...)); err == nil {
		s.last = last
	}
	return s.last, err
}

func (s *store) put(ctx context.Context, kind string, start, last int64, content []byte) (snapshot, error) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write(content); err != nil {
		return snapshot{}, err
	}
	if err := z.Close(); err != nil {
		return snapshot{}, err
	}
	at := time.Now().UTC().Truncate(time.Second)
	name := fmt.Sprintf("%s-%08d-%08d-%d.gz", kind, start, last, at.Unix())
	_, err := s.s3.PutObject(ctx, &s3.PutObjectInput{Bucket: &s.bucket, Key: aws.String(path.Join(s.prefix, name)), Body: bytes.NewReader(packed.Bytes())})
	return snapshot{Kind: kind, SnapName: name, Prefix: s.prefix, CompressionSuffix: ".gz", CreatedOn: at, StartRevision: start, LastRevision: last}, err
}
