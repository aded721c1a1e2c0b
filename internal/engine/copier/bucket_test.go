package copier

import (
	"bytes"
	"context"
	"crypto/sha256"
	"strings"
	"testing"
	"time"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/engine/enginetest"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/storetest"
)

const (
	oldHome = "ns--old/etcd-main"
	newHome = "ns--new/etcd-main"
)

// bucket is a bucket in memory whose clock the local one agrees with.
type bucket struct{ enginetest.Bucket }

func newBucket(t *testing.T, p storetest.Profile) bucket { return bucket{enginetest.NewBucket(t, p)} }

// full and delta name a snapshot taken so many minutes after the start.
var (
	full  = enginetest.FullName
	delta = enginetest.DeltaName
)

func final(last, minute int) string { return full(last, minute) + ".final" }

func plain(name string) string { return strings.TrimSuffix(name, ".final") }

// content is what a snapshot holds: its name, some thousand times, so that it has some size.
func content(name string) []byte { return bytes.Repeat([]byte(plain(name)+"\n"), 100) }

func v2(prefix, name string) string { return prefix + "/v2/" + name }

// raw stores bytes under a key.
func (b bucket) raw(key string, body []byte) store.Version {
	b.T.Helper()
	o, err := b.Put(b.T.Context(), key, bytes.NewReader(body), store.PutOptions{})
	if err != nil {
		b.T.Fatal(err)
	}
	return o.Version
}

// put stores a snapshot below prefix, with a manifest unless the lineage is "-".
func (b bucket) put(prefix, name string, lineage snapshot.Lineage) {
	b.T.Helper()
	b.raw(v2(prefix, name), content(name))
	if lineage.ID != "-" {
		b.raw(v2(prefix, "Manifest-"+name), manifest(b.T, name, lineage).Encode())
	}
	b.Clock.Advance(time.Second)
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

var streams = enginetest.Streams

func (b bucket) fill(prefix string, lineage snapshot.Lineage, names ...string) {
	b.T.Helper()
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
	b.T.Helper()
	var all []string
	err := b.List(context.Background(), prefix, func(o store.Object) error {
		all = append(all, strings.TrimPrefix(strings.TrimPrefix(o.Key, prefix+"/"), "v2/"))
		return nil
	})
	if err != nil {
		b.T.Fatal(err)
	}
	return all
}

func (b bucket) timeline(prefix string) timeline.Timeline {
	b.T.Helper()
	return b.Catalog(snapshot.Prefix(prefix)).Timeline
}

func (b bucket) options() Options {
	return Options{MaxBackups: All, MaxAge: All, Now: b.Clock.Now,
		Wait: func(ctx context.Context, d time.Duration) error { b.Clock.Advance(d); return ctx.Err() }}
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
	b.T.Helper()
	for _, n := range names {
		vs := b.Versions(v2(newHome, plain(n)))
		if len(vs) != 1 {
			b.T.Errorf("%s has %d versions at the destination, want 1", plain(n), len(vs))
			continue
		}
		r, err := b.Open(context.Background(), vs[0].Version, 0, -1)
		if err != nil {
			b.T.Fatal(err)
		}
		var got bytes.Buffer
		if _, err := got.ReadFrom(r); err != nil {
			b.T.Fatal(err)
		}
		if !bytes.Equal(got.Bytes(), content(n)) {
			b.T.Errorf("%s arrived with other content", n)
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
