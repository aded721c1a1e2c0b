package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// measureBoundsCLI looks at verbs of etcdbrctl that read what someone forged.
func measureBoundsCLI(ctx context.Context, b *bench) (*result, error) {
	dir := filepath.Join(b.scratch("bounds"), "cli")
	n := b.of(floodObjects, floodObjects/100)
	var all result
	for _, f := range floods {
		bucket := filepath.Join(dir, f.kind, "bucket")
		done := doing("a backup among %d empty objects: %s", n, f.kind)
		last, err := goodBackup(ctx, bucket)
		if err == nil {
			err = flood(objects(bucket), n, f.name)
		}
		if err != nil {
			return nil, err
		}
		done()
		m, err := b.compare(ctx, 1, step{
			program: program{name: fmt.Sprintf("list, %d k empty %s", n/1000, f.kind), path: b.etcdbrctl, args: append([]string{"list", "-o", "json"}, storeFlags(bucket)...)},
			check:   func(r run) error { return showsFlood(r, last) },
		})
		if err != nil {
			return nil, err
		}
		all.add(&result{programs: m, criteria: []criterion{{fmt.Sprintf("list, a backup among %d k empty objects: %s", n/1000, f.kind), "anonymous memory", m[0].worst(anon), atMost, 64, "MB", false}}})
		if err := os.RemoveAll(filepath.Dir(bucket)); err != nil {
			return nil, err
		}
	}
	r, err := b.boundsBomb(ctx, filepath.Join(dir, "bomb"))
	if err != nil {
		return nil, err
	}
	all.add(r)
	if r, err = b.boundsDeltas(ctx, filepath.Join(dir, "deltas")); err != nil {
		return nil, err
	}
	all.add(r)
	return &all, nil
}

// showsFlood checks that a listing shows the good backup and reports the flood.
func showsFlood(r run, last int) error {
	var v struct {
		Lineages []struct{ Newest int }
		Findings []struct{ Code string }
	}
	if err := json.Unmarshal(r.stdout, &v); err != nil {
		return err
	}
	if len(v.Lineages) == 0 || v.Lineages[0].Newest != last {
		return fmt.Errorf("the newest lineage of %+v does not reach revision %d", v.Lineages, last)
	}
	for _, f := range v.Findings {
		if f.Code == "flood" {
			return nil
		}
	}
	return fmt.Errorf("no finding reports the flood")
}

// boundsBomb proves a full that unpacks to a thousand times its size.
func (b *bench) boundsBomb(ctx context.Context, dir string) (*result, error) {
	bucket, size := filepath.Join(dir, "bucket"), int64(b.of(bombBytes, bombBytes/8))
	done := doing("a forged full that unpacks to %s", bytesString(size))
	last, err := goodBackup(ctx, bucket)
	if err == nil {
		err = bomb(objects(bucket), int64(last)+10, size)
	}
	if err != nil {
		return nil, err
	}
	done()
	m, err := b.compare(ctx, 1, step{program: program{
		name: "verify, a forged full of " + bytesString(size), path: b.etcdbrctl, fails: "a chain cannot be restored",
		args: append([]string{"verify", "--memory-limit=64Mi", "--restoration-temp-snapshots-dir=" + filepath.Join(dir, "scratch")}, storeFlags(bucket)...),
	}})
	if err != nil {
		return nil, err
	}
	return &result{programs: m, criteria: []criterion{
		{"verify, a forged full that unpacks to " + bytesString(size), "bytes written", m[0].worst(bytesWritten), atMost, 16, "MB", false},
		{"", "anonymous memory", m[0].worst(anon), atMost, 112, "MB", false},
	}}, os.RemoveAll(dir)
}

// boundsDeltas restores forged deltas, each of one large event.
func (b *bench) boundsDeltas(ctx context.Context, dir string) (*result, error) {
	bucket := filepath.Join(dir, "bucket")
	done := doing("%d forged deltas that unpack to %s each", largeDeltas, bytesString(eventBytes))
	if err := forgedDeltas(ctx, bucket, largeDeltas); err != nil {
		return nil, err
	}
	done()
	restore := func(limit, fails string) step {
		s := b.restoring(fmt.Sprintf("restore, %d forged deltas, --memory-limit=%s", largeDeltas, limit), bucket, largeDeltas, 1+boundsKeys+largeDeltas, "--memory-limit="+limit)
		if s.program.fails = fails; fails != "" {
			s.check = nil
		}
		return s
	}
	m, err := b.compare(ctx, 1, restore("64Mi", "event too large for the memory limit"), restore("1Gi", ""))
	if err != nil {
		return nil, err
	}
	return &result{programs: m, criteria: []criterion{
		{fmt.Sprintf("restore, %d forged deltas of 12 KB that unpack to %s each, 64 MiB", largeDeltas, bytesString(eventBytes)), "anonymous memory, refused", m[0].worst(anon), atMost, 112, "MB", false},
		{"The same, 1 GiB", "anonymous memory", m[1].worst(anon), atMost, 1073, "MB", false},
	}}, os.RemoveAll(dir)
}
