package azure

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"

	"druid.internal/druid/internal/store/parts"
)

// blockID names a block of this write. All IDs of a blob must be of one length, and those of
// writers that do not know of each other must differ.
func (w *write) blockID(number int) string {
	return base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%s%05d", w.nonce, number))
}

// send stages the stream block by block, and returns their IDs. If it fails, what was staged
// stays invisible.
func (w *write) send(ctx context.Context, stream *parts.Stream) (ids []string, size int64, err error) {
	type block struct {
		id   string
		size int
	}
	limits := parts.Limits{Parallel: w.s.opts.ParallelBlocks, Count: maxBlocks, What: "block"}
	blocks, err := parts.Send(ctx, stream, limits, func(ctx context.Context, number int, buf []byte) (block, error) {
		b := block{w.blockID(number - 1), len(buf)}
		return b, w.stage(ctx, b.id, buf)
	})
	for _, b := range blocks {
		ids, size = append(ids, b.id), size+int64(b.size)
	}
	return ids, size, err
}

// stage uploads one block.
func (w *write) stage(ctx context.Context, id string, buf []byte) error {
	_, err := w.s.block(w.key).StageBlock(ctx, id, streaming.NopCloser(bytes.NewReader(buf)), &blockblob.StageBlockOptions{
		TransactionalValidation: checksum(buf),
	})
	return w.s.classify(ctx, err)
}
