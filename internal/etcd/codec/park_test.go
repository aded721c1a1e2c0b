package codec

import (
	"bytes"
	stdgzip "compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"druid.internal/druid/internal/backup/snapshot"
)

// TestAParkedDeltaIsTheSameDelta parks between any two responses and before sealing, with little
// and with much memory, and with a directory in which no file can be made.
func TestAParkedDeltaIsTheSameDelta(t *testing.T) {
	all := history(rand.New(rand.NewPCG(7, 7)), 2, 600)
	dirs := map[string]string{"a directory": t.TempDir(), "no directory": filepath.Join(t.TempDir(), "missing")}
	for dirName, dir := range dirs {
		for _, o := range []DeltaOptions{
			{Format: Native}, {Format: Native, MemoryLimit: 70_000}, {Format: V2JSON}, {Format: V2JSON, Compression: snapshot.Gzip},
			{Format: V2JSON, Compression: snapshot.Gzip, MemoryLimit: 70_000}, {Format: V2JSON, Compression: snapshot.Zlib}, {Format: V2JSON, Compression: snapshot.LZW},
		} {
			if o.MemoryLimit > 0 && dirName == "no directory" {
				continue // it could not even grow
			}
			for _, every := range []int{1, 97, len(all)} {
				t.Run(fmt.Sprintf("%s%s, %d bytes, %s, every %d", o.Format, o.Compression, o.MemoryLimit, dirName, every), func(t *testing.T) {
					o.SpillDir = dir
					d, err := NewDelta(o)
					if err != nil {
						t.Fatal(err)
					}
					defer d.Discard()
					for i, resp := range all {
						if err := d.Append(resp.received, resp.events); err != nil {
							t.Fatal(err)
						}
						if (i+1)%every != 0 {
							continue
						}
						if err := d.Park(); err != nil && dirName == "a directory" {
							t.Fatal(err)
						}
						if dirName == "a directory" && d.spool.inMem != 0 {
							t.Fatalf("%d bytes stay in memory", d.spool.inMem)
						}
					}
					leases := []snapshot.LeaseRecord{{Revision: d.Last(), States: snapshot.LeaseStates{{ID: 7, TTL: 60}}}}
					s, err := d.Seal(testEpoch.Add(time.Hour), snapshot.Manifest{Leases: leases})
					if err != nil {
						t.Fatal(err)
					}
					defer s.Close()
					object, err := io.ReadAll(s.Reader())
					if err != nil || int64(len(object)) != s.Size() {
						t.Fatalf("%d bytes of %d: %v", len(object), s.Size(), err)
					}
					got, r, err := readAll(bytes.NewReader(object), s.Name.Compression, ReaderOptions{})
					if err != nil {
						t.Fatal(err)
					}
					if diff := diffRecords(wantRecords(t, all), got); diff != "" {
						t.Error(diff)
					}
					if o.Format == Native && len(r.Leases()) == 0 {
						t.Error("the lease is lost")
					}
					if o.Compression == snapshot.Gzip {
						wantReadByTheOriginal(t, object)
					}
				})
			}
		}
	}
}

// wantReadByTheOriginal reads as the original does: all of it with the standard library, and the
// last 32 bytes are the digest of the rest.
func wantReadByTheOriginal(t *testing.T, object []byte) {
	t.Helper()
	z, err := stdgzip.NewReader(bytes.NewReader(object))
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(z)
	if err != nil || len(content) <= sha256.Size {
		t.Fatalf("%d bytes: %v", len(content), err)
	}
	text, digest := content[:len(content)-sha256.Size], content[len(content)-sha256.Size:]
	if sum := sha256.Sum256(text); !bytes.Equal(sum[:], digest) {
		t.Error("the digest at the end is wrong")
	}
}

// TestADeltaThatCannotBeParkedGoesOnInMemory fills the disk while a delta is parked, by a limit on
// the size of files.
func TestADeltaThatCannotBeParkedGoesOnInMemory(t *testing.T) {
	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)
	s := &spool{limit: 1 << 20, dir: t.TempDir()}
	defer s.Close()
	want := bytes.Repeat([]byte("0123456789abcdef"), 3*spoolPage/16)
	if _, err := s.Write(want[:2*spoolPage]); err != nil {
		t.Fatal(err)
	}
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: spoolPage, Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	parked := s.park()
	_, written := s.Write(want[2*spoolPage:])
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(parked, syscall.EFBIG) {
		t.Errorf("park = %v, want that there is no room", parked)
	}
	if written != nil {
		t.Errorf("what followed went to the disk: %v", written)
	}
	got := make([]byte, len(want))
	if _, err := s.ReadAt(got, 0); err != nil || !bytes.Equal(got, want) {
		t.Errorf("what was written is not what is read (%v)", err)
	}
	if err := s.park(); err != nil {
		t.Errorf("parking with room again: %v", err)
	}
	if _, err := s.ReadAt(got, 0); err != nil || !bytes.Equal(got, want) {
		t.Errorf("after it was parked something else is read (%v)", err)
	}
}
