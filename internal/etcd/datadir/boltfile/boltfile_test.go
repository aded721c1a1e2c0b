package boltfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	bolt "go.etcd.io/bbolt"
)

type record struct{ k, v []byte }

func sequence(n int, size func(i int) int) []record {
	rnd := rand.New(rand.NewPCG(1, 2))
	rs := make([]record, n)
	for i := range rs {
		k := make([]byte, 17, 18)
		binary.BigEndian.PutUint64(k, uint64(i))
		k[8] = '_'
		if i%7 == 0 {
			k = append(k, 't')
		}
		v := make([]byte, size(i))
		for j := range v {
			v[j] = byte(rnd.Uint32())
		}
		rs[i] = record{k, v}
	}
	return rs
}

func writeFile(t testing.TB, buckets map[string][]record) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "db")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := NewWriter(f, nil)
	for name, rs := range buckets {
		w.Begin(name)
		for _, r := range rs {
			if err := w.Put(r.k, r.v); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	return path
}

func checkBolt(t *testing.T, path string, want map[string][]record) {
	t.Helper()
	db, err := bolt.Open(path, 0o600, &bolt.Options{NoFreelistSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.View(func(tx *bolt.Tx) error {
		for err := range tx.Check() {
			t.Error("bolt's check:", err)
		}
		for name, rs := range want {
			i := 0
			if err := tx.Bucket([]byte(name)).ForEach(func(k, v []byte) error {
				if !bytes.Equal(k, rs[i].k) || !bytes.Equal(v, rs[i].v) {
					return fmt.Errorf("record %d is %x", i, k)
				}
				i++
				return nil
			}); err != nil {
				return err
			}
			if i != len(rs) {
				return fmt.Errorf("%s: %d records, want %d", name, i, len(rs))
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	// A bolt that writes must be able to go on: change, delete and add everywhere.
	if err := db.Update(func(tx *bolt.Tx) error {
		for name, rs := range want {
			b := tx.Bucket([]byte(name))
			for i, r := range rs {
				if i%3 == 0 {
					if err := b.Delete(r.k); err != nil {
						return err
					}
				}
			}
			if err := b.Put([]byte("zzz"), []byte("new")); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := db.View(func(tx *bolt.Tx) error {
		for err := range tx.Check() {
			t.Error("bolt's check after an update:", err)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func TestAWrittenFileIsWhatWasPutAndBoltAgrees(t *testing.T) {
	fixed := func(n int) func(int) int { return func(int) int { return n } }
	for name, rs := range map[string][]record{
		"nothing":                           nil,
		"one record":                        sequence(1, fixed(10)),
		"one leaf":                          sequence(100, fixed(10)),
		"two leaves":                        sequence(20, fixed(1024)),
		"two levels of branches":            sequence(3000, fixed(1000)),
		"three levels of branches":          sequence(200_000, fixed(190)),
		"empty values":                      sequence(5000, fixed(0)),
		"a value of several MiB in between": sequence(50, func(i int) int { return []int{3, 5 << 20, 20_000, 1}[i%4] }),
	} {
		t.Run(name, func(t *testing.T) {
			want := map[string][]record{"key": rs, "alarm": nil, "meta": sequence(3, fixed(8))}
			path := writeFile(t, want)
			r, err := Open(path)
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			if err := r.CheckEach(true, func(b string, k, v []byte) error {
				if b == "key" {
					if !bytes.Equal(k, rs[n].k) || !bytes.Equal(v, rs[n].v) {
						t.Fatalf("record %d is %x", n, k)
					}
					n++
				}
				return nil
			}); err != nil {
				t.Error(err)
			}
			if n != len(rs) {
				t.Errorf("%d records, want %d", n, len(rs))
			}
			r.Close()
			checkBolt(t, path, want)
		})
	}
}

// Every number of records around the places where pages fill up: none may end with a branch of
// one child, which bolt would not write either.
func TestEveryNumberOfRecordsGivesAValidTree(t *testing.T) {
	all := sequence(2600, func(i int) int { return 3000 })
	for n := 540; n < 2600; n += 137 {
		path := writeFile(t, map[string][]record{"key": all[:n]})
		r, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		smallest := 1 << 20
		b, _ := r.Bucket("key")
		if err := r.walk(b.root, walkOptions{visit: func(_ uint64, p []byte) error {
			if le.Uint16(p[8:]) == branchPage {
				smallest = min(smallest, int(le.Uint16(p[10:])))
			}
			return nil
		}}, nil); err != nil {
			t.Fatal(err)
		}
		if smallest < minChildren {
			t.Errorf("%d records: a branch with %d children", n, smallest)
		}
		r.Close()
		checkBolt(t, path, map[string][]record{"key": all[:n]})
	}
}

// boltDB makes a file as etcd does: with inline buckets, free pages and no list of them.
func boltDB(t testing.TB, rs []record) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "bolt")
	db, err := bolt.Open(path, 0o600, &bolt.Options{NoFreelistSync: true, NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, drop := range []bool{false, true} {
		if err := db.Update(func(tx *bolt.Tx) error {
			for _, name := range []string{"empty", "key", "small"} {
				b, err := tx.CreateBucketIfNotExists([]byte(name))
				if err != nil {
					return err
				}
				for i, r := range rs {
					switch {
					case name == "empty", name == "small" && i > 2:
					case drop && i%5 == 1:
						err = b.Delete(r.k)
					case !drop:
						err = b.Put(r.k, r.v)
					}
					if err != nil {
						return err
					}
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAReaderSeesWhatBoltWrote(t *testing.T) {
	rs := sequence(5000, func(i int) int { return i % 700 })
	var want []record
	for i, r := range rs {
		if i%5 != 1 {
			want = append(want, r)
		}
	}
	r, err := Open(boltDB(t, rs))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := r.Check(false); err != nil {
		t.Error(err)
	}
	if err := r.Check(true); !errors.Is(err, ErrCorrupt) {
		t.Errorf("free pages: %v, want them reported when all must be used", err)
	}
	if got := fmt.Sprint(r.Buckets()); got != "[empty key small]" {
		t.Errorf("buckets %s", got)
	}
	b, _ := r.Bucket("key")
	for _, from := range []int{0, 1, 2500, len(want) - 1} {
		i := from
		if err := b.Each(want[from].k, func(k, v []byte) error {
			if !bytes.Equal(k, want[i].k) || !bytes.Equal(v, want[i].v) {
				return fmt.Errorf("record %d is %x", i, k)
			}
			i++
			return nil
		}); err != nil || i != len(want) {
			t.Errorf("from %d: %d of %d records, %v", from, i, len(want), err)
		}
	}
	if k, v, err := b.Last(); err != nil || !bytes.Equal(k, want[len(want)-1].k) || !bytes.Equal(v, want[len(want)-1].v) {
		t.Errorf("last record is %x, %v", k, err)
	}
	if v, err := b.Get(want[77].k); err != nil || !bytes.Equal(v, want[77].v) {
		t.Errorf("get: %x, %v", v, err)
	}
	if v, err := b.Get(rs[1].k); err != nil || v != nil {
		t.Errorf("get of a deleted key: %x, %v", v, err)
	}
	small, _ := r.Bucket("small")
	if k, _, err := small.Last(); err != nil || !bytes.Equal(k, rs[2].k) {
		t.Errorf("last of the inline bucket: %x, %v", k, err)
	}
	empty, _ := r.Bucket("empty")
	if k, _, err := empty.Last(); err != nil || k != nil {
		t.Errorf("last of the empty bucket: %x, %v", k, err)
	}
}

func TestATruncatedFileIsCorrupt(t *testing.T) {
	whole, err := os.ReadFile(boltDB(t, sequence(500, func(int) int { return 500 })))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{0, 1, 512, 4096, 8192, len(whole) / 2} {
		path := filepath.Join(t.TempDir(), "cut")
		if err := os.WriteFile(path, whole[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		if r, err := Open(path); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%d bytes: %v, want ErrCorrupt", n, err)
			if r != nil {
				r.Close()
			}
		}
	}
}

func TestAFullDiskIsReported(t *testing.T) {
	f, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := NewWriter(f, nil)
	w.Begin("key")
	for _, r := range sequence(5000, func(int) int { return 1000 }) {
		if w.Put(r.k, r.v) != nil {
			break
		}
	}
	if err := w.Finish(); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("%v, want ENOSPC", err)
	}
}

func TestKeysOutOfOrderAreRefused(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "db"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := NewWriter(f, nil)
	w.Begin("key")
	if err := w.Put([]byte("b"), nil); err != nil {
		t.Fatal(err)
	}
	if err := w.Put([]byte("b"), nil); err == nil {
		t.Error("the same key twice was taken")
	}
	if err := w.Finish(); err == nil {
		t.Error("Finish forgot the error")
	}
}

// A flipped byte is found or harmless, and never makes the reader panic.
func FuzzDamageNeverPanics(f *testing.F) {
	whole, err := os.ReadFile(boltDB(f, sequence(300, func(i int) int { return i * 7 % 900 })))
	if err != nil {
		f.Fatal(err)
	}
	for _, at := range []uint32{0, 16, 24, 4096 + 16, 8200, 12290, 16390, 20500} {
		f.Add(at, byte(0xff), at*7, byte(1))
	}
	f.Fuzz(func(t *testing.T, at1 uint32, flip1 byte, at2 uint32, flip2 byte) {
		b := bytes.Clone(whole)
		b[int(at1)%len(b)] ^= flip1
		b[int(at2)%len(b)] ^= flip2
		path := filepath.Join(t.TempDir(), "db")
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := Open(path)
		if err != nil {
			return
		}
		defer r.Close()
		_ = r.Check(false)
		for _, name := range r.Buckets() {
			bucket, _ := r.Bucket(name)
			_, _, _ = bucket.Last()
			_, _ = bucket.Get([]byte("k"))
		}
	})
}
