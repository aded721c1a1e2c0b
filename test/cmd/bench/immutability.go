package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/backup/retention"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/engine/collector"
	"druid.internal/druid/internal/engine/extender"
	"druid.internal/druid/internal/etcd/codec"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/test/stores"
	"druid.internal/druid/test/workload"
)

// The sizes of the work with locks.
const (
	sleepers        = 1000 // hibernated clusters, each with one full and its manifest
	sleeperKeys     = 5000 // of 1 KB in each
	countedSleepers = 10   // of which every request is counted
	streamsStored   = 200  // fulls with the deltas of a day each
	perStream       = 500  // objects: the full and its deltas
	streamsGone     = 2    // of them, the oldest
	revisionsEach   = 10   // in a delta

	clustersAtOnce = 2 // whose locks are prolonged: one for each core
)

// What is counted of a collection besides methods.
const (
	headGoing   = "HEAD, of deltas that go"
	headStaying = "HEAD, of others"
)

// The ways to keep a full locked, as the child is told.
const (
	inPlace = "in-place"
	byCopy  = "download-and-upload"
)

func measureImmutability(ctx context.Context, b *bench) (*result, error) {
	count := b.of(sleepers, sleepers/20)
	m, err := stores.StartMinIO(ctx, stores.MinIOOptions{})
	if err != nil {
		return nil, err
	}
	defer m.Stop() // of a measurement that failed; twice does no harm
	r := remote{Provider: "S3", Endpoint: m.Endpoint, CA: m.CA.PEM, Bucket: "asleep", Region: m.Region, User: m.Root.AccessKeyID, Key: m.Root.SecretAccessKey}
	extended, err := measureExtensions(ctx, b, m, r, count)
	if err != nil {
		return nil, err
	}
	collection, err := measureCollection(ctx, b, m, r.beside("full"), b.of(streamsStored, streamsStored/40))
	if err != nil {
		return nil, err
	}
	extended.add(collection)
	return extended, m.Stop()
}

func measureExtensions(ctx context.Context, b *bench, m *stores.MinIO, r remote, count int) (*result, error) {
	full, err := oneFull(ctx, filepath.Join(b.scratch("immutability"), "bucket"))
	if err != nil {
		return nil, err
	}
	ways := []string{inPlace, byCopy}
	stored := count + countedSleepers + 1 // the last one is extended alone
	done := doing("storing the fulls of %d clusters", len(ways)*stored)
	for _, way := range ways {
		if err := m.CreateBucket(ctx, way, stores.Compliance, 1); err != nil {
			return nil, err
		}
		if err := spread(ctx, r.beside(way), full, stored); err != nil {
			return nil, err
		}
	}
	done()
	extending := func(way, endpoint string, from, n int) step {
		at := r.beside(way)
		at.Endpoint = endpoint
		return step{program: named(fmt.Sprintf("%d extensions, %s", n, way), b.baseline("extend", way, at.String(), fmt.Sprint(from), fmt.Sprint(n)))}
	}
	const rounds = 1 // a lock can be prolonged from its first end once
	all, err := b.compare(ctx, rounds, extending(inPlace, m.Endpoint, 0, count), extending(byCopy, m.Endpoint, 0, count))
	if err != nil {
		return nil, err
	}
	var rows [][]string
	requests := map[string]float64{}
	moved := map[string]float64{}
	total := map[string]float64{}
	for _, way := range ways {
		for _, c := range []struct {
			as      string
			from, n int
		}{
			{"one of " + fmt.Sprint(countedSleepers) + " in a process", count, countedSleepers},
			{"alone, as a CronJob does it", count + countedSleepers, 1},
		} {
			var told extensions
			counted, err := countRequests(m, byMethod, func(endpoint string) error {
				run, err := b.once(ctx, extending(way, endpoint, c.from, c.n))
				if err != nil {
					return err
				}
				if err := json.Unmarshal(run.stdout, &told); err != nil {
					return fmt.Errorf("output of extend: %w:\n%s", err, run.stdout)
				}
				return nil
			})
			if err != nil {
				return nil, err
			}
			moved[way], requests[way] = float64(told.BytesMoved)/float64(c.n), float64(told.Changes)/float64(c.n)
			read, changed := counted["GET"]+counted["HEAD"], counted["PUT"]+counted["POST"]
			total[way] = float64(read+changed) / float64(c.n)
			rows = append(rows, []string{way, c.as, perItem(read, c.n), perItem(changed, c.n), perItem(read+changed, c.n), bytesString(int64(moved[way]))})
		}
	}
	return &result{
		programs: all,
		criteria: []criterion{
			{fmt.Sprintf("Extending the fulls of %d clusters in place, one process", count), "time", all[0].median(wall), atMost, 60 * float64(count) / sleepers, "s", disturbed(all[0])},
			{"", "anonymous memory", all[0].worst(anon), atMost, 100, "MB", false},
			{"", "time / download and upload", ratio(all[0], all[1], wall), atMost, 1, "x", disturbed(all...)},
			{"Extending one full and its manifest", "requests that change something (all: the table below)", requests[inPlace], atMost, 3, "requests", false},
			{"", "bytes moved", moved[inPlace], atMost, 0, "bytes", false},
		},
		tables: []table{{title: "Requests for one hibernated cluster", head: []string{"way", "", "that read", "that change", "all", "bytes moved"}, rows: rows,
			note: fmt.Sprintf("A full of %d keys of 1 KB and its manifest in a bucket in compliance mode. The target of 3 is of the requests that change something; an extension in place is %.0f requests when it is the first: "+
				"2 ask how the bucket is configured, 1 lists, 3 ask about the full and its manifest, which tell lock and tags, 1 reads the manifest, 1 the full, whole, as it was never prolonged; then for each of both 1 asks for the lock that is not to "+
				"become shorter, 1 sets the later end and 1 reads it back.", sleeperKeys, total[inPlace])}},
	}, nil
}

