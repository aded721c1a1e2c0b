package codec

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"druid.internal/druid/internal/backup/snapshot"
)

// text is n bytes of random letters and digits, in which there is next to nothing to find.
func text(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = "abcdefghijklmnopqrstuvwxyz0123456789"[r.IntN(36)]
	}
	return b
}

// objects are n bytes of versions of a few objects, of which each changes a little.
func objects(r *rand.Rand, n int) (b []byte) {
	fixed := text(r, 3000)
	for len(b) < n {
		b = append(b, fixed...)
		b = append(b, text(r, 100)...)
	}
	return b[:n]
}

// windowsOf splits what was packed and tells how large the window of each frame is.
func windowsOf(t *testing.T, packed []byte) (windows []uint64) {
	t.Helper()
	for len(packed) > 0 {
		var h zstd.Header
		if err := h.Decode(packed); err != nil {
			t.Fatal(err)
		}
		windows = append(windows, h.WindowSize)
		at := h.HeaderSize
		for last := false; !last; {
			head := int(packed[at]) | int(packed[at+1])<<8 | int(packed[at+2])<<16
			last = head&1 != 0
			size := head >> 3
			if kind := head >> 1 & 3; kind == 1 { // one byte, repeated
				size = 1
			}
			at += 3 + size
		}
		packed = packed[at+4:] // behind the checksum
	}
	return windows
}

func TestContentWithNothingToFindIsPackedLightly(t *testing.T) {
	const strongFrame, lightFrame = packWindow, lightWindow
	for name, c := range map[string]struct {
		content func(r *rand.Rand) []byte
		want    []uint64
	}{
		"objects":                     {func(r *rand.Rand) []byte { return objects(r, 5<<20) }, []uint64{strongFrame}},
		"text":                        {func(r *rand.Rand) []byte { return text(r, 5<<20) }, []uint64{strongFrame, lightFrame}},
		"text, too little to judge":   {func(r *rand.Rand) []byte { return text(r, trialBytes) }, []uint64{strongFrame}},
		"text, then objects":          {func(r *rand.Rand) []byte { return append(text(r, 3<<20), objects(r, 5<<20)...) }, []uint64{strongFrame, lightFrame, strongFrame}},
		"objects, then text":          {func(r *rand.Rand) []byte { return append(objects(r, 3<<20), text(r, 5<<20)...) }, []uint64{strongFrame, lightFrame}},
		"what cannot be packed":       {func(r *rand.Rand) []byte { b := make([]byte, 3<<20); fill(r, b); return b }, []uint64{strongFrame, lightFrame}},
		"what packs to nearly a half": {func(r *rand.Rand) []byte { return half(r, 6<<20) }, []uint64{strongFrame}},
	} {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(3, 3))
			content := c.content(r)
			var packed bytes.Buffer
			z, err := newZstdPacker(&packed, new(Packers), strong)
			if err != nil {
				t.Fatal(err)
			}
			for rest := content; len(rest) > 0; {
				n := min(len(rest), 1+r.IntN(300_000))
				if k, err := z.Write(rest[:n]); k != n || err != nil {
					t.Fatalf("%d of %d bytes, %v", k, n, err)
				}
				rest = rest[n:]
			}
			if err := z.Close(); err != nil {
				t.Fatal(err)
			}
			z.free()
			if got := windowsOf(t, packed.Bytes()); fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("frames with windows %d, want %d", got, c.want)
			}
			d, err := zstd.NewReader(&packed)
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			if got, err := io.ReadAll(d); err != nil || !bytes.Equal(got, content) {
				t.Errorf("%d bytes are unpacked, not the %d that were packed (%v)", len(got), len(content), err)
			}
		})
	}
}

func fill(r *rand.Rand, b []byte) {
	for i := range b {
		b[i] = byte(r.Uint32())
	}
}

// half is content of which a third is repeated: it packs to between well and nearly.
func half(r *rand.Rand, n int) (b []byte) {
	fixed := text(r, 800)
	for len(b) < n {
		b = append(append(b, fixed...), text(r, 1600)...)
	}
	return b[:n]
}

// TestCompressorsAreUsedAgain makes many deltas one after the other, of which the next begins before
// the one before it is sealed.
func TestCompressorsAreUsedAgain(t *testing.T) {
	p := new(Packers)
	random := rand.New(rand.NewPCG(5, 5))
	var before *Delta
	var used []strength
	for rev := int64(1); rev <= 20; rev++ {
		d, err := NewDelta(DeltaOptions{Packers: p, SpillDir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		used = append(used, d.packer.(*zstdPacker).is)
		if before != nil {
			s, err := before.Seal(testEpoch, snapshot.Manifest{})
			if err != nil {
				t.Fatal(err)
			}
			if records, _, err := readAll(s.Reader(), s.Name.Compression, ReaderOptions{}); err != nil || len(records) != 1 {
				t.Fatalf("%d records, %v", len(records), err)
			}
			s.Close()
		}
		event := &mvccpb.Event{Kv: &mvccpb.KeyValue{Key: []byte("k"), CreateRevision: 1, ModRevision: rev, Version: rev, Value: text(random, 3<<20)}}
		if err := d.Append(testEpoch.Add(time.Duration(rev)), []*mvccpb.Event{event}); err != nil {
			t.Fatal(err)
		}
		if err := d.Rest(); err != nil {
			t.Fatal(err)
		}
		if d.packer != nil {
			t.Fatal("a delta that rests holds a compressor")
		}
		before = d
	}
	before.Discard()
	for i, s := range used {
		want := light
		if i%lightInARow == 0 {
			want = strong
		}
		if s != want {
			t.Errorf("delta %d begins with strength %d, want %d", i, s, want)
		}
	}
	for s, e := range p.spare {
		if e == nil {
			t.Errorf("no compressor of strength %d is kept", s)
		}
	}
	kept := p.spare[strong]
	if e, err := p.take(strong, io.Discard); err != nil || e != kept {
		t.Errorf("another compressor than the one that is kept (%v)", err)
	}
	p.Drop()
	for s, e := range p.spare {
		if e != nil {
			t.Errorf("the compressor of strength %d is still kept", s)
		}
	}
}
