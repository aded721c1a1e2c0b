package s3

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/middleware"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	smithymiddleware "github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"druid.internal/druid/internal/store"
)

// Store is one bucket. It is safe for concurrent use.
type Store struct {
	opts   Options
	client *awss3.Client
	http   *http.Client
	sse    sse
	caps   store.Capabilities

	// keepsOverwritten: an overwrite makes a further version.
	keepsOverwritten bool
	// lockUnknown: we may not read the bucket's lock configuration, so objects may be locked.
	lockUnknown bool
	// tagsReadable: this identity has been seen to read tags of versions that are named, hence no tag count means no tags
	// in an answer about such a one. latestTagsReadable: the same of the latest, unnamed, for which it takes another right;
	// latestTagsAsked: that was tried.
	tagsReadable, latestTagsReadable, latestTagsAsked atomic.Bool
	// found is what New was told of the bucket, for the first Inspect; nil: that has it already.
	found atomic.Pointer[settings]
	// slash is whether the server drops the leading slash of keys; nil: it was not asked.
	slash atomic.Pointer[bool]
	// trusted: TLS with a verified certificate. verifies: the server was last seen to verify checksums.
	trusted  bool
	verifies atomic.Bool
}

var _ interface {
	store.Store
	store.Deleter
	store.Extender
	store.Holder
	store.Tagger
	store.Copier
	store.Inspector
} = (*Store)(nil)

// New connects to the bucket and finds out what it can do: whether it keeps versions, whether
// objects can be locked, and whether the server is known to refuse an overwrite. It fails if
// the bucket does not exist or cannot be reached; what this identity may not ask stays unknown.
func New(ctx context.Context, o Options) (*Store, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	client, httpClient, err := connect(ctx, o)
	if err != nil {
		return nil, err
	}
	o.Region = client.Options().Region
	s := &Store{opts: o, client: client, http: httpClient, sse: newSSE(o), trusted: o.trusted()}
	s.caps = store.Capabilities{Provider: o.Provider, Location: o.location(), Endpoint: o.endpoint(ctx), Tags: true}
	if err := s.discover(ctx); err != nil {
		s.CloseIdle()
		return nil, err
	}
	return s, nil
}

// settings are how a bucket is configured. What an identity may not read has the zero value.
type settings struct {
	versions           versions
	noVersions, noLock bool // they may not be read
	lock               lockConfig
	at                 time.Time // when they were asked for
}

// settings asks for them.
func (s *Store) settings(ctx context.Context) (settings, error) {
	told := settings{at: time.Now()}
	var err error
	if told.versions, err = s.versioning(ctx); err != nil {
		if !errors.Is(err, store.ErrForbidden) {
			return told, err
		}
		told.noVersions = true
	}
	if told.lock, err = s.lockConfiguration(ctx); err != nil {
		if !errors.Is(err, store.ErrForbidden) {
			return told, err
		}
		told.noLock = true
	}
	return told, nil
}

// discover fills the capabilities.
func (s *Store) discover(ctx context.Context) error {
	told, err := s.settings(ctx)
	if err != nil {
		return fmt.Errorf("open %s: %w", s.caps.Location, err)
	}
	s.found.Store(&told)
	versioning, lock := told.versions, told.lock
	s.caps.Versions, s.caps.Markers = versioning.kept, versioning.kept
	s.keepsOverwritten = versioning.status == string(types.BucketVersioningStatusEnabled)
	s.lockUnknown = told.noLock
	s.caps.ObjectLock = lock.enabled
	s.caps.Lengthens, s.caps.Holds, s.caps.Copies = lock.enabled || s.lockUnknown, lock.enabled || s.lockUnknown, true
	switch {
	case s.opts.ConditionalPut != nil:
		s.caps.ConditionalPut = *s.opts.ConditionalPut
	default:
		s.caps.ConditionalPut = s.opts.ofAWS() || honoursConditions(versioning.server)
	}
	return nil
}

// honoursConditions tells by a server's name whether it was seen to refuse an overwrite when
// asked to (If-None-Match). Others are asked as well, but not believed. AWS is known by its
// address and not by its name, which others give themselves too.
func honoursConditions(server string) bool { return isMinIO(server) }

func isMinIO(server string) bool { return strings.HasPrefix(server, "MinIO") }

// Capabilities implements store.Reader.
func (s *Store) Capabilities() store.Capabilities { return s.caps }

// CloseIdle drops connections that nobody uses at this moment.
func (s *Store) CloseIdle() { s.http.CloseIdleConnections() }

// versions is what GetBucketVersioning tells.
type versions struct {
	kept   bool   // several versions of a key may exist, even if new ones are suspended
	status string // as the server says
	server string // what it calls itself
}

func (s *Store) versioning(ctx context.Context) (versions, error) {
	out, err := s.client.GetBucketVersioning(ctx, &awss3.GetBucketVersioningInput{Bucket: &s.opts.Bucket})
	if err != nil {
		if codeOf(err) == "NotImplemented" { // a server without versions
			return versions{status: "not implemented"}, nil
		}
		return versions{}, s.classify(ctx, err)
	}
	return versions{
		kept:   out.Status == types.BucketVersioningStatusEnabled || out.Status == types.BucketVersioningStatusSuspended,
		status: string(out.Status),
		server: header(out.ResultMetadata, "Server"),
	}, nil
}

// header is one header of the response.
func header(meta smithymiddleware.Metadata, name string) string {
	if r, ok := middleware.GetRawResponse(meta).(*smithyhttp.Response); ok && r != nil {
		return r.Header.Get(name)
	}
	return ""
}

// idOf translates the server's version ID to the port's: empty on stores without versions.
func (s *Store) idOf(id *string) string {
	v := aws.ToString(id)
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
	return aws.String(v.ID)
}

// checkKey refuses what S3 cannot store or what would be listed under another name.
func checkKey(key string) error {
	switch {
	case key == "":
		return errors.New("the key is empty")
	case len(key) > maxKeyBytes:
		return fmt.Errorf("the key has %d bytes, S3 takes %d", len(key), maxKeyBytes)
	case !utf8.ValidString(key):
		return errors.New("the key is not valid UTF-8")
	}
	return nil
}
