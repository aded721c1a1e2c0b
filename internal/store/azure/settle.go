package azure

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"druid.internal/druid/internal/store"
)

// settle finds out what became of a write whose last request failed with err. A lost answer
// does not mean a lost blob, and "exists already" may be the answer to the SDK's second
// attempt, after the first has succeeded unheard. The nonce decides.
func (w *write) settle(ctx context.Context, size int64, err error) (store.Object, error) {
	cause := w.s.classifyWrite(ctx, err)
	refused := errors.Is(cause, store.ErrExists)
	// A writer that was faster has thrown away what was staged before its commit.
	gone := codeOf(err) == string(bloberror.InvalidBlockList)
	if !refused && !gone && answered(err) {
		return store.Object{}, cause
	}
	lookup, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	ours, others, lookupErr := w.find(lookup)
	switch {
	case ours != nil:
		ours.Size = size
		return *ours, nil
	case lookupErr != nil && refused:
		return store.Object{}, cause // somebody's blob is there; that is certain
	case lookupErr != nil:
		return store.Object{}, fmt.Errorf("%w: %w (and it could not be looked up: %v)", store.ErrUnknownOutcome, cause, lookupErr)
	case refused:
		return store.Object{}, cause
	case gone && others:
		return store.Object{}, &store.Failure{Kind: store.ErrExists, Said: "another writer was faster", Cause: err}
	case gone:
		return store.Object{}, cause
	}
	// Not there yet; but a request that nobody waits for any more may still be under way.
	return store.Object{}, fmt.Errorf("%w: %w", store.ErrUnknownOutcome, cause)
}

// classifyWrite is classify for the request that makes a blob visible. A blob that must not be
// overwritten because it is immutable is first of all one that exists.
func (s *Store) classifyWrite(ctx context.Context, err error) error {
	if ctx.Err() == nil && blamesLock(err) {
		return &store.Failure{Kind: store.ErrExists, Said: serverWords(err), Cause: err}
	}
	return s.classify(ctx, err)
}

// answered says whether the service answered by a definite no.
func answered(err error) bool {
	status := statusOf(err)
	return status >= 300 && status < 500 && status != http.StatusRequestTimeout ||
		status == http.StatusServiceUnavailable && codeOf(err) == string(bloberror.ServerBusy) ||
		status == http.StatusNotImplemented || status == http.StatusInsufficientStorage
}

// find looks for our blob under the key, also among the versions that others have replaced.
func (w *write) find(ctx context.Context) (ours *store.Object, others bool, err error) {
	props, err := w.s.properties(ctx, store.Version{Key: w.key})
	switch {
	case err == nil && nonceOf(props.Metadata) == w.nonce:
		o := w.object(props.VersionID, props.LastModified, value(props.ContentLength))
		return &o, false, nil
	case err != nil && !errors.Is(err, store.ErrNotFound):
		return nil, false, err
	}
	others = err == nil
	if !w.s.caps.Versions && props.VersionID == nil {
		return nil, others, nil
	}
	pager := w.s.client.NewListBlobsFlatPager(&container.ListBlobsFlatOptions{
		Prefix: &w.key, Include: container.ListBlobsInclude{Versions: true, Metadata: true},
	})
	for pager.More() {
		page, err := pager.NextPage(ctx)
		if err != nil {
			return nil, others, w.s.classify(ctx, err)
		}
		for _, b := range page.Segment.BlobItems {
			switch {
			case value(b.Name) != w.key: // keys ascend: the key itself comes before all that it begins
				return nil, others, nil
			case nonceOf(b.Metadata) == w.nonce:
				return &store.Object{Version: store.Version{Key: w.key, ID: value(b.VersionID)}, Latest: value(b.IsCurrentVersion)}, others, nil
			}
			others = true
		}
	}
	return nil, others, nil
}

// nonceOf reads the nonce from metadata, whose names have come through headers.
func nonceOf(metadata map[string]*string) string {
	for name, v := range metadata {
		if http.CanonicalHeaderKey(name) == http.CanonicalHeaderKey(nonceKey) {
			return value(v)
		}
	}
	return ""
}
