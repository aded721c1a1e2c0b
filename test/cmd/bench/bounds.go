package main

import (
	"compress/gzip"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/etcd/codec"
	"druid.internal/druid/test/workload"
)

// The hostile inputs of the group bounds: what someone who can write to a bucket adds to it.
const (
	floodObjects = 200_000   // of one kind
	bombBytes    = 4 << 30   // that a forged full of 4 MB unpacks to
	eventBytes   = 100 << 20 // that a forged delta of 12 KB unpacks to
	largeDeltas  = 12        // such deltas
	chainDeltas  = 2000      // of an unchanged bucket
	boundsKeys   = 2000      // in the good backup
	boundsMemory = 64 << 20  // of --memory-limit
)

func measureBounds(ctx context.Context, b *bench) (*result, error) {
	if err := os.MkdirAll(b.scratch("bounds"), 0o700); err != nil {
		return nil, err
	}
	var all result
	for _, part := range []func(context.Context, *bench) (*result, error){measureBoundsCLI, measureBoundsSidecar, measureBoundsOperator} {
		r, err := part(ctx, b)
		if err != nil {
			return nil, err
		}
		all.add(r)
	}
	return &all, nil
}

// floods are the names of forged objects without content, by their kind.
var floods = []struct {
	kind string
	name func(i int) string
}{
	{"junk", func(i int) string { return fmt.Sprintf("Junk-%09d", i) }},
	{"deltas", func(i int) string { return fmt.Sprintf("Incr-%08d-%08d-%d.zst", 1000+i, 1000+i, 1795165100+i) }},
	{"fulls", func(i int) string { return fmt.Sprintf("Full-00000000-%08d-%d.gz", 900+i, 1795165100+i) }},
	{"manifests", func(i int) string { return fmt.Sprintf("Manifest-Full-00000000-%08d-%d.gz", 900+i, 1795165100+i) }},
}

// flood makes n empty files.
func flood(dir string, n int, name func(int) string) error {
	for i := range n {
		f, err := os.OpenFile(filepath.Join(dir, name(i)), os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	return nil
}

// goodBackup makes a bucket with a full and some deltas.
func goodBackup(ctx context.Context, dir string) (last int, err error) {
	const events = 500
	err = makeBucket(ctx, dir, codec.Native, workload.NewRandom(7, boundsKeys, valueBytes), boundsKeys, events, events/5)
	return 1 + boundsKeys + events, err
}

// objects is the directory of the objects of a Local store.
func objects(bucket string) string { return filepath.Join(bucket, prefix, "v2") }

// forging gives events values of zeros once it is on.
type forging struct {
	workload.Generator
	on bool
}

func (g *forging) Next() *mvccpb.Event {
	e := g.Generator.Next()
	if g.on {
		e.Kv.Value = make([]byte, eventBytes)
	}
	return e
}

// forgedDeltas makes a bucket with a good full and forged deltas that continue it.
func forgedDeltas(ctx context.Context, dir string, n int) error {
	g := &forging{Generator: workload.NewRandom(7, boundsKeys, valueBytes)}
	data, err := workload.NewDataDir(ctx, filepath.Join(filepath.Dir(dir), "etcd"))
	if err != nil {
		return err
	}
	path := workload.DatabaseFile(data)
	last, err := fill(ctx, path, g, func(done int, _ int64) bool { return done < boundsKeys })
	if err != nil {
		return err
	}
	bucket, err := workload.NewBucket(dir, prefix, codec.Native)
	if err != nil {
		return err
	}
	if err := bucket.Full(ctx, path, last); err != nil {
		return err
	}
	g.on = true
	if err := bucket.Deltas(g, n, 1); err != nil {
		return err
	}
	return bucket.Close()
}

// bomb adds a full that claims the newest revision and unpacks to zeros, with a manifest that
// fits, as the newest of the lineage.
func bomb(v2 string, last, size int64) error {
	manifests, err := filepath.Glob(filepath.Join(v2, "Manifest-Full-*"))
	if err != nil || len(manifests) == 0 {
		return fmt.Errorf("no manifest in %s: %w", v2, err)
	}
	content, err := os.ReadFile(manifests[0])
	if err != nil {
		return err
	}
	genuine, err := snapshot.ParseName(strings.TrimPrefix(filepath.Base(manifests[0]), "Manifest-"))
	if err != nil {
		return err
	}
	m, err := snapshot.ParseManifest(genuine, content)
	if err != nil {
		return err
	}
	name := snapshot.Name{Kind: snapshot.Full, Last: snapshot.Revision(last), Created: time.Now().Unix(), Compression: snapshot.Gzip}
	f, err := os.Create(filepath.Join(v2, name.String()))
	if err != nil {
		return err
	}
	defer f.Close()
	sum := sha256.New()
	z := gzip.NewWriter(io.MultiWriter(f, sum))
	zeros := make([]byte, 1<<20)
	for done := int64(0); done < size; done += int64(len(zeros)) {
		if _, err := z.Write(zeros); err != nil {
			return err
		}
	}
	if _, err := z.Write(zeros[:sha256.Size]); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	m.Snapshot, m.LastRevision, m.HashKV, m.ContentSize = name.String(), name.Last, nil, size+sha256.Size
	if m.Size, err = f.Seek(0, io.SeekCurrent); err != nil {
		return err
	}
	m.Digest = snapshot.Digest(sum.Sum(nil))
	return os.WriteFile(filepath.Join(v2, "Manifest-"+name.String()), m.Encode(), 0o600)
}
