package datadir

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"os"

	"druid.internal/druid/internal/backup/snapshot"
)

// spooled is a record that waits to be written, or only the lease it refers to.
type spooled struct {
	ordinal   uint64
	main      snapshot.Revision
	sub       int64
	lease     int64
	tombstone bool
	value     []byte // valid until the next record
}

const (
	spoolHeader = 8 + 8 + 8 + 8 + 8
	spoolChunk  = 1 << 20 // unless the limit is small
)

// spool keeps records in order, in memory up to a limit and then in a file. It drops what has
// been superseded meanwhile: always before records go to the file, and when it seems worth it
// whenever its memory has doubled, so that as little memory as possible is touched.
type spool struct {
	limit   int64
	chunk   int // usual size of a chunk
	scratch string
	room    *reserve
	dead    func(ordinal uint64) bool // may be asked at any time; true is final
	deaths  func() int64              // how many records died, here or elsewhere
	chunks  [][]byte                  // filled up to their length
	spare   [][]byte                  // chunks of the usual size, to be used again
	held    int64                     // memory of the chunks, without the spare ones
	tidyAt  int64                     // held above this: look for dead records
	count   int64                     // records in the chunks
	seen    int64                     // deaths when they were dropped the last time
	file    *os.File
	w       *bufio.Writer
	bytes   int64 // in the file
}

func newSpool(limit int64, scratch string, room *reserve, t *tracker) *spool {
	chunk := int(min(spoolChunk, max(limit/8, 512)))
	return &spool{limit: limit, chunk: chunk, tidyAt: min(limit, 8*spoolChunk), scratch: scratch, room: room,
		dead: t.isDead, deaths: func() int64 { return t.deaths }}
}

// close frees memory and file.
func (s *spool) close() {
	s.free(s.chunks...)
	for _, c := range s.spare {
		unmapMemory(c)
	}
	s.chunks, s.spare = nil, nil
	if s.file != nil {
		s.file.Close()
	}
}

func (s *spool) free(chunks ...[]byte) {
	for _, c := range chunks {
		s.held -= int64(cap(c))
		if cap(c) == s.chunk {
			s.spare = append(s.spare, c[:cap(c)])
		} else {
			unmapMemory(c[:cap(c)])
		}
	}
}

func (s *spool) add(r spooled) error {
	if !s.fits(&r) {
		if s.held+int64(s.chunk) > s.tidyAt {
			if err := s.tidy(); err != nil {
				return err
			}
		}
		if !s.fits(&r) {
			if err := s.newChunk(&r); err != nil {
				return err
			}
		}
	}
	s.append(&r)
	return nil
}

// fits tells whether the record goes into the last chunk.
func (s *spool) fits(r *spooled) bool {
	n := len(s.chunks)
	return n > 0 && cap(s.chunks[n-1])-len(s.chunks[n-1]) >= spoolHeader+len(r.value)
}

func (s *spool) append(r *spooled) {
	last := &s.chunks[len(s.chunks)-1]
	b := binary.LittleEndian.AppendUint64(*last, r.ordinal)
	b = binary.LittleEndian.AppendUint64(b, uint64(r.main))
	b = binary.LittleEndian.AppendUint64(b, uint64(r.sub))
	b = binary.LittleEndian.AppendUint64(b, uint64(r.lease))
	size := uint64(len(r.value)) << 1
	if r.tombstone {
		size |= 1
	}
	b = binary.LittleEndian.AppendUint64(b, size)
	*last = append(b, r.value...)
	s.count++
}

// newChunk begins a chunk that the record fits into.
func (s *spool) newChunk(r *spooled) error {
	need := spoolHeader + len(r.value)
	var c []byte
	if n := len(s.spare); n > 0 && need <= s.chunk {
		c, s.spare = s.spare[n-1], s.spare[:n-1]
	} else {
		var err error
		if c, err = mapMemory(max(need, s.chunk)); err != nil {
			return err
		}
	}
	s.held += int64(len(c))
	s.chunks = append(s.chunks, c[:0])
	return nil
}

