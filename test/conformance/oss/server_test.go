// Package oss_test proves internal/store/oss against test/stores/ossfake, which does what the
// documentation of OSS says: there is no server of it to run here.
package oss_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	osssdk "github.com/aliyun/alibabacloud-oss-go-sdk-v2/oss"
	"github.com/aliyun/alibabacloud-oss-go-sdk-v2/oss/credentials"

	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/oss"
	"druid.internal/druid/test/stores"
	"druid.internal/druid/test/stores/ossfake"
)

var update = flag.Bool("update", false, "rewrite the committed results")

const (
	keyID  = "LTAI-tests"
	secret = "hunter2-do-not-print"
)

// server is a fake that listens with TLS.
type server struct {
	fake     *ossfake.Server
	listener *httptest.Server
	ca       *stores.CA
	buckets  atomic.Int64
}

func newServer(t *testing.T) *server {
	t.Helper()
	ca, err := stores.NewCA()
	if err != nil {
		t.Fatal(err)
	}
	conf, err := ca.ServerTLS("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{fake: ossfake.New(keyID), ca: ca}
	s.listener = httptest.NewUnstartedServer(s.fake)
	s.listener.TLS = conf
	s.listener.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.listener.StartTLS()
	t.Cleanup(func() {
		s.listener.CloseClientConnections()
		s.listener.Close()
	})
	return s
}

// Reach is for faults.Gate.
func (s *server) Reach() (string, *stores.CA) { return s.listener.URL, s.ca }

// client is the SDK, for arranging and attacking.
func (s *server) client() *osssdk.Client {
	return osssdk.NewClient(&osssdk.Config{
		Endpoint: &s.listener.URL, Region: osssdk.Ptr("eu-central-1"), RetryMaxAttempts: osssdk.Ptr(1),
		CredentialsProvider: credentials.NewStaticCredentialsProvider(keyID, secret),
		HttpClient:          &http.Client{Transport: &http.Transport{TLSClientConfig: s.ca.ClientTLS(), DisableKeepAlives: true}},
	})
}

// kind is a kind of bucket.
type kind struct {
	versions bool
	days     int  // of a retention policy; 0: none
	begun    bool // the policy is not completed
}

func (s *server) newBucket(t *testing.T, k kind) string {
	t.Helper()
	name := fmt.Sprintf("bucket-%d", s.buckets.Add(1))
	c, ctx := s.client(), t.Context()
	if _, err := c.PutBucket(ctx, &osssdk.PutBucketRequest{Bucket: &name}); err != nil {
		t.Fatal(err)
	}
	if k.versions {
		s.setVersioning(t, name, osssdk.VersionEnabled)
	}
	if k.days > 0 {
		w, err := c.InitiateBucketWorm(ctx, &osssdk.InitiateBucketWormRequest{Bucket: &name, InitiateWormConfiguration: &osssdk.InitiateWormConfiguration{RetentionPeriodInDays: osssdk.Ptr(int32(k.days))}})
		if err != nil {
			t.Fatal(err)
		}
		if !k.begun {
			if _, err := c.CompleteBucketWorm(ctx, &osssdk.CompleteBucketWormRequest{Bucket: &name, WormId: w.WormId}); err != nil {
				t.Fatal(err)
			}
		}
	}
	return name
}

func (s *server) setVersioning(t *testing.T, bucket string, status osssdk.VersioningStatusType) {
	t.Helper()
	_, err := s.client().PutBucketVersioning(t.Context(), &osssdk.PutBucketVersioningRequest{Bucket: &bucket, VersioningConfiguration: &osssdk.VersioningConfiguration{Status: status}})
	if err != nil {
		t.Fatal(err)
	}
}

func (s *server) options(bucket string) oss.Options {
	return oss.Options{Bucket: bucket, Endpoint: s.listener.URL, Region: "eu-central-1", TrustedCAs: s.ca.PEM,
		Keys: func() (oss.Keys, error) { return oss.Keys{AccessKeyID: keyID, AccessKeySecret: secret}, nil }}
}

func open(t *testing.T, o oss.Options) *oss.Store {
	t.Helper()
	s, err := oss.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.CloseIdle)
	return s
}

// bucketOf finds the name of a store's bucket, for what is done behind its back.
func bucketOf(s store.Reader) string { return strings.Fields(s.Capabilities().Location)[1] }

// overwrite puts body under key, whatever is there, and returns the server's refusal.
func (s *server) overwrite(ctx context.Context, bucket, key string, body []byte) error {
	_, err := s.client().PutObject(ctx, &osssdk.PutObjectRequest{Bucket: &bucket, Key: &key, Body: bytes.NewReader(body)})
	return err
}

// hide deletes key without naming a version, and returns the server's refusal.
func (s *server) hide(ctx context.Context, bucket, key string) error {
	_, err := s.client().DeleteObject(ctx, &osssdk.DeleteObjectRequest{Bucket: &bucket, Key: &key})
	return err
}

func listed(t *testing.T, s store.Reader) (all []store.Object) {
	t.Helper()
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

const day = 24 * time.Hour