// measureCollection counts what a collection asks about a bucket of which little may go.
func measureCollection(ctx context.Context, b *bench, m *stores.MinIO, r remote, streams int) (*result, error) {
	if err := m.CreateBucket(ctx, r.Bucket, stores.Versioned, 0); err != nil {
		return nil, err
	}
	objects, gone := streams*perStream, streamsGone*perStream
	done := doing("storing %d fulls with their deltas, %d objects", streams, objects)
	if err := fillStreams(ctx, r, streams); err != nil {
		return nil, err
	}
	done()
	var all []*measured
	// All that goes is asked about right before; fulls, and what continues the newest, also for a mark that excludes them.
	what := func(r *http.Request) string {
		name, err := snapshot.ParseName(path.Base(r.URL.Path))
		switch {
		case r.Method != http.MethodHead || err != nil:
			return r.Method
		case name.Kind == snapshot.Delta && name.Last <= snapshot.Revision(gone*revisionsEach):
			return headGoing
		}
		return headStaying
	}
	counted, err := countRequests(m, what, func(endpoint string) (err error) {
		at := r
		at.Endpoint = endpoint
		all, err = b.compare(ctx, 1, step{program: named(fmt.Sprintf("collection, %d k objects", objects/1000),
			b.baseline("collect", at.String(), fmt.Sprint(streams-streamsGone), fmt.Sprint(gone)))})
		return err
	})
	if err != nil {
		return nil, err
	}
	return &result{
		programs: all,
		criteria: []criterion{
			{fmt.Sprintf("Collecting %d of %d k objects", gone, objects/1000), "HEAD requests about each delta that goes", float64(counted[headGoing]) / float64(gone-streamsGone), atMost, 1, "x", false},
		},
		tables: []table{{title: "Requests of a collection", head: []string{"HEAD, of deltas that go", "HEAD, of others", "DELETE", "GET, of lists and contents", "memory for each object"},
			rows: [][]string{{fmt.Sprint(counted[headGoing]), fmt.Sprint(counted[headStaying]), fmt.Sprint(counted[http.MethodDelete]), fmt.Sprint(counted[http.MethodGet]),
				bytesString(int64(all[0].worst(anon) * 1e6 / float64(objects)))}},
			note: fmt.Sprintf("%d fulls, each with %d deltas; the %d oldest go with theirs. A plan is made, and carried out after another look. Both ask of fulls, and of what continues the newest, whether they are excluded, which S3 does not list.", streams, perStream-1, streamsGone)}},
	}, nil
}

func perItem(requests, of int) string { return fmt.Sprintf("%.1f", float64(requests)/float64(of)) }

func byMethod(r *http.Request) string { return r.Method }

// countRequests counts the requests that work sends to the server through a proxy, each as what it is.
func countRequests(m *stores.MinIO, what func(*http.Request) string, work func(endpoint string) error) (map[string]int, error) {
	target, err := url.Parse(m.Endpoint)
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	counted := map[string]int{}
	proxy := &httputil.ReverseProxy{
		Transport: &http.Transport{TLSClientConfig: m.CA.ClientTLS(), MaxIdleConnsPerHost: 64},
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme, p.Out.URL.Host = target.Scheme, target.Host
			mu.Lock()
			defer mu.Unlock()
			counted[what(p.In)]++
		},
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	server := &http.Server{Handler: proxy, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(l) }()
	err = work("http://" + l.Addr().String())
	return counted, errors.Join(err, server.Close())
}

// oneFull makes a small full with its manifest and returns what they hold, by their names.
func oneFull(ctx context.Context, dir string) (map[string][]byte, error) {
	if err := makeBucket(ctx, dir, codec.Native, workload.NewRandom(3, sleeperKeys, valueBytes), sleeperKeys, 0, 1); err != nil {
		return nil, err
	}
	objects := map[string][]byte{}
	return objects, filepath.WalkDir(filepath.Join(dir, prefix), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(filepath.Join(dir, prefix), path)
		if err != nil {
			return err
		}
		objects[name], err = os.ReadFile(path)
		return err
	})
}

