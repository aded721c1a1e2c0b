package codec

import (
	"encoding/binary"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// Sizes of the parallel zstd stream. Each frame stands alone, so a reader may unpack several at
// once. At most two frames are unfinished or unread, so the memory of Compress is bounded by the
// pieces (16 MB), two windows (8 MB each) and two packed frames (at worst 8 MB each).
const (
	frameBytes  = 8 << 20
	pieceBytes  = 256 << 10
	framePieces = frameBytes / pieceBytes
	piecesAhead = 2 * framePieces
	frameCores  = 2
	blockBytes  = 128<<10 + 64 // the encoder writes a block of at most 128 KB and its header at once
	// frameBlocks lets the encoder finish a frame while the one before is still being read.
	frameBlocks = frameBytes/(128<<10) + 4
)

// frames is a zstd stream whose frames are made side by side and read in order.
//
//	split ── pieces ──> worker ── blocks ──┐
//	      └─ pieces ──> worker ── blocks ──┴─> Read: frame by frame, then the seek table
type frames struct {
	src     *source
	queue   chan *frame   // in order; its capacity bounds the frames in flight
	work    chan *frame   // the same frames, to whichever worker is free
	spare   chan []byte   // pieces not in use, nil before their first use
	used    chan []byte   // blocks already read, for reuse
	stop    chan struct{} // closed by Close
	once    sync.Once
	running sync.WaitGroup

	current *frame
	packed  int64  // bytes of it read so far
	block   []byte // being read
	unread  []byte // of block
	table   seekTable
	err     error // what Read returns once nothing is unread
}

type frame struct {
	pieces  chan []byte // of content
	content int64       // bytes, known when pieces is closed
	cut     error       // why the source ended early, known when pieces is closed
	blocks  chan []byte // packed
	err     error       // known when blocks is closed
}

func compressFrames(src io.Reader) (*frames, error) {
	f := &frames{
		src:   &source{r: src},
		queue: make(chan *frame, frameCores-1),
		work:  make(chan *frame),
		spare: make(chan []byte, piecesAhead),
		used:  make(chan []byte, 2*frameBlocks),
		stop:  make(chan struct{}),
	}
	for range piecesAhead {
		f.spare <- nil
	}
	var encoders [frameCores]*zstd.Encoder
	for i := range encoders {
		e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(frameBytes), zstd.WithLowerEncoderMem(true))
		if err != nil {
			return nil, err
		}
		encoders[i] = e
	}
	for _, e := range encoders {
		f.running.Go(func() {
			for fr := range f.work {
				f.pack(e, fr)
			}
		})
	}
	f.running.Go(f.split)
	return f, nil
}

// split cuts the source into frames, the last of which may be empty.
func (f *frames) split() {
	defer close(f.queue)
	defer close(f.work)
	for more := true; more; {
		fr := &frame{pieces: make(chan []byte, framePieces), blocks: make(chan []byte, frameBlocks)}
		select {
		case f.queue <- fr:
		case <-f.stop:
			return
		}
		select {
		case f.work <- fr:
		case <-f.stop:
			return
		}
		for n := 0; n < framePieces && more; n++ {
			more = f.piece(fr)
		}
		close(fr.pieces)
	}
}

// piece reads one piece of the frame and reports whether the source goes on.
func (f *frames) piece(fr *frame) bool {
	var piece []byte
	select {
	case piece = <-f.spare:
	case <-f.stop:
		fr.cut = io.ErrClosedPipe
		return false
	}
	if piece == nil {
		piece = make([]byte, pieceBytes)
	}
	n, err := io.ReadFull(f.src, piece)
	fr.content += int64(n)
	fr.pieces <- piece[:n]
	// io.ReadFull says io.ErrUnexpectedEOF for a source that ends in the middle of a piece, but
	// a source that says so itself was cut: only the source's own word counts.
	fr.cut = f.src.err
	return err == nil
}

// pack compresses one frame.
func (f *frames) pack(e *zstd.Encoder, fr *frame) {
	defer close(fr.blocks)
	e.Reset(blockWriter{f, fr})
	for piece := range fr.pieces {
		if fr.err == nil {
			_, fr.err = e.Write(piece)
		}
		f.spare <- piece[:pieceBytes]
	}
	if fr.cut != nil {
		fr.err = fr.cut
	}
	if fr.err == nil && fr.content > 0 {
		fr.err = e.Close()
	}
}

// blockWriter copies what an encoder writes.
type blockWriter struct {
	f  *frames
	fr *frame
}

func (w blockWriter) Write(p []byte) (int, error) {
	var block []byte
	select {
	case block = <-w.f.used:
	default:
		block = make([]byte, 0, max(blockBytes, len(p)))
	}
	select {
	case w.fr.blocks <- append(block[:0], p...):
		return len(p), nil
	case <-w.f.stop:
		return 0, io.ErrClosedPipe
	}
}

// Read returns the packed bytes.
func (f *frames) Read(p []byte) (int, error) {
	for len(f.unread) == 0 {
		if f.err != nil {
			return 0, f.err
		}
		f.advance()
	}
	n := copy(p, f.unread)
	f.unread = f.unread[n:]
	return n, nil
}

// advance waits for the next block, the next frame or the end.
func (f *frames) advance() {
	if f.current == nil {
		select {
		case fr, ok := <-f.queue:
			if f.current = fr; !ok {
				f.unread, f.err = f.table.frame(), io.EOF
			}
		case <-f.stop:
			f.err = io.ErrClosedPipe
		}
		return
	}
	if f.block != nil {
		select {
		case f.used <- f.block:
		default:
		}
		f.block = nil
	}
	select {
	case block, ok := <-f.current.blocks:
		f.block, f.unread = block, block
		f.packed += int64(len(block))
		if ok {
			return
		}
		if err := f.current.err; err != nil {
			f.err = fmt.Errorf("compress: %w", err)
			return
		}
		f.table.add(f.packed, f.current.content)
		f.current, f.packed = nil, 0
	case <-f.stop:
		f.err = io.ErrClosedPipe
	}
}

// Close stops the work and waits for it.
func (f *frames) Close() error {
	f.once.Do(func() { close(f.stop) })
	f.running.Wait()
	return nil
}

// seekTable is the last frame of a stream with several: a skippable one that says where each
// frame begins, in the seekable format of the zstd project. Readers need not know it.
type seekTable struct{ entries []byte }

func (t *seekTable) add(packed, content int64) {
	if content == 0 {
		return
	}
	t.entries = binary.LittleEndian.AppendUint32(t.entries, uint32(packed))
	t.entries = binary.LittleEndian.AppendUint32(t.entries, uint32(content))
}

func (t *seekTable) frame() []byte {
	const footer = 9
	b := binary.LittleEndian.AppendUint32(nil, 0x184D2A5E)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(t.entries)+footer))
	b = append(b, t.entries...)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(t.entries)/8))
	b = append(b, 0) // no checksums: each frame has its own
	return binary.LittleEndian.AppendUint32(b, 0x8F92EAB1)
}
