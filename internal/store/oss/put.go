package oss

import (
	"bytes"
	"context"
	"crypto/md5"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"hash/crc64"
	"io"
	"net/url"
	"strconv"
	"strings"

	osssdk "github.com/aliyun/alibabacloud-oss-go-sdk-v2/oss"

	"druid.internal/druid/internal/backup/immutability"
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
	stream, err := parts.Begin(ctx, body, s.opts.PartSize)
	if err != nil {
		return store.Object{}, err
	}
	if all, fits := stream.Whole(); fits {
		return w.small(ctx, all)
	}
	return w.large(ctx, stream)
}

// write is one new object on its way: what all requests that create it have in common.
type write struct {
	s    *Store
	key  string
	tags *string
	// nonce stands in the object's metadata. By it we recognise our own write when its
	// answer was lost, or when a repetition met what the first attempt wrote.
	nonce string
}

// nonceKey is the metadata field that holds the nonce.
const nonceKey = "druid-upload"

func (s *Store) newWrite(key string, opts store.PutOptions) (*write, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	if r := opts.Retention; r != nil && (r.Hold || r.Mode != "" && r.Mode != immutability.ModeNone) {
		return nil, fmt.Errorf("OSS locks by the bucket's retention policy only: %w", store.ErrUnsupported)
	}
	return &write{s: s, key: key, tags: tagHeader(opts.Tags), nonce: rand.Text()}, nil
}

// forbid asks the server to refuse an existing key.
func forbid() *string { return osssdk.Ptr("true") }

// small writes an object by one request.
func (w *write) small(ctx context.Context, body []byte) (store.Object, error) {
	sum := contentMD5(body)
	crc := crc64.Checksum(body, ecma)
	return w.visible(ctx, int64(len(body)), crc, func() (id, stored *string, err error) {
		out, err := w.s.client.PutObject(ctx, &osssdk.PutObjectRequest{
			Bucket: &w.s.opts.Bucket, Key: &w.key, Body: bytes.NewReader(body), ContentMD5: &sum,
			ContentType: osssdk.Ptr("application/octet-stream"), ForbidOverwrite: forbid(),
			Tagging: w.tags, Metadata: map[string]string{nonceKey: w.nonce},
		}, once)
		if err != nil {
			return nil, nil, err
		}
		return out.VersionId, out.HashCRC64, nil
	})
}

// object describes what was written.
func (w *write) object(id *string, size int64) store.Object {
	return store.Object{Version: store.Version{Key: w.key, ID: w.s.idOf(id)}, Size: size, Latest: true}
}

// contentMD5 is what the server compares with what arrives.
func contentMD5(b []byte) string {
	sum := md5.Sum(b)
	return base64.StdEncoding.EncodeToString(sum[:])
}

// sameCRC compares the checksum of what is stored with ours, if the server tells it.
func sameCRC(stored *string, want uint64) error {
	if got := osssdk.ToString(stored); got != "" && got != strconv.FormatUint(want, 10) {
		return fmt.Errorf("the server stored something else: its CRC-64 is %s, sent was %d", got, want)
	}
	return nil
}

// tagHeader is the tags of a new object as the header wants them.
func tagHeader(tags map[string]string) *string {
	if len(tags) == 0 {
		return nil
	}
	q := url.Values{}
	for k, v := range tags {
		q.Set(k, v)
	}
	return osssdk.Ptr(strings.ReplaceAll(q.Encode(), "+", "%20"))
}
