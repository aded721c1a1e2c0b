package s3

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"druid.internal/druid/internal/store"
)

// Copy implements store.Copier. It always goes by a multipart upload whose parts are copied:
// unlike CopyObject that has no limit of 5 GiB, and its last request can be conditional on
// every server that knows conditions at all. The lock is opts.Retention or the bucket's
// default, never the source's, which some servers would copy.
func (s *Store) Copy(ctx context.Context, from store.Reader, src store.Version, key string, opts store.PutOptions) (store.Object, error) {
	o, err := s.copy(ctx, from, src, key, opts)
	if err != nil {
		return store.Object{}, fmt.Errorf("copy %s to %s in %s: %w", src, key, s.caps.Location, err)
	}
	return o, nil
}

func (s *Store) copy(ctx context.Context, from store.Reader, src store.Version, key string, opts store.PutOptions) (store.Object, error) {
	source, ok := store.As[*Store](from)
	if !ok || !s.sameServer(source) {
		return store.Object{}, fmt.Errorf("the source is not on the same server: %w", store.ErrUnsupported)
	}
	w, err := s.newWrite(key, opts)
	if err != nil {
		return store.Object{}, err
	}
	head, err := source.head(ctx, src)
	if err != nil {
		return store.Object{}, fmt.Errorf("source: %w", source.whyMissing(ctx, err))
	}
	src.ID = aws.ToString(head.VersionId)
	size := aws.ToInt64(head.ContentLength)
	if err := w.free(ctx); err != nil {
		return store.Object{}, err
	}
	if size == 0 { // an empty part cannot be copied
		return w.insist(ctx)(w.small(ctx, nil))
	}
	id, err := w.begin(ctx, false)
	if err != nil {
		return store.Object{}, err
	}
	sent, err := w.copyParts(ctx, id, source, src, head.ETag, size)
	if err == nil {
		err = source.unchanged(ctx, src, head)
	}
	if err != nil {
		return store.Object{}, w.abandon(ctx, id, err)
	}
	return w.insist(ctx)(w.complete(ctx, id, sent, size))
}

// unchanged makes sure that all parts were copied of one object. Each copy is conditional on
// that, but Ceph's gateway takes the condition and ignores it; so where the source is no
// version that stays what it is, it is looked at again.
func (s *Store) unchanged(ctx context.Context, src store.Version, before *awss3.HeadObjectOutput) error {
	if src.ID != "" && src.ID != nullVersion {
		return nil
	}
	after, err := s.head(ctx, src)
	if err != nil {
		return fmt.Errorf("look at the source again: %w", s.whyMissing(ctx, err))
	}
	if aws.ToString(after.ETag) != aws.ToString(before.ETag) || !aws.ToTime(after.LastModified).Equal(aws.ToTime(before.LastModified)) {
		return errReplaced
	}
	return nil
}

// errReplaced: copying it again would work.
var errReplaced = errors.New("the source was replaced while it was copied; copy it again")

// sameServer says whether our credentials may reach the source in one request with ours.
func (s *Store) sameServer(other *Store) bool {
	return s.opts.Endpoint == other.opts.Endpoint && (s.opts.Endpoint != "" || s.opts.Region == other.opts.Region)
}

// copyParts copies ranges of the source, several at once.
func (w *write) copyParts(ctx context.Context, id string, source *Store, src store.Version, etag *string, size int64) ([]types.CompletedPart, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		sent []types.CompletedPart
	)
	slots := make(chan struct{}, w.s.opts.ParallelParts)
	step := max(w.s.opts.CopyPartSize, size/maxParts+1)
	for number, off := int32(1), int64(0); off < size && ctx.Err() == nil; number, off = number+1, off+step {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			in := &awss3.UploadPartCopyInput{
				Bucket: &w.s.opts.Bucket, Key: &w.key, UploadId: &id, PartNumber: &number,
				CopySource: aws.String(copySource(source.opts.Bucket, src)), CopySourceIfMatch: etag,
				SSECustomerAlgorithm: w.s.sse.algorithm, SSECustomerKey: w.s.sse.key, SSECustomerKeyMD5: w.s.sse.digest,
				CopySourceSSECustomerAlgorithm: source.sse.algorithm, CopySourceSSECustomerKey: source.sse.key, CopySourceSSECustomerKeyMD5: source.sse.digest,
			}
			if size > step {
				in.CopySourceRange = aws.String(fmt.Sprintf("bytes=%d-%d", off, min(off+step, size)-1))
			}
			out, err := w.s.client.UploadPartCopy(ctx, in)
			if err != nil {
				cancel(fmt.Errorf("part %d: %w", number, w.copyRefused(ctx, source, err)))
				return
			}
			mu.Lock()
			sent = append(sent, types.CompletedPart{PartNumber: &number, ETag: out.CopyPartResult.ETag})
			mu.Unlock()
		})
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	slices.SortFunc(sent, func(a, b types.CompletedPart) int { return cmp.Compare(*a.PartNumber, *b.PartNumber) })
	return sent, nil
}

// copyRefused: who may read the source by its own credentials and write here by ours can
// still stream what the server will not copy.
func (w *write) copyRefused(ctx context.Context, source *Store, err error) error {
	classified := w.s.classify(ctx, err)
	if statusOf(err) == http.StatusPreconditionFailed { // the only condition is on the source
		return &store.Failure{Said: errReplaced.Error(), Cause: err}
	}
	switch status := statusOf(err); {
	case status == http.StatusForbidden && source != w.s, status == http.StatusNotImplemented, status == http.StatusMethodNotAllowed:
		return fmt.Errorf("%w: %w", store.ErrUnsupported, classified)
	}
	return classified
}

// copySource names a version of another object in a header.
func copySource(bucket string, v store.Version) string {
	segments := strings.Split(v.Key, "/")
	for i, segment := range segments {
		segments[i] = url.PathEscape(segment)
	}
	source := bucket + "/" + strings.Join(segments, "/")
	if v.ID != "" {
		source += "?versionId=" + url.QueryEscape(v.ID)
	}
	return source
}
