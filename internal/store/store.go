// Package store is the port to object stores: write-once objects with versions, markers and
// locks. One package per provider implements it, storetest proves each of them.
//
// What the port leaves out is on purpose: there is no overwrite, no delete without a version
// and no listing of only the latest versions, so a delete marker can be neither produced nor
// believed.
package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"druid.internal/druid/internal/backup/immutability"
)

// Version addresses one version of one key. ID is empty on stores without versions.
type Version struct {
	Key string `json:"key"`
	ID  string `json:"id,omitempty"`
}

// String is key@id, for messages.
func (v Version) String() string {
	if v.ID == "" {
		return v.Key
	}
	return v.Key + "@" + v.ID
}

// Object is what a store tells about one version. List fills what its provider returns
// inline (see Capabilities), Stat fills everything.
type Object struct {
	Version
	Size     int64
	Modified time.Time // when the version was created, by the store's clock
	Marker   bool      // a delete marker: it has no content
	Latest   bool      // what a reader without versions would see for this key
	// Unreadable is why List found something at the key that is no object, such as a symbolic link in
	// a directory of files. It may be a directory of objects that are not listed. Nil: it is an object.
	Unreadable error

	// Retention is nil when it was not asked for or the store did not answer. Nil is never "unprotected".
	Retention *immutability.Retention
	// Tags are nil when not asked for or not answered. The key of every tag is as the user set it.
	Tags map[string]string
	// ServerTime is the store's clock when it answered a Stat; zero if it does not tell.
	ServerTime time.Time
}

// PutOptions are the optional parts of a Put.
type PutOptions struct {
	Retention *immutability.Retention // lock the new version explicitly; needs Capabilities.ObjectLock
	Tags      map[string]string       // needs Capabilities.Tags
}

// Reader is what restores and listings need. All methods may be called concurrently.
type Reader interface {
	// List calls fn for every version and marker of every key that starts with prefix+"/"
	// (all keys for ""), keys ascending by their bytes, versions of one key newest first. It
	// stops at fn's first error and returns it unwrapped. A listing that could not be
	// completed is an error, never a shorter listing. fn is called from one goroutine, and
	// may itself use the store; whether it meets what was added meanwhile is left open.
	List(ctx context.Context, prefix string, fn func(Object) error) error

	// Open streams n bytes from offset off; n < 0 means to the end. The caller closes. A
	// stream that ends early returns io.ErrUnexpectedEOF from Read, never io.EOF; so does a
	// range that reaches beyond the end, from Open or Read. From off == size to the end is
	// an empty stream. With v.ID == "" on a store with versions it reads the latest one.
	// A marker has no content: ErrNotFound. The stream ends with ctx.
	Open(ctx context.Context, v Version, off, n int64) (io.ReadCloser, error)

	// Stat returns everything about a version. With v.ID == "" on a store with versions it
	// describes the latest one. For a marker it is ErrNotFound.
	Stat(ctx context.Context, v Version) (Object, error)

	Capabilities() Capabilities
}

// Store adds writing. Deleting is apart: see Deleter.
type Store interface {
	Reader

	// Put stores a stream of unknown size as a new object. It returns only when the object is
	// durable, and an error means that no object became visible, or that it is unknown
	// (ErrUnknownOutcome). A body that fails with an error other than io.EOF must leave no
	// object. Where the store can refuse (Capabilities.ConditionalPut) an existing key yields
	// ErrExists, unless a marker hides it (then a further version appears, and readers settle
	// which one counts). Memory used does not depend on the size. The body is never closed,
	// and not read any more once Put has returned. A failing body's error is wrapped.
	//
	// The returned object has at least its Version and Size.
	Put(ctx context.Context, key string, body io.Reader, opts PutOptions) (Object, error)
}

// Deleter removes one version for good. Only the collector is given one.
type Deleter interface {
	// Delete removes exactly v, be it content or a marker. The store's refusal because of a
	// lock or hold is *ImmutableError; removing what is already gone succeeds. On a store
	// with versions an empty v.ID is refused, because it would make a marker.
	Delete(ctx context.Context, v Version) error
}

