package gcs

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"sync/atomic"
	"time"

	"cloud.google.com/go/storage"

	"druid.internal/druid/internal/store"
)

// Put implements store.Store. What fits into one chunk goes in one request, the rest as one
// resumable upload that becomes visible as a whole or not at all. Memory is ChunkSize, or less
// for small objects.
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
	return w.send(ctx, body)
}

// write is one new object on its way.
type write struct {
	s        *Store
	key      string
	lock     lock
	metadata map[string]string
	// nonce stands in the object's metadata. By it we recognise our own write when its
	// answer was lost, or when a repetition by the SDK met what the first attempt wrote.
	nonce string
	seen  seen
	// failed counts the attempts of one request that failed.
	failed atomic.Int32
}

// nonceKey is the metadata field that holds the nonce.
const nonceKey = "druid-upload"

// smallObject is below which size, in bytes, an object takes no more memory than that: manifests
// and owner records. The SDK goes no lower.
const smallObject = 256 << 10

// contentType is that of every object: nothing may be guessed from the content.
const contentType = "application/octet-stream"

func (s *Store) newWrite(key string, opts store.PutOptions) (*write, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	w := &write{s: s, key: key, nonce: rand.Text()}
	var err error
	if w.lock, err = s.lockFor(opts.Retention); err != nil {
		return nil, err
	}
	if w.metadata, err = metadataFor(opts.Tags, w.nonce); err != nil {
		return nil, err
	}
	return w, nil
}

// handle addresses the object on the condition that there is none.
func (w *write) handle() *storage.ObjectHandle {
	return w.s.client.Bucket(w.s.opts.Bucket).Object(w.key).If(storage.Conditions{DoesNotExist: true}).
		Retryer(storage.WithMaxAttempts(w.s.opts.Attempts), storage.WithBackoff(backoff()), storage.WithErrorFunc(w.again))
}

// again bounds the attempts of one request; the SDK itself would go on for as long as it takes.
func (w *write) again(err error) bool {
	return passing(err) && int(w.failed.Add(1)) < w.s.opts.Attempts
}

// attrs are what the new object shall be.
func (w *write) attrs() storage.ObjectAttrs {
	return storage.ObjectAttrs{
		Name: w.key, ContentType: contentType, Metadata: w.metadata,
		Retention: w.lock.retention, EventBasedHold: w.lock.event, TemporaryHold: w.lock.interim,
	}
}

// send writes the body. Until its end has been seen nothing is sent that could make an object
// visible, so whatever goes wrong before leaves none.
func (w *write) send(ctx context.Context, body io.Reader) (store.Object, error) {
	if err := ctx.Err(); err != nil {
		return store.Object{}, err
	}
	src := &source{ctx: ctx, r: body, sum: crc32.New(castagnoli)}
	head, _ := io.ReadAll(io.LimitReader(src, smallObject))
	if src.err != nil {
		return store.Object{}, src.err
	}
	chunk, whole := w.s.opts.ChunkSize, io.MultiReader(bytes.NewReader(head), src)
	if len(head) < smallObject { // the body has ended, and is not to be read after its end
		chunk, whole = smallObject, bytes.NewReader(head) // the SDK reserves a whole chunk
	}
	sending, cancel := context.WithCancel(watch(ctx, &w.seen))
	defer cancel()
	sw := w.handle().NewWriter(sending)
	sw.ObjectAttrs = w.attrs()
	sw.ChunkSize = int(chunk)
	sw.ChunkRetryDeadline = time.Duration(w.s.opts.Attempts) * (w.s.opts.IdleTimeout + maxBackoff)
	sw.ProgressFunc = func(int64) { w.failed.Store(0) }

	size, err := io.Copy(onlyWriter{sw}, whole)
	switch {
	case src.err != nil:
		_ = sw.CloseWithError(src.err) //nolint:staticcheck // canceling alone would race with Close, which makes what was sent look complete
		cancel()
		_ = sw.Close() // waits until nothing is under way any more; src.err says why
		w.cancelUpload(ctx)
		return store.Object{}, src.err
	case err != nil:
		if sent := sw.Close(); sent != nil {
			err = sent
		}
		w.cancelUpload(ctx)
		return store.Object{}, w.s.classifyWrite(ctx, err)
	}
	if err := sw.Close(); err != nil {
		return w.settle(ctx, size, err)
	}
	return w.verified(sw.Attrs(), size, src.sum.Sum32())
}

// verified describes what was written, if the server has what was sent. It has compared the
// checksum itself before it made the object visible; this is for a server that does not.
func (w *write) verified(attrs *storage.ObjectAttrs, size int64, sum uint32) (store.Object, error) {
	if attrs.Size != size || attrs.CRC32C != sum {
		return store.Object{}, fmt.Errorf("%w: %d bytes with the checksum %08x were sent, %d bytes with %08x are there; what is there is damaged",
			store.ErrUnknownOutcome, size, sum, attrs.Size, attrs.CRC32C)
	}
	o := w.s.object(attrs)
	o.Latest = true
	return o, nil
}

// castagnoli is the polynomial of CRC32C.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// source is the body: it ends with its context, remembers its own error and sums up what is
// read of it.
type source struct {
	ctx context.Context
	r   io.Reader
	sum hash.Hash32
	err error
}

func (s *source) Read(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		s.err = err
		return 0, err
	}
	n, err := s.r.Read(p)
	_, _ = s.sum.Write(p[:n]) // never fails
	if err != nil && err != io.EOF {
		s.err = fmt.Errorf("read the body: %w", err)
		return n, s.err
	}
	return n, err
}

// onlyWriter hides everything of the SDK's writer but Write.
type onlyWriter struct{ io.Writer }
