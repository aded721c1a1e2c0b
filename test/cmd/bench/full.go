package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"druid.internal/druid/test/stores"
	"druid.internal/druid/test/workload"
)

// fullBytes is the size of the database that is backed up.
const fullBytes = 2 << 30

func measureFulls(ctx context.Context, b *bench) (*result, error) {
	dir := b.scratch("full")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	minio, env, err := startMinIO(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer minio.Stop()
	var all result
	for _, w := range []struct {
		name  string
		title string
		make  func() workload.Generator
	}{
		{"random", "random", func() workload.Generator { return workload.NewRandom(3, 1<<24, valueBytes) }},
		{"kubernetes", "Kubernetes", func() workload.Generator {
			return workload.NewKubernetes(workload.KubernetesOptions{Seed: 3, Scale: b.of(40, 5), Populate: true})
		}},
	} {
		res, err := b.full(ctx, filepath.Join(dir, w.name), w.title, w.make(), minio, env)
		if err != nil {
			return nil, err
		}
		all.criteria = append(all.criteria, res.criteria...)
		all.programs = append(all.programs, res.programs...)
		all.remarks = append(all.remarks, res.remarks...)
	}
	return &all, nil
}

const minioBucket = "backups"

// startMinIO starts a server with a bucket and returns the environment of a program that uses it.
func startMinIO(ctx context.Context, dir string) (*stores.MinIO, []string, error) {
	m, err := stores.StartMinIO(ctx, stores.MinIOOptions{Dir: filepath.Join(dir, "minio")})
	if err != nil {
		return nil, nil, err
	}
	credentials := filepath.Join(dir, "credentials")
	err = errors.Join(m.CreateBucket(ctx, minioBucket, stores.Unversioned, 0), os.Mkdir(credentials, 0o700))
	for file, content := range map[string]string{
		"accessKeyID": m.Root.AccessKeyID, "secretAccessKey": m.Root.SecretAccessKey, "region": m.Region,
		"trustedCaCert": string(m.CA.PEM), "s3ForcePathStyle": "true",
	} {
		if err == nil {
			err = os.WriteFile(filepath.Join(credentials, file), []byte(content), 0o600)
		}
	}
	if err != nil {
		return nil, nil, errors.Join(err, m.Stop())
	}
	return m, append(os.Environ(), "AWS_APPLICATION_CREDENTIALS="+credentials), nil
}

// full backs one etcd up, again and again, each time as if nothing were there yet.
func (b *bench) full(ctx context.Context, dir, title string, g workload.Generator, minio *stores.MinIO, env []string) (*result, error) {
	done := doing("making an etcd of %s, %s", bytesString(int64(b.of(fullBytes, fullBytes/8))), title)
	data, err := workload.NewDataDir(ctx, dir)
	if err != nil {
		return nil, err
	}
	size := int64(b.of(fullBytes, fullBytes/8))
	if _, err := fill(ctx, workload.DatabaseFile(data), g, func(_ int, have int64) bool { return have < size }); err != nil {
		return nil, err
	}
	etcd, err := stores.StartEtcd(ctx, stores.EtcdOptions{DataDir: data, Durable: true, QuotaBytes: 8 << 30})
	if err != nil {
		return nil, err
	}
	defer etcd.Close()
	done()
	bucket, file := filepath.Join(dir, "bucket"), filepath.Join(dir, "bare")
	if err := os.Mkdir(bucket, 0o700); err != nil {
		return nil, err
	}
	runs := 0
	snapshot := func(name string, env []string, store func(run int) []string) step {
		return step{program: program{name: name, path: b.etcdbrctl, env: env, until: `"full snapshot uploaded"`}, args: func() []string {
			runs++
			return append([]string{"snapshot", "--endpoints=" + etcd.Endpoint(), "--schedule=", "--delta-snapshot-period=0s"}, store(runs)...)
		}}
	}
	local := snapshot("full, "+title+", local store", nil, func(int) []string { return storeFlags(bucket) })
	local.after = func() error { return errors.Join(os.RemoveAll(bucket), os.Mkdir(bucket, 0o700)) }
	remote := snapshot("full, "+title+", MinIO", env, func(run int) []string {
		return []string{"--storage-provider=S3", "--store-container=" + minioBucket, "--store-endpoint-override=" + minio.Endpoint, fmt.Sprintf("--store-prefix=%s/%d", title, run)}
	})
	m, err := b.compare(ctx, b.rounds,
		step{program: named("plain reading, "+title, b.baseline("read", etcd.Endpoint()))},
		step{program: named("bare program, "+title, b.baseline("bare", etcd.Endpoint(), file)), after: func() error { return os.Remove(file) }},
		local, remote)
	if err != nil {
		return nil, err
	}
	work := fmt.Sprintf("Full snapshot of %s, %s, local store", bytesString(size), title)
	return &result{
		programs: m,
		criteria: []criterion{
			{work, "time / bare program", ratio(m[2], m[1], wall), atMost, 1.3, "x", disturbed(m[2], m[1])},
			{"", "anonymous memory", m[2].worst(anon), atMost, 150, "MB", false},
		},
		remarks: []string{fmt.Sprintf("%s: the full takes %.2f x the time of plain reading into the local store and %.2f x into MinIO on the same machine, with %.0f MB of anonymous memory there.",
			title, ratio(m[2], m[0], wall), ratio(m[3], m[0], wall), m[3].worst(anon))},
	}, nil
}