// The optional capabilities. A provider that has one implements the interface; ask with a
// type assertion through As, which looks through decorators. Having the method is not yet
// having the capability: where the bucket at hand cannot, the answer is ErrUnsupported. Whoever decides by it
// beforehand asks Capabilities.
type (
	// Extender lengthens the lock of a version in place and returns what was read back.
	// Shortening is refused by the store or, where it is not, by the provider, with an
	// *ImmutableError; the same date again succeeds. A version without a lock has none to
	// lengthen: ErrUnsupported.
	Extender interface {
		Extend(ctx context.Context, v Version, until time.Time) (immutability.Retention, error)
	}
	// Holder sets and releases an indefinite hold on a version.
	Holder interface {
		SetHold(ctx context.Context, v Version, on bool) error
	}
	// Tagger sets one tag of a version and keeps the others.
	Tagger interface {
		SetTag(ctx context.Context, v Version, key, value string) error
	}
	// Copier copies a version inside the store without moving its bytes through us. src may
	// be in another bucket reached by the same credentials; ErrUnsupported means: stream it.
	// It obeys the rules of Put; where the store cannot refuse an existing key during a copy,
	// a further version appears, and never is one lost. The copy's lock is opts.Retention or
	// the bucket's default, not the source's.
	Copier interface {
		Copy(ctx context.Context, from Reader, src Version, key string, opts PutOptions) (Object, error)
	}
	// Rehearser tries the changes that roles make to a store, to find out whether it permits them. key
	// must be one that nobody uses. Nothing stays: an upload is begun and aborted, and everything else is
	// requested for a version that does not exist. A trial succeeds if the store permits the change.
	Rehearser interface {
		Rehearse(ctx context.Context, key string) []Trial
	}
	// Inspector reads how the bucket protects its objects. What it returns is configuration,
	// not proof.
	Inspector interface {
		Inspect(ctx context.Context) (Bucket, error)
	}
)

// Change is a kind of change to a store, for which an identity needs a right.
type Change string

// The changes.
const (
	ChangeWrite  Change = "write objects"
	ChangeAbort  Change = "abort uploads"
	ChangeDelete Change = "delete versions"
	ChangeExtend Change = "extend locks"
	ChangeTag    Change = "tag versions"
)

// Trial is a change that was tried, and the error if the store does not permit it.
type Trial struct {
	Change Change
	Err    error
}

// Bucket is the protection a bucket is configured to give.
type Bucket struct {
	Versioned bool
	// Default is stamped on new objects that ask for nothing: its Mode, and Period instead of a date.
	Default immutability.Mode
	Period  time.Duration
	// Locked: the configuration itself can no longer be weakened.
	Locked bool
	// Notes are sentences for people, for example what could not be read and why.
	Notes []string
}

// Capabilities are facts about a provider, fixed for the life of a store.
type Capabilities struct {
	Provider string // the provider's canonical name, for messages: S3, Local, …
	Location string // where: bucket and endpoint, or directory; never a secret

	Endpoint string // URL that requests go to, and the setting that named it; empty: there is none

	Versions        bool // keeps several versions of a key
	Markers         bool // a delete that names no version leaves a marker; else, with Versions, no version is the latest then
	ConditionalPut  bool // refuses to overwrite, server-side
	ObjectLock      bool // PutOptions.Retention is honoured
	Tags            bool
	InlineRetention bool // List fills Object.Retention
	InlineTags      bool // List fills Object.Tags
	Advisory        bool // protection is only this project's own restraint

	// What of the optional capabilities is worth trying in the bucket at hand; decorators have the methods of all of them.
	// What is not known counts as worth it, and is answered with ErrUnsupported if it is not.
	Lengthens bool // Extend
	Holds     bool // SetHold
	Copies    bool // Copy
}

// The errors a caller branches on. Providers translate their own into these, with a message
// that says what to do.
var (
	ErrNotFound       = errors.New("no such object")
	ErrNoBucket       = errors.New("no such bucket or container")
	ErrExists         = errors.New("object exists already")
	ErrForbidden      = errors.New("permission denied")
	ErrCredentials    = errors.New("credentials missing, invalid or expired")
	ErrThrottled      = errors.New("the store asks to slow down")
	ErrUnreachable    = errors.New("the store cannot be reached")
	ErrUnknownOutcome = errors.New("the store did not confirm; the object may exist")
	ErrUnsupported    = errors.New("not supported by this store")
	ErrNoSpace        = errors.New("no space left in the store")
	// ErrBucketName is ErrNoBucket as well: no bucket has a name that its server does not allow.
	ErrBucketName error = bucketNameError{}
)

type bucketNameError struct{}

func (bucketNameError) Error() string        { return "the name of the bucket or container is not allowed" }
func (bucketNameError) Is(target error) bool { return target == ErrNoBucket }

// ImmutableError is the store's refusal to delete or change a version.
type ImmutableError struct {
	Version Version
	Until   time.Time // zero if the store does not tell, or a hold protects
	Hold    bool
	Err     error // the provider's own words
}

func (e *ImmutableError) Error() string {
	switch {
	case e.Hold:
		return fmt.Sprintf("%s is under a hold", e.Version)
	case e.Until.IsZero():
		return fmt.Sprintf("%s is protected by the store", e.Version)
	}
	return fmt.Sprintf("%s is protected until %s", e.Version, e.Until.UTC().Format(time.RFC3339))
}

func (e *ImmutableError) Unwrap() error { return e.Err }

// As finds a capability of s, looking through decorators that have an Unwrap() Reader method.
// A read-only wrapper ends the search for everything that writes.
func As[T any](s Reader) (T, bool) {
	for s != nil {
		if t, ok := s.(T); ok {
			return t, true
		}
		w, ok := s.(interface{ Unwrap() Reader })
		if !ok {
			break
		}
		s = w.Unwrap()
	}
	var none T
	return none, false
}
