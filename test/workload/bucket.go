package workload

import (
	"compress/gzip"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"golang.org/x/sync/errgroup"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/etcd/codec"
	"druid.internal/druid/internal/etcd/datadir"
)

// Bucket is a directory that a Local store takes for its container, filled with one full and
// the deltas that follow it, as one of two programs would have left them there.
type Bucket struct {
	Dir    string // of the container
	Prefix string
	// Format Native: as this project writes, in zstd, with manifests and one lineage. V2JSON: as
	// the original writes, packed by compress/gzip at its default level, without manifests.
	Format codec.Format

	lineage  snapshot.Lineage
	previous snapshot.Digest
	created  time.Time
	deltas   int
	packing  errgroup.Group // the original's slow gzip, on all processors
}

// lineageID is that of every bucket of ours.
const lineageID = "5f0c2a8e9d4b4c1f8a7e6d5c4b3a2910"

// NewBucket makes the directory.
func NewBucket(dir, prefix string, format codec.Format) (*Bucket, error) {
	b := &Bucket{Dir: dir, Prefix: prefix, Format: format, lineage: snapshot.Lineage{ID: lineageID}, created: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)}
	b.packing.SetLimit(runtime.GOMAXPROCS(0))
	return b, os.MkdirAll(filepath.Dir(b.path(snapshot.Name{Kind: snapshot.Full})), 0o700)
}

func (b *Bucket) path(n snapshot.Name) string {
	return filepath.Join(b.Dir, filepath.FromSlash(snapshot.SnapshotKey(snapshot.Prefix(b.Prefix), n).String()))
}

// tick is the time of the next object: twenty seconds later.
func (b *Bucket) tick() time.Time {
	b.created = b.created.Add(20 * time.Second)
	return b.created
}

// Full stores the database at path, whose last revision is given, with the trailer that etcd
// gives to a snapshot.
func (b *Bucket) Full(ctx context.Context, path string, last int64) error {
	n := snapshot.Name{Kind: snapshot.Full, Last: snapshot.Revision(last), Created: b.tick().Unix(), Compression: snapshot.Zstd}
	m := snapshot.Manifest{Version: snapshot.ManifestVersion, Lineage: b.lineage, LastRevision: n.Last, Latest: b.created}
	if b.Format == codec.V2JSON {
		n.Compression = snapshot.Gzip
	} else if err := recordHash(ctx, path, &m); err != nil {
		return err
	}
	m.Snapshot = n.String()
	src, size, err := datadir.NewSnapshotReader(path)
	if err != nil {
		return err
	}
	defer src.Close()
	m.ContentSize = size
	f, err := os.Create(b.path(n))
	if err != nil {
		return err
	}
	defer f.Close()
	sum := sha256.New()
	out := io.MultiWriter(f, sum)
	if b.Format == codec.V2JSON {
		err = packGzip(out, src)
	} else {
		err = packZstd(out, src)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", f.Name(), err)
	}
	if m.Size, err = f.Seek(0, io.SeekCurrent); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	m.Digest = snapshot.Digest(sum.Sum(nil))
	b.previous = m.Digest
	if b.Format == codec.V2JSON {
		return nil
	}
	key := snapshot.SnapshotKey(snapshot.Prefix(b.Prefix), n).Manifest().String()
	return os.WriteFile(filepath.Join(b.Dir, filepath.FromSlash(key)), m.Encode(), 0o600)
}

// recordHash adds to a manifest what etcd is asked for when a full was taken.
func recordHash(ctx context.Context, path string, m *snapshot.Manifest) error {
	db, err := datadir.OpenDB(path)
	if err != nil {
		return err
	}
	defer db.Close()
	h, _, err := db.HashKV(ctx, m.LastRevision, 0, "")
	m.HashKV = &h
	return err
}

func packZstd(out io.Writer, src io.Reader) error {
	z, err := codec.Compress(src, snapshot.Zstd)
	if err != nil {
		return err
	}
	defer z.Close()
	_, err = io.Copy(out, z)
	return err
}

// packGzip packs as the original does: with the standard library, at its default level.
func packGzip(out io.Writer, src io.Reader) error {
	z := gzip.NewWriter(out)
	if _, err := io.CopyBuffer(z, src, make([]byte, 256<<10)); err != nil {
		return err
	}
	return z.Close()
}

// Deltas stores the next events of g in objects of perDelta events each. Call Close afterwards.
func (b *Bucket) Deltas(g Generator, events, perDelta int) error {
	for events > 0 {
		n := min(events, perDelta)
		events -= n
		if err := b.delta(g, n); err != nil {
			return err
		}
	}
	return nil
}

// Close waits until everything is written.
func (b *Bucket) Close() error { return b.packing.Wait() }

// Count is how many deltas were stored.
func (b *Bucket) Count() int { return b.deltas }

func (b *Bucket) delta(g Generator, events int) error {
	// The original's JSON is packed by packGzip, so the codec leaves it unpacked.
	d, err := codec.NewDelta(codec.DeltaOptions{Format: b.Format, Compression: snapshot.None, SpillDir: b.Dir})
	if err != nil {
		return err
	}
	defer d.Discard()
	received := b.tick()
	for i := range events {
		if err := d.Append(received.Add(time.Duration(i)*time.Millisecond), []*mvccpb.Event{g.Next()}); err != nil {
			return err
		}
	}
	m := snapshot.Manifest{Lineage: b.lineage, Previous: b.previous}
	if d.Leases() > 0 {
		m.Leases = []snapshot.LeaseRecord{{Revision: d.Last()}}
	}
	for _, id := range d.LeaseIDs() {
		m.Leases[0].States = append(m.Leases[0].States, snapshot.LeaseState{ID: id, TTL: eventTTL})
	}
	sealed, err := d.Seal(received, m)
	if err != nil {
		return err
	}
	b.deltas++
	b.previous = sealed.Manifest.Digest
	n, pack := sealed.Name, func(w io.Writer, r io.Reader) error { _, err := io.Copy(w, r); return err }
	if b.Format == codec.V2JSON {
		n.Compression, pack = snapshot.Gzip, packGzip
	}
	b.packing.Go(func() error {
		defer sealed.Close()
		f, err := os.Create(b.path(n))
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pack(f, sealed.Reader()); err != nil {
			return fmt.Errorf("write %s: %w", f.Name(), err)
		}
		return f.Close()
	})
	return nil
}
