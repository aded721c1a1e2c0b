package collector

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/backup/retention"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/engine/catalog"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/storetest"
)

const prefix = "ns--uid/etcd-main"

var start = time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)

// bucket is a bucket in memory with a clock that the local one agrees with.
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

func key(name string) string { return prefix + "/v2/" + name }

// full and delta name a snapshot taken so many minutes after the start.
func full(last, minute int) string { return name(snapshot.Full, 0, last, minute) }
func delta(first, last, minute int) string {
	return name(snapshot.Delta, first, last, minute)
}
func name(kind snapshot.Kind, first, last, minute int) string {
	return snapshot.Name{Kind: kind, Start: snapshot.Revision(first), Last: snapshot.Revision(last),
		Created: start.Add(time.Duration(minute) * time.Minute).Unix(), Compression: snapshot.Gzip}.String()
}

// put stores a snapshot and, unless the lineage is "-", its manifest, and returns the version.
func (b bucket) put(name, lineage string, opts store.PutOptions) store.Version {
	b.t.Helper()
	body := []byte("content of " + name)
	o, err := b.Put(b.t.Context(), key(name), bytes.NewReader(body), opts)
	if err != nil {
		b.t.Fatal(err)
	}
	if lineage == "-" {
		return o.Version
	}
	n, err := snapshot.ParseName(name)
	if err != nil {
		b.t.Fatal(err)
	}
	m := snapshot.Manifest{Version: 1, Snapshot: name, Lineage: snapshot.Lineage{ID: snapshot.LineageID(lineage)},
		Digest: sha256.Sum256(body), Size: int64(len(body)), LastRevision: n.Last}
	if _, err := b.Put(b.t.Context(), key("Manifest-"+name), bytes.NewReader(m.Encode()), opts); err != nil {
		b.t.Fatal(err)
	}
	return o.Version
}

// keys are all keys below the prefix, without it, each once for every version and marker.
func (b bucket) keys() []string {
	b.t.Helper()
	var all []string
	err := b.List(context.Background(), prefix, func(o store.Object) error {
		k := strings.TrimPrefix(o.Key, prefix+"/v2/")
		if o.Marker {
			k += " (marker)"
		}
		all = append(all, k)
		return nil
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return all
}

func (b bucket) catalog() *catalog.Catalog {
	b.t.Helper()
	c, err := catalog.Read(context.Background(), b.Memory, prefix, catalog.Options{})
	if err != nil {
		b.t.Fatal(err)
	}
	return c
}

// windows are the revisions that can be restored, per lineage.
func windows(t timeline.Timeline) []string {
	var all []string
	for _, l := range t.Lineages {
		for _, w := range l.Windows() {
			all = append(all, fmt.Sprintf("%s %d-%d", timeline.Title(l.ID), w.From, w.To))
		}
	}
	return all
}

// keepOne keeps the newest full.
var keepOne = retention.Policy{Method: retention.LimitBased, MaxBackups: 1}

func (b bucket) options(p retention.Policy) Options {
	return Options{Prefix: prefix, Policy: p, Now: b.clock.Now}
}

// three streams, a day apart, the last with two deltas.
var threeStreams = []string{
	full(10, 0), delta(11, 20, 10), delta(21, 30, 20),
	full(30, 1440), delta(31, 40, 1450),
	full(40, 2880), delta(41, 50, 2890), delta(51, 60, 2900),
}

// fill stores the streams, each object at the time in its name, and lets a day pass.
func (b bucket) fill(lineage string, names []string, lock func(name string) store.PutOptions) {
	b.t.Helper()
	for _, s := range names {
		n, err := snapshot.ParseName(s)
		if err != nil {
			b.t.Fatal(err)
		}
		if at := n.CreatedAt().Sub(b.clock.Now()); at > 0 {
			b.clock.Advance(at)
		}
		opts := store.PutOptions{}
		if lock != nil {
			opts = lock(s)
		}
		b.put(s, lineage, opts)
	}
	b.clock.Advance(24 * time.Hour)
}

func lockedUntil(t time.Time) store.PutOptions {
	return store.PutOptions{Retention: &immutability.Retention{Mode: immutability.ModeCompliance, Until: t}}
}

func plan(t *testing.T, c *Collector) Plan {
	t.Helper()
	p, err := c.Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// collect plans and executes and expects no error.
func collect(t *testing.T, c *Collector) Report {
	t.Helper()
	r, err := c.Execute(t.Context(), plan(t, c))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// withManifests are the names with those of their manifests, as a listing sorts them.
func withManifests(names ...string) []string {
	var all []string
	for _, n := range names {
		all = append(all, n, "Manifest-"+n)
	}
	slices.Sort(all)
	return all
}

// result finds the outcome of the snapshot called name.
func result(t *testing.T, r Report, name string) Outcome {
	t.Helper()
	for _, o := range r.Outcomes {
		if o.Key == key(name) {
			return o
		}
	}
	t.Fatalf("no outcome of %s in %+v", name, r.Outcomes)
	return Outcome{}
}
