package codec

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"runtime"
	"testing"

	"druid.internal/druid/internal/backup/snapshot"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// ceiling samples the live heap while something runs.
type ceiling struct{ base, peak uint64 }

func newCeiling() *ceiling {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return &ceiling{base: m.HeapAlloc}
}

// sample collects garbage first, so that what it sees is what is needed.
func (c *ceiling) sample() {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if m.HeapAlloc > c.base {
		c.peak = max(c.peak, m.HeapAlloc-c.base)
	}
}

// generated is a content that is made while it is read, and never in memory as a whole.
func generated(format Format, size int64) io.Reader {
	pr, pw := io.Pipe()
	go func() {
		sum := sha256.New()
		w := io.MultiWriter(pw, sum)
		value := blend(1000)
		b := []byte(nativeMagic)
		if format == V2JSON {
			b = []byte{'['}
		}
		written := int64(0)
		for rev := int64(1); written < size; rev++ {
			key := fmt.Appendf(nil, "/registry/bulk/%09d", rev)
			c := change{create: rev, mod: rev, version: 1}
			if format == V2JSON {
				if rev > 1 {
					b = append(b, ',')
				}
				b = appendJSONEvent(b, c, key, value, "2026-11-20T08:56:49.016745788Z")
			} else {
				next := rev
				if rev == 1 {
					next = 0
				}
				b = appendEvent(b, c, key, value, next)
			}
			if len(b) > 64<<10 {
				w.Write(b)
				written += int64(len(b))
				b = b[:0]
			}
		}
		if format == V2JSON {
			b = append(b, ']')
		} else {
			b = append(b, 0, markEnd)
		}
		w.Write(b)
		if format == V2JSON {
			pw.Write(sum.Sum(nil))
		}
		pw.Close()
	}()
	return pr
}

func TestALargeDeltaStreamsInLittleMemory(t *testing.T) {
	const size, want = 300 << 20, 24 << 20
	for format, c := range map[Format]snapshot.Compression{V2JSON: snapshot.None, Native: snapshot.Zstd} {
		t.Run(string(format), func(t *testing.T) {
			mem := newCeiling()
			packed := generated(format, size)
			if c != snapshot.None {
				// Kept small, so that the packer is not what is measured.
				var object bytes.Buffer
				z, err := newZstdPacker(&object, new(Packers), strong)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := io.Copy(z, packed); err != nil {
					t.Fatal(err)
				}
				if err := z.Close(); err != nil {
					t.Fatal(err)
				}
				packed = &object
				mem = newCeiling()
			}
			d, err := NewDeltaReader(packed, c, ReaderOptions{headless: true})
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			for n := 0; ; n++ {
				b, err := d.Next()
				if err == io.EOF {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				if n%20 == 0 {
					mem.sample()
				}
				b.Release()
			}
			if d.ContentSize() < size {
				t.Fatalf("read %d bytes, want %d", d.ContentSize(), size)
			}
			t.Logf("peak %d MB of heap", mem.peak>>20)
			if mem.peak == 0 || mem.peak > want {
				t.Errorf("%d bytes of heap, want at most %d", mem.peak, want)
			}
		})
	}
}

func TestCollectingALargeDeltaTakesLittleMemory(t *testing.T) {
	const responses, want = 300, 48 << 20
	value := blend(1 << 20)
	mem := newCeiling()
	d, err := NewDelta(DeltaOptions{SpillDir: t.TempDir(), MemoryLimit: 4 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Discard()
	for rev := int64(1); rev <= responses; rev++ {
		copy(value, fmt.Sprint(rev))
		e := &mvccpb.Event{Kv: &mvccpb.KeyValue{Key: []byte("k"), CreateRevision: 1, ModRevision: rev, Version: rev, Value: value}}
		if err := d.Append(testEpoch, []*mvccpb.Event{e}); err != nil {
			t.Fatal(err)
		}
		if rev%20 == 0 {
			mem.sample()
		}
	}
	if d.ContentSize() < responses<<20 {
		t.Fatalf("%d bytes collected", d.ContentSize())
	}
	t.Logf("peak %d MB of heap", mem.peak>>20)
	if mem.peak == 0 || mem.peak > want {
		t.Errorf("%d bytes of heap, want at most %d", mem.peak, want)
	}
}

func TestCompressingALargeStreamTakesLittleMemory(t *testing.T) {
	const want = 60 << 20
	mem := newCeiling()
	z, err := Compress(generated(Native, 300<<20), snapshot.Zstd)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	for {
		if _, err := io.CopyN(io.Discard, z, 1<<20); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		mem.sample()
	}
	t.Logf("peak %d MB of heap", mem.peak>>20)
	if mem.peak == 0 || mem.peak > want {
		t.Errorf("%d bytes of heap, want at most %d", mem.peak, want)
	}
}
