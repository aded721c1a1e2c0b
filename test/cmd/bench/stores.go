package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"golang.org/x/sync/errgroup"

	"druid.internal/druid/internal/store"
	"druid.internal/druid/test/stores"
	"druid.internal/druid/test/stores/ossfake"
)

// The sizes of the work with stores.
const (
	streamBytes   = 2 << 30
	listedObjects = 100_000
)

// remotes start the servers, each with an empty bucket for the streams and one for the listing.
var remotes = []struct {
	provider string
	server   string // for people
	start    func(ctx context.Context) (streams, listing remote, stop func() error, err error)
}{
	{"S3", "MinIO", startS3},
	{"GCS", "fake-gcs-server", startGCS},
	{"ABS", "Azurite", startAzure},
	{"Swift", "Ceph", startSwift},
	{"OSS", "our fake", startOSS},
}

func measureStores(ctx context.Context, b *bench) (*result, error) {
	size, count := int64(b.of(streamBytes, streamBytes/16)), b.of(listedObjects, listedObjects/50)
	var all result
	for _, p := range remotes {
		done := doing("starting %s", p.server)
		streams, listing, stop, err := p.start(ctx)
		if err != nil {
			return nil, err
		}
		done()
		r, err := measureStore(ctx, b, p.provider+" ("+p.server+")", streams, listing, size, count)
		if err = errors.Join(err, stop()); err != nil {
			return nil, fmt.Errorf("%s: %w", p.provider, err)
		}
		all.programs = append(all.programs, r.programs...)
		all.criteria = append(all.criteria, r.criteria...)
	}
	return &all, nil
}

func measureStore(ctx context.Context, b *bench, name string, streams, listing remote, size int64, count int) (*result, error) {
	const up, down = "up", "down"
	if err := streams.put(ctx, down, size); err != nil {
		return nil, err
	}
	move := func(verb, who, key string) step {
		s := step{program: named(fmt.Sprintf("%s: %s, %s", name, verb, map[string]string{"sdk": "the SDK alone", "ours": "the product"}[who]),
			b.baseline(verb, who, streams.String(), key, fmt.Sprint(size)))}
		if key == up {
			s.after = func() error { return streams.forget(ctx, up) }
		}
		return s
	}
	m, err := b.compare(ctx, b.rounds, move("upload", "sdk", up), move("upload", "ours", up), move("download", "sdk", down), move("download", "ours", down))
	if err != nil {
		return nil, err
	}
	if err := streams.forget(ctx, down); err != nil {
		return nil, err
	}
	done := doing("%s: storing %d small objects", name, count)
	if err := listing.fill(ctx, count); err != nil {
		return nil, err
	}
	done()
	l, err := b.compare(ctx, 1, step{program: named(fmt.Sprintf("%s: listing %d k objects", name, count/1000), b.baseline("listing", listing.String(), fmt.Sprint(count)))})
	if err != nil {
		return nil, err
	}
	stream := fmt.Sprintf("%s: a stream of %s up", name, bytesString(size))
	return &result{
		programs: append(m, l...),
		criteria: []criterion{
			{stream, "time / the SDK alone", ratio(m[1], m[0], wall), atMost, 1.2, "x", disturbed(m[0], m[1])},
			{"", "anonymous memory", m[1].worst(anon), atMost, 100, "MB", false},
			{"The same down", "time / the SDK alone", ratio(m[3], m[2], wall), atMost, 1.2, "x", disturbed(m[2], m[3])},
			{"", "anonymous memory", m[3].worst(anon), atMost, 100, "MB", false},
			{fmt.Sprintf("Listing %d k objects of it", count/1000), "anonymous memory", l[0].worst(anon), atMost, 64, "MB", false},
		},
	}, nil
}

// put stores a stream.
func (r remote) put(ctx context.Context, key string, size int64) error {
	s, err := r.open(ctx)
	if err != nil {
		return err
	}
	defer s.CloseIdle()
	_, err = s.Put(ctx, key, newNoise(size), store.PutOptions{})
	return err
}

// fill stores small objects named as snapshots are.
func (r remote) fill(ctx context.Context, count int) error {
	if r.fillWith != nil {
		r.fillWith(count)
		return nil
	}
	s, err := r.open(ctx)
	if err != nil {
		return err
	}
	defer s.CloseIdle()
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(16)
	for i := range count {
		g.Go(func() error {
			_, err := s.Put(ctx, smallKey(int64(i)), strings.NewReader("x"), store.PutOptions{})
			return err
		})
	}
	return g.Wait()
}

// beside is the same with another bucket.
func (r remote) beside(bucket string) remote {
	r.Bucket = bucket
	return r
}

