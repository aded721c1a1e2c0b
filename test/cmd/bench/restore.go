package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"druid.internal/druid/internal/etcd/codec"
	"druid.internal/druid/test/workload"
)

const prefix = "ns--uid/etcd-main"

// storeFlags name a Local store.
func storeFlags(dir string) []string {
	return []string{"--storage-provider=Local", "--store-container=" + dir, "--store-prefix=" + prefix}
}

// restored is what `etcdbrctl restore -o json` tells.
type restored struct {
	Revision      int64
	Keys          int64
	Events        int64
	DatabaseBytes int64
	SpilledBytes  int64
}

// restoring restores a bucket and checks that all events arrived.
func (b *bench) restoring(name, bucket string, events, last int, flags ...string) step {
	dir := filepath.Join(filepath.Dir(bucket), "restored")
	args := append([]string{"restore", "-o", "json", "--data-dir=" + dir, "--initial-cluster=default=http://127.0.0.1:2380",
		"--initial-advertise-peer-urls=http://127.0.0.1:2380"}, storeFlags(bucket)...)
	return step{
		program: program{name: name, path: b.etcdbrctl, args: append(args, flags...)},
		check: func(r run) error {
			got, err := parseRestored(r)
			if err != nil {
				return err
			}
			if got.Revision != int64(last) || got.Events != int64(events) {
				return fmt.Errorf("restored %d events up to revision %d, want %d up to %d", got.Events, got.Revision, events, last)
			}
			return nil
		},
		after: func() error { return os.RemoveAll(dir) },
	}
}

func parseRestored(r run) (restored, error) {
	var v restored
	if err := json.Unmarshal(r.stdout, &v); err != nil {
		return v, fmt.Errorf("output of restore: %w:\n%s", err, r.stdout)
	}
	return v, nil
}

// The sizes of the workloads.
const (
	randomKeys      = 100_000
	randomEvents    = 500_000
	randomPerDelta  = 7000 // 10 MB of JSON: where the original cuts
	valueBytes      = 1024
	objectEvents    = 211_000
	objectsPerDelta = 15_000
)

func measureRestores(ctx context.Context, b *bench) (*result, error) {
	dir := b.scratch("restore")
	keys, events := b.of(randomKeys, randomKeys/5), b.of(randomEvents, randomEvents/5)
	done := doing("making buckets: %d events over %d keys of 1 KB in both encodings, and %d of Kubernetes", events, keys, b.of(objectEvents, objectEvents/4))
	buckets := map[codec.Format]string{}
	for _, format := range []codec.Format{codec.V2JSON, codec.Native} {
		buckets[format] = filepath.Join(dir, "random-"+string(format), "bucket")
		if err := makeBucket(ctx, buckets[format], format, workload.NewRandom(1, keys, valueBytes), keys, events, randomPerDelta); err != nil {
			return nil, err
		}
	}
	objects := filepath.Join(dir, "kubernetes", "bucket")
	changes := b.of(objectEvents, objectEvents/4)
	if err := makeBucket(ctx, objects, codec.Native, workload.NewKubernetes(workload.KubernetesOptions{Seed: 1}), 0, changes, objectsPerDelta); err != nil {
		return nil, err
	}
	done()
	last := 1 + keys + events
	// A few seconds each: more rounds cost little and make up for whatever disturbs one of them.
	m, err := b.compare(ctx, 3*b.rounds,
		step{program: named("gunzip of all deltas", b.baseline("gunzip", filepath.Join(buckets[codec.V2JSON], prefix, "v2", "Incr-*.gz")))},
		b.restoring("restore, random, JSON+gzip", buckets[codec.V2JSON], events, last),
		b.restoring("restore, random, native", buckets[codec.Native], events, last),
		b.restoring("the same, keeping all history", buckets[codec.Native], events, last, "--keep-history"),
		b.restoring("restore, Kubernetes, native, compacted", objects, changes, 1+changes),
	)
	if err != nil {
		return nil, err
	}
	gunzip, fromJSON, native, kubernetes := m[0], m[1], m[2], m[4]
	return &result{
		programs: m,
		criteria: []criterion{
			{fmt.Sprintf("Restore %d k x 1 KB events, JSON+gzip", events/1000), "time / gunzip of all deltas", ratio(fromJSON, gunzip, wall), atMost, 1.6, "x", disturbed(fromJSON, gunzip)},
			{"", "speed", fromJSON.rate(events), atLeast, 100_000, "events/s", disturbed(fromJSON)},
			{"The same, native encoding", "speed", native.rate(events), atLeast, 300_000, "events/s", disturbed(native)},
			{fmt.Sprintf("Restore %d k Kubernetes events, native, compacted", changes/1000), "speed", kubernetes.rate(changes), atLeast, 500_000, "events/s", disturbed(kubernetes)},
		},
		remarks: []string{fmt.Sprintf("CPU time of the JSON+gzip restore is %.2f x that of gunzip.", ratio(fromJSON, gunzip, cpu))},
	}, nil
}

func named(name string, p program) program {
	p.name = name
	return p
}

// makeBucket fills a bucket with a full that holds the first events of g, and deltas of the rest.
func makeBucket(ctx context.Context, dir string, format codec.Format, g workload.Generator, inFull, events, perDelta int) error {
	data, err := workload.NewDataDir(ctx, filepath.Join(filepath.Dir(dir), "etcd"))
	if err != nil {
		return err
	}
	path := workload.DatabaseFile(data)
	last, err := fill(ctx, path, g, func(done int, _ int64) bool { return done < inFull })
	if err != nil {
		return err
	}
	bucket, err := workload.NewBucket(dir, prefix, format)
	if err != nil {
		return err
	}
	if err := bucket.Full(ctx, path, last); err != nil {
		return err
	}
	if err := os.RemoveAll(filepath.Dir(data)); err != nil {
		return err
	}
	if err := bucket.Deltas(g, events, perDelta); err != nil {
		return err
	}
	return bucket.Close()
}

// fill puts events of g into a database while more says so, and returns the last revision.
func fill(ctx context.Context, path string, g workload.Generator, more func(done int, size int64) bool) (int64, error) {
	w, err := workload.OpenDatabase(path)
	if err != nil {
		return 0, err
	}
	for done := 0; more(done, w.Size()); done++ {
		if done%1000 == 0 && ctx.Err() != nil {
			w.Abort()
			return 0, ctx.Err()
		}
		if err := w.Put(g.Next()); err != nil {
			w.Abort()
			return 0, err
		}
	}
	var leases map[int64]int64
	if k, is := g.(*workload.Kubernetes); is {
		leases = k.Leases()
	}
	return w.Last(), w.Close(leases)
}
