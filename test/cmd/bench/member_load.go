package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"druid.internal/druid/test/faults"
	"druid.internal/druid/test/members"
	"druid.internal/druid/test/sites"
	"druid.internal/druid/test/stores"
	"druid.internal/druid/test/workload"
)

// pause lasts d, or until ctx ends.
func pause(d time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// measureIdle looks at three members, with TLS everywhere, that nobody writes to.
func measureIdle(ctx context.Context, b *bench, dir string) (*result, error) {
	done := doing("three members, with MinIO and TLS")
	minio, err := stores.StartMinIO(ctx, stores.MinIOOptions{Dir: filepath.Join(dir, "minio")})
	if err != nil {
		return nil, err
	}
	defer minio.Stop()
	if err := minio.CreateBucket(ctx, minioBucket, stores.Unversioned, 0); err != nil {
		return nil, err
	}
	c, err := b.cluster(ctx, members.Options{Members: 3, Dir: filepath.Join(dir, "members"), TLS: members.Everywhere,
		Backup: sites.S3Way(&minio.S3, minioBucket, minio.Endpoint, minio.Root)})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if err := ready(ctx, c); err != nil {
		return nil, err
	}
	if err := backedUp(ctx, c); err != nil {
		return nil, err
	}
	done()
	window := time.Duration(b.of(120, 10)) * time.Second
	all, err := b.observe(ctx, "idle", append(sidecars(c), etcds(c)...), b.profiled(c, "idle", window, pause(window)))
	if err != nil {
		return nil, err
	}
	s := all[:len(all)/2]
	return &result{
		programs: all,
		criteria: []criterion{
			{"An idle sidecar, of three members with TLS", "share of a core", most(s, ofCore), atMost, 1, "%", disturbed(s...)},
			{"", "anonymous memory", most(s, anon), atMost, 60, "MB", false},
		},
		remarks: []string{fmt.Sprintf("The idle etcd-wrappers beside them take up to %.1f %% of a core and %.0f MB of anonymous memory, etcd's own included.",
			most(all[len(s):], ofCore), most(all[len(s):], anon))},
	}, nil
}

// loadRate is how many writes a second are tried; etcd may not manage as many.
const loadRate = 5000

// measureLoad looks at a single member, whose etcd has the least to do for a write, and at three.
func measureLoad(ctx context.Context, b *bench, dir string) (*result, error) {
	var all result
	for _, n := range []int{1, 3} {
		r, err := b.underLoad(ctx, filepath.Join(dir, fmt.Sprint(n)), n)
		if err != nil {
			return nil, err
		}
		all.add(r)
	}
	return &all, nil
}

// underLoad looks at the member that leads and backs up, while everything is well and while the store
// is away.
func (b *bench) underLoad(ctx context.Context, dir string, n int) (*result, error) {
	size := map[int]string{1: "a single member", 3: "the leader of three"}[n]
	done := doing("%s, with MinIO and TLS", size)
	minio, err := stores.StartMinIO(ctx, stores.MinIOOptions{Dir: filepath.Join(dir, "minio")})
	if err != nil {
		return nil, err
	}
	defer minio.Stop()
	if err := minio.CreateBucket(ctx, minioBucket, stores.Unversioned, 0); err != nil {
		return nil, err
	}
	link, err := faults.OpenLink(strings.TrimPrefix(minio.Endpoint, "https://"))
	if err != nil {
		return nil, err
	}
	defer link.Close()
	c, err := b.cluster(ctx, members.Options{Members: n, Dir: filepath.Join(dir, "members"), TLS: members.Everywhere,
		Backup: sites.S3Way(&minio.S3, minioBucket, "https://"+link.Address, minio.Root)})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if err := ready(ctx, c); err != nil {
		return nil, err
	}
	if err := backedUp(ctx, c); err != nil {
		return nil, err
	}
	client, err := c.Client()
	if err != nil {
		return nil, err
	}
	defer client.Close()
	done()
	window := time.Duration(b.of(60, 8)) * time.Second
	leader, err := c.BackupLeader(ctx)
	if err != nil {
		return nil, err
	}
	processes := []observed{{"the sidecar of " + size, leader.SidecarLife}, {"the etcd-wrapper of " + size, leader.EtcdLife}}
	var all result
	for _, w := range []struct {
		work, title   string
		before, after func()
	}{
		{"The sidecar of " + size + " while 1 KB values are written", "under load", nil, nil},
		{"The same while the store is down, and a while after", "store down", link.Cut, link.Restore},
	} {
		var wrote int64
		m, err := b.observe(ctx, w.title, processes, b.profiled(c, fmt.Sprintf("%s of %d", w.title, n), window, func(ctx context.Context) error {
			if w.before != nil {
				w.before()
			}
			n, err := writeFor(ctx, client, window)
			wrote = n
			if w.after != nil && err == nil {
				w.after()
				n, err = writeFor(ctx, client, window/3)
				wrote += n
			}
			return err
		}))
		if err != nil {
			return nil, fmt.Errorf("%s: %w\n%s", w.title, err, c.Tell(context.WithoutCancel(ctx)))
		}
		sidecar, etcd := m[0], m[1]
		etcd.note = fmt.Sprintf("%.0f writes/s", float64(wrote)/etcd.runs[0].wall.Seconds())
		fmt.Printf("  %s\n", etcd.note)
		all.programs = append(all.programs, m...)
		all.criteria = append(all.criteria,
			criterion{w.work, "CPU time / etcd's", 100 * sidecar.median(cpu) / max(etcd.median(cpu), 1e-9), atMost, 15, "%", false},
			criterion{"", "anonymous memory", sidecar.worst(anon), atMost, 150, "MB", false})
		all.remarks = append(all.remarks, fmt.Sprintf("%s, %s: %s of %d tried.", strings.ToUpper(size[:1])+size[1:], w.title, etcd.note, loadRate))
	}
	return &all, nil
}

// loadWriters is how many writes are on their way at a time at the most.
const loadWriters = 128

// writeFor writes values of 1 KB to random keys for so long, at loadRate or as fast as etcd can.
func writeFor(ctx context.Context, client *clientv3.Client, d time.Duration) (int64, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	type write struct{ key, value string }
	queue := make(chan write, loadWriters)
	var writers sync.WaitGroup
	var wrote atomic.Int64
	for range loadWriters {
		writers.Go(func() {
			for w := range queue {
				if _, err := client.Put(ctx, w.key, w.value); err != nil {
					cancel(err)
					return
				}
				wrote.Add(1)
			}
		})
	}
	g := workload.NewRandom(uint64(time.Now().UnixNano()), 100_000, valueBytes)
	const slice = 10 * time.Millisecond
	tick := time.NewTicker(slice)
	defer tick.Stop()
	end := time.Now().Add(d)
	for time.Now().Before(end) && ctx.Err() == nil {
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
		for range int(loadRate * slice.Seconds()) {
			e := g.Next()
			select {
			case queue <- write{string(e.Kv.Key), string(e.Kv.Value)}:
			case <-ctx.Done():
			}
		}
	}
	close(queue)
	writers.Wait()
	return wrote.Load(), context.Cause(ctx)
}
