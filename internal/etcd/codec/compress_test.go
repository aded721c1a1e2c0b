package codec

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
	"testing/iotest"

	"druid.internal/druid/internal/backup/snapshot"
)

// blend is n bytes that compress about by half.
func blend(n int) []byte {
	r := rand.NewChaCha8([32]byte{1})
	b := make([]byte, n)
	for i := 0; i+512 <= n; i += 1024 {
		r.Read(b[i : i+512])
	}
	return b
}

func TestWhatIsCompressedIsDecompressed(t *testing.T) {
	for name, c := range suffixes {
		t.Run(name, func(t *testing.T) {
			for _, size := range []int{0, 1, 1000, pieceBytes, frameBytes, 2*frameBytes + 77} {
				if c == snapshot.LZW && size > frameBytes {
					continue // slow, and no different
				}
				want := blend(size)
				if got := unpack(t, pack(t, want, c), c); !bytes.Equal(got, want) {
					t.Errorf("%d bytes come back as %d other ones", size, len(got))
				}
			}
		})
	}
}

func TestAFailingSourceFailsTheCompressedStream(t *testing.T) {
	broken := errors.New("snapshot stream broken")
	for name, c := range suffixes {
		t.Run(name, func(t *testing.T) {
			for _, cause := range []error{broken, io.ErrUnexpectedEOF} {
				for _, n := range []int{0, 1, pieceBytes, pieceBytes + 1, frameBytes, frameBytes + 100} {
					if c == snapshot.LZW && n > pieceBytes+1 {
						continue
					}
					z, err := Compress(io.MultiReader(bytes.NewReader(blend(n)), iotest.ErrReader(cause)), c)
					if err != nil {
						t.Fatal(err)
					}
					if _, err := io.Copy(io.Discard, z); !errors.Is(err, cause) {
						t.Errorf("source cut after %d bytes with %q: the packed stream ends with %v", n, cause, err)
					}
					z.Close()
				}
			}
		})
	}
}

func TestAnAbandonedCompressionStops(t *testing.T) {
	for name, c := range suffixes {
		t.Run(name, func(t *testing.T) {
			endless := &counting{r: rand.NewChaCha8([32]byte{2})}
			z, err := Compress(endless, c)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.CopyN(io.Discard, z, 1<<20); err != nil {
				t.Fatal(err)
			}
			if err := z.Close(); err != nil {
				t.Fatal(err)
			}
			if _, err := z.Read(make([]byte, 1)); c != snapshot.None && (err == nil || err == io.EOF) {
				// What was ready before Close may still be read, but never an end.
				if _, err = io.CopyN(io.Discard, z, 1<<30); err == nil || err == io.EOF {
					t.Errorf("reading on after Close: %v", err)
				}
			}
			if endless.n > 1<<28 {
				t.Errorf("read %d bytes ahead", endless.n)
			}
		})
	}
}

type counting struct {
	r io.Reader
	n int64
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

func TestDamagedStreamsAreRefused(t *testing.T) {
	content := blend(10_000)
	for name, c := range suffixes {
		if c == snapshot.None {
			continue // knows no end
		}
		t.Run(name, func(t *testing.T) {
			object := pack(t, content, c)
			end := len(object)
			if c == snapshot.Zstd {
				end -= 8 + 8 + 9 // the seek table may be missing
			}
			for n := 0; n < end; n += 1 + n/50 {
				z, err := Decompress(bytes.NewReader(object[:n]), c)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := io.Copy(io.Discard, z); !errors.Is(err, ErrTruncated) {
					t.Fatalf("cut after %d of %d bytes: %v, want ErrTruncated", n, len(object), err)
				}
				z.Close()
			}
			for behind, want := range map[string]error{"x": ErrMalformed, "garbage behind the end": ErrMalformed} {
				z, err := Decompress(bytes.NewReader(append(bytes.Clone(object), behind...)), c)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := io.Copy(io.Discard, z); !errors.Is(err, want) && !errors.Is(err, ErrTruncated) {
					t.Errorf("with %q behind the end: %v, want %v", behind, err, want)
				}
				z.Close()
			}
			z, err := Decompress(bytes.NewReader([]byte("this is not a packed stream at all")), c)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, z); c != snapshot.LZW && !errors.Is(err, ErrMalformed) {
				t.Errorf("of something else: %v, want ErrMalformed", err)
			}
			z.Close()
		})
	}
}

func TestTheSeekTableLeadsToEveryFrame(t *testing.T) {
	content := blend(2*frameBytes + 12345)
	object := pack(t, content, snapshot.Zstd)
	footer := object[len(object)-9:]
	frames := int(binary.LittleEndian.Uint32(footer))
	if magic := binary.LittleEndian.Uint32(footer[5:]); magic != 0x8F92EAB1 || frames != 3 {
		t.Fatalf("%d frames with the magic %#x, want 3", frames, magic)
	}
	entries := object[len(object)-9-8*frames:]
	packed, unpacked := 0, 0
	for i := range frames {
		p, u := int(binary.LittleEndian.Uint32(entries[8*i:])), int(binary.LittleEndian.Uint32(entries[8*i+4:]))
		if got := unpack(t, object[packed:packed+p], snapshot.Zstd); !bytes.Equal(got, content[unpacked:unpacked+u]) {
			t.Errorf("frame %d does not stand for bytes %d to %d", i, unpacked, unpacked+u)
		}
		packed += p
		unpacked += u
	}
	if unpacked != len(content) || packed != len(object)-9-8*frames-8 {
		t.Errorf("the table covers %d bytes of content and %d packed ones", unpacked, packed)
	}
}
