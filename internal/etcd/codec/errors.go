package codec

import (
	"errors"
	"fmt"

	"druid.internal/druid/internal/backup/snapshot"
)

// What can be wrong with a payload. Every error of a reader in this package wraps exactly the
// sentinels that apply, except that an error of the underlying source (a lost connection, a
// disk) is passed on as it is and wraps none of them: the object may be whole.
var (
	// ErrDigest: the bytes are not the ones that were written.
	ErrDigest = errors.New("digest mismatch: the content is damaged")
	// ErrTruncated: the content ends too early.
	ErrTruncated = errors.New("truncated")
	// ErrMalformed: the content breaks the rules of its format; see MalformedError.
	ErrMalformed = errors.New("malformed")
	// ErrCompression: this program cannot unpack the suffix.
	ErrCompression = errors.New("unknown compression")
	// ErrEncoding: after unpacking, the content is neither a JSON delta nor a native one of a
	// known version.
	ErrEncoding = errors.New("unknown encoding")
	// ErrTooLarge: an event needs more memory than the reader may take. The content may be whole.
	ErrTooLarge = errors.New("event too large for the memory limit")
	// ErrEmptyDelta is returned by Delta.Seal when nothing was appended: there is nothing to write.
	ErrEmptyDelta = errors.New("empty delta")
)

// MalformedError says where a payload breaks the rules. It wraps ErrMalformed.
type MalformedError struct {
	Offset int64 // bytes into the unpacked content; of a header or packed stream, into the object
	Reason string
}

func (e *MalformedError) Error() string {
	return fmt.Sprintf("malformed at byte %d: %s", e.Offset, e.Reason)
}

// Unwrap makes errors.Is(err, ErrMalformed) true.
func (e *MalformedError) Unwrap() error { return ErrMalformed }

// GapError says that revisions are missing inside of a delta: with an unfiltered watch every
// revision has at least one event, so something was lost before it was written.
type GapError struct {
	After snapshot.Revision // the last revision before the gap
	Next  snapshot.Revision // the first one after it
}

func (e *GapError) Error() string {
	return fmt.Sprintf("gap inside of the delta: revision %d is followed by %d", e.After, e.Next)
}

// OrderError says that a revision goes backwards inside of a delta, or that the events of one
// revision are not together.
type OrderError struct {
	After snapshot.Revision
	Next  snapshot.Revision // at or below After
}

func (e *OrderError) Error() string {
	return fmt.Sprintf("revisions out of order: %d is followed by %d", e.After, e.Next)
}
