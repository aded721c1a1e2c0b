package oss

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc64"

	osssdk "github.com/aliyun/alibabacloud-oss-go-sdk-v2/oss"

	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/parts"
)

// sent is a part that arrived.
type sent struct {
	number int32
	etag   *string
	size   int64
	crc    uint64
}

// large writes an object by a multipart upload. Whatever goes wrong before the last request, the upload is aborted and nothing is visible.
func (w *write) large(ctx context.Context, stream *parts.Stream) (store.Object, error) {
	id, err := w.begin(ctx)
	if err != nil {
		return store.Object{}, err
	}
	all, err := w.send(ctx, id, stream)
	if err != nil {
		return store.Object{}, w.abandon(ctx, id, err)
	}
	var crc uint64
	for _, p := range all {
		crc = osssdk.CRC64Combine(crc, p.crc, uint64(p.size))
	}
	return w.complete(ctx, id, all, crc)
}

// begin opens a multipart upload. Tags and metadata are decided now.
func (w *write) begin(ctx context.Context) (id string, err error) {
	out, err := w.s.client.InitiateMultipartUpload(ctx, &osssdk.InitiateMultipartUploadRequest{
		Bucket: &w.s.opts.Bucket, Key: &w.key, ContentType: osssdk.Ptr("application/octet-stream"), DisableAutoDetectMimeType: true,
		ForbidOverwrite: forbid(), Tagging: w.tags, Metadata: map[string]string{nonceKey: w.nonce},
		EncodingType: osssdk.Ptr("url"),
	})
	if err != nil {
		return "", fmt.Errorf("begin a multipart upload: %w", w.s.classify(ctx, err))
	}
	return osssdk.ToString(out.UploadId), nil
}

// send uploads the parts.
func (w *write) send(ctx context.Context, id string, stream *parts.Stream) ([]sent, error) {
	limits := parts.Limits{Parallel: w.s.opts.ParallelParts, Count: maxParts, What: "part"}
	return parts.Send(ctx, stream, limits, func(ctx context.Context, number int, buf []byte) (sent, error) {
		return w.part(ctx, id, int32(number), buf)
	})
}

// part uploads one part.
func (w *write) part(ctx context.Context, id string, number int32, buf []byte) (sent, error) {
	sum := contentMD5(buf)
	out, err := w.s.client.UploadPart(ctx, &osssdk.UploadPartRequest{
		Bucket: &w.s.opts.Bucket, Key: &w.key, UploadId: &id, PartNumber: number, Body: bytes.NewReader(buf), ContentMD5: &sum,
	})
	if err != nil {
		return sent{}, w.s.classify(ctx, err)
	}
	p := sent{number: number, etag: out.ETag, size: int64(len(buf)), crc: crc64.Checksum(buf, ecma)}
	return p, sameCRC(out.HashCRC64, p.crc)
}

// complete makes the object visible. crc is that of the whole.
func (w *write) complete(ctx context.Context, id string, all []sent, crc uint64) (store.Object, error) {
	list := &osssdk.CompleteMultipartUpload{}
	var size int64
	for _, p := range all {
		list.Parts = append(list.Parts, osssdk.UploadPart{PartNumber: p.number, ETag: p.etag})
		size += p.size
	}
	o, err := w.visible(ctx, size, crc, func() (version, stored *string, err error) {
		out, err := w.s.client.CompleteMultipartUpload(ctx, &osssdk.CompleteMultipartUploadRequest{
			Bucket: &w.s.opts.Bucket, Key: &w.key, UploadId: &id, CompleteMultipartUpload: list, ForbidOverwrite: forbid(),
			EncodingType: osssdk.Ptr("url"),
		}, once)
		if err != nil {
			return nil, nil, err
		}
		return out.VersionId, out.HashCRC64, nil
	})
	if err != nil {
		return store.Object{}, w.abandon(ctx, id, err)
	}
	return o, nil
}

// abandon aborts the upload and returns why. It goes on when the caller has given up, so that
// nothing is left behind; should it fail all the same, the message says what remains.
func (w *write) abandon(ctx context.Context, id string, why error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	_, err := w.s.client.AbortMultipartUpload(ctx, &osssdk.AbortMultipartUploadRequest{Bucket: &w.s.opts.Bucket, Key: &w.key, UploadId: &id})
	if err == nil || codeOf(err) == "NoSuchUpload" {
		return why
	}
	return fmt.Errorf("%w (the parts of upload %s remain, invisible, until a lifecycle rule or an abort removes them: %v)", why, id, w.s.classify(ctx, err))
}
