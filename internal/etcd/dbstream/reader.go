package dbstream

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"

	"druid.internal/druid/internal/backup/snapshot"
)

// The ways a stream can be unusable.
var (
	// ErrTrailer: the file does not end with its own SHA-256, so it is cut short or damaged.
	ErrTrailer = errors.New("etcd's snapshot stream is incomplete or damaged")
	// ErrBehind: the file is whole but older than the revision it must contain.
	ErrBehind = errors.New("etcd's snapshot stream is older than expected")
	// ErrNoDatabase: the file ends with its SHA-256, and is none that bbolt could open. LastRevision alone tells it.
	ErrNoDatabase = errors.New("the file does not begin with a known meta page")
)

// Reader passes an etcd snapshot stream (a database file and its SHA-256) on and turns a clean
// end into an error if the digest is wrong. Wrap the network stream with it and upload what it
// reads: an upload that sees io.EOF has seen a whole file. Not safe for concurrent use.
type Reader struct {
	src  io.Reader
	sum  hash.Hash
	tail []byte // the last bytes read, at most sha256.Size: perhaps the trailer
	size int64
	walk *walker
	min  snapshot.Revision
	end  error // what Read returns from now on
}

// NewReader reads src. The file must contain the revision atLeast.
func NewReader(src io.Reader, atLeast snapshot.Revision) *Reader {
	return &Reader{src: src, sum: sha256.New(), walk: newWalker(int64(atLeast)), min: atLeast}
}

// Read implements io.Reader. It returns io.EOF only if the digest is right and the file is not
// older than it must be.
func (r *Reader) Read(p []byte) (int, error) {
	if r.end != nil {
		return 0, r.end
	}
	n, err := r.src.Read(p)
	r.take(p[:n])
	if err == nil {
		return n, nil
	}
	if err == io.EOF {
		err = r.finish()
	}
	r.end = err
	return n, err
}

// take hashes everything but the last sha256.Size bytes seen so far.
func (r *Reader) take(p []byte) {
	r.size += int64(len(p))
	if len(p) >= sha256.Size {
		r.content(r.tail)
		r.content(p[:len(p)-sha256.Size])
		r.tail = append(r.tail[:0], p[len(p)-sha256.Size:]...)
		return
	}
	r.tail = append(r.tail, p...)
	if over := len(r.tail) - sha256.Size; over > 0 {
		r.content(r.tail[:over])
		r.tail = append(r.tail[:0], r.tail[over:]...)
	}
}

func (r *Reader) content(p []byte) {
	r.sum.Write(p)
	r.walk.write(p)
}

func (r *Reader) finish() error {
	const sector = 512 // a database file is a multiple of it, whatever its page size
	switch {
	case r.size < sector+sha256.Size:
		return fmt.Errorf("%w: only %d bytes arrived", ErrTrailer, r.size)
	case (r.size-sha256.Size)%sector != 0:
		return fmt.Errorf("%w: %d bytes are not a database file and its digest", ErrTrailer, r.size)
	case string(r.sum.Sum(nil)) != string(r.tail):
		return fmt.Errorf("%w: the SHA-256 at its end does not match %d bytes", ErrTrailer, r.size-sha256.Size)
	}
	last, err := r.walk.last()
	if errors.Is(err, errTooOld) {
		return fmt.Errorf("%w: it does not reach revision %d; was another member asked than the one the revision came from?", ErrBehind, r.min)
	}
	if err == nil && snapshot.Revision(last) < r.min {
		return fmt.Errorf("%w: it ends at revision %d, not at %d or later", ErrBehind, last, r.min)
	}
	return io.EOF
}

// Complete reports that io.EOF was returned: the file is whole.
func (r *Reader) Complete() bool { return r.end == io.EOF }

// Size is the number of bytes read so far, the trailer included.
func (r *Reader) Size() int64 { return r.size }

// LastRevision is the exact last revision of the content. It is known only after io.EOF; the
// error says why it could not be found in a file that is otherwise whole.
func (r *Reader) LastRevision() (snapshot.Revision, error) {
	if r.end != io.EOF {
		return 0, errors.New("the last revision is known only after the whole file was read")
	}
	last, err := r.walk.last()
	return snapshot.Revision(last), err
}
