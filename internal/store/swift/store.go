package swift

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"unicode/utf8"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/store"
)

// Store is one container. It is safe for concurrent use.
type Store struct {
	opts    Options
	http    *http.Client
	session *session
	caps    store.Capabilities

	// limits of large objects, learned before the first one is written.
	limitsMu sync.Mutex
	limits   *limits
}

var _ interface {
	store.Store
	store.Deleter
	store.Inspector
} = (*Store)(nil)

// New gets a token and looks whether the container is there. It fails if it is not, or if the
// server cannot be reached; an identity that may not ask about the container may still be
// able to use it.
func New(ctx context.Context, o Options) (*Store, error) {
	s, err := newStore(o)
	if err != nil {
		return nil, err
	}
	if _, err := s.container(ctx); err != nil && !errors.Is(err, store.ErrForbidden) {
		s.CloseIdle()
		return nil, fmt.Errorf("open %s: %w", s.caps.Location, err)
	}
	return s, nil
}

// newStore makes one and asks nothing yet.
func newStore(o Options) (*Store, error) {
	o, version, err := o.complete()
	if err != nil {
		return nil, err
	}
	client, err := newHTTPClient(o)
	if err != nil {
		return nil, fmt.Errorf("Swift: %w", err)
	}
	s := &Store{opts: o, http: client, session: &session{opts: o, version: version, http: client, turn: make(chan struct{}, 1)}}
	s.caps = store.Capabilities{
		Provider: "Swift", Location: o.location(), Endpoint: o.describe(), InlineRetention: true,
		ConditionalPut: o.ConditionalPut != nil && *o.ConditionalPut,
	}
	return s, nil
}

// Capabilities implements store.Reader.
func (s *Store) Capabilities() store.Capabilities { return s.caps }

// CloseIdle drops connections that nobody uses at this moment.
func (s *Store) CloseIdle() { s.http.CloseIdleConnections() }

// container asks about the container.
func (s *Store) container(ctx context.Context) (http.Header, error) {
	h, err := s.done(ctx, request{method: http.MethodHead, container: s.opts.Container})
	if statusOf(err) == http.StatusNotFound {
		return nil, s.noContainer(err)
	}
	return h, s.classify(ctx, err)
}

// noContainer is the answer to everything about a container that is not there.
func (s *Store) noContainer(err error) error {
	return &store.Failure{Kind: store.ErrNoBucket, Said: fmt.Sprintf("HTTP %d", http.StatusNotFound), Remedy: "check the container's name, tenantName and region, or create it", Cause: err}
}

// whyMissing tells a missing container from a missing object: Swift's answer is the same.
func (s *Store) whyMissing(ctx context.Context, err error) error {
	if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	if _, containerErr := s.container(ctx); errors.Is(containerErr, store.ErrNoBucket) {
		return containerErr
	}
	return err
}

// checkKey refuses what Swift cannot store or what would not be listed.
func checkKey(key string) error {
	switch {
	case key == "":
		return errors.New("the key is empty")
	case len(key) > maxKeyBytes-segmentBytes:
		return fmt.Errorf("the key has %d bytes, Swift takes %d and the names of segments need %d of them", len(key), maxKeyBytes, segmentBytes)
	case !utf8.ValidString(key):
		return errors.New("the key is not valid UTF-8")
	}
	if owner, is := segmentOf(key); is {
		return fmt.Errorf("the key has the form of a segment of %s", owner)
	}
	return nil
}

// unlocked is the lock of everything here. There is none, and that is known.
func unlocked() *immutability.Retention {
	return &immutability.Retention{Mode: immutability.ModeNone}
}

// Inspect implements store.Inspector.
func (s *Store) Inspect(ctx context.Context) (store.Bucket, error) {
	b := store.Bucket{Default: immutability.ModeNone, Notes: []string{
		"Swift has no object lock: whoever may write to the container can delete and overwrite backups",
	}}
	if !s.caps.ConditionalPut {
		b.Notes = append(b.Notes, "a key is looked up before it is written; of two who write the same key at the same moment the later one wins")
	}
	h, err := s.container(ctx)
	switch {
	case errors.Is(err, store.ErrForbidden):
		return b, nil
	case err != nil:
		return store.Bucket{}, fmt.Errorf("inspect %s: %w", s.caps.Location, err)
	}
	for _, name := range []string{"X-Versions-Enabled", "X-Versions-Location", "X-History-Location"} {
		if v := h.Get(name); v != "" && v != "False" && v != "false" {
			b.Notes = append(b.Notes, fmt.Sprintf("the container keeps what is overwritten or deleted (%s: %s); these old versions are neither read nor collected by this program", name, v))
		}
	}
	return b, nil
}
