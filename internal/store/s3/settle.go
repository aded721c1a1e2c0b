package s3

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/middleware"
	smithymiddleware "github.com/aws/smithy-go/middleware"

	"druid.internal/druid/internal/store"
)

// settle finds out what became of a write whose last request failed with err. A lost answer
// does not mean a lost object, and "exists already" may be the answer to the SDK's second
// attempt, after the first has succeeded unheard. The nonce decides.
func (w *write) settle(ctx context.Context, size int64, err error) (store.Object, error) {
	cause := w.s.classify(ctx, err)
	refused := errors.Is(cause, store.ErrExists)
	conflict := codeOf(err) == "ConditionalRequestConflict"
	gone := codeOf(err) == "NoSuchUpload" // completed by an attempt whose answer was lost, or aborted by others
	if !refused && !conflict && !gone && answered(err) {
		return store.Object{}, cause
	}
	lookup, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	ours, others, lookupErr := w.find(lookup)
	switch {
	case ours != nil:
		ours.Size = size
		return *ours, nil
	case lookupErr != nil:
		return store.Object{}, fmt.Errorf("%w: %w (and it could not be looked up: %v)", store.ErrUnknownOutcome, cause, lookupErr)
	case refused:
		return store.Object{}, cause
	case conflict && others:
		return store.Object{}, &store.Failure{Kind: store.ErrExists, Said: "another writer was faster", Cause: err}
	case conflict, gone:
		return store.Object{}, cause
	}
	// Not there yet; but a request that nobody waits for any more may still be under way.
	return store.Object{}, fmt.Errorf("%w: %w", store.ErrUnknownOutcome, cause)
}

// answered says whether the server answered by a definite no.
func answered(err error) bool {
	status := statusOf(err)
	return status >= 300 && status < 500 && status != http.StatusRequestTimeout ||
		status == http.StatusServiceUnavailable && codeOf(err) == "SlowDown" ||
		status == http.StatusNotImplemented || status == http.StatusInsufficientStorage
}

// find looks for our object among the versions of the key, and for others'.
func (w *write) find(ctx context.Context) (ours *store.Object, others bool, err error) {
	var found []store.Object
	enough := errors.New("enough")
	err = w.s.list(ctx, w.key, func(o store.Object) error {
		if o.Key != w.key || len(found) == maxLookups {
			return enough // keys ascend: the key itself comes before all that it begins
		}
		if !o.Marker {
			found = append(found, o)
		}
		return nil
	})
	if err != nil && err != enough {
		return nil, false, err
	}
	for _, o := range found {
		head, err := w.s.head(ctx, o.Version)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, false, err
		}
		if head.Metadata[nonceKey] == w.nonce {
			return &store.Object{Version: o.Version, Latest: o.Latest}, false, nil
		}
		others = true
	}
	return nil, others, nil
}

// maxLookups bounds how many versions of one key are looked at; ours would be among the newest.
const maxLookups = 20

// serverTime is the server's clock at the time of an answer, or zero.
func serverTime(meta smithymiddleware.Metadata) time.Time {
	at, _ := middleware.GetServerTime(meta)
	return at
}
