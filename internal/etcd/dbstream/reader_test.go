package dbstream

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"testing/iotest"

	"go.etcd.io/bbolt"

	"druid.internal/druid/internal/backup/snapshot"
)

// database is a file with etcd's buckets, and the means to stream it as etcd does.
type database struct {
	t    *testing.T
	db   *bbolt.DB
	last uint64
}

func newDatabase(t *testing.T, pageSize int) *database {
	t.Helper()
	db, err := bbolt.Open(filepath.Join(t.TempDir(), "db"), 0o600, &bbolt.Options{
		PageSize: pageSize, NoFreelistSync: true, FreelistType: bbolt.FreelistMapType, NoSync: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	d := &database{t: t, db: db, last: 1}
	d.update(func(tx *bbolt.Tx) {
		for _, name := range []string{"alarm", "auth", "authRoles", "authUsers", "cluster", "key", "lease", "members", "members_removed", "meta"} {
			d.must(tx.CreateBucketIfNotExists([]byte(name)))
		}
		d.put(tx, "meta", []byte("consistent_index"), make([]byte, 8))
	})
	return d
}

func (d *database) must(_ any, err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

func (d *database) update(fn func(*bbolt.Tx)) {
	d.t.Helper()
	d.must(nil, d.db.Update(func(tx *bbolt.Tx) error { fn(tx); return nil }))
}

func (d *database) put(tx *bbolt.Tx, bucket string, key, value []byte) {
	d.t.Helper()
	d.must(nil, tx.Bucket([]byte(bucket)).Put(key, value))
}

func revisionKey(main uint64) []byte {
	k := make([]byte, revisionSize)
	binary.BigEndian.PutUint64(k, main)
	k[8] = '_'
	return k
}

// write adds n revisions with values of the size that size gives.
func (d *database) write(n int, size func() int) {
	d.t.Helper()
	for n > 0 {
		d.update(func(tx *bbolt.Tx) {
			for range min(n, 200) {
				d.last++
				d.put(tx, "key", revisionKey(d.last), make([]byte, size()))
				n--
			}
			d.put(tx, "lease", revisionKey(d.last)[:8], make([]byte, 30))
		})
	}
}

// stream is what etcd would send: the file as a read transaction sees it, and its digest.
func (d *database) stream(tx *bbolt.Tx) []byte {
	d.t.Helper()
	var b bytes.Buffer
	_, err := tx.WriteTo(&b)
	d.must(nil, err)
	sum := sha256.Sum256(b.Bytes())
	return append(b.Bytes(), sum[:]...)
}

func (d *database) now() []byte {
	d.t.Helper()
	tx, err := d.db.Begin(false)
	d.must(nil, err)
	defer func() { d.must(nil, tx.Rollback()) }()
	return d.stream(tx)
}

func fixed(n int) func() int { return func() int { return n } }

func wantLast(t *testing.T, stream []byte, atLeast, want uint64) {
	t.Helper()
	r := NewReader(bytes.NewReader(stream), snapshot.Revision(atLeast))
	got, err := io.ReadAll(r)
	if err != nil {
		t.Fatalf("reading the stream: %v", err)
	}
	if !bytes.Equal(got, stream) || r.Size() != int64(len(stream)) {
		t.Fatalf("%d bytes came out of a stream of %d", len(got), len(stream))
	}
	if last, err := r.LastRevision(); err != nil || last != snapshot.Revision(want) {
		t.Fatalf("last revision %d (%v), want %d", last, err, want)
	}
}

func TestTheLastRevisionIsThatOfTheContent(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	cases := map[string]struct {
		pageSize, revisions int
		size                func() int
	}{
		"an empty etcd":                       {4096, 0, nil},
		"a bucket within the tree of buckets": {4096, 3, fixed(20)},
		"a single page":                       {4096, 20, fixed(100)},
		"a deep tree":                         {4096, 30000, fixed(40)},
		"a large page size":                   {65536, 5000, fixed(100)},
		"a small page size":                   {1024, 5000, fixed(60)},
		"values larger than pages":            {4096, 300, fixed(20000)},
		"values of all sizes":                 {4096, 800, func() int { return random.IntN(1 << random.IntN(17)) }},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			d := newDatabase(t, c.pageSize)
			d.write(c.revisions, c.size)
			wantLast(t, d.now(), 1, d.last)
			wantLast(t, d.now(), d.last, d.last)
		})
	}
}

func TestPagesWrittenDuringTheStreamAreNotItsContent(t *testing.T) {
	d := newDatabase(t, 4096)
	d.write(3000, fixed(100))
	d.update(func(tx *bbolt.Tx) { // make free pages for the writes to come
		for rev := uint64(2); rev < 2500; rev++ {
			d.must(nil, tx.Bucket([]byte("key")).Delete(revisionKey(rev)))
		}
	})
	d.write(1, fixed(10))
	want := d.last
	tx, err := d.db.Begin(false)
	d.must(nil, err)
	d.write(500, fixed(100)) // etcd goes on while the transaction is streamed
	stream := d.stream(tx)
	d.must(nil, tx.Rollback())

	newer := false
	for at := 0; at+4096 < len(stream); at += 4096 {
		p := stream[at : at+4096]
		if h := readHead(p); h.flags == leafPage && h.count > 0 {
			if e, ok := leafElement(p, h, h.count-1); ok {
				main, ok := mainRevision(e.key)
				newer = newer || ok && uint64(main) > want
			}
		}
	}
	if !newer {
		t.Fatal("the stream has no page of a later time: the test proves nothing")
	}
	wantLast(t, stream, want-10, want)
}

func TestARemovedTombstoneStillCountsByItsCompaction(t *testing.T) {
	d := newDatabase(t, 4096)
	d.write(100, fixed(200))
	d.update(func(tx *bbolt.Tx) { d.put(tx, "meta", []byte("finishedCompactRev"), revisionKey(d.last+1)) })
	wantLast(t, d.now(), d.last+1, d.last+1)

	big := newDatabase(t, 4096) // the bucket meta does not fit into the tree of buckets
	big.write(100, fixed(200))
	big.update(func(tx *bbolt.Tx) {
		big.put(tx, "meta", []byte("confState"), make([]byte, 3000))
		big.put(tx, "meta", []byte("scheduledCompactRev"), revisionKey(big.last+7))
	})
	wantLast(t, big.now(), big.last+7, big.last+7)
}

func TestManyBucketsDoNotHideTheKeys(t *testing.T) {
	d := newDatabase(t, 4096)
	d.write(5000, fixed(50))
	d.update(func(tx *bbolt.Tx) {
		for i := range 500 {
			name := append([]byte{byte('a' + i%26)}, revisionKey(uint64(i))[4:8]...)
			b, err := tx.CreateBucketIfNotExists(name)
			d.must(b, err)
			d.must(nil, b.Put([]byte("x"), make([]byte, 500)))
		}
	})
	wantLast(t, d.now(), d.last, d.last)
}

func TestHowTheStreamIsCutDoesNotMatter(t *testing.T) {
	d := newDatabase(t, 4096)
	d.write(150, func() int { return 3000 })
	stream := d.now()
	for name, src := range map[string]io.Reader{
		"byte by byte":         iotest.OneByteReader(bytes.NewReader(stream)),
		"in halves":            iotest.HalfReader(bytes.NewReader(stream)),
		"the end with content": iotest.DataErrReader(bytes.NewReader(stream)),
	} {
		t.Run(name, func(t *testing.T) {
			r := NewReader(src, 5)
			if _, err := io.Copy(io.Discard, struct{ io.Reader }{r}); err != nil {
				t.Fatal(err)
			}
			if last, err := r.LastRevision(); err != nil || uint64(last) != d.last {
				t.Fatalf("last revision %d (%v), want %d", last, err, d.last)
			}
		})
	}
}

func TestATruncatedSourceIsNeverAWholeFile(t *testing.T) {
	d := newDatabase(t, 4096)
	d.write(100, fixed(100))
	stream := d.now()
	for _, n := range []int{0, 1, 31, 32, 33, 512, 4096, len(stream) / 2, len(stream) - 512, len(stream) - 33, len(stream) - 32, len(stream) - 1} {
		r := NewReader(bytes.NewReader(stream[:n]), 1)
		if _, err := io.Copy(io.Discard, r); !errors.Is(err, ErrTrailer) {
			t.Errorf("%d of %d bytes: %v, want ErrTrailer", n, len(stream), err)
		}
		if _, err := r.Read(make([]byte, 1)); !errors.Is(err, ErrTrailer) {
			t.Errorf("%d of %d bytes, read again: %v, want the same error", n, len(stream), err)
		}
		if _, err := r.LastRevision(); err == nil {
			t.Errorf("%d of %d bytes: a last revision is told", n, len(stream))
		}
	}
	flipped := bytes.Clone(stream)
	flipped[len(flipped)/3] ^= 1
	if _, err := io.Copy(io.Discard, NewReader(bytes.NewReader(flipped), 1)); !errors.Is(err, ErrTrailer) {
		t.Errorf("a flipped bit: %v, want ErrTrailer", err)
	}
	broken := io.MultiReader(bytes.NewReader(stream[:9000]), iotest.ErrReader(io.ErrClosedPipe))
	if _, err := io.Copy(io.Discard, NewReader(broken, 1)); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("a failing source: %v, want its own error", err)
	}
}