func startS3(ctx context.Context) (streams, listing remote, stop func() error, err error) {
	m, err := stores.StartMinIO(ctx, stores.MinIOOptions{})
	if err != nil {
		return remote{}, remote{}, nil, err
	}
	r := remote{Provider: "S3", Endpoint: m.Endpoint, CA: m.CA.PEM, Bucket: "streams", Region: m.Region, User: m.Root.AccessKeyID, Key: m.Root.SecretAccessKey}
	l := r.beside("listing")
	for _, bucket := range []string{r.Bucket, l.Bucket} {
		if err := m.CreateBucket(ctx, bucket, stores.Unversioned, 0); err != nil {
			return r, l, nil, errors.Join(err, m.Stop())
		}
	}
	return r, l, m.Stop, nil
}

func startGCS(ctx context.Context) (streams, listing remote, stop func() error, err error) {
	g, err := stores.StartGCS(ctx, stores.GCSOptions{})
	if err != nil {
		return remote{}, remote{}, nil, err
	}
	r := remote{Provider: "GCS", Endpoint: g.Endpoint, CA: g.CA.PEM, Bucket: "streams"}
	if err := g.CreateBucket(ctx, r.Bucket, stores.GCSBucket{}); err != nil {
		return r, remote{}, nil, errors.Join(err, g.Stop())
	}
	l, err := startListed()
	if err != nil {
		return r, remote{}, nil, errors.Join(err, g.Stop())
	}
	listing = remote{Provider: "GCS", Endpoint: l.URL, CA: l.ca.PEM, Bucket: "listing", fillWith: func(n int) { l.count.Store(int64(n)) }}
	return r, listing, func() error { l.Close(); return g.Stop() }, nil
}

func startAzure(ctx context.Context) (streams, listing remote, stop func() error, err error) {
	dir, err := os.MkdirTemp("", "druid-bench-azurite-") // in memory it keeps for minutes what was overwritten, and is full then
	if err != nil {
		return remote{}, remote{}, nil, err
	}
	a, err := stores.StartAzurite(ctx, stores.AzuriteOptions{Dir: dir})
	if err != nil {
		return remote{}, remote{}, nil, errors.Join(err, os.RemoveAll(dir))
	}
	stop = func() error { return errors.Join(a.Stop(), os.RemoveAll(dir)) }
	r := remote{Provider: "ABS", Endpoint: a.Endpoint, CA: a.CA.PEM, Bucket: "streams", Key: stores.AzuriteKey}
	l := r.beside("listing")
	cred, err := container.NewSharedKeyCredential(stores.AzuriteAccount, stores.AzuriteKey)
	if err != nil {
		return r, l, nil, errors.Join(err, stop())
	}
	for _, bucket := range []string{r.Bucket, l.Bucket} {
		c, err := container.NewClientWithSharedKeyCredential(r.Endpoint+"/"+bucket, cred,
			&container.ClientOptions{ClientOptions: policy.ClientOptions{Transport: &http.Client{Transport: r.transport()}}})
		if err == nil {
			_, err = c.Create(ctx, nil)
		}
		if err != nil {
			return r, l, nil, errors.Join(err, stop())
		}
	}
	return r, l, stop, nil
}

func startSwift(ctx context.Context) (streams, listing remote, stop func() error, err error) {
	c, err := stores.StartCeph(ctx, stores.CephOptions{Bytes: 10 << 30}) // two streams at a time
	if err != nil {
		return remote{}, remote{}, nil, err
	}
	r := remote{Provider: "Swift", Endpoint: c.SwiftAuthURL, CA: c.CA.PEM, Bucket: "streams", User: c.SwiftUser, Key: c.SwiftKey}
	l := r.beside("listing")
	for _, bucket := range []string{r.Bucket, l.Bucket} {
		if err := r.swiftClient().ContainerCreate(ctx, bucket, nil); err != nil {
			return r, l, nil, errors.Join(err, c.Stop())
		}
	}
	return r, l, c.Stop, nil
}

func startOSS(context.Context) (streams, listing remote, stop func() error, err error) {
	s, err := ossfake.Start(ossfake.Options{})
	if err != nil {
		return remote{}, remote{}, nil, err
	}
	r := remote{Provider: "OSS", Endpoint: s.Endpoint, CA: s.CA.PEM, Bucket: "streams", User: s.AccessKeyID, Key: s.AccessKeySecret}
	l := r.beside("listing")
	for _, bucket := range []string{r.Bucket, l.Bucket} {
		if err := s.CreateBucket(bucket, ossfake.Plain, 1); err != nil {
			return r, l, nil, errors.Join(err, s.Stop())
		}
	}
	return r, l, s.Stop, nil
}