// tidy makes room when the memory has doubled or reaches its limit.
func (s *spool) tidy() error {
	full := s.held+int64(s.chunk) > s.limit
	if died := s.deaths() - s.seen; full && died > 0 || died >= s.count/2 {
		if err := s.drop(); err != nil {
			return err
		}
	}
	if full && s.held*2 > s.limit {
		if err := s.unload(); err != nil {
			return err
		}
	}
	s.tidyAt = min(s.limit, max(2*s.held, 8*spoolChunk))
	return nil
}

// drop removes dead records from memory.
func (s *spool) drop() error {
	old := s.chunks
	s.chunks, s.count, s.seen = nil, 0, s.deaths()
	for i, c := range old {
		err := eachSpooled(c, func(r spooled) error {
			if s.dead(r.ordinal) {
				return nil
			}
			if !s.fits(&r) {
				if err := s.newChunk(&r); err != nil {
					return err
				}
			}
			s.append(&r)
			return nil
		})
		s.free(c)
		if err != nil {
			s.free(old[i+1:]...)
			return err
		}
	}
	return nil
}

// unload moves everything from memory to the file.
func (s *spool) unload() error {
	if s.file == nil {
		f, err := nameless(s.scratch, "records-*")
		if err != nil {
			return fmt.Errorf("spill: %w", err)
		}
		s.file, s.w = f, bufio.NewWriterSize(f, 256<<10)
	}
	for _, c := range s.chunks {
		if err := s.room.take(int64(len(c))); err != nil {
			return fmt.Errorf("spill: %w", err)
		}
		if _, err := s.w.Write(c); err != nil {
			return fmt.Errorf("spill: %w", err)
		}
		s.bytes += int64(len(c))
	}
	s.free(s.chunks...)
	s.chunks, s.count = s.chunks[:0], 0
	return nil
}

// each calls fn for every record kept, in order. Nothing can be added afterwards.
func (s *spool) each(fn func(spooled) error) error {
	return s.eachOf(s.dead, fn)
}

// eachOf is each with another opinion about which records are dead.
func (s *spool) eachOf(dead func(uint64) bool, fn func(spooled) error) error {
	if s.file != nil {
		if err := s.eachOnDisk(dead, fn); err != nil {
			return err
		}
	}
	for _, c := range s.chunks {
		if err := eachSpooled(c, func(r spooled) error {
			if dead(r.ordinal) {
				return nil
			}
			return fn(r)
		}); err != nil {
			return err
		}
	}
	return nil
}

func (s *spool) eachOnDisk(dead func(uint64) bool, fn func(spooled) error) error {
	if err := s.w.Flush(); err != nil {
		return fmt.Errorf("spill: %w", err)
	}
	r := bufio.NewReaderSize(io.NewSectionReader(s.file, 0, s.bytes), 256<<10)
	var head [spoolHeader]byte
	var value []byte
	for at := int64(0); at < s.bytes; {
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return fmt.Errorf("read spilled records: %w", err)
		}
		rec, size := parseSpooled(head[:])
		at += int64(spoolHeader + size)
		if dead(rec.ordinal) {
			if _, err := r.Discard(size); err != nil {
				return fmt.Errorf("read spilled records: %w", err)
			}
			continue
		}
		if cap(value) < size {
			value = make([]byte, size)
		}
		rec.value = value[:size]
		if _, err := io.ReadFull(r, rec.value); err != nil {
			return fmt.Errorf("read spilled records: %w", err)
		}
		if err := fn(rec); err != nil {
			return err
		}
	}
	return nil
}

func eachSpooled(chunk []byte, fn func(spooled) error) error {
	for len(chunk) > 0 {
		rec, size := parseSpooled(chunk)
		rec.value = chunk[spoolHeader:][:size:size]
		chunk = chunk[spoolHeader+size:]
		if err := fn(rec); err != nil {
			return err
		}
	}
	return nil
}

func parseSpooled(b []byte) (r spooled, size int) {
	r.ordinal = binary.LittleEndian.Uint64(b)
	r.main = snapshot.Revision(binary.LittleEndian.Uint64(b[8:]))
	r.sub = int64(binary.LittleEndian.Uint64(b[16:]))
	r.lease = int64(binary.LittleEndian.Uint64(b[24:]))
	n := binary.LittleEndian.Uint64(b[32:])
	r.tombstone = n&1 != 0
	return r, int(n >> 1)
}
