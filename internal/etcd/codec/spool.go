package codec

import (
	"errors"
	"fmt"
	"io"
	"os"
)

const spoolPage = 64 << 10

// spool keeps what is written in memory up to a limit and the rest in a temporary file, which
// has no name any more once it is made: nothing remains of it after a crash. In the file every
// byte has its own place, so that what is in memory can follow later.
type spool struct {
	limit int64
	dir   string
	pages [][]byte // all but the last are full
	inMem int64
	file  *os.File
	spilt int64
	err   error // sticky
}

func (s *spool) size() int64 { return s.inMem + s.spilt }

func (s *spool) Write(p []byte) (n int, err error) {
	if s.err != nil {
		return 0, s.err
	}
	if s.file == nil && s.inMem+int64(len(p)) <= s.limit {
		for n < len(p) {
			if s.inMem%spoolPage == 0 {
				s.pages = append(s.pages, make([]byte, 0, spoolPage))
			}
			last := &s.pages[len(s.pages)-1]
			k := min(len(p)-n, cap(*last)-len(*last))
			*last = append(*last, p[n:n+k]...)
			s.inMem += int64(k)
			n += k
		}
		return n, nil
	}
	if s.file == nil {
		if err := s.open(); err != nil {
			return 0, s.fail(err)
		}
	}
	n, err = s.file.WriteAt(p, s.size())
	s.spilt += int64(n)
	if err != nil {
		return n, s.fail(err)
	}
	return n, nil
}

func (s *spool) open() error {
	f, err := os.CreateTemp(s.dir, ".delta-*")
	if err != nil {
		return err
	}
	if err := os.Remove(f.Name()); err != nil {
		return errors.Join(err, f.Close())
	}
	s.file = f
	return nil
}

// park moves what is in memory to the file. If that fails, it stays where it is.
func (s *spool) park() error {
	if s.err != nil || s.inMem == 0 {
		return s.err
	}
	if s.file == nil {
		if err := s.open(); err != nil {
			return fmt.Errorf("move delta to a temporary file: %w", err)
		}
	}
	for i, page := range s.pages {
		if _, err := s.file.WriteAt(page, int64(i)*spoolPage); err != nil {
			err = fmt.Errorf("move delta to a temporary file: %w", err)
			if s.spilt == 0 { // what follows goes to memory, as long as there is room
				err = errors.Join(err, s.file.Close())
				s.file = nil
			}
			return err
		}
	}
	s.pages, s.inMem, s.spilt = nil, 0, s.size()
	return nil
}

func (s *spool) fail(err error) error {
	s.err = fmt.Errorf("spill delta to a temporary file: %w", err)
	return s.err
}

// ReadAt reads what was written. It may be called concurrently once nothing is written any more.
func (s *spool) ReadAt(p []byte, off int64) (n int, err error) {
	if s.err != nil {
		return 0, s.err // never io.EOF, which would make a short object of a lost one
	}
	for n < len(p) && off < s.inMem {
		page := s.pages[off/spoolPage]
		k := copy(p[n:], page[off%spoolPage:])
		n += k
		off += int64(k)
	}
	if n == len(p) {
		return n, nil
	}
	if s.file == nil {
		return n, io.EOF
	}
	k, err := s.file.ReadAt(p[n:], off)
	return n + k, err
}

func (s *spool) Close() error {
	s.pages, s.inMem, s.spilt = nil, 0, 0
	if s.err == nil {
		s.err = os.ErrClosed
	}
	if s.file == nil {
		return nil
	}
	f := s.file
	s.file = nil
	return f.Close()
}
