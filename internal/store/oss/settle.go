package oss

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/dial"
)

// visible sends the request that makes the object visible, and repeats it only when the one
// before has certainly left nothing: a repetition by the SDK would make a second version where
// the bucket keeps versions.
func (w *write) visible(ctx context.Context, size int64, crc uint64, send func() (version, stored *string, err error)) (store.Object, error) {
	for attempt := 1; ; attempt++ {
		if err := ctx.Err(); err != nil {
			return store.Object{}, err
		}
		version, stored, err := send()
		if err == nil {
			return w.object(version, size), sameCRC(stored, crc)
		}
		o, repeat, err := w.settle(ctx, size, crc, err)
		if err == nil {
			return o, nil
		}
		if !repeat || attempt >= w.s.opts.Attempts {
			return store.Object{}, err
		}
		if err := pause(ctx, attempt); err != nil {
			return store.Object{}, err
		}
	}
}

// settle finds out what became of a write whose last request failed with err. A lost answer
// does not mean a lost object, and "exists already" may be the answer to a second attempt,
// after the first has succeeded unheard. The nonce decides.
func (w *write) settle(ctx context.Context, size int64, crc uint64, err error) (o store.Object, repeat bool, _ error) {
	cause := w.s.classify(ctx, err)
	passing := ctx.Err() == nil && (errors.Is(cause, store.ErrUnreachable) || errors.Is(cause, store.ErrThrottled)) && !dial.Final(err)
	refused := errors.Is(cause, store.ErrExists)
	gone := codeOf(err) == "NoSuchUpload" // completed by an attempt whose answer was lost, or aborted by others
	if !refused && !gone && answered(err) {
		return store.Object{}, passing, cause
	}
	lookup, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	ours, stored, lookupErr := w.find(lookup)
	switch {
	case ours != nil:
		ours.Size = size
		return *ours, false, sameCRC(stored, crc)
	case lookupErr != nil:
		return store.Object{}, false, fmt.Errorf("%w: %w (and it could not be looked up: %v)", store.ErrUnknownOutcome, cause, lookupErr)
	case refused, gone:
		return store.Object{}, false, cause
	}
	// Not there yet; but a request that nobody waits for any more may still be under way.
	return store.Object{}, passing, fmt.Errorf("%w: %w", store.ErrUnknownOutcome, cause)
}

// answered says whether the server answered by a definite no.
func answered(err error) bool {
	var creds *credentialsError
	status := statusOf(err)
	return errors.As(err, &creds) ||
		status >= 300 && status < 500 && status != http.StatusRequestTimeout && codeOf(err) != "RequestTimeout" ||
		status == http.StatusNotImplemented || status == http.StatusInsufficientStorage
}

// find looks for our object among the versions of the key.
func (w *write) find(ctx context.Context) (ours *store.Object, stored *string, err error) {
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
		return nil, nil, err
	}
	for _, o := range found {
		head, err := w.s.head(ctx, o.Version)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		if head.Metadata[nonceKey] == w.nonce {
			return &store.Object{Version: o.Version, Latest: o.Latest}, head.HashCRC64, nil
		}
	}
	return nil, nil, nil
}

// maxLookups bounds how many versions of one key are looked at; ours would be among the newest.
const maxLookups = 20
