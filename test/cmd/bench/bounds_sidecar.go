package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sys/unix"

	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/etcd/codec"
	"druid.internal/druid/test/members"
	"druid.internal/druid/test/sites"
	"druid.internal/druid/test/workload"
)

// measureBoundsSidecar looks at a sidecar whose bucket someone forged objects in, and at one that
// looks at an unchanged bucket again.
func measureBoundsSidecar(ctx context.Context, b *bench) (*result, error) {
	var all result
	for _, part := range []func(context.Context, string) (*result, error){b.boundsMember, b.boundsLooks} {
		r, err := part(ctx, filepath.Join(b.scratch("bounds"), "sidecar"))
		if err != nil {
			return nil, err
		}
		all.add(r)
	}
	return &all, nil
}

// boundsVolume is the size of the member's volume, which has the temporary files, too.
const boundsVolume = 2 << 30

// boundsMember restarts a member with good data among a flood, and has it prove a forged full while
// clients write.
func (b *bench) boundsMember(ctx context.Context, dir string) (*result, error) {
	bucket := filepath.Join(dir, "bucket")
	if err := os.MkdirAll(bucket, 0o700); err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	c, err := b.cluster(ctx, members.Options{Members: 1, Dir: filepath.Join(dir, "members"), Volume: boundsVolume, Prefix: prefix, Backup: sites.Way{Provider: "Local", Container: bucket},
		Sidecar: func(_ string, c map[string]any) {
			store := c["snapstoreConfig"].(map[string]any)
			store["tempDir"] = filepath.Join(filepath.Dir(store["tempDir"].(string)), "data", "temp") // as the operator has it
		}})
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
	m := c.Member(0)
	if err := m.Stop(); err != nil {
		return nil, err
	}
	n := b.of(floodObjects, floodObjects/100)
	done := doing("%d empty objects of four kinds below the prefix of a member", n)
	for _, f := range floods {
		if err := flood(objects(bucket), n/len(floods), f.name); err != nil {
			return nil, err
		}
	}
	done()
	began := time.Now()
	m.Start()
	if err := again(ctx, "the member is ready", m.Ready); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, c.Tell(context.WithoutCancel(ctx)))
	}
	started := time.Since(began)
	flooded, err := b.observe(ctx, fmt.Sprintf("a look at %d k forged objects", n/1000), sidecars(c), func(ctx context.Context) error {
		return errors.Join(backedUp(ctx, c), described(ctx, m, 1))
	})
	if err != nil {
		return nil, err
	}
	status, err := m.Etcd(ctx)
	if err != nil {
		return nil, err
	}
	size := int64(b.of(bombBytes, bombBytes/8))
	if err := bomb(objects(bucket), status.Header.Revision+1, size); err != nil {
		return nil, err
	}
	w, err := startWriters(ctx, func() (*clientv3.Client, error) { return c.Client() })
	if err != nil {
		return nil, err
	}
	defer w.stop()
	before, err := w.during(ctx, pause(5*time.Second))
	if err != nil {
		return nil, err
	}
	least := watchRoom(m.VolumeDir())
	var meanwhile stall
	proof, err := b.observe(ctx, "proving a forged full of "+bytesString(size), sidecars(c), func(ctx context.Context) (err error) {
		meanwhile, err = w.during(ctx, func(ctx context.Context) error { return proveForged(ctx, m) })
		return err
	})
	free := least()
	if err != nil {
		return nil, err
	}
	return &result{
		programs: append(flooded, proof...),
		criteria: []criterion{
			{fmt.Sprintf("A member with good data, and %d k forged objects below its prefix", n/1000), "time to ready", started.Seconds(), atMost, 20, "s", false},
			{"", "anonymous memory of the sidecar", flooded[0].worst(anon), atMost, 100, "MB", false},
			{"The proof of a forged full that unpacks to " + bytesString(size), "least room on the volume", float64(free) / 1e6, atLeast, 128, "MB", false},
			{"", "anonymous memory of the sidecar", proof[0].worst(anon), atMost, 160, "MB", false},
		},
		remarks: []string{fmt.Sprintf("While a sidecar proved a forged full of %s, clients of its etcd saw: %s. Before that: %s.", bytesString(size), meanwhile, before)},
	}, nil
}

