package main

import (
	"context"
	"fmt"
	"path/filepath"

	"druid.internal/druid/internal/etcd/codec"
	"druid.internal/druid/test/workload"
)

// The large restore: a full of 8 M keys and one delta with 1 GB of values.
const (
	largeKeys   = 8_000_000
	largeEvents = 1_000_000
	largeDisk   = 45 << 30 // bytes needed: the database, the bucket, the unpacked full and the result
)

func measureMemory(ctx context.Context, b *bench) (*result, error) {
	keys, events := b.of(largeKeys, largeKeys/50), b.of(largeEvents, largeEvents/50)
	if !b.quick {
		if err := b.room(largeDisk); err != nil {
			return nil, err
		}
	}
	bucket := filepath.Join(b.scratch("memory"), "bucket")
	done := doing("making a full of %d keys and one delta of %d events", keys, events)
	if err := makeBucket(ctx, bucket, codec.Native, workload.NewRandom(2, keys, valueBytes), keys, events, events); err != nil {
		return nil, err
	}
	done()
	const name = "restore, 8 M keys, --memory-limit=128Mi"
	s := b.restoring(name, bucket, events, 1+keys+events, "--memory-limit=128Mi")
	var got restored
	whole := s.check
	s.check = func(r run) (err error) {
		if err := whole(r); err != nil {
			return err
		}
		got, err = parseRestored(r)
		return err
	}
	const rounds = 1 // it takes minutes, and memory does not depend on what else the machine does
	m, err := b.compare(ctx, rounds, s)
	if err != nil {
		return nil, err
	}
	m[0].note = fmt.Sprintf("spilled %s", bytesString(got.SpilledBytes))
	return &result{
		programs: m,
		criteria: []criterion{{fmt.Sprintf("Restore onto %.1f M x 1 KB, delta of %s, 128 MiB", float64(keys)/1e6, bytesString(int64(events)*valueBytes)),
			"anonymous memory", m[0].worst(anon), atMost, 200, "MB", false}},
		remarks: []string{fmt.Sprintf("The large restore spilled %s to disk and wrote a database of %s.", bytesString(got.SpilledBytes), bytesString(got.DatabaseBytes))},
	}, nil
}
