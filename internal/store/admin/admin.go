// Package admin is the port to buckets themselves: to make one, to give it retention, to lock that,
// to remove one that is empty. The port to what is in buckets, package store, has none of it, so that
// nothing that writes or reads backups can be led to change how they are protected.
//
// Providers implement [Bucket]; what is to be done is decided in backup/immutability and carried
// out by engine/provisioner.
package admin

import (
	"context"
	"errors"

	"druid.internal/druid/internal/backup/immutability"
)

// Bucket administers one bucket, which need not exist. It is used by one goroutine at a time.
type Bucket interface {
	// Rules are what the provider's buckets can be asked for.
	Rules() immutability.BucketRules
	// Location is where the bucket is or will be, for messages; never a secret.
	Location() string

	// Read tells what the bucket is like now; one that is not there is no error. What this identity
	// may not read of a bucket that is there is an error as well (store.ErrForbidden), because
	// nothing can be planned then: the bucket may be somebody else's.
	Read(ctx context.Context) (immutability.Bucket, error)

	// Do carries out one step and returns a phrase for people on what came of it, which may be
	// empty. A step that is done already succeeds. Whatever has happened to the bucket since it
	// was read, a step never shortens a period, weakens a mode or takes away what others have
	// configured: it is refused then. What a server does not have is store.ErrUnsupported, a name that
	// belongs to somebody else is ErrForeign.
	Do(ctx context.Context, s immutability.BucketStep) (said string, err error)

	// Delete removes the bucket if it is empty; ErrNotEmpty if the provider finds anything in it.
	// One that is gone is no error.
	Delete(ctx context.Context) error
}

// The errors a caller branches on, besides those of package store.
var (
	ErrForeign = errors.New("the bucket belongs to somebody else")
	// ErrIncomplete: to make the bucket, more has to be told.
	ErrIncomplete = errors.New("the bucket cannot be made yet")
	ErrNotEmpty   = errors.New("the bucket is not empty")
	// ErrWeaker: the bucket was changed meanwhile, and the step would take protection away.
	ErrWeaker = errors.New("this would take protection away")
)

// Creation is what only the making of a bucket needs to know.
type Creation struct {
	Region  string // or location; empty: the provider's choice
	Project string // of Google; empty: that of the credentials
}
