package codec

import (
	"compress/lzw"
	"fmt"
	"io"

	"druid.internal/druid/internal/backup/snapshot"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
)

// newPacker packs what is written into w with c, which is not zstd. Its Close ends the packed stream
// and does not close w.
func newPacker(w io.Writer, c snapshot.Compression) (io.WriteCloser, error) {
	switch c {
	case snapshot.None:
		return unpacked{w}, nil
	case snapshot.Gzip:
		return gzip.NewWriter(w), nil
	case snapshot.Zlib:
		return zlib.NewWriter(w), nil
	case snapshot.LZW:
		return lzw.NewWriter(w, lzw.LSB, 8), nil
	}
	return nil, fmt.Errorf("%w: suffix %q", ErrCompression, c)
}

type unpacked struct{ io.Writer }

func (unpacked) Close() error { return nil }
