package codec

import (
	"compress/lzw"
	"fmt"
	"io"
	"sync"

	"druid.internal/druid/internal/backup/snapshot"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

// packWindow is how far back zstd finds repetitions: several versions of the objects of a
// cluster. With 8 MiB Kubernetes deltas are 2 % larger; more than 16 MiB gains next to nothing and
// costs memory.
const packWindow = 16 << 20

// newPacker packs what is written into w with c. Its Close ends the packed stream and does
// not close w. free gives memory back, at any time, once.
func newPacker(w io.Writer, c snapshot.Compression) (z io.WriteCloser, free func(), err error) {
	free = func() {}
	switch c {
	case snapshot.None:
		return unpacked{w}, free, nil
	case snapshot.Gzip:
		return gzip.NewWriter(w), free, nil
	case snapshot.Zlib:
		return zlib.NewWriter(w), free, nil
	case snapshot.LZW:
		return lzw.NewWriter(w, lzw.LSB, 8), free, nil
	case snapshot.Zstd:
		e, pooled := zstdEncoders.Get().(*zstd.Encoder)
		if !pooled {
			// One core: Write does the work itself, and there is no goroutine to leave behind.
			e, err = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(packWindow), zstd.WithEncoderCRC(true), zstd.WithEncoderLevel(zstd.SpeedDefault))
			if err != nil {
				return nil, free, err
			}
		}
		e.Reset(w)
		return e, func() { e.Reset(nil); zstdEncoders.Put(e) }, nil
	}
	return nil, free, fmt.Errorf("%w: suffix %q", ErrCompression, c)
}

// zstdEncoders keeps the encoders of finished deltas, about 35 MB each, for the next ones. It is
// a cache without meaning: the collector may empty it at any time.
var zstdEncoders sync.Pool

type unpacked struct{ io.Writer }

func (unpacked) Close() error { return nil }
