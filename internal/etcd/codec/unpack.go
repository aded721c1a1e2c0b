package codec

import (
	"bufio"
	"compress/lzw"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"sync"

	"druid.internal/druid/internal/backup/snapshot"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

// maxUnpackWindow is the largest zstd window that is read: what `zstd --long` makes. Ours have
// 16 MiB; a decoder takes the memory of the window that a frame really asks for.
const maxUnpackWindow = 128 << 20

// maxDeltaWindow is the same for deltas, of which several are unpacked at a time. The libraries that
// write them take no larger one of themselves.
const maxDeltaWindow = 32 << 20

// Decompress returns a reader of what src contains, packed with c. It reports io.EOF only at the
// proper end of the packed stream; a stream that ends early gives ErrTruncated, one that breaks
// the rules or has anything behind its end ErrMalformed, and an error of src comes out as it is.
// What zstd cannot tell is that whole frames are missing at the end: the trailer of a full
// and the digest of a delta do. Close gives memory back and does not close src.
func Decompress(src io.Reader, c snapshot.Compression) (io.ReadCloser, error) {
	return newUnpacker(src, c, 2)
}

// unpacker reads a packed stream, and tells the errors of the stream from those of its source.
type unpacker struct {
	src   *source
	in    *bufio.Reader // in front of src
	c     snapshot.Compression
	out   io.Reader // opened by the first Read
	cores int
	sum   hash.Hash // of the packed bytes behind the header, if there is a header
	close func()
	err   error
}

// source remembers what its reader said.
type source struct {
	r   io.Reader
	n   int64
	err error // other than io.EOF
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	s.n += int64(n)
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}

func newUnpacker(r io.Reader, c snapshot.Compression, cores int) (*unpacker, error) {
	if !c.Known() {
		return nil, fmt.Errorf("%w: suffix %q", ErrCompression, c)
	}
	src := &source{r: r}
	return &unpacker{src: src, in: bufio.NewReaderSize(src, 64<<10), c: c, cores: cores, close: func() {}}, nil
}

// header consumes the header of a native delta, and is nil if there is none.
func (u *unpacker) header() (*snapshot.Manifest, error) {
	first, _ := u.in.Peek(headerFixed)
	_, _, need, err := ParseHeader(first)
	if errors.Is(err, ErrNoHeader) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	whole := make([]byte, need)
	if _, err := io.ReadFull(u.in, whole); err != nil {
		return nil, u.judge(err)
	}
	m, _, _, err := ParseHeader(whole)
	if err != nil {
		return nil, err
	}
	if m == nil {
		return nil, fmt.Errorf("%w within the header", ErrTruncated)
	}
	u.sum = sha256.New()
	return m, nil
}

// digest is the SHA-256 of the packed bytes read behind the header.
func (u *unpacker) digest() (d snapshot.Digest) {
	u.sum.Sum(d[:0])
	return d
}

// size is the number of packed bytes read, with the header.
func (u *unpacker) size() int64 { return u.src.n - int64(u.in.Buffered()) }

func (u *unpacker) Read(p []byte) (int, error) {
	if u.err != nil {
		return 0, u.err
	}
	if u.out == nil {
		if err := u.open(); err != nil {
			u.err = u.judge(err)
			return 0, u.err
		}
	}
	n, err := u.out.Read(p)
	if err != nil {
		u.err = u.judge(err)
	}
	if n > 0 && u.err == io.EOF {
		return n, nil
	}
	return n, u.err
}

// judge turns an error of the decoder into one of this package's.
func (u *unpacker) judge(err error) error {
	switch {
	case u.src.err != nil:
		return u.src.err
	case err == io.EOF && u.c != snapshot.None && u.src.n == 0, errors.Is(err, io.ErrUnexpectedEOF), err == io.EOF && u.out == nil:
		return fmt.Errorf("%w %s stream of %d bytes", ErrTruncated, u.c, u.src.n)
	case err == io.EOF:
		if _, err := u.in.Peek(1); err == nil {
			return fmt.Errorf("%w: bytes behind the end of the %s stream", ErrMalformed, u.c)
		}
		if u.src.err != nil {
			return u.src.err
		}
		return io.EOF
	}
	if errors.Is(err, zstd.ErrCRCMismatch) {
		return ErrDigest
	}
	return fmt.Errorf("%w: %w", &MalformedError{Offset: u.size(), Reason: "packed with " + string(u.c)}, err)
}

func (u *unpacker) open() error {
	switch u.c {
	case snapshot.None:
		u.out = u.in
	case snapshot.Gzip:
		z, err := gzip.NewReader(u.in)
		if err != nil {
			return err
		}
		u.out = z
	case snapshot.Zlib:
		z, err := zlib.NewReader(u.in)
		if err != nil {
			return err
		}
		u.out = z
	case snapshot.LZW:
		z := lzw.NewReader(u.in, lzw.LSB, 8)
		u.out, u.close = z, func() { z.Close() }
	case snapshot.Zstd:
		return u.openZstd()
	}
	return nil
}

func (u *unpacker) openZstd() error {
	in := io.Reader(u.in)
	if u.sum != nil {
		in = io.TeeReader(u.in, u.sum)
	}
	if u.cores > 1 {
		z, err := newZstdDecoder(in, u.cores, maxUnpackWindow)
		if err != nil {
			return err
		}
		u.out, u.close = z, z.Close
		return nil
	}
	z, pooled := zstdDecoders.Get().(*zstd.Decoder)
	var err error
	if pooled {
		err = z.Reset(in)
	} else {
		z, err = newZstdDecoder(in, 1, maxDeltaWindow)
	}
	if err != nil {
		return err
	}
	u.out, u.close = z, func() {
		if z.Reset(nil) == nil {
			zstdDecoders.Put(z)
		}
	}
	return nil
}

// zstdWindow is the size of the window of the first frame that follows; 0: not known.
func (u *unpacker) zstdWindow() uint64 {
	var h zstd.Header
	first, _ := u.in.Peek(zstd.HeaderMaxSize)
	if err := h.Decode(first); err != nil || h.Skippable {
		return 0
	}
	return h.WindowSize
}

// zstdDecoders keeps decoders of one core, which own no goroutine, for the next delta. It is a
// cache without meaning: the collector may empty it at any time.
var zstdDecoders sync.Pool

func newZstdDecoder(in io.Reader, cores int, window uint64) (*zstd.Decoder, error) {
	return zstd.NewReader(in, zstd.WithDecoderConcurrency(cores), zstd.WithDecoderLowmem(true), zstd.WithDecodeAllCapLimit(true),
		zstd.WithDecoderMaxWindow(window), zstd.WithDecoderMaxMemory(1<<62))
}

// Close gives memory back and stops what works ahead.
func (u *unpacker) Close() error {
	u.close()
	u.close = func() {}
	u.err = os.ErrClosed
	return nil
}
