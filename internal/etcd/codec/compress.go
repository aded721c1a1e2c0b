package codec

import (
	"io"

	"druid.internal/druid/internal/backup/snapshot"
)

// Compress returns a reader of src packed with c. Work happens ahead of the reader, for zstd on
// two cores and in independent frames of 8 MiB of content; memory stays below 60 MB. An error of
// src comes out of Read, never a clean io.EOF over a truncated stream. Close stops the work and
// waits for a Read of src that is under way; it does not close src.
func Compress(src io.Reader, c snapshot.Compression) (io.ReadCloser, error) {
	switch c {
	case snapshot.None:
		return io.NopCloser(src), nil
	case snapshot.Zstd:
		return compressFrames(src)
	}
	pr, pw := io.Pipe()
	z, err := newPacker(pw, c)
	if err != nil {
		return nil, err
	}
	s := &packedPipe{PipeReader: pr, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		_, err := io.CopyBuffer(onlyWriter{z}, onlyReader{src}, make([]byte, pieceBytes))
		if err == nil {
			err = z.Close()
		}
		pw.CloseWithError(err) // of nil: io.EOF
	}()
	return s, nil
}

// onlyWriter and onlyReader keep io.CopyBuffer from shortcuts around its buffer.
type onlyWriter struct{ io.Writer }
type onlyReader struct{ io.Reader }

type packedPipe struct {
	*io.PipeReader
	done chan struct{}
}

func (p *packedPipe) Close() error {
	err := p.PipeReader.Close()
	<-p.done
	return err
}
