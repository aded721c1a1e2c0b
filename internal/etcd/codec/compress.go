package codec

import (
	"errors"
	"io"

	"druid.internal/druid/internal/backup/snapshot"
)

// Compress returns a reader of src packed with c. Work happens ahead of the reader, on up to two
// cores for zstd; memory stays below 60 MB. An error of src comes out of Read, never a clean io.EOF over a
// truncated stream. Close stops the work and waits for a Read of src that is under way; it does
// not close src.
func Compress(src io.Reader, c snapshot.Compression) (io.ReadCloser, error) {
	return nil, errors.ErrUnsupported
}

// Decompress returns a reader of what src contains, packed with c. It reports io.EOF only at the
// proper end of the packed stream; a stream that ends early gives ErrTruncated, one that breaks the
// rules or has anything behind its end ErrMalformed, and an error of src comes out as it is.
// Close gives memory back and does not close src.
func Decompress(src io.Reader, c snapshot.Compression) (io.ReadCloser, error) {
	return nil, errors.ErrUnsupported
}
