package azure

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"druid.internal/druid/internal/store"
)

// Store is one container. It is safe for concurrent use.
type Store struct {
	opts       Options
	client     *client
	management *management // nil: not at hand
	caps       store.Capabilities

	// include is what a listing asks for besides names.
	include container.ListBlobsInclude
	// lockUnknown: the container's properties cannot be read, so versions may be lockable.
	lockUnknown bool
	// tagsReadable: this identity has been seen to read tags, hence no tag count means no tags.
	tagsReadable atomic.Bool
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

// New connects to the container and finds out what it can do. It fails if the container does
// not exist or cannot be reached; what this identity may not ask stays unknown.
func New(ctx context.Context, o Options) (*Store, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	c, err := connect(o)
	if err != nil {
		var creds *credentialsError
		if errors.As(err, &creds) {
			err = fmt.Errorf("open %s: %w", o.location(), &store.Failure{Kind: store.ErrCredentials, Said: creds.Error(), Cause: err})
		}
		return nil, err
	}
	s := &Store{opts: o, client: c}
	s.caps = store.Capabilities{Provider: "ABS", Location: o.location(), Endpoint: o.Endpoint, ConditionalPut: true, Tags: true, InlineRetention: true, InlineTags: true}
	if o.Management != nil {
		if s.management, err = newManagement(o, c); err != nil {
			return nil, fmt.Errorf("open %s: %w", s.caps.Location, err)
		}
	}
	if err := s.discover(ctx); err != nil {
		s.CloseIdle()
		return nil, fmt.Errorf("open %s: %w", s.caps.Location, err)
	}
	return s, nil
}

// discover fills the capabilities. Whether the account keeps versions is told only indirectly
// to those who cannot ask the management API: version-level immutability requires it, and a
// listing shows it by the first version's ID.
func (s *Store) discover(ctx context.Context) error {
	p, err := s.protection(ctx)
	if err != nil {
		return err
	}
	s.lockUnknown = !p.known
	s.caps.ObjectLock = p.versionLevel
	s.caps.Lengthens, s.caps.Holds, s.caps.Copies = p.versionLevel || s.lockUnknown, p.versionLevel || s.lockUnknown, true
	s.include = container.ListBlobsInclude{Versions: true, Tags: true, ImmutabilityPolicy: true, LegalHold: true}
	first, err := s.firstPage(ctx)
	if errors.Is(err, store.ErrForbidden) {
		s.include.Tags, s.caps.InlineTags = false, false
		first, err = s.firstPage(ctx)
	}
	if errors.Is(err, errHierarchical) {
		// Accounts with a hierarchical namespace have neither index tags nor versions.
		s.include = container.ListBlobsInclude{ImmutabilityPolicy: true, LegalHold: true}
		s.caps.Tags, s.caps.InlineTags = false, false
		first, err = s.firstPage(ctx)
	}
	if err != nil && !errors.Is(err, store.ErrForbidden) { // one who only writes need not list
		return err
	}
	s.tagsReadable.Store(err == nil && s.include.Tags)
	s.caps.Versions = p.versionLevel || p.versions
	for _, b := range first {
		s.caps.Versions = s.caps.Versions || b.VersionID != nil
	}
	return nil
}

func (s *Store) firstPage(ctx context.Context) ([]*container.BlobItem, error) {
	one := int32(1)
	page, err := s.client.NewListBlobsFlatPager(&container.ListBlobsFlatOptions{Include: s.include, MaxResults: &one}).NextPage(ctx)
	if err != nil {
		return nil, s.classify(ctx, err)
	}
	if page.Segment == nil {
		return nil, nil
	}
	return page.Segment.BlobItems, nil
}

// Capabilities implements store.Reader.
func (s *Store) Capabilities() store.Capabilities { return s.caps }

// CloseIdle drops connections that nobody uses at this moment.
func (s *Store) CloseIdle() { s.client.http.CloseIdleConnections() }

// blob addresses a version, the current one for an empty ID.
func (s *Store) blob(v store.Version) (*blob.Client, error) {
	c := s.client.NewBlobClient(v.Key)
	if v.ID == "" {
		return c, nil
	}
	return c.WithVersionID(v.ID)
}

func (s *Store) block(key string) *blockblob.Client { return s.client.NewBlockBlobClient(key) }

// properties asks for everything about one version but its tags.
func (s *Store) properties(ctx context.Context, v store.Version) (blob.GetPropertiesResponse, error) {
	c, err := s.blob(v)
	if err != nil {
		return blob.GetPropertiesResponse{}, err
	}
	resp, err := c.GetProperties(ctx, nil)
	if err != nil {
		return blob.GetPropertiesResponse{}, s.classifyVersion(ctx, v, err)
	}
	return resp, nil
}

// classifyVersion is classify for requests that name a version: an ID that cannot be one of
// this service's is not found.
func (s *Store) classifyVersion(ctx context.Context, v store.Version, err error) error {
	if v.ID != "" && statusOf(err) == http.StatusBadRequest {
		switch codeOf(err) {
		case string(bloberror.InvalidQueryParameterValue), string(bloberror.InvalidInput), string(bloberror.OutOfRangeQueryParameterValue), "":
			return &store.Failure{Kind: store.ErrNotFound, Said: "the version ID is not one of this service's", Cause: err}
		}
	}
	return s.classify(ctx, err)
}

// value is what a pointer of the SDK points to, or nothing.
func value[T any](p *T) T {
	if p == nil {
		var none T
		return none
	}
	return *p
}

// checkKey refuses what Azure cannot store or would store under another name.
func checkKey(key string) error {
	switch {
	case key == "":
		return errors.New("the key is empty")
	case !utf8.ValidString(key):
		return errors.New("the key is not valid UTF-8")
	case utf8.RuneCountInString(key) > maxKeyChars:
		return fmt.Errorf("the key has %d characters, Azure takes %d", utf8.RuneCountInString(key), maxKeyChars)
	case strings.Contains(key, "\\"):
		return errors.New("the key has a backslash, which Azure makes a slash")
	case strings.HasSuffix(key, "/"), strings.HasSuffix(key, "."):
		return errors.New("the key ends with a slash or a dot, which Azure may drop")
	}
	for segment := range strings.SplitSeq(key, "/") {
		if segment == "." || segment == ".." {
			return errors.New("the key has a segment . or .., which is resolved on the way")
		}
	}
	return nil
}
