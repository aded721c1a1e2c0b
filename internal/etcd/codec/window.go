package codec

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"hash"
	"io"
)

// window is the part of the unpacked content that is in memory:
//
//	        base     base+pos               base+len(buf)
//	content  |---------|---------------------|- - - not yet read - - -
//	buf      [ consumed |       unread       ]  free up to cap(buf)
//
// If the content ends with its SHA-256, consumed bytes go into one before they leave the window.
type window struct {
	src    io.Reader
	buf    []byte
	pos    int
	base   int64
	sum    hash.Hash // nil: the content does not end with its digest
	summed int       // buf[:summed] are in sum
	err    error     // of src; io.EOF at its end
	grow   func(n int) error
}

func newWindow(src io.Reader, buf []byte) *window {
	return &window{src: src, buf: buf[:0], sum: sha256.New()}
}

// offset is the position of the next unread byte in the content.
func (w *window) offset() int64 { return w.base + int64(w.pos) }

// rest are the unread bytes.
func (w *window) rest() []byte { return w.buf[w.pos:] }

// fill reads until the buffer is full or the content ends. Filling it whole keeps repeated
// attempts at one large event linear in its size.
func (w *window) fill() {
	for idle := 0; w.err == nil && len(w.buf) < cap(w.buf); {
		n, err := w.src.Read(w.buf[len(w.buf):cap(w.buf)])
		w.buf, w.err = w.buf[:len(w.buf)+n], err
		if idle++; n > 0 {
			idle = 0
		} else if err == nil && idle == 100 {
			w.err = io.ErrNoProgress
		}
	}
}

// move goes on in the buffer to, which may be the present one, with the unread bytes at its
// beginning.
func (w *window) move(to []byte) {
	w.hash()
	n := copy(to[:cap(to)], w.rest())
	w.base += int64(w.pos)
	w.buf, w.pos, w.summed = to[:n], 0, 0
}

// more brings more bytes behind the unread ones, in a larger buffer if they fill half of it. event
// is the size of the event that the unread bytes begin; 0: not known.
func (w *window) more(event, maxEvent int) error {
	unread := len(w.rest())
	switch {
	case w.err != nil:
		return w.ended()
	case unread > maxEvent:
		return w.tooLarge(unread, maxEvent)
	case event > cap(w.buf), event == 0 && 2*unread >= cap(w.buf):
		size := cmp.Or(event, 2*cap(w.buf))
		if err := w.mayGrow(size); err != nil {
			return err
		}
		w.move(make([]byte, 0, size))
	case cap(w.buf) > scanBytes && max(2*unread, event) < scanBytes:
		w.move(make([]byte, 0, scanBytes))
	default:
		w.move(w.buf)
	}
	before := len(w.buf)
	if w.fill(); len(w.buf) == before {
		return w.ended()
	}
	return nil
}

// mayGrow is called before n bytes of memory are taken for one event. Usual events need no leave.
func (w *window) mayGrow(n int) error {
	if w.grow == nil || n <= usualEventBytes {
		return nil
	}
	return w.grow(n)
}

// tooLarge is the error for an event of at least n bytes, where no more than most are read.
func (w *window) tooLarge(n, most int) error {
	if n > defaultEventBytes {
		return w.malformed("an event of %d bytes, no event has more than %d", n, defaultEventBytes)
	}
	return fmt.Errorf("%w: an event of %d bytes or more at byte %d, at most %d are read; raise the memory limit to %d MiB, or exclude the delta if it is forged", ErrTooLarge, n, w.offset(), most, (int64(n)*eventShare)>>20+1)
}

// hash takes the consumed bytes into the sum.
func (w *window) hash() {
	if w.sum == nil {
		return
	}
	w.sum.Write(w.buf[w.summed:w.pos])
	w.summed = w.pos
}

// ended is the error for content that ends before its format allows it to.
func (w *window) ended() error {
	if w.err == io.EOF {
		return fmt.Errorf("%w after %d bytes", ErrTruncated, w.base+int64(len(w.buf)))
	}
	return w.err
}

// end expects the end of the content.
func (w *window) end() error {
	w.fill()
	switch {
	case len(w.rest()) > 0:
		return w.malformed("content behind its end")
	case w.err != io.EOF:
		return w.err
	}
	return nil
}

// drain reads to the end of the content and forgets it.
func (w *window) drain() error {
	for w.err == nil {
		w.pos = len(w.buf)
		w.move(w.buf)
		w.fill()
	}
	if w.err != io.EOF {
		return w.err
	}
	return nil
}

// finish expects the digest of everything consumed as the last bytes of the content. With
// padded, white space may precede it.
func (w *window) finish(padded bool) error {
	w.hash()
	for {
		w.fill()
		// Digits of a digest may look like white space, so only its distance from the end tells.
		for padded && len(w.rest()) > sha256.Size && isSpace(w.buf[w.pos]) {
			w.pos++
		}
		if w.err != nil || len(w.rest()) > sha256.Size {
			break
		}
		w.move(w.buf)
	}
	w.hash()
	switch {
	case len(w.rest()) > sha256.Size:
		return w.malformed("content behind its end")
	case w.err != io.EOF:
		return w.err
	case len(w.rest()) < sha256.Size:
		return w.ended()
	case !bytes.Equal(w.sum.Sum(nil), w.rest()):
		return ErrDigest
	}
	w.pos = len(w.buf)
	return nil
}

func (w *window) malformed(format string, args ...any) error {
	return &MalformedError{Offset: w.offset(), Reason: fmt.Sprintf(format, args...)}
}

// blame reads to the end of the content to tell damage from content that was written wrong:
// cause is joined with ErrDigest, or with whatever keeps the content from being read, unless the
// content ends with the digest of what precedes it.
func (w *window) blame(cause error) error {
	w.hash()
	for {
		w.fill()
		if w.err != nil {
			break
		}
		w.pos = max(w.pos, len(w.buf)-sha256.Size)
		w.move(w.buf)
	}
	if w.err != io.EOF {
		return fmt.Errorf("%w (%w)", w.err, cause)
	}
	if n := len(w.rest()); n > sha256.Size {
		w.pos += n - sha256.Size
		w.hash()
	}
	if !bytes.Equal(w.sum.Sum(nil), w.rest()) {
		return fmt.Errorf("%w (%w)", ErrDigest, cause)
	}
	return cause
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }
