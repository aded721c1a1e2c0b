package azure

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
)

// blockID names a block of this write. All IDs of a blob must be of one length, and those of
// writers that do not know of each other must differ.
func (w *write) blockID(number int) string {
	return base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%s%05d", w.nonce, number))
}

// send stages the stream block by block, several at once; one more buffer than requests lets it
// be read while all of them are under way. head are the pieces read so far. It returns when no
// request is under way any more. If it fails, what was staged stays invisible.
func (w *write) send(ctx context.Context, body *pieces, head ...[]byte) (ids []string, size int64, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	parallel := w.s.opts.ParallelBlocks
	buffers := make(chan []byte, max(parallel+1, len(head)))
	for range parallel + 1 - len(head) {
		buffers <- nil // made when needed
	}
	requests := make(chan struct{}, parallel)
	var wg sync.WaitGroup
	stage := func(buf []byte) {
		number := len(ids)
		id := w.blockID(number)
		ids, size = append(ids, id), size+int64(len(buf))
		wg.Go(func() {
			requests <- struct{}{}
			defer func() { <-requests }()
			if err := w.stage(ctx, id, buf); err != nil {
				cancel(fmt.Errorf("block %d: %w", number+1, err))
				return
			}
			buffers <- buf
		})
	}
	for _, buf := range head {
		stage(buf)
	}
	if err := readOn(ctx, body, buffers, func(buf []byte) error {
		if len(ids) == maxBlocks {
			return fmt.Errorf("the blob is larger than %d blocks of %d bytes, raise --min-chunk-size", maxBlocks, body.size)
		}
		stage(buf)
		return nil
	}); err != nil {
		cancel(err)
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, 0, err
	}
	return ids, size, nil
}

// readOn hands the rest of the stream piece by piece to stage, each in a buffer that is free.
func readOn(ctx context.Context, body *pieces, buffers <-chan []byte, stage func([]byte) error) error {
	for {
		var buf []byte
		select {
		case buf = <-buffers:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		buf, err := body.next(buf)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err := stage(buf); err != nil {
			return err
		}
	}
}

// stage uploads one block.
func (w *write) stage(ctx context.Context, id string, buf []byte) error {
	_, err := w.s.block(w.key).StageBlock(ctx, id, streaming.NopCloser(bytes.NewReader(buf)), &blockblob.StageBlockOptions{
		TransactionalValidation: checksum(buf),
	})
	return w.s.classify(ctx, err)
}

// pieces cuts a stream into pieces of equal size.
type pieces struct {
	r    io.Reader
	size int
	done bool // the stream has ended and must not be read again
}

// next reads one piece into buf, or into a new one that grows as needed: most blobs are much
// smaller than a block. A piece that is not full is the last one; io.EOF means there is none.
// Errors of the stream come wrapped, and never together with data.
func (p *pieces) next(buf []byte) ([]byte, error) {
	if buf == nil {
		buf = make([]byte, 0, min(p.size, 64<<10))
	}
	buf = buf[:0]
	for len(buf) < p.size && !p.done {
		if len(buf) == cap(buf) {
			larger := make([]byte, len(buf), min(p.size, 4*cap(buf)))
			copy(larger, buf)
			buf = larger
		}
		n, err := p.r.Read(buf[len(buf):min(cap(buf), p.size)])
		buf = buf[:len(buf)+n]
		switch {
		case err == io.EOF:
			p.done = true
		case err != nil:
			return nil, fmt.Errorf("read the body: %w", err)
		}
	}
	if len(buf) == 0 {
		return nil, io.EOF
	}
	return buf, nil
}
