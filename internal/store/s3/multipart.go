package s3

import (
	"bytes"
	"context"
	"fmt"
	"sync/atomic"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/parts"
)

// large writes an object by a multipart upload. Whatever goes wrong before the last request, the upload is aborted and nothing is visible.
func (w *write) large(ctx context.Context, stream *parts.Stream) (store.Object, error) {
	id, err := w.begin(ctx, !w.s.opts.LegacyChecksums)
	if err != nil {
		return store.Object{}, err
	}
	sent, size, err := w.send(ctx, id, stream)
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
		ServerSideEncryption: types.ServerSideEncryption(s.opts.Encryption), SSEKMSKeyId: s.opts.kmsKey(),
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

// send uploads the parts, and tells the size of all of them.
func (w *write) send(ctx context.Context, id string, stream *parts.Stream) (sent []types.CompletedPart, size int64, err error) {
	limits := parts.Limits{Parallel: w.s.opts.ParallelParts, Count: maxParts, What: "part"}
	var total atomic.Int64
	sent, err = parts.Send(ctx, stream, limits, func(ctx context.Context, number int, buf []byte) (types.CompletedPart, error) {
		total.Add(int64(len(buf)))
		return w.part(ctx, id, int32(number), buf)
	})
	return sent, total.Load(), err
}

// part uploads one part.
func (w *write) part(ctx context.Context, id string, number int32, buf []byte) (types.CompletedPart, error) {
	s, sum := w.s, w.s.checksum(buf)
	out, err := s.client.UploadPart(ctx, &awss3.UploadPartInput{
		Bucket: &s.opts.Bucket, Key: &w.key, UploadId: &id, PartNumber: &number, Body: bytes.NewReader(buf),
		ChecksumAlgorithm: sum.algorithm, ChecksumCRC32: sum.crc32,
		SSECustomerAlgorithm: s.sse.algorithm, SSECustomerKey: s.sse.key, SSECustomerKeyMD5: s.sse.digest,
	}, s.unsigned)
	if err != nil {
		return types.CompletedPart{}, s.classify(ctx, err)
	}
	s.confirm(sum, out.ChecksumCRC32)
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
