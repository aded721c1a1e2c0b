package boltfile

import (
	"io"
	"os"
	"sync/atomic"
)

const outputBuffer = 1 << 20

// output writes to a file behind the back of its user, so that filling the next buffer and
// writing the last one happen at the same time. The first error stays.
type output struct {
	file   *os.File
	before func(n int64) error
	buf    []byte
	full   chan []byte
	empty  chan []byte
	err    atomic.Pointer[error]
	done   chan struct{}
	closed bool
}

func newOutput(f *os.File, before func(n int64) error) *output {
	if before == nil {
		before = func(int64) error { return nil }
	}
	o := &output{file: f, before: before, buf: make([]byte, 0, outputBuffer), full: make(chan []byte), empty: make(chan []byte, 2), done: make(chan struct{})}
	o.empty <- make([]byte, 0, outputBuffer)
	go o.run()
	return o
}

func (o *output) run() {
	defer close(o.done)
	var offset, started int64
	for b := range o.full {
		if o.failed() == nil {
			n, err := 0, o.before(int64(len(b)))
			if err == nil {
				n, err = o.file.WriteAt(b, offset)
			}
			if err == nil && n != len(b) {
				err = io.ErrShortWrite
			}
			if err != nil {
				o.err.Store(&err)
			}
			offset += int64(n)
			if offset-started >= writeOutEvery {
				startWriteOut(o.file, started, offset-started)
				started = offset
			}
		}
		o.empty <- b[:0]
	}
}

func (o *output) failed() error {
	if err := o.err.Load(); err != nil {
		return *err
	}
	return nil
}

func (o *output) write(p []byte) {
	for len(p) > 0 {
		n := copy(o.buf[len(o.buf):cap(o.buf)], p)
		o.buf, p = o.buf[:len(o.buf)+n], p[n:]
		if len(o.buf) == cap(o.buf) {
			o.flush()
		}
	}
}

func (o *output) zero(n int) {
	for n > 0 {
		part := o.buf[len(o.buf):min(len(o.buf)+n, cap(o.buf))]
		clear(part)
		o.buf, n = o.buf[:len(o.buf)+len(part)], n-len(part)
		if len(o.buf) == cap(o.buf) {
			o.flush()
		}
	}
}

func (o *output) flush() {
	o.full <- o.buf
	o.buf = <-o.empty
}

// close writes what is left and waits. It may be called again.
func (o *output) close() error {
	if !o.closed {
		o.closed = true
		o.flush()
		close(o.full)
		<-o.done
	}
	return o.failed()
}
