package main

import (
	"bufio"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"golang.org/x/sys/unix"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/etcd/codec"
	"druid.internal/druid/test/workload"
)

// original is how the original makes its deltas; the other formats are the product's.
const original = codec.Format("original")

// produced is what the sub-command produce prints.
type produced struct {
	CPU    time.Duration `json:"cpu"`   // of making deltas, without reading the events
	Bytes  int64         `json:"bytes"` // of the deltas
	Events int           `json:"events"`
}

// produce makes deltas of recorded events, one after the other as a snapshotter does, and counts
// the processor time of that alone: events are read into memory first.
func produce(_ context.Context, args []string) error {
	if err := arguments(args, 2); err != nil {
		return err
	}
	f, err := os.Open(args[1])
	if err != nil {
		return err
	}
	defer f.Close()
	src := bufio.NewReaderSize(f, 1<<20)
	var total produced
	packers := new(codec.Packers)
	for {
		events, err := readEvents(src)
		if err == io.EOF {
			return json.NewEncoder(os.Stdout).Encode(total)
		}
		if err != nil {
			return err
		}
		runtime.GC() // what reading left behind is not to be collected on the producer's account
		before := cpuTime()
		n, err := packDelta(codec.Format(args[0]), packers, events)
		if err != nil {
			return err
		}
		total.CPU += cpuTime() - before
		total.Bytes += n
		total.Events += len(events)
	}
}

func packDelta(format codec.Format, packers *codec.Packers, events []*mvccpb.Event) (int64, error) {
	if format == original {
		var n counter
		err := packOriginal(&n, events)
		return int64(n), err
	}
	received := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	d, err := codec.NewDelta(codec.DeltaOptions{Format: format, Compression: snapshot.Gzip, MemoryLimit: 1 << 30, Packers: packers})
	if err != nil {
		return 0, err
	}
	defer d.Discard()
	for i := range events {
		if err := d.Append(received.Add(time.Duration(i)*time.Millisecond), events[i:i+1]); err != nil {
			return 0, err
		}
	}
	sealed, err := d.Seal(received, snapshot.Manifest{})
	if err != nil {
		return 0, err
	}
	return sealed.Size(), sealed.Close()
}

// originalEvent is an element of the original's JSON.
type originalEvent struct {
	EtcdEvent *mvccpb.Event `json:"etcdEvent"`
	Time      time.Time     `json:"time"`
}

// packOriginal makes a delta with the libraries the original uses: encoding/json, event by event,
// and compress/gzip at its default level. It keeps nothing in between, which is in its favour.
func packOriginal(w io.Writer, events []*mvccpb.Event) error {
	received := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	sum, z := sha256.New(), gzip.NewWriter(w)
	out := io.MultiWriter(sum, z)
	for i, e := range events {
		b, err := json.Marshal(originalEvent{e, received.Add(time.Duration(i) * time.Millisecond)})
		if err != nil {
			return err
		}
		if _, err := io.WriteString(out, separator(i)); err != nil {
			return err
		}
		if _, err := out.Write(b); err != nil {
			return err
		}
	}
	if _, err := io.WriteString(out, "]"); err != nil {
		return err
	}
	if _, err := z.Write(sum.Sum(nil)); err != nil {
		return err
	}
	return z.Close()
}

// separator is what stands before the i-th element of a JSON array.
func separator(i int) string {
	if i == 0 {
		return "["
	}
	return ","
}

type counter int64

func (c *counter) Write(p []byte) (int, error) { *c += counter(len(p)); return len(p), nil }

func cpuTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		panic(err) // only an invalid argument can fail
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// writeEvents records the next events of g in groups of perDelta.
func writeEvents(path string, g workload.Generator, events, perDelta int) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	w := bufio.NewWriterSize(f, 1<<20)
	for events > 0 {
		n := min(events, perDelta)
		events -= n
		if _, err := w.Write(binary.AppendUvarint(nil, uint64(n))); err != nil {
			return err
		}
		for range n {
			b, err := g.Next().Marshal()
			if err != nil {
				return err
			}
			if _, err := w.Write(binary.AppendUvarint(nil, uint64(len(b)))); err != nil {
				return err
			}
			if _, err := w.Write(b); err != nil {
				return err
			}
		}
	}
	return errors.Join(w.Flush(), f.Close())
}

// readEvents reads the events of the next delta; io.EOF when there is none.
func readEvents(r *bufio.Reader) ([]*mvccpb.Event, error) {
	n, err := binary.ReadUvarint(r)
	if err != nil {
		return nil, err
	}
	events := make([]*mvccpb.Event, n)
	for i := range events {
		size, err := binary.ReadUvarint(r)
		if err != nil {
			return nil, fmt.Errorf("event %d of %d: %w", i, n, io.ErrUnexpectedEOF)
		}
		b := make([]byte, size)
		if _, err := io.ReadFull(r, b); err != nil {
			return nil, fmt.Errorf("event %d of %d: %w", i, n, err)
		}
		events[i] = &mvccpb.Event{}
		if err := events[i].Unmarshal(b); err != nil {
			return nil, err
		}
	}
	return events, nil
}
