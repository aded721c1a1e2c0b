package copier

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/engine/catalog"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/storetest"
)

const (
	oldHome = "ns--old/etcd-main"
	newHome = "ns--new/etcd-main"
)

var start = time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)

// bucket is a bucket in memory whose clock the local one agrees with.
type bucket struct {
	*storetest.Memory
	t     *testing.T
	clock *storetest.Clock
}

func newBucket(t *testing.T, p storetest.Profile) bucket {
	clock := storetest.NewClock(start)
	p.Now = clock.Now
	return bucket{storetest.NewMemory(p), t, clock}
}

// full and delta name a snapshot taken so many minutes after the start.
func full(last, minute int) string { return name(snapshot.Full, 0, last, minute, false) }
func final(last, minute int) string {
	return name(snapshot.Full, 0, last, minute, true)
}
func delta(first, last, minute int) string { return name(snapshot.Delta, first, last, minute, false) }

func name(kind snapshot.Kind, first, last, minute int, final bool) string {
	return snapshot.Name{Kind: kind, Start: snapshot.Revision(first), Last: snapshot.Revision(last), Final: final,
		Created: start.Add(time.Duration(minute) * time.Minute).Unix(), Compression: snapshot.Gzip}.String()
}

func plain(name string) string { return strings.TrimSuffix(name, ".final") }

// content is what a snapshot holds: its name, some thousand times, so that it has some size.
func content(name string) []byte { return bytes.Repeat([]byte(plain(name)+"\n"), 100) }

func v2(prefix, name string) string { return prefix + "/v2/" + name }

// raw stores bytes under a key.
func (b bucket) raw(key string, body []byte) store.Version {
	b.t.Helper()
	o, err := b.Put(b.t.Context(), key, bytes.NewReader(body), store.PutOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	return o.Version
}

// put stores a snapshot below prefix, with a manifest unless the lineage is "-".
func (b bucket) put(prefix, name string, lineage snapshot.Lineage) {
	b.t.Helper()
	b.raw(v2(prefix, name), content(name))
	if lineage.ID != "-" {
		b.raw(v2(prefix, "Manifest-"+name), manifest(b.t, name, lineage).Encode())
	}
	b.clock.Advance(time.Second)
}

func manifest(t *testing.T, name string, lineage snapshot.Lineage) snapshot.Manifest {
	t.Helper()
	n, err := snapshot.ParseName(name)
	if err != nil {
		t.Fatal(err)
	}
	return snapshot.Manifest{Version: 1, Snapshot: name, Lineage: lineage, Digest: sha256.Sum256(content(name)),
		Size: int64(len(content(name))), LastRevision: n.Last, EtcdVersion: "3.6.16"}
}

var (
	lineageA = snapshot.Lineage{ID: "a"}
	lineageB = snapshot.Lineage{ID: "b", Parent: "a", Fork: 35}
	unnamed  = snapshot.Lineage{ID: "-"}
)

// streams are three fulls with their deltas, a day apart.
var streams = []string{
	full(10, 0), delta(11, 20, 10), delta(21, 30, 20),
	full(30, 1440), delta(31, 40, 1450),
	full(40, 2880), delta(41, 50, 2890), delta(51, 60, 2900),
}

func (b bucket) fill(prefix string, lineage snapshot.Lineage, names ...string) {
	b.t.Helper()
	for _, n := range names {
		b.put(prefix, n, lineage)
	}
}

// source is a bucket with the three streams.
func source(t *testing.T, p storetest.Profile, lineage snapshot.Lineage) bucket {
	b := newBucket(t, p)
	b.fill(oldHome, lineage, streams...)
	return b
}

// keys are what is below prefix, without it, once for every version and marker.
func (b bucket) keys(prefix string) []string {
	b.t.Helper()
	var all []string
	err := b.List(context.Background(), prefix, func(o store.Object) error {
		all = append(all, strings.TrimPrefix(strings.TrimPrefix(o.Key, prefix+"/"), "v2/"))
		return nil
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return all
}

func (b bucket) timeline(prefix string) timeline.Timeline {
	b.t.Helper()
	c, err := catalog.Read(context.Background(), b.Memory, prefix, catalog.Options{})
	if err != nil {
		b.t.Fatal(err)
	}
	return c.Timeline
}

func windows(t timeline.Timeline) []string {
	var all []string
	for _, l := range t.Lineages {
		for _, w := range l.Windows() {
			all = append(all, fmt.Sprintf("%s %d-%d", timeline.Title(l.ID), w.From, w.To))
		}
	}
	return all
}

func withManifests(names ...string) []string {
	var all []string
	for _, n := range names {
		all = append(all, n, "Manifest-"+n)
	}
	slices.Sort(all)
	return all
}

func (b bucket) options() Options {
	return Options{MaxBackups: All, MaxAge: All, Now: b.clock.Now,
		Wait: func(ctx context.Context, d time.Duration) error { b.clock.Advance(d); return ctx.Err() }}
}

func newCopier(t *testing.T, from store.Reader, to store.Store, o Options) *Copier {
	t.Helper()
	c, err := New(Source{from, oldHome}, Destination{to, newHome}, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// run plans and executes.
func run(t *testing.T, c *Copier) (Report, error) {
	t.Helper()
	p, err := c.Plan(t.Context())
	if err != nil {
		return Report{}, err
	}
	return c.Execute(t.Context(), p)
}

func mustRun(t *testing.T, c *Copier) Report {
	t.Helper()
	r, err := run(t, c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// wantCopies checks that the destination holds exactly these, byte for byte.
func (b bucket) wantCopies(names ...string) {
	b.t.Helper()
	for _, n := range names {
		vs := b.Versions(v2(newHome, plain(n)))
		if len(vs) != 1 {
			b.t.Errorf("%s has %d versions at the destination, want 1", plain(n), len(vs))
			continue
		}
		r, err := b.Open(context.Background(), vs[0].Version, 0, -1)
		if err != nil {
			b.t.Fatal(err)
		}
		var got bytes.Buffer
		if _, err := got.ReadFrom(r); err != nil {
			b.t.Fatal(err)
		}
		if !bytes.Equal(got.Bytes(), content(n)) {
			b.t.Errorf("%s arrived with other content", n)
		}
	}
}

// apart hides that two buckets could copy between each other, so the bytes are streamed.
type apart struct{ store.Store }

func (apart) Copy(context.Context, store.Reader, store.Version, string, store.PutOptions) (store.Object, error) {
	return store.Object{}, store.ErrUnsupported
}

func lineageOf(id string) snapshot.Lineage {
	return snapshot.Lineage{ID: snapshot.LineageID(id)}
}
