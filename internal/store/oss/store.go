package oss

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	osssdk "github.com/aliyun/alibabacloud-oss-go-sdk-v2/oss"

	"druid.internal/druid/internal/store"
)

// Store is one bucket. It is safe for concurrent use.
type Store struct {
	opts   Options
	client *osssdk.Client
	http   *http.Client
	caps   store.Capabilities
}

var _ interface {
	store.Store
	store.Deleter
	store.Tagger
	store.Copier
	store.Inspector
} = (*Store)(nil)

// New connects to the bucket and finds out whether it keeps versions. It fails if the bucket
// does not exist or cannot be reached.
func New(ctx context.Context, o Options) (*Store, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	client, httpClient, err := connect(o)
	if err != nil {
		return nil, fmt.Errorf("OSS: %w", err)
	}
	s := &Store{opts: o, client: client, http: httpClient}
	s.caps = store.Capabilities{Provider: "OSS", Location: o.location(), Endpoint: o.Endpoint, Tags: true, InlineRetention: true, Copies: true}
	v, err := s.versioning(ctx)
	switch {
	case errors.Is(err, store.ErrForbidden):
		// An overwrite may be refused or not; versions are addressed as they are listed.
		v, err = s.guessVersioning(ctx)
	case err == nil:
		s.caps.ConditionalPut = v == neverVersioned
	}
	if err != nil {
		s.CloseIdle()
		return nil, fmt.Errorf("open %s: %w", s.caps.Location, err)
	}
	s.caps.Versions = v != neverVersioned
	s.caps.Markers = s.caps.Versions
	return s, nil
}

// Capabilities implements store.Reader.
func (s *Store) Capabilities() store.Capabilities { return s.caps }

// CloseIdle drops connections that nobody uses at this moment.
func (s *Store) CloseIdle() { s.http.CloseIdleConnections() }

// neverVersioned is the status of a bucket whose versions were never switched on. OSS refuses
// an overwrite only there: elsewhere it ignores x-oss-forbid-overwrite.
const neverVersioned = ""

func (s *Store) versioning(ctx context.Context) (status string, err error) {
	out, err := s.client.GetBucketVersioning(ctx, &osssdk.GetBucketVersioningRequest{Bucket: &s.opts.Bucket})
	if err != nil {
		return "", s.classify(ctx, err)
	}
	return osssdk.ToString(out.VersionStatus), nil
}

// guessVersioning is for an identity that may not ask. Taking a bucket for one with versions
// only costs requests.
func (s *Store) guessVersioning(ctx context.Context) (string, error) {
	_, err := s.client.ListObjectVersions(ctx, &osssdk.ListObjectVersionsRequest{Bucket: &s.opts.Bucket, MaxKeys: 1})
	return "unknown", s.classify(ctx, err)
}

// idOf translates the server's version ID to the port's: empty on stores without versions.
func (s *Store) idOf(id *string) string {
	v := osssdk.ToString(id)
	switch {
	case !s.caps.Versions && v == nullVersion:
		return ""
	case s.caps.Versions && v == "":
		return nullVersion // written while versioning was suspended or not yet on
	}
	return v
}

// nullVersion is the ID of a version that has none.
const nullVersion = "null"

// versionID is the ID to read by; nil asks for the latest, which is the only one where there
// are no versions.
func versionID(v store.Version) *string {
	if v.ID == "" {
		return nil
	}
	return &v.ID
}

// checkKey refuses what OSS cannot store.
func checkKey(key string) error {
	switch {
	case key == "":
		return errors.New("the key is empty")
	case len(key) > maxKeyBytes:
		return fmt.Errorf("the key has %d bytes, OSS takes %d", len(key), maxKeyBytes)
	case !utf8.ValidString(key):
		return errors.New("the key is not valid UTF-8")
	case strings.HasPrefix(key, "/"), strings.HasPrefix(key, `\`):
		return errRooted
	}
	return nil
}

// errRooted is returned for keys and prefixes that OSS does not allow.
var errRooted = fmt.Errorf("OSS allows no keys that begin with a slash: %w; remove the slash from the prefix", store.ErrUnsupported)

// whyMissing tells a missing bucket from a missing object: the answer to a HEAD may not say it.
func (s *Store) whyMissing(ctx context.Context, err error) error {
	if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	_, bucketErr := s.client.ListObjectVersions(ctx, &osssdk.ListObjectVersionsRequest{Bucket: &s.opts.Bucket, MaxKeys: 1})
	if codeOf(bucketErr) == "NoSuchBucket" {
		return s.classify(ctx, bucketErr)
	}
	return err
}

// serverTime is the server's clock at the time of an answer, or zero.
func serverTime(h http.Header) time.Time {
	t, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return time.Time{}
	}
	return t
}