// described waits until the sidecar has looked at its bucket and reports so many findings at least.
func described(ctx context.Context, m *members.Member, findings int) error {
	return again(ctx, "the bucket is described", func(ctx context.Context) error {
		s, err := m.State(ctx)
		if err == nil && (s.Snapshots == nil || s.Snapshots.Bucket == nil || s.Snapshots.Bucket.TamperingCount < findings) {
			err = errors.New("it is not yet")
		}
		return err
	})
}

// proveForged asks for a proof, and waits until it failed.
func proveForged(ctx context.Context, m *members.Member) error {
	client, err := m.Sidecar()
	if err != nil {
		return err
	}
	defer client.Close()
	if _, err := client.Verify(ctx); err != nil {
		return err
	}
	return again(ctx, "the proof has ended", func(ctx context.Context) error {
		all, err := client.Operations(ctx)
		if err != nil {
			return err
		}
		for _, o := range all {
			switch {
			case o.Kind != "verify":
			case o.Status == agentapi.Success:
				return fmt.Errorf("the forged full was proven: %s", o.Message)
			case o.Status == agentapi.Failed:
				return nil
			}
		}
		return errors.New("it goes on")
	})
}

// watchRoom looks at the room on a volume until it is asked for the least.
func watchRoom(dir string) (least func() int64) {
	room := int64(math.MaxInt64)
	stop := make(chan struct{})
	var looking sync.WaitGroup
	looking.Go(func() {
		tick := time.NewTicker(sampleEvery)
		defer tick.Stop()
		for {
			var s unix.Statfs_t
			if unix.Statfs(dir, &s) == nil {
				room = min(room, int64(s.Bavail)*s.Bsize)
			}
			select {
			case <-stop:
				return
			case <-tick.C:
			}
		}
	})
	return func() int64 {
		close(stop)
		looking.Wait()
		return room
	}
}

// boundsLooks counts the requests of a sidecar's looks at an unchanged bucket.
func (b *bench) boundsLooks(ctx context.Context, dir string) (*result, error) {
	local, n := filepath.Join(dir, "local", "bucket"), b.of(chainDeltas, chainDeltas/10)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	done := doing("a bucket of MinIO with %d deltas", n)
	if err := makeBucket(ctx, local, codec.Native, workload.NewRandom(7, boundsKeys, valueBytes), boundsKeys, n, 1); err != nil {
		return nil, err
	}
	minio, env, err := startMinIO(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer minio.Stop()
	if _, err := (program{name: "copy", path: b.etcdbrctl, env: env, args: []string{"copy", "--source-storage-provider=Local", "--source-store-container=" + local, "--source-store-prefix=" + prefix,
		"--storage-provider=S3", "--store-container=" + minioBucket, "--store-endpoint-override=" + minio.Endpoint, "--store-prefix=" + prefix}}).measure(ctx); err != nil {
		return nil, err
	}
	done()
	var mu sync.Mutex
	looks, counts := 0, map[int]int{}
	_, err = countRequests(minio, func(*http.Request) string {
		mu.Lock()
		defer mu.Unlock()
		counts[looks]++
		return ""
	}, func(endpoint string) error {
		c, err := b.cluster(ctx, members.Options{Members: 1, Dir: filepath.Join(dir, "members"), Prefix: prefix, Owner: "bench", Backup: sites.S3Way(&minio.S3, minioBucket, endpoint, minio.Root)})
		if err != nil {
			return err
		}
		defer c.Close()
		if err := ready(ctx, c); err != nil {
			return err
		}
		if err := backedUp(ctx, c); err != nil {
			return err
		}
		if err := described(ctx, c.Member(0), 0); err != nil { // what it does by itself is done
			return err
		}
		client, err := c.Member(0).Sidecar()
		if err != nil {
			return err
		}
		defer client.Close()
		for range 2 {
			mu.Lock()
			looks++
			mu.Unlock()
			if _, err := client.Latest(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &result{criteria: []criterion{
		{fmt.Sprintf("A look of a sidecar at an unchanged bucket with %d deltas", n), "requests", float64(counts[2]), atMost, 60 + 2*float64(n)/1000, "", false},
	}, remarks: []string{fmt.Sprintf("A look after a first one at %d deltas took %d requests, the listing included; starting the sidecar, restoring and the first look took %d.", n, counts[2], counts[0]+counts[1])}}, nil
}