func TestAFileOlderThanItsNameIsRefused(t *testing.T) {
	d := newDatabase(t, 4096)
	d.write(3000, fixed(100))
	for _, ahead := range []uint64{1, 1000} {
		_, err := io.Copy(io.Discard, NewReader(bytes.NewReader(d.now()), snapshot.Revision(d.last+ahead)))
		if !errors.Is(err, ErrBehind) {
			t.Errorf("%d revisions too old: %v, want ErrBehind", ahead, err)
		}
	}
}

func TestAnUnknownFormatPassesButTellsNoRevision(t *testing.T) {
	content := make([]byte, 16384)
	sum := sha256.Sum256(content)
	r := NewReader(bytes.NewReader(append(content, sum[:]...)), 1)
	if _, err := io.Copy(io.Discard, r); err != nil {
		t.Fatal(err)
	}
	if last, err := r.LastRevision(); err == nil {
		t.Fatalf("last revision %d of a file that is no database", last)
	}
}

func FuzzWalker(f *testing.F) {
	f.Add([]byte{}, uint16(0))
	f.Add([]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, uint16(8200))
	f.Fuzz(func(t *testing.T, patch []byte, at uint16) {
		d := newDatabase(t, 1024)
		d.write(60, fixed(300))
		stream := d.now()
		stream = stream[:len(stream)-sha256.Size]
		copy(stream[min(int(at), len(stream)):], patch)
		sum := sha256.Sum256(stream)
		r := NewReader(bytes.NewReader(append(stream, sum[:]...)), 1)
		io.Copy(io.Discard, r) // whatever it says, it neither panics nor hangs
		r.LastRevision()
	})
}
