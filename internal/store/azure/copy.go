package azure

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/sas"

	"druid.internal/druid/internal/store"
)

const (
	// copyAtOnce is the largest blob that Copy Blob From URL takes.
	copyAtOnce = 256 << 20
	// copyBlock is how much one request copies of larger ones.
	copyBlock = 64 << 20
	// copyValid is how long the permission to read the source lasts that we write ourselves.
	copyValid = 6 * time.Hour
)

// Copy implements store.Copier: small blobs by one request, larger ones block by block and then
// by a commit, both on condition that there is no blob of that name. The source may be in any
// account whose credentials its own store has, because these go with the request; the service
// fetches it. The lock is opts.Retention or the container's default, never the source's.
func (s *Store) Copy(ctx context.Context, from store.Reader, src store.Version, key string, opts store.PutOptions) (store.Object, error) {
	o, err := s.copy(ctx, from, src, key, opts)
	if err != nil {
		return store.Object{}, fmt.Errorf("copy %s to %s in %s: %w", src, key, s.caps.Location, err)
	}
	return o, nil
}

func (s *Store) copy(ctx context.Context, from store.Reader, src store.Version, key string, opts store.PutOptions) (store.Object, error) {
	source, ok := store.As[*Store](from)
	if !ok || hostOf(source.opts.Endpoint) != hostOf(s.opts.Endpoint) && !strings.HasPrefix(source.opts.Endpoint, "https://") {
		return store.Object{}, fmt.Errorf("the source is not where this service could fetch it: %w", store.ErrUnsupported)
	}
	w, err := s.newWrite(key, opts)
	if err != nil {
		return store.Object{}, err
	}
	props, err := source.properties(ctx, src)
	if err != nil {
		return store.Object{}, fmt.Errorf("source: %w", err)
	}
	src.ID = value(props.VersionID)
	origin, err := source.origin(ctx, src)
	if err != nil {
		return store.Object{}, fmt.Errorf("source: %w", err)
	}
	origin.etag = props.ETag
	size := value(props.ContentLength)
	if size <= copyAtOnce {
		return w.copyWhole(ctx, source, origin, size)
	}
	ids, err := w.copyBlocks(ctx, source, origin, size)
	if err != nil {
		return store.Object{}, err
	}
	return w.commit(ctx, ids, size)
}

func hostOf(endpoint string) string {
	_, rest, _ := strings.Cut(endpoint, "://")
	host, _, _ := strings.Cut(rest, "/")
	return host
}

// origin is a source with the permission to read it.
type origin struct {
	url    string
	bearer *string // a token, where the URL itself permits nothing
	etag   *azcore.ETag
}

func (o origin) unchanged() *blob.SourceModifiedAccessConditions {
	return &blob.SourceModifiedAccessConditions{SourceIfMatch: o.etag}
}

// origin writes the permission: with an account key one to read this container for some hours,
// otherwise what we have ourselves. One for a single version would be narrower, but what the SDK
// signs for versions lacks their ID, which the service asks for. Nobody but the service sees it.
func (s *Store) origin(ctx context.Context, v store.Version) (origin, error) {
	c, err := s.blob(v)
	if err != nil {
		return origin{}, err
	}
	location := c.URL()
	join := func(query string) string {
		if strings.Contains(location, "?") {
			return location + "&" + query
		}
		return location + "?" + query
	}
	switch {
	case s.client.key != nil:
		signed, err := sas.BlobSignatureValues{
			ContainerName: s.opts.Container, Permissions: (&sas.ContainerPermissions{Read: true}).String(),
			ExpiryTime: s.client.clock.now().Add(copyValid).UTC(),
		}.SignWithSharedKey(s.client.key)
		if err != nil {
			return origin{}, err
		}
		return origin{url: join(signed.Encode())}, nil
	case s.client.sas != nil:
		own, err := s.client.sas()
		if err != nil {
			return origin{}, &store.Failure{Kind: store.ErrCredentials, Said: err.Error(), Cause: err}
		}
		return origin{url: join(own)}, nil
	}
	token, err := s.client.identity.GetToken(ctx, policy.TokenRequestOptions{Scopes: []string{"https://storage.azure.com/.default"}})
	if err != nil {
		return origin{}, s.classify(ctx, err)
	}
	bearer := "Bearer " + token.Token
	return origin{url: location, bearer: &bearer}, nil
}

// copyWhole copies by one request.
func (w *write) copyWhole(ctx context.Context, source *Store, from origin, size int64) (store.Object, error) {
	resp, err := w.s.block(w.key).CopyFromURL(ctx, from.url, &blob.CopyFromURLOptions{
		CopySourceAuthorization: from.bearer, SourceModifiedAccessConditions: from.unchanged(),
		BlobAccessConditions: condition(), Metadata: w.metadata(), BlobTags: w.tags,
		ImmutabilityPolicyMode: w.lock.mode, ImmutabilityPolicyExpiry: w.lock.until, LegalHold: w.lock.hold,
	})
	if refused := w.copyRefused(ctx, source, err); refused != nil {
		return store.Object{}, refused
	}
	if err != nil {
		return w.settle(ctx, size, err)
	}
	return w.object(resp.VersionID, resp.LastModified, size), nil
}

// copyBlocks stages ranges of the source, several at once.
func (w *write) copyBlocks(ctx context.Context, source *Store, from origin, size int64) ([]string, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	step := max(int64(copyBlock), size/maxBlocks+1)
	requests := make(chan struct{}, w.s.opts.ParallelBlocks)
	var (
		wg  sync.WaitGroup
		ids []string
	)
	for off := int64(0); off < size && ctx.Err() == nil; off += step {
		id := w.blockID(len(ids))
		ids = append(ids, id)
		requests <- struct{}{}
		wg.Go(func() {
			defer func() { <-requests }()
			_, err := w.s.block(w.key).StageBlockFromURL(ctx, id, from.url, &blockblob.StageBlockFromURLOptions{
				CopySourceAuthorization: from.bearer, SourceModifiedAccessConditions: from.unchanged(),
				Range: blob.HTTPRange{Offset: off, Count: min(step, size-off)},
			})
			if refused := w.copyRefused(ctx, source, err); refused != nil {
				cancel(fmt.Errorf("from byte %d: %w", off, refused))
			} else if err != nil {
				cancel(fmt.Errorf("from byte %d: %w", off, w.s.classify(ctx, err)))
			}
		})
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	return ids, nil
}

// copyRefused: who may read the source and write here can still stream what the service does
// not fetch. nil: that is not what err says.
func (w *write) copyRefused(ctx context.Context, source *Store, err error) error {
	switch code := codeOf(err); {
	case err == nil || ctx.Err() != nil:
		return nil
	case code == string(bloberror.CannotVerifyCopySource), code == "CopySourceNotAccessible", code == string(bloberror.CopyAcrossAccountsNotSupported),
		statusOf(err) == http.StatusNotImplemented,
		source.opts.Account != w.s.opts.Account && statusOf(err) == http.StatusForbidden:
		return fmt.Errorf("%w: %w", store.ErrUnsupported, w.s.classify(ctx, err))
	}
	return nil
}
