package datadir

import (
	"hash/crc32"
	"os"

	"druid.internal/druid/internal/etcd/datadir/boltfile"
)

// castagnoli is the polynomial of etcd's HashKV; processors compute it fast.
func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// sink writes the new file and remembers what should be in it.
type sink struct {
	*boltfile.Writer
	file    *os.File
	table   *crc32.Table
	buckets map[string]*bucketSum
	now     *bucketSum
	ended   bool
	payload int64 // bytes of keys and values
}

// bucketSum is the content of one bucket in short.
type bucketSum struct {
	records int64
	crc     uint32
}

func (b *bucketSum) add(table *crc32.Table, k, v []byte) {
	b.records++
	b.crc = crc32.Update(crc32.Update(b.crc, table, k), table, v)
}

func newSink(f *os.File, room *reserve) *sink {
	return &sink{Writer: boltfile.NewWriter(f, room.take), file: f, table: castagnoli(), buckets: map[string]*bucketSum{}}
}

func (s *sink) begin(bucket string) {
	s.now = new(bucketSum)
	s.buckets[bucket] = s.now
	s.Begin(bucket)
}

func (s *sink) put(k, v []byte) error {
	s.now.add(s.table, k, v)
	s.payload += int64(len(k) + len(v))
	return s.Put(k, v)
}

func (s *sink) finish() error {
	s.ended = true
	return s.Finish()
}

func (s *sink) abort() {
	if !s.ended {
		s.ended = true
		s.Abort()
	}
}
