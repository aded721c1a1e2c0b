package azure

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"hash/crc64"
	"io"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"

	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/parts"
)

// Put implements store.Store. What fits into one block goes in one request, the rest block by
// block and then by a commit that makes it visible as a whole or not at all. Memory is
// BlockSize times ParallelBlocks + 1.
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
	stream, err := parts.Begin(ctx, body, s.opts.BlockSize)
	if err != nil {
		return store.Object{}, err
	}
	if all, fits := stream.Whole(); fits {
		return w.small(ctx, all)
	}
	ids, size, err := w.send(ctx, stream)
	if err != nil {
		return store.Object{}, err
	}
	return w.commit(ctx, ids, size)
}

// write is one new blob on its way: what all requests that make it visible have in common.
type write struct {
	s    *Store
	key  string
	tags map[string]string
	lock lock
	// nonce stands in the blob's metadata. By it we recognise our own write when its answer was
	// lost, or when a repetition by the SDK met what the first attempt wrote.
	nonce string
}

// nonceKey is the metadata field that holds the nonce; Azure wants an identifier.
const nonceKey = "druidupload"

func (s *Store) newWrite(key string, opts store.PutOptions) (*write, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	if err := s.checkTags(opts.Tags); err != nil {
		return nil, err
	}
	l, err := s.lockFor(opts.Retention)
	if err != nil {
		return nil, err
	}
	return &write{s: s, key: key, tags: opts.Tags, lock: l, nonce: rand.Text()}, nil
}

// condition lets a write succeed only where there is no blob of that name.
func condition() *blob.AccessConditions {
	none := azcore.ETagAny
	return &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfNoneMatch: &none}}
}

func (w *write) metadata() map[string]*string { return map[string]*string{nonceKey: &w.nonce} }

// small writes a blob by one request.
func (w *write) small(ctx context.Context, body []byte) (store.Object, error) {
	if err := ctx.Err(); err != nil {
		return store.Object{}, err
	}
	resp, err := w.s.block(w.key).Upload(ctx, streaming.NopCloser(bytes.NewReader(body)), &blockblob.UploadOptions{
		AccessConditions: condition(), Metadata: w.metadata(), Tags: w.tags, TransactionalValidation: checksum(body),
		ImmutabilityPolicyMode: w.lock.mode, ImmutabilityPolicyExpiryTime: w.lock.until, LegalHold: w.lock.hold,
	})
	if err != nil {
		return w.settle(ctx, int64(len(body)), err)
	}
	return w.object(resp.VersionID, resp.LastModified, int64(len(body))), nil
}

// commit makes the blob visible.
func (w *write) commit(ctx context.Context, ids []string, size int64) (store.Object, error) {
	resp, err := w.s.block(w.key).CommitBlockList(ctx, ids, &blockblob.CommitBlockListOptions{
		AccessConditions: condition(), Metadata: w.metadata(), Tags: w.tags,
		ImmutabilityPolicyMode: w.lock.mode, ImmutabilityPolicyExpiryTime: w.lock.until, LegalHold: w.lock.hold,
	})
	if err != nil {
		return w.settle(ctx, size, err)
	}
	return w.object(resp.VersionID, resp.LastModified, size), nil
}

// object describes what was written.
func (w *write) object(id *string, modified *time.Time, size int64) store.Object {
	return store.Object{Version: store.Version{Key: w.key, ID: value(id)}, Size: size, Modified: value(modified), Latest: true}
}

// crcTable is of the polynomial that Azure uses, which is none of the usual ones.
var crcTable = crc64.MakeTable(0x9A6C9329AC4BC9B5)

// checksum is what proves to the service that a body arrived as it was sent.
func checksum(body []byte) blob.TransferValidationType {
	return blob.TransferValidationTypeCRC64(crc64.Checksum(body, crcTable))
}
