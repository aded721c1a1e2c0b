package collector

import (
	"bytes"
	"context"
	"crypto/sha256"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/backup/retention"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/engine/enginetest"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/storetest"
)

const prefix = "ns--uid/etcd-main"

// bucket is a bucket in memory with a clock that the local one agrees with.
type bucket struct{ enginetest.Bucket }

func newBucket(t *testing.T, p storetest.Profile) bucket { return bucket{enginetest.NewBucket(t, p)} }

func key(name string) string { return prefix + "/v2/" + name }

// full and delta name a snapshot taken so many minutes after the start.
var (
	start = enginetest.Start
	full  = enginetest.FullName
	delta = enginetest.DeltaName
)

// put stores a snapshot and, unless the lineage is "-", its manifest, and returns the version.
func (b bucket) put(name, lineage string, opts store.PutOptions) store.Version {
	b.T.Helper()
	body := []byte("content of " + name)
	o, err := b.Put(b.T.Context(), key(name), bytes.NewReader(body), opts)
	if err != nil {
		b.T.Fatal(err)
	}
	if lineage == "-" {
		return o.Version
	}
	n, err := snapshot.ParseName(name)
	if err != nil {
		b.T.Fatal(err)
	}
	m := snapshot.Manifest{Version: 1, Snapshot: name, Lineage: snapshot.Lineage{ID: snapshot.LineageID(lineage)},
		Digest: sha256.Sum256(body), Size: int64(len(body)), LastRevision: n.Last}
	if _, err := b.Put(b.T.Context(), key("Manifest-"+name), bytes.NewReader(m.Encode()), opts); err != nil {
		b.T.Fatal(err)
	}
	return o.Version
}

// keys are all keys below the prefix, without it, each once for every version and marker.
func (b bucket) keys() []string {
	b.T.Helper()
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
		b.T.Fatal(err)
	}
	return all
}

// keepOne keeps the newest full.
var keepOne = retention.Policy{Method: retention.LimitBased, MaxBackups: 1}

func (b bucket) options(p retention.Policy) Options {
	return Options{Prefix: prefix, Policy: p, Now: b.Clock.Now, LocksLast: locksLast, Prove: proveListed}
}

// proven are options with the proofs of what is listed now in place of what reads it.
func (b bucket) proven(o Options) Options {
	b.T.Helper()
	tl := b.Catalog(prefix).Timeline
	for _, l := range tl.Lineages {
		p, _, err := proveListed(b.T.Context(), tl, l.ID)
		if err != nil {
			b.T.Fatal(err)
		}
		o.Proofs = append(o.Proofs, p)
	}
	o.Prove = nil
	return o
}

// proveListed takes the newest chain for good without reading it: what the tests store cannot be restored.
func proveListed(_ context.Context, tl timeline.Timeline, id snapshot.LineageID) (retention.Proof, []string, error) {
	l, _ := tl.Lineage(id)
	c, ok := l.NewestChain()
	if !ok {
		return retention.Proof{}, nil, nil
	}
	var deltas []timeline.Snapshot
	for _, d := range c.Deltas {
		deltas = append(deltas, d.Snapshot)
	}
	return retention.NewProof(c.Base, deltas, c.End, start), nil, nil
}

// locksLast is that of all options: see TestTheRulesHoldWhereLocksAreAskedAboutLast.
var locksLast bool

// threeStreams are a day apart, the last with two deltas.
var threeStreams = enginetest.Streams

// fill stores the streams, each object at the time in its name, and lets a day pass.
func (b bucket) fill(lineage string, names []string, lock func(name string) store.PutOptions) {
	b.T.Helper()
	for _, s := range names {
		n, err := snapshot.ParseName(s)
		if err != nil {
			b.T.Fatal(err)
		}
		if at := n.CreatedAt().Sub(b.Clock.Now()); at > 0 {
			b.Clock.Advance(at)
		}
		opts := store.PutOptions{}
		if lock != nil {
			opts = lock(s)
		}
		b.put(s, lineage, opts)
	}
	b.Clock.Advance(24 * time.Hour)
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

// What a collection is not for stays, whatever the policy lets go.
func TestOnlyWhatIsMeantIsDeleted(t *testing.T) {
	for title, p := range profiles() {
		t.Run(title, func(t *testing.T) {
			b := newBucket(t, p)
			b.fill("a", threeStreams, nil)
			o := b.options(keepOne)
			o.Only = func(s timeline.Snapshot) bool {
				return s.Name().String() == threeStreams[2] || s.Name().String() == threeStreams[5]
			}
			c := New(b, b, o)
			collect(t, c)
			want := enginetest.WithManifests(slices.Delete(slices.Clone(threeStreams), 2, 3)...)
			if diff := cmp.Diff(want, b.keys()); diff != "" {
				t.Errorf("what is left (-want +got):\n%s", diff)
			}
		})
	}
}
