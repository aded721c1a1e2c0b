package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
)

// baselines are the programs that the product is compared with.
var baselines = map[string]func(context.Context, []string) error{
	"gunzip":  gunzip,  // PATTERN         unpack files
	"read":    read,    // ENDPOINT        read a snapshot from an etcd
	"bare":    bare,    // ENDPOINT FILE   read it, hash it, pack it, write it
	"produce": produce, // FORMAT EVENTS   make deltas of recorded events

	"files":   files,   // DIR             read all files
	"inspect": inspect, // DIR             the product's full validation

	"upload":   upload,   // WHO REMOTE KEY BYTES  store a stream
	"download": download, // WHO REMOTE KEY BYTES  read it back
	"listing":  listing,  // REMOTE COUNT          list a bucket

	"extend":  extend,  // WAY REMOTE FROM COUNT  keep the backups of clusters locked
	"collect": collect, // REMOTE KEEP GONE       remove all but the newest fulls
}

func arguments(args []string, n int) error {
	if len(args) != n {
		return fmt.Errorf("want %d arguments, got %d", n, len(args))
	}
	return nil
}

// gunzip unpacks all files that match and throws the content away, as many at the same time as
// a restore decodes.
func gunzip(_ context.Context, args []string) error {
	if err := arguments(args, 1); err != nil {
		return err
	}
	files, err := filepath.Glob(args[0])
	if err != nil || len(files) == 0 {
		return fmt.Errorf("no file matches %q (%v)", args[0], err)
	}
	var g errgroup.Group
	g.SetLimit(2 * runtime.GOMAXPROCS(0))
	for _, file := range files {
		g.Go(func() error {
			f, err := os.Open(file)
			if err != nil {
				return err
			}
			defer f.Close()
			z, err := gzip.NewReader(bufio.NewReaderSize(f, 256<<10))
			if err != nil {
				return err
			}
			_, err = io.CopyBuffer(struct{ io.Writer }{io.Discard}, z, make([]byte, 256<<10))
			return err
		})
	}
	return g.Wait()
}

// stream opens a snapshot of an etcd.
func stream(ctx context.Context, endpoint string) (io.ReadCloser, error) {
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, DialTimeout: 10 * time.Second})
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { c.Close() })
	return c.Snapshot(ctx)
}

// read is the least it takes: the bytes arrive and are forgotten.
func read(ctx context.Context, args []string) error {
	if err := arguments(args, 1); err != nil {
		return err
	}
	src, err := stream(ctx, args[0])
	if err != nil {
		return err
	}
	defer src.Close()
	_, err = io.CopyBuffer(struct{ io.Writer }{io.Discard}, src, make([]byte, 256<<10))
	return err
}

// frameBytes and the settings below are those of the product.
const frameBytes = 8 << 20

// bare reads a snapshot, takes its SHA-256, packs it in frames of the product's size with the
// product's settings on two cores, and writes a file that is on the disk at the end. It verifies
// nothing and records nothing.
func bare(ctx context.Context, args []string) error {
	if err := arguments(args, 2); err != nil {
		return err
	}
	src, err := stream(ctx, args[0])
	if err != nil {
		return err
	}
	defer src.Close()
	f, err := os.OpenFile(args[1], os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	const cores = 2
	z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(cores), zstd.WithWindowSize(frameBytes), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return err
	}
	packed := make(chan chan []byte, cores-1) // in order; a full queue makes the reader wait
	written := make(chan error, 1)
	go func() {
		var failed error
		for frame := range packed {
			b := <-frame
			if failed == nil {
				_, failed = f.Write(b)
			}
		}
		written <- failed
	}()
	sum := sha256.New()
	var end error
	for end == nil {
		content := make([]byte, frameBytes)
		var n int
		n, end = io.ReadFull(src, content)
		sum.Write(content[:n])
		frame := make(chan []byte, 1)
		go func() { frame <- z.EncodeAll(content[:n], nil) }()
		packed <- frame
	}
	close(packed)
	if err := <-written; err != nil {
		return err
	}
	if !errors.Is(end, io.EOF) && !errors.Is(end, io.ErrUnexpectedEOF) {
		return end
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]string{"sha256": fmt.Sprintf("%x", sum.Sum(nil))})
}
