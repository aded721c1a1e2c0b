package swift

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"druid.internal/druid/internal/store"
)

// settle finds out what became of a write whose last request failed with err. A lost answer
// does not mean a lost object, and "exists already" may be the answer to a second attempt,
// after the first has succeeded unheard. The nonce decides.
func (w *write) settle(ctx context.Context, size int64, err error) (store.Object, error) {
	cause := w.s.missingContainer(w.s.classify(ctx, err))
	refused := errors.Is(cause, store.ErrExists)
	if !refused && answered(err) {
		return store.Object{}, cause
	}
	lookup, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	h, lookupErr := w.s.head(lookup, w.key, true)
	switch {
	case lookupErr == nil && h.Get(headerNonce) == w.nonce:
		return w.object(size), nil
	case refused:
		return store.Object{}, cause
	case lookupErr != nil && statusOf(lookupErr) != http.StatusNotFound:
		return store.Object{}, fmt.Errorf("%w: %w (and it could not be looked up: %v)", store.ErrUnknownOutcome, cause, w.s.classify(lookup, lookupErr))
	}
	// Not there yet; but a request that nobody waits for any more may still be under way.
	return store.Object{}, fmt.Errorf("%w: %w", store.ErrUnknownOutcome, cause)
}

// answered says whether the server answered by a definite no. Of a failure of its own it may
// have stored the object on some of its nodes.
func answered(err error) bool {
	var creds *credentialsError
	status := statusOf(err)
	return errors.As(err, &creds) ||
		status >= 300 && status < 500 && status != http.StatusRequestTimeout && status != http.StatusConflict ||
		status == http.StatusNotImplemented || status == http.StatusInsufficientStorage
}
