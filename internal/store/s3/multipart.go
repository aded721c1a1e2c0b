package s3

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"druid.internal/druid/internal/store"
)

// large writes an object by a multipart upload, of which head are the pieces read so far.
// Whatever goes wrong before the last request, the upload is aborted and nothing is visible.
func (w *write) large(ctx context.Context, parts *parts, head ...[]byte) (store.Object, error) {
	id, err := w.begin(ctx, !w.s.opts.LegacyChecksums)
	if err != nil {
		return store.Object{}, err
	}
	sent, size, err := w.send(ctx, id, parts, head)
	if err != nil {
		return store.Object{}, w.abandon(ctx, id, err)
	}
	return w.complete(ctx, id, sent, size)
}

// begin opens a multipart upload. Locks, tags and metadata are decided now.
func (w *write) begin(ctx context.Context, checksums bool) (id string, err error) {
	s := w.s
	in := &awss3.CreateMultipartUploadInput{
		Bucket: &s.opts.Bucket, Key: &w.key,
		ObjectLockMode: w.lock.mode, ObjectLockRetainUntilDate: w.lock.until, ObjectLockLegalHoldStatus: w.lock.hold,
		Tagging: w.tags, Metadata: map[string]string{nonceKey: w.nonce},
		SSECustomerAlgorithm: s.sse.algorithm, SSECustomerKey: s.sse.key, SSECustomerKeyMD5: s.sse.digest,
	}
	if checksums {
		in.ChecksumAlgorithm = types.ChecksumAlgorithmCrc32
	}
	out, err := s.client.CreateMultipartUpload(ctx, in, func(o *awss3.Options) {
		if !checksums { // else the SDK announces one on its own, and expects it with each part
			o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
		}
	})
	if err != nil {
		return "", fmt.Errorf("begin a multipart upload: %w", s.classify(ctx, err))
	}
	return aws.ToString(out.UploadId), nil
}

// send uploads the pieces, several at once; one more buffer than requests lets the stream be
// read while all of them are under way. It returns when none is any more.
func (w *write) send(ctx context.Context, id string, parts *parts, head [][]byte) (sent []types.CompletedPart, size int64, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	buffers := w.s.opts.ParallelParts + 1
	free := make(chan []byte, buffers)
	for range buffers - len(head) {
		free <- nil // made when needed
	}
	var (
		wg sync.WaitGroup
		mu sync.Mutex
	)
	slots := make(chan struct{}, w.s.opts.ParallelParts)
	upload := func(number int32, buf []byte) {
		size += int64(len(buf))
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			part, err := w.part(ctx, id, number, buf)
			if err != nil {
				cancel(fmt.Errorf("part %d: %w", number, err))
				return
			}
			mu.Lock()
			sent = append(sent, part)
			mu.Unlock()
			free <- buf
		})
	}
	readErr := w.pieces(ctx, parts, head, free, upload)
	if readErr != nil {
		cancel(readErr)
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, 0, err
	}
	slices.SortFunc(sent, func(a, b types.CompletedPart) int { return cmp.Compare(*a.PartNumber, *b.PartNumber) })
	return sent, size, nil
}

// pieces hands the stream piece by piece to upload, each in a buffer that is free.
func (w *write) pieces(ctx context.Context, parts *parts, head [][]byte, free <-chan []byte, upload func(int32, []byte)) error {
	for number := int32(1); ; number++ {
		if number > maxParts {
			return fmt.Errorf("the object is larger than %d parts of %d bytes, raise --min-chunk-size", maxParts, parts.size)
		}
		if len(head) > 0 {
			upload(number, head[0])
			head = head[1:]
			continue
		}
		var buf []byte
		select {
		case buf = <-free:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		buf, err := parts.next(buf)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		upload(number, buf)
	}
}

// part uploads one piece.
func (w *write) part(ctx context.Context, id string, number int32, buf []byte) (types.CompletedPart, error) {
	s, sum := w.s, w.s.checksum(buf)
	out, err := s.client.UploadPart(ctx, &awss3.UploadPartInput{
		Bucket: &s.opts.Bucket, Key: &w.key, UploadId: &id, PartNumber: &number, Body: bytes.NewReader(buf),
		ChecksumAlgorithm: sum.algorithm, ChecksumCRC32: sum.crc32, ContentMD5: sum.md5,
		SSECustomerAlgorithm: s.sse.algorithm, SSECustomerKey: s.sse.key, SSECustomerKeyMD5: s.sse.digest,
	})
	if err != nil {
		return types.CompletedPart{}, s.classify(ctx, err)
	}
	return types.CompletedPart{PartNumber: &number, ETag: out.ETag, ChecksumCRC32: sum.crc32}, nil
}

// complete makes the object visible.
func (w *write) complete(ctx context.Context, id string, sent []types.CompletedPart, size int64) (store.Object, error) {
	s := w.s
	out, err := s.client.CompleteMultipartUpload(ctx, &awss3.CompleteMultipartUploadInput{
		Bucket: &s.opts.Bucket, Key: &w.key, UploadId: &id,
		MultipartUpload:      &types.CompletedMultipartUpload{Parts: sent},
		MpuObjectSize:        &size,
		IfNoneMatch:          w.condition(),
		SSECustomerAlgorithm: s.sse.algorithm, SSECustomerKey: s.sse.key, SSECustomerKeyMD5: s.sse.digest,
	}, func(o *awss3.Options) {
		// After a conflict the upload must be begun anew; repeating the request is futile.
		o.Retryer = withoutConflicts{o.Retryer}
	})
	if err == nil {
		return w.object(out.VersionId, size), nil
	}
	o, err := w.settle(ctx, size, err)
	if err != nil {
		return store.Object{}, w.abandon(ctx, id, err)
	}
	return o, nil
}

// withoutConflicts does not repeat after ConditionalRequestConflict.
type withoutConflicts struct{ aws.Retryer }

func (r withoutConflicts) IsErrorRetryable(err error) bool {
	return codeOf(err) != "ConditionalRequestConflict" && r.Retryer.IsErrorRetryable(err)
}

// abandon aborts the upload and returns why. It goes on when the caller has given up, so that
// nothing is left behind; should it fail all the same, the message says what remains.
func (w *write) abandon(ctx context.Context, id string, why error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	_, err := w.s.client.AbortMultipartUpload(ctx, &awss3.AbortMultipartUploadInput{Bucket: &w.s.opts.Bucket, Key: &w.key, UploadId: &id})
	if err == nil || codeOf(err) == "NoSuchUpload" {
		return why
	}
	return fmt.Errorf("%w (the parts of upload %s remain, invisible, until a lifecycle rule or an abort removes them: %v)", why, id, w.s.classify(ctx, err))
}
