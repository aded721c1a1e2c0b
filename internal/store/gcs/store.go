package gcs

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"cloud.google.com/go/storage"
	"github.com/googleapis/gax-go/v2"
	"google.golang.org/api/option"

	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/dial"
)

// provider is the name in messages and capabilities.
const provider = "GCS"

// Store is one bucket. It is safe for concurrent use.
type Store struct {
	opts   Options
	client *storage.Client
	http   *http.Client
	base   *http.Transport
	caps   store.Capabilities

	// unreadable: we may not read the bucket's configuration, so what it can do is found out
	// by asking it.
	unreadable bool
	// policyLocked: the bucket's retention policy was seen locked, which nobody can undo.
	policyLocked atomic.Bool
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

// New connects to the bucket and finds out what it can do: whether it keeps noncurrent
// versions, and whether single objects can be locked. It fails if the bucket does not exist or
// cannot be reached; what this identity may not ask stays unknown.
func New(ctx context.Context, o Options) (*Store, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	s := &Store{opts: o}
	if err := s.connect(ctx); err != nil {
		return nil, fmt.Errorf("%s: %w", provider, err)
	}
	s.caps = store.Capabilities{
		Provider: provider, Location: o.location(), Endpoint: o.endpoint(),
		ConditionalPut: true, Tags: true, InlineRetention: true, InlineTags: true,
		Lengthens: true, Holds: true, Copies: true,
	}
	if err := s.discover(ctx); err != nil {
		s.CloseIdle()
		return nil, err
	}
	return s, nil
}

// connect makes the client. Everything the SDK would find out by itself is told: the endpoint,
// so that no variable of an emulator leads elsewhere, and who authenticates.
func (s *Store) connect(ctx context.Context) error {
	base, err := newTransport(s.opts)
	if err != nil {
		return err
	}
	s.base = base
	t := &transport{base: dial.Reporting{Transport: base}}
	universe := ""
	if !s.opts.Anonymous {
		if s.opts.Credentials != nil {
			c, err := s.opts.Credentials()
			if err != nil {
				return &store.Failure{Kind: store.ErrCredentials, Said: err.Error(), Cause: err}
			}
			universe = c.Universe
		}
		t.tokens = newTokens(s.opts, base)
	}
	if universe == "" {
		universe = "googleapis.com"
	}
	endpoint := s.opts.Endpoint
	if endpoint == "" {
		endpoint = fmt.Sprintf(googleEndpoint, universe)
	}
	s.http = &http.Client{
		Transport: t,
		// A redirect must not be followed with a body, nor with a token to another host.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	s.client, err = storage.NewClient(ctx,
		option.WithHTTPClient(s.http), option.WithoutAuthentication(), option.WithEndpoint(endpoint), storage.WithJSONReads())
	if err != nil {
		return fmt.Errorf("the SDK refuses its configuration: %w", err)
	}
	s.client.SetRetry(storage.WithMaxAttempts(s.opts.Attempts), storage.WithBackoff(backoff()), storage.WithErrorFunc(passing))
	return nil
}

// backoff is the pauses between the repetitions of one request, with full jitter.
func backoff() gax.Backoff { return gax.Backoff{Initial: firstBackoff, Max: maxBackoff, Multiplier: 2} }

// discover fills the capabilities.
func (s *Store) discover(ctx context.Context) error {
	attrs, err := s.bucketAttrs(ctx)
	switch {
	case errors.Is(err, store.ErrForbidden):
		s.unreadable = true
		return nil
	case err != nil:
		return fmt.Errorf("open %s: %w", s.caps.Location, err)
	}
	s.caps.Versions = attrs.VersioningEnabled
	s.caps.ObjectLock = attrs.ObjectRetentionMode == objectRetentionEnabled
	s.caps.Lengthens = s.caps.ObjectLock
	return nil
}

// objectRetentionEnabled is the mode of buckets whose objects can be locked one by one.
const objectRetentionEnabled = "Enabled"

// bucketAttrs reads the bucket's configuration and notes what of it can never change again.
func (s *Store) bucketAttrs(ctx context.Context) (*storage.BucketAttrs, error) {
	attrs, err := s.client.Bucket(s.opts.Bucket).Attrs(ctx)
	if err != nil {
		return nil, s.missingBucket(s.classify(ctx, err))
	}
	if p := attrs.RetentionPolicy; p != nil && p.IsLocked {
		s.policyLocked.Store(true)
	}
	return attrs, nil
}

// Capabilities implements store.Reader.
func (s *Store) Capabilities() store.Capabilities { return s.caps }

// CloseIdle drops connections that nobody uses at this moment.
func (s *Store) CloseIdle() { s.base.CloseIdleConnections() }

// idOf is the port's ID of a generation. Where the bucket keeps no others the live one has none.
func (s *Store) idOf(attrs *storage.ObjectAttrs) string {
	if !s.caps.Versions && attrs.Deleted.IsZero() {
		return ""
	}
	return strconv.FormatInt(attrs.Generation, 10)
}

// handle addresses a version: a generation, or the live one for an empty ID.
func (s *Store) handle(v store.Version) (*storage.ObjectHandle, error) {
	if err := checkKey(v.Key); err != nil {
		return nil, &store.Failure{Kind: store.ErrNotFound, Said: err.Error(), Cause: err}
	}
	h := s.client.Bucket(s.opts.Bucket).Object(v.Key)
	if v.ID == "" {
		return h, nil
	}
	generation, err := strconv.ParseInt(v.ID, 10, 64)
	if err != nil || generation <= 0 {
		return nil, &store.Failure{Kind: store.ErrNotFound, Said: fmt.Sprintf("%q is no generation of this store", v.ID), Cause: errNotAGeneration}
	}
	return h.Generation(generation), nil
}

var errNotAGeneration = errors.New("not a generation")

// checkKey refuses what the service cannot store.
func checkKey(key string) error {
	switch {
	case key == "":
		return errors.New("the key is empty")
	case len(key) > maxKeyBytes:
		return fmt.Errorf("the key has %d bytes, the store takes %d", len(key), maxKeyBytes)
	case !utf8.ValidString(key):
		return errors.New("the key is not valid UTF-8")
	case strings.ContainsAny(key, "\r\n"):
		return errors.New("the key has a line break")
	case key == "." || key == ".." || strings.HasPrefix(key, ".well-known/acme-challenge/"):
		return fmt.Errorf("the key %q is reserved", key)
	}
	return nil
}
