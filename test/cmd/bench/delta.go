package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"druid.internal/druid/internal/etcd/codec"
	"druid.internal/druid/test/workload"
)

func measureDeltas(ctx context.Context, b *bench) (*result, error) {
	dir := b.scratch("delta")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	events := b.of(objectEvents, objectEvents/4)
	done := doing("recording %d Kubernetes events", events)
	file := filepath.Join(dir, "events")
	if err := writeEvents(file, workload.NewKubernetes(workload.KubernetesOptions{Seed: 1}), events, objectsPerDelta); err != nil {
		return nil, err
	}
	done()
	formats := []codec.Format{codec.V2JSON, codec.Native, original}
	names := []string{"deltas, JSON+gzip, this codec", "deltas, native, this codec", "deltas, JSON+gzip, the original's libraries"}
	told := make([][]produced, len(formats))
	var steps []step
	for i, format := range formats {
		steps = append(steps, step{
			program: named(names[i], b.baseline("produce", string(format), file)),
			check: func(r run) error {
				var p produced
				if err := json.Unmarshal(r.stdout, &p); err != nil {
					return err
				}
				if p.Events != events {
					return fmt.Errorf("%d events were packed, want %d", p.Events, events)
				}
				told[i] = append(told[i], p)
				return nil
			},
		})
	}
	m, err := b.compare(ctx, b.rounds, steps...)
	if err != nil {
		return nil, err
	}
	size := func(i int) float64 { return float64(told[i][0].Bytes) }
	share := func(i, j int) float64 {
		var ratios []float64
		for round := range told[i] {
			ratios = append(ratios, float64(told[i][round].CPU)/float64(told[j][round].CPU))
		}
		return median(ratios)
	}
	for i := range m {
		var times []float64
		for _, p := range told[i] {
			times = append(times, p.CPU.Seconds())
		}
		m[i].note = fmt.Sprintf("%s; %.2f s of CPU to make them", bytesString(told[i][0].Bytes), time.Duration(median(times)*float64(time.Second)).Seconds())
	}
	return &result{
		programs: m,
		criteria: []criterion{
			{fmt.Sprintf("Native deltas of %d k Kubernetes events", events/1000), "bytes / JSON+gzip", size(1) / min(size(0), size(2)), atMost, 1.0 / 3, "x", false},
			{"", "CPU / JSON+gzip", share(1, 2), atMost, 1.0 / 5, "x", disturbed(m[1], m[2])},
		},
		remarks: []string{fmt.Sprintf("CPU time of JSON+gzip deltas is that of encoding/json and compress/gzip, the libraries the original uses; of the bytes the fewer count. This project's own encoder of the same format (--snapshot-format=v2-json) takes %.2f x their CPU time, and native deltas %.2f x that of it.",
			share(0, 2), share(1, 0))},
	}, nil
}
