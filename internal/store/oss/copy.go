package oss

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"

	osssdk "github.com/aliyun/alibabacloud-oss-go-sdk-v2/oss"

	"druid.internal/druid/internal/store"
)

// copyPart is how much one request copies inside the server.
const copyPart = 512 << 20

// Copy implements store.Copier. It goes by a multipart upload whose parts are copied, which
// has no limit of 1 GiB as CopyObject has, and the CRC-64 of the copy is compared with the
// source's. The lock is that of the bucket.
func (s *Store) Copy(ctx context.Context, from store.Reader, src store.Version, key string, opts store.PutOptions) (store.Object, error) {
	o, err := s.copy(ctx, from, src, key, opts)
	if err != nil {
		return store.Object{}, fmt.Errorf("copy %s to %s in %s: %w", src, key, s.caps.Location, err)
	}
	return o, nil
}

func (s *Store) copy(ctx context.Context, from store.Reader, src store.Version, key string, opts store.PutOptions) (store.Object, error) {
	source, ok := store.As[*Store](from)
	if !ok || source.opts.Endpoint != s.opts.Endpoint {
		return store.Object{}, fmt.Errorf("the source is not at the same endpoint: %w", store.ErrUnsupported)
	}
	w, err := s.newWrite(key, opts)
	if err != nil {
		return store.Object{}, err
	}
	head, err := source.head(ctx, src)
	if err != nil {
		return store.Object{}, fmt.Errorf("source: %w", source.whyMissing(ctx, err))
	}
	if source.caps.Versions {
		src.ID = source.idOf(head.VersionId)
	}
	if head.ContentLength == 0 { // an empty part cannot be copied
		return w.small(ctx, nil)
	}
	crc, err := strconv.ParseUint(osssdk.ToString(head.HashCRC64), 10, 64)
	if err != nil { // an old object: what is copied could not be compared
		return store.Object{}, fmt.Errorf("the server does not tell the checksum of the source: %w", store.ErrUnsupported)
	}
	id, err := w.begin(ctx)
	if err != nil {
		return store.Object{}, err
	}
	all, err := w.copyParts(ctx, id, source, src, head)
	if err != nil {
		return store.Object{}, w.abandon(ctx, id, err)
	}
	return w.complete(ctx, id, all, crc)
}

// copyParts copies ranges of the source, several at once.
func (w *write) copyParts(ctx context.Context, id string, source *Store, src store.Version, head *osssdk.HeadObjectResult) ([]sent, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		wg  sync.WaitGroup
		mu  sync.Mutex
		all []sent
	)
	size := head.ContentLength
	slots := make(chan struct{}, w.s.opts.ParallelParts)
	step := max(int64(copyPart), size/maxParts+1)
	for number, off := int32(1), int64(0); off < size && ctx.Err() == nil; number, off = number+1, off+step {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			n := min(step, size-off)
			out, err := w.s.client.UploadPartCopy(ctx, &osssdk.UploadPartCopyRequest{
				Bucket: &w.s.opts.Bucket, Key: &w.key, UploadId: &id, PartNumber: number,
				SourceBucket: &source.opts.Bucket, SourceKey: &src.Key, SourceVersionId: versionID(src), IfMatch: head.ETag,
				Range: osssdk.Ptr(fmt.Sprintf("bytes=%d-%d", off, off+n-1)),
			})
			if err != nil {
				cancel(fmt.Errorf("part %d: %w", number, w.copyRefused(ctx, source, err)))
				return
			}
			mu.Lock()
			all = append(all, sent{number: number, etag: out.ETag, size: n})
			mu.Unlock()
		})
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b sent) int { return cmp.Compare(a.number, b.number) })
	return all, nil
}

// copyRefused: who may read the source by its own credentials and write here by ours can
// still stream what the server will not copy.
func (w *write) copyRefused(ctx context.Context, source *Store, err error) error {
	classified := w.s.classify(ctx, err)
	switch status := statusOf(err); {
	case status == http.StatusPreconditionFailed:
		return errors.New("the source was replaced while it was copied")
	case status == http.StatusForbidden && source != w.s, status == http.StatusNotImplemented, status == http.StatusMethodNotAllowed:
		return fmt.Errorf("%w: %w", store.ErrUnsupported, classified)
	}
	return classified
}
