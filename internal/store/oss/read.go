package oss

import (
	"context"
	"errors"
	"fmt"
	"hash/crc64"
	"io"
	"math"
	"net/http"
	"strconv"

	osssdk "github.com/aliyun/alibabacloud-oss-go-sdk-v2/oss"

	"druid.internal/druid/internal/store"
)

// ecma is the polynomial of the checksums that OSS computes.
var ecma = crc64.MakeTable(crc64.ECMA)

// Open implements store.Reader.
func (s *Store) Open(ctx context.Context, v store.Version, off, n int64) (io.ReadCloser, error) {
	r, err := s.open(ctx, v, off, n)
	if err != nil {
		return nil, fmt.Errorf("open %s in %s: %w", v, s.caps.Location, err)
	}
	return r, nil
}

func (s *Store) open(ctx context.Context, v store.Version, off, n int64) (io.ReadCloser, error) {
	switch {
	case off < 0:
		return nil, fmt.Errorf("the offset %d is negative", off)
	case v.Key == "":
		return nil, noKey()
	case n == 0:
		return s.nothing(ctx, v, off)
	case n > 0 && off > math.MaxInt64-n:
		return nil, fmt.Errorf("%d bytes from %d: %w", n, off, io.ErrUnexpectedEOF)
	}
	// Without the word "standard" OSS answers a range that does not exist by the whole object.
	in := &osssdk.GetObjectRequest{Bucket: &s.opts.Bucket, Key: &v.Key, VersionId: versionID(v), RangeBehavior: osssdk.Ptr("standard")}
	switch {
	case n > 0:
		in.Range = osssdk.Ptr(fmt.Sprintf("bytes=%d-%d", off, off+n-1))
	case off > 0:
		in.Range = osssdk.Ptr(fmt.Sprintf("bytes=%d-", off))
	}
	out, err := s.client.GetObject(ctx, in)
	if err != nil {
		if statusOf(err) == http.StatusRequestedRangeNotSatisfiable {
			if n < 0 { // to the end of which there is nothing left, unless it is beyond it
				return s.nothing(ctx, v, off)
			}
			return nil, fmt.Errorf("%d bytes from %d: %w", n, off, io.ErrUnexpectedEOF)
		}
		return nil, s.whyMissing(ctx, s.classifyRead(ctx, err))
	}
	if off > 0 && out.StatusCode != http.StatusPartialContent {
		out.Body.Close()
		return nil, errors.New("the server ignores ranges, a restore in parallel is not possible with it")
	}
	b := &body{ctx: ctx, s: s, what: v, rc: out.Body, left: n}
	if n < 0 {
		length, err := strconv.ParseInt(out.Headers.Get("Content-Length"), 10, 64)
		if err != nil {
			out.Body.Close()
			return nil, errors.New("the server does not tell the length, so that a broken download could not be noticed")
		}
		b.left = length
	}
	return b, nil
}

// noKey is the answer about an object without a name.
func noKey() error {
	return &store.Failure{Kind: store.ErrNotFound, Said: "the key is empty", Cause: errors.New("no key")}
}

// nothing is the empty stream at off of an object that exists and reaches that far.
func (s *Store) nothing(ctx context.Context, v store.Version, off int64) (io.ReadCloser, error) {
	head, err := s.head(ctx, v)
	if err != nil {
		return nil, s.whyMissing(ctx, err)
	}
	if off > head.ContentLength {
		return nil, fmt.Errorf("offset %d of %d bytes: %w", off, head.ContentLength, io.ErrUnexpectedEOF)
	}
	return http.NoBody, nil
}

// body is a download that knows how much must come.
type body struct {
	ctx  context.Context
	s    *Store
	what store.Version
	rc   io.ReadCloser
	left int64
}

func (b *body) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.EOF
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.rc.Read(p)
	b.left -= int64(n)
	switch {
	case err == nil:
		return n, nil
	case errors.Is(err, io.EOF) && b.left == 0:
		return n, io.EOF
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return n, fmt.Errorf("read %s: %d bytes are missing: %w", b.what, b.left, io.ErrUnexpectedEOF)
	case b.ctx.Err() != nil:
		return n, fmt.Errorf("read %s: %w", b.what, b.ctx.Err())
	}
	// A broken connection is an early end as well, whatever it is called on the way.
	return n, fmt.Errorf("read %s: %d bytes are missing: %w: %w", b.what, b.left, io.ErrUnexpectedEOF, b.s.classify(b.ctx, err))
}

func (b *body) Close() error { return b.rc.Close() }

// Stat implements store.Reader.
func (s *Store) Stat(ctx context.Context, v store.Version) (store.Object, error) {
	o, err := s.stat(ctx, v)
	if err != nil {
		return store.Object{}, fmt.Errorf("stat %s in %s: %w", v, s.caps.Location, err)
	}
	return o, nil
}

func (s *Store) stat(ctx context.Context, v store.Version) (store.Object, error) {
	head, err := s.head(ctx, v)
	if err != nil {
		return store.Object{}, s.whyMissing(ctx, err)
	}
	o := store.Object{Version: store.Version{Key: v.Key, ID: s.idOf(head.VersionId)}, Size: head.ContentLength, ServerTime: serverTime(head.Headers)}
	if v.ID != "" {
		o.ID = v.ID
	}
	if head.LastModified != nil {
		o.Modified = *head.LastModified
	}
	if o.Latest, err = s.isLatest(ctx, v); err != nil {
		return store.Object{}, err
	}
	p, err := s.policy(ctx)
	if err != nil {
		return store.Object{}, err
	}
	o.Retention = p.of(o.Modified)
	if o.Tags, err = s.tagsOf(ctx, o.Version); err != nil {
		return store.Object{}, err
	}
	return o, nil
}

// head asks for everything about one version.
func (s *Store) head(ctx context.Context, v store.Version) (*osssdk.HeadObjectResult, error) {
	if v.Key == "" {
		return nil, noKey()
	}
	out, err := s.client.HeadObject(ctx, &osssdk.HeadObjectRequest{Bucket: &s.opts.Bucket, Key: &v.Key, VersionId: versionID(v)})
	if err != nil {
		return nil, s.classifyRead(ctx, err)
	}
	return out, nil
}

// isLatest asks which version is the latest, because the answer about a version does not say it.
func (s *Store) isLatest(ctx context.Context, v store.Version) (bool, error) {
	if v.ID == "" || !s.caps.Versions {
		return true, nil
	}
	latest, err := s.head(ctx, store.Version{Key: v.Key})
	switch {
	case errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrForbidden):
		return false, nil // a marker is the latest, or it cannot be told
	case err != nil:
		return false, err
	}
	return s.idOf(latest.VersionId) == v.ID, nil
}

// classifyRead is classify for GET and HEAD of an object, where a marker is not found: OSS
// says 405 about one that is named by its ID.
func (s *Store) classifyRead(ctx context.Context, err error) error {
	switch {
	case statusOf(err) == http.StatusMethodNotAllowed:
		return &store.Failure{Kind: store.ErrNotFound, Said: "it is a delete marker", Cause: err}
	case statusOf(err) == http.StatusBadRequest && (codeOf(err) == "InvalidArgument" || codeOf(err) == "InvalidVersionId"):
		return &store.Failure{Kind: store.ErrNotFound, Said: "the version ID is not one of this server's", Cause: err}
	}
	return s.classify(ctx, err)
}
