package s3

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/parts"
)

// Put implements store.Store. What fits into one part goes in one request, the rest as a
// multipart upload that becomes visible as a whole or not at all. Memory is PartSize times
// ParallelParts + 1.
func (s *Store) Put(ctx context.Context, key string, body io.Reader, opts store.PutOptions) (store.Object, error) {
	o, err := s.put(ctx, key, body, opts)
	if err != nil {
		return store.Object{}, fmt.Errorf("put %s into %s: %w", key, s.caps.Location, err)
	}
	return o, nil
}

func (s *Store) put(ctx context.Context, key string, body io.Reader, opts store.PutOptions) (store.Object, error) {
	w, err := s.newWrite(key, opts)
	if err != nil {
		return store.Object{}, err
	}
	if err := w.free(ctx); err != nil {
		return store.Object{}, err
	}
	stream, err := parts.Begin(ctx, body, s.opts.PartSize)
	if err != nil {
		return store.Object{}, err
	}
	if all, fits := stream.Whole(); fits {
		return w.insist(ctx)(w.small(ctx, all))
	}
	return w.insist(ctx)(w.large(ctx, stream))
}

// write is one new object on its way: what all requests that create it have in common.
type write struct {
	s     *Store
	key   string
	asked store.PutOptions
	tags  *string // as headers
	lock  lockHeaders
	// nonce stands in the object's metadata. By it we recognise our own write when its
	// answer was lost, or when a repetition by the SDK met what the first attempt wrote.
	nonce string
}

// nonceKey is the metadata field that holds the nonce.
const nonceKey = "druid-upload"

func (s *Store) newWrite(key string, opts store.PutOptions) (*write, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	lock, err := s.lockFor(opts.Retention)
	if err != nil {
		return nil, err
	}
	return &write{s: s, key: key, asked: opts, tags: tagHeader(opts.Tags), lock: lock, nonce: rand.Text()}, nil
}

// free looks whether the key is free, where nothing else keeps what is there from being
// destroyed: a server that is not known to refuse, and a bucket without versions, or with
// versions suspended. That protects against mistakes and repetitions; another writer may still
// come between the look and the write.
func (w *write) free(ctx context.Context) error {
	if w.s.caps.ConditionalPut || w.s.keepsOverwritten {
		return nil
	}
	_, err := w.s.head(ctx, store.Version{Key: w.key})
	switch {
	case err == nil:
		return fmt.Errorf("%w: it was looked for first, because this server is not known to refuse", store.ErrExists)
	case errors.Is(err, store.ErrNotFound):
		return nil
	case errors.Is(err, store.ErrForbidden): // of what is there, and without s3:ListBucket of what is missing
		return fmt.Errorf("whether the key is free cannot be seen, and this server would overwrite it: grant s3:GetObject below the prefix and s3:ListBucket on the bucket, or switch versioning on: %w", err)
	}
	return fmt.Errorf("is the key free? %w", err)
}

// condition is If-None-Match: *, unless the server is known not to bear it.
func (w *write) condition() *string {
	if c := w.s.opts.ConditionalPut; c != nil && !*c {
		return nil
	}
	return aws.String("*")
}

// small writes an object by one request.
func (w *write) small(ctx context.Context, body []byte) (store.Object, error) {
	if err := ctx.Err(); err != nil {
		return store.Object{}, err
	}
	s, sum := w.s, w.s.checksum(body)
	out, err := s.client.PutObject(ctx, &awss3.PutObjectInput{
		Bucket: &s.opts.Bucket, Key: &w.key, Body: bytes.NewReader(body),
		IfNoneMatch:       w.condition(),
		ChecksumAlgorithm: sum.algorithm, ChecksumCRC32: sum.crc32,
		ObjectLockMode: w.lock.mode, ObjectLockRetainUntilDate: w.lock.until, ObjectLockLegalHoldStatus: w.lock.hold,
		Tagging: w.tags, Metadata: map[string]string{nonceKey: w.nonce},
		SSECustomerAlgorithm: s.sse.algorithm, SSECustomerKey: s.sse.key, SSECustomerKeyMD5: s.sse.digest,
		ServerSideEncryption: types.ServerSideEncryption(s.opts.Encryption), SSEKMSKeyId: s.opts.kmsKey(),
	}, s.unsigned)
	if err != nil {
		return w.settle(ctx, int64(len(body)), err)
	}
	s.confirm(sum, out.ChecksumCRC32)
	return w.object(out.VersionId, int64(len(body))), nil
}

// object describes what was written.
func (w *write) object(id *string, size int64) store.Object {
	return store.Object{Version: store.Version{Key: w.key, ID: w.s.idOf(id)}, Size: size, Latest: true}
}