// sleeper is the prefix of one cluster.
func sleeper(i int) string { return fmt.Sprintf("asleep-%05d/etcd-main", i) }

// spread stores the objects once for each cluster.
func spread(ctx context.Context, r remote, objects map[string][]byte, clusters int) error {
	s, err := r.open(ctx)
	if err != nil {
		return err
	}
	defer s.CloseIdle()
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(16)
	for i := range clusters {
		for name, content := range objects {
			g.Go(func() error {
				_, err := s.Put(ctx, sleeper(i)+"/"+name, strings.NewReader(string(content)), store.PutOptions{})
				return err
			})
		}
	}
	return g.Wait()
}

// fillStreams stores fulls and deltas of one byte, of one history, a minute apart. Those that shall go are a day older.
func fillStreams(ctx context.Context, r remote, streams int) error {
	s, err := r.open(ctx)
	if err != nil {
		return err
	}
	defer s.CloseIdle()
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(16)
	first := time.Now().Add(-time.Duration(streams*perStream) * time.Minute).Unix()
	for i := range streams * perStream {
		at := first + int64(i)*60
		if i < streamsGone*perStream {
			at -= 24 * 60 * 60
		}
		last := (i + 1) * revisionsEach
		name := fmt.Sprintf("Incr-%08d-%08d-%d", i*revisionsEach+1, last, at)
		if i%perStream == 0 {
			name = fmt.Sprintf("Full-%08d-%08d-%d", 0, last, at)
		}
		g.Go(func() error {
			_, err := s.Put(ctx, prefix+"/v2/"+name, strings.NewReader("x"), store.PutOptions{})
			return err
		})
	}
	return g.Wait()
}

// extensions is what the child tells.
type extensions struct {
	Changes, BytesRead, BytesMoved int64
}

// plainStore hides what a provider can do besides storing.
type plainStore struct{ store.Store }

// openCounting opens the bucket that a child is told, and reads the two numbers that come with it.
func openCounting(ctx context.Context, bucket, one, other string) (s provider, first, second int64, err error) {
	r, first, err := parseRemote(bucket, one)
	if err != nil {
		return nil, 0, 0, err
	}
	if _, second, err = parseRemote(bucket, other); err != nil {
		return nil, 0, 0, err
	}
	s, err = r.open(ctx)
	return s, first, second, err
}

// extend keeps the newest backups of clusters locked for two days from now.
func extend(ctx context.Context, args []string) error {
	if err := arguments(args, 4); err != nil {
		return err
	}
	s, from, count, err := openCounting(ctx, args[1], args[2], args[3])
	if err != nil {
		return err
	}
	defer s.CloseIdle()
	var at store.Store = s
	if args[0] == byCopy {
		at = plainStore{s}
	}
	var mu sync.Mutex
	var told extensions
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(clustersAtOnce)
	for i := range count {
		g.Go(func() error {
			report, err := extender.Run(ctx, extender.Request{Store: at, Prefix: snapshot.Prefix(sleeper(int(from + i))), Period: 2 * 24 * time.Hour})
			if err != nil {
				return err
			}
			if p := report.Protection; p.Mode != immutability.ModeCompliance || args[0] == inPlace && time.Until(p.Until) < 47*time.Hour {
				return fmt.Errorf("cluster %d is protected so: %+v", from+i, p)
			}
			mu.Lock()
			defer mu.Unlock()
			told.Changes += report.Changes
			told.BytesRead += report.BytesRead
			told.BytesMoved += report.BytesMoved
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(told)
}

// proveListed takes the newest chain of a lineage for proven: what is measured is the collection, and the
// objects hold no databases.
func proveListed(_ context.Context, tl timeline.Timeline, id snapshot.LineageID) (retention.Proof, []string, error) {
	l, _ := tl.Lineage(id)
	c, found := l.NewestChain()
	if !found {
		return retention.Proof{}, nil, nil
	}
	var deltas []timeline.Snapshot
	for _, d := range c.Deltas {
		deltas = append(deltas, d.Snapshot)
	}
	return retention.NewProof(c.Base, deltas, c.End, time.Now()), nil, nil
}

// collect removes all but the newest fulls and their deltas.
func collect(ctx context.Context, args []string) error {
	if err := arguments(args, 3); err != nil {
		return err
	}
	s, keep, gone, err := openCounting(ctx, args[0], args[1], args[2])
	if err != nil {
		return err
	}
	defer s.CloseIdle()
	c := collector.New(s, s, collector.Options{Prefix: prefix, LocksLast: true, Prove: proveListed, Policy: retention.Policy{
		Keep: retention.Counts{Last: int(keep)}, DeltaRetention: time.Duration(keep*perStream)*time.Minute + 12*time.Hour}})
	plan, err := c.Plan(ctx)
	if err != nil {
		return err
	}
	report, err := c.Execute(ctx, plan)
	if err != nil {
		return err
	}
	if n := report.Total(collector.Deleted).Objects; int64(n) != gone {
		return fmt.Errorf("%d objects were deleted, want %d", n, gone)
	}
	return nil
}
