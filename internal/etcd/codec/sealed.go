package codec

import (
	"io"

	"druid.internal/druid/internal/backup/snapshot"
)

// Sealed is a finished delta, ready to be uploaded, repeatedly if need be.
type Sealed struct {
	Name snapshot.Name
	// Manifest describes the object. A native delta carries it in its header, where Digest covers
	// everything behind the header (see ParseHeader); of the JSON form Digest covers all bytes.
	Manifest snapshot.Manifest

	header  []byte
	content *spool
}

// Size is the number of bytes of the object, as in the manifest.
func (s *Sealed) Size() int64 { return s.Manifest.Size }

// Reader reads the object from its beginning. Any number of readers may be used at once, until
// Close.
func (s *Sealed) Reader() *io.SectionReader { return io.NewSectionReader(s, 0, s.Size()) }

// ReadAt reads the object from byte off on.
func (s *Sealed) ReadAt(p []byte, off int64) (n int, err error) {
	if off < int64(len(s.header)) {
		n = copy(p, s.header[off:])
		if n == len(p) {
			return n, nil
		}
	}
	k, err := s.content.ReadAt(p[n:], off+int64(n)-int64(len(s.header)))
	return n + k, err
}

// Close frees memory and the temporary file.
func (s *Sealed) Close() error { return s.content.Close() }
