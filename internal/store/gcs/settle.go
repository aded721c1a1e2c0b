package gcs

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"cloud.google.com/go/storage"

	"druid.internal/druid/internal/store"
)

// settle finds out what became of a write whose last request failed with err. A lost answer
// does not mean a lost object, and "exists already" may be the answer to the SDK's second
// attempt, after the first has succeeded unheard. The nonce decides.
func (w *write) settle(ctx context.Context, size int64, err error) (store.Object, error) {
	cause := w.s.classifyWrite(ctx, err)
	refused := errors.Is(cause, store.ErrExists)
	if !refused && answered(err) {
		return store.Object{}, cause
	}
	lookup, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	ours, lookupErr := w.find(lookup)
	if ours == nil && lookupErr == nil && !refused {
		// Not there yet, but a request that nobody waits for any more may still be under way.
		// A canceled upload will not become visible any more; one that did meanwhile is found.
		if w.cancelUpload(ctx) {
			if ours, lookupErr = w.find(lookup); ours == nil && lookupErr == nil {
				return store.Object{}, cause
			}
		}
	}
	switch {
	case ours != nil && ours.Size != size:
		return store.Object{}, fmt.Errorf("%w: %w (of %d bytes %d are there)", store.ErrUnknownOutcome, cause, size, ours.Size)
	case ours != nil:
		return *ours, nil
	case lookupErr != nil:
		return store.Object{}, fmt.Errorf("%w: %w (and it could not be looked up: %v)", store.ErrUnknownOutcome, cause, lookupErr)
	case refused:
		return store.Object{}, cause
	}
	return store.Object{}, fmt.Errorf("%w: %w", store.ErrUnknownOutcome, cause)
}

// classifyWrite is classify for writes. Who is refused because of a lock meets an object that
// exists: the lock is that one's.
func (s *Store) classifyWrite(ctx context.Context, err error) error {
	if blamed, _ := blamesLock(err); blamed && ctx.Err() == nil {
		return &store.Failure{Kind: store.ErrExists, Said: saidBy(apiError(err)), Cause: err}
	}
	cause := s.classify(ctx, err)
	if errors.Is(cause, store.ErrNotFound) {
		return s.whyMissing(ctx, cause)
	}
	return cause
}

// answered says whether the server answered by a definite no. That an upload is unknown may
// mean that it was completed by an attempt whose answer was lost.
func answered(err error) bool {
	switch status := statusOf(err); status {
	case http.StatusRequestTimeout, http.StatusGone, http.StatusNotFound:
		return false
	case http.StatusNotImplemented, http.StatusInsufficientStorage:
		return true
	default:
		return status >= 300 && status < 500
	}
}

// find looks for our object among the generations of the key.
func (w *write) find(ctx context.Context) (*store.Object, error) {
	var found *store.Object
	enough := errors.New("enough")
	looked := 0
	q := &storage.Query{Prefix: w.key, EndOffset: w.key + "\x00"} // no more than this key
	err := w.s.list(ctx, q, func(attrs *storage.ObjectAttrs) error {
		if attrs.Name != w.key || looked == maxLookups {
			return enough
		}
		looked++
		if attrs.Metadata[nonceKey] != w.nonce {
			return nil
		}
		o := w.s.object(attrs)
		found = &o
		return enough
	})
	if err != nil && err != enough {
		return nil, err
	}
	return found, nil
}

// statusCanceled is the answer to the request to cancel an upload.
const statusCanceled = 499

// cancelUpload ends a resumable upload that will not be completed, if there is one, and says
// whether that is certain. It goes on when the caller has given up. What it cannot end stays
// invisible and ends after a week.
func (w *write) cancelUpload(ctx context.Context) bool {
	session := w.seen.upload()
	if session == "" {
		return false
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodDelete, session, http.NoBody)
	if err != nil {
		return false
	}
	resp, err := w.s.http.Do(req)
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == statusCanceled
}
