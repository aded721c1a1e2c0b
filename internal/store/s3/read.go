package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/store"
)

// Open implements store.Reader.
func (s *Store) Open(ctx context.Context, v store.Version, off, n int64) (io.ReadCloser, error) {
	r, err := s.open(ctx, v, off, n)
	if err != nil {
		return nil, fmt.Errorf("open %s in %s: %w", v, s.caps.Location, err)
	}
	return r, nil
}

func (s *Store) open(ctx context.Context, v store.Version, off, n int64) (io.ReadCloser, error) {
	if off < 0 {
		return nil, fmt.Errorf("the offset %d is negative", off)
	}
	if n == 0 {
		return s.nothing(ctx, v, off)
	}
	in := &awss3.GetObjectInput{
		Bucket: &s.opts.Bucket, Key: &v.Key, VersionId: versionID(v),
		SSECustomerAlgorithm: s.sse.algorithm, SSECustomerKey: s.sse.key, SSECustomerKeyMD5: s.sse.digest,
	}
	switch {
	case n > 0:
		in.Range = aws.String(fmt.Sprintf("bytes=%d-%d", off, off+n-1))
	case off > 0:
		in.Range = aws.String(fmt.Sprintf("bytes=%d-", off))
	case !s.opts.SkipResponseChecksums:
		in.ChecksumMode = types.ChecksumModeEnabled
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
	if in.Range != nil && out.ContentRange == nil && off > 0 {
		out.Body.Close()
		return nil, errors.New("the server ignores ranges, a restore in parallel is not possible with it")
	}
	want := n
	if n < 0 {
		if out.ContentLength == nil {
			out.Body.Close()
			return nil, errors.New("the server does not tell the length, so that a broken download could not be noticed")
		}
		want = *out.ContentLength
	}
	return &body{ctx: ctx, s: s, what: v, rc: out.Body, left: want}, nil
}

// nothing is the empty stream at off of an object that exists and reaches that far.
func (s *Store) nothing(ctx context.Context, v store.Version, off int64) (io.ReadCloser, error) {
	head, err := s.head(ctx, v)
	if err != nil {
		return nil, s.whyMissing(ctx, err)
	}
	if size := aws.ToInt64(head.ContentLength); off > size {
		return nil, fmt.Errorf("offset %d of %d bytes: %w", off, size, io.ErrUnexpectedEOF)
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
		return 0, b.end(p)
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

// end reads the server's own end of stream, where the SDK compares checksums.
func (b *body) end(p []byte) error {
	if len(p) == 0 {
		return nil
	}
	var probe [1]byte
	n, err := b.rc.Read(probe[:])
	switch {
	case n > 0:
		return fmt.Errorf("read %s: the server sends more than it announced", b.what)
	case err == nil, errors.Is(err, io.EOF):
		return io.EOF
	case b.ctx.Err() != nil:
		return fmt.Errorf("read %s: %w", b.what, b.ctx.Err())
	}
	return fmt.Errorf("read %s: %w", b.what, err)
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
	head, latest, err := s.headOf(ctx, v)
	if err != nil {
		return store.Object{}, s.whyMissing(ctx, err)
	}
	o := store.Object{
		Version:  store.Version{Key: v.Key, ID: s.idOf(head.VersionId)},
		Latest:   latest,
		Size:     aws.ToInt64(head.ContentLength),
		Modified: aws.ToTime(head.LastModified),
	}
	if v.ID != "" {
		o.ID = v.ID
	}
	o.ServerTime = serverTime(head.ResultMetadata)
	if o.Retention, err = s.retention(ctx, o.Version, head); err != nil {
		return store.Object{}, err
	}
	if o.Tags, err = s.tagsOf(ctx, o.Version, head, v.ID != "" && !latest); err != nil {
		return store.Object{}, err
	}
	return o, nil
}

// head asks for everything about one version.
func (s *Store) head(ctx context.Context, v store.Version) (*awss3.HeadObjectOutput, error) {
	out, err := s.client.HeadObject(ctx, &awss3.HeadObjectInput{
		Bucket: &s.opts.Bucket, Key: &v.Key, VersionId: versionID(v),
		SSECustomerAlgorithm: s.sse.algorithm, SSECustomerKey: s.sse.key, SSECustomerKeyMD5: s.sse.digest,
	})
	if err != nil {
		return nil, s.classifyRead(ctx, err)
	}
	return out, nil
}

// headOf is head, with whether the version is the latest. Only an answer that names no version tells that, and mostly it
// is the same answer: then one request is enough.
func (s *Store) headOf(ctx context.Context, v store.Version) (head *awss3.HeadObjectOutput, latest bool, err error) {
	if v.ID == "" || !s.caps.Versions {
		head, err = s.head(ctx, v)
		return head, true, err
	}
	head, err = s.head(ctx, store.Version{Key: v.Key})
	switch {
	case err == nil && s.idOf(head.VersionId) == v.ID:
		return head, true, nil
	case err != nil && !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrForbidden):
		return nil, false, err
	}
	// Another one is the latest, or a marker; who may not list is told "forbidden" in place of "missing".
	head, err = s.head(ctx, v)
	return head, false, err
}

// classifyRead is classify for GET and HEAD of an object, where a marker is not found: S3
// says 405 about one that is named by its ID.
func (s *Store) classifyRead(ctx context.Context, err error) error {
	if statusOf(err) == http.StatusMethodNotAllowed {
		return &store.Failure{Kind: store.ErrNotFound, Said: "it is a delete marker", Cause: err}
	}
	if statusOf(err) == http.StatusBadRequest && (codeOf(err) == "InvalidArgument" || codeOf(err) == "NoSuchVersion") && !aboutChecksums(serverSaid(err)) {
		return &store.Failure{Kind: store.ErrNotFound, Said: "the version ID is not one of this server's", Cause: err}
	}
	return s.classify(ctx, err)
}

// whyMissing tells a missing bucket from a missing object: the answer to a HEAD has no body
// that would say it.
func (s *Store) whyMissing(ctx context.Context, err error) error {
	if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	_, bucketErr := s.client.HeadBucket(ctx, &awss3.HeadBucketInput{Bucket: &s.opts.Bucket})
	if statusOf(bucketErr) == http.StatusNotFound {
		return &store.Failure{Kind: store.ErrNoBucket, Said: s.caps.Location, Remedy: "check the container's name and the endpoint, or create it", Cause: bucketErr}
	}
	return err
}

// retention reads the lock from a HEAD. The headers are missing both where there is no lock
// and where we may not see it, so then it is asked for explicitly.
func (s *Store) retention(ctx context.Context, v store.Version, head *awss3.HeadObjectOutput) (*immutability.Retention, error) {
	r := immutability.Retention{
		Hold: head.ObjectLockLegalHoldStatus == types.ObjectLockLegalHoldStatusOn || head.ObjectLockEventHold == types.ObjectLockEventHoldOn,
	}
	switch {
	case head.ObjectLockMode != "":
		r.Mode, r.Until = modeOf(string(head.ObjectLockMode)), aws.ToTime(head.ObjectLockRetainUntilDate)
		return &r, nil
	case !s.caps.ObjectLock && !s.lockUnknown:
		r.Mode = immutability.ModeNone
		return &r, nil
	}
	asked, err := s.askRetention(ctx, v)
	switch {
	case errors.Is(err, store.ErrForbidden), errors.Is(err, store.ErrUnsupported):
		if r.Hold {
			return &immutability.Retention{Mode: immutability.ModeUnknown, Hold: true}, nil
		}
		return nil, nil
	case err != nil:
		return nil, err
	}
	asked.Hold = r.Hold
	return &asked, nil
}
