package datadir

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/etcd/codec"
	"druid.internal/druid/internal/etcd/datadir/boltfile"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// benchEvents is how many events a benchmark replays: DATADIR_EVENTS=500000 for the real size.
func benchEvents(b *testing.B) int {
	if s := os.Getenv("DATADIR_EVENTS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			b.Fatal(err)
		}
		return n
	}
	return 50_000
}

// kind is a sort of object of a workload: its share of the events, how many of them there are and
// the size of each.
type kind struct {
	name    string
	share   int // of 100
	objects int
	size    int
	random  bool // every update changes everything
}

var (
	randomWorkload     = []kind{{"key", 100, 100_000, 1024, true}}
	kubernetesWorkload = []kind{
		{"leases", 57, 600, 474, false},
		{"pods", 15, 3000, 3800, false},
		{"events", 14, 20_000, 900, false},
		{"minions", 4, 500, 7900, false},
		{"endpointslices", 4, 1000, 2000, false},
		{"customresources", 6, 2000, 1500, false},
	}
)

// generate makes deltas of a workload on the empty store, encoded in the format.
func generate(b *testing.B, kinds []kind, events, perDelta int, format codec.Format) []Delta {
	b.Helper()
	rnd := rand.New(rand.NewPCG(1, 1))
	random := make([]byte, 16<<20)
	for i := range random {
		random[i] = byte(rnd.Uint32())
	}
	type object struct {
		value           []byte
		create, version int64
	}
	objects := map[string]*object{}
	var deltas []Delta
	rev := int64(1)
	for events > 0 {
		d, err := codec.NewDelta(codec.DeltaOptions{Format: format, Compression: snapshot.Gzip, MemoryLimit: 1 << 30})
		if err != nil {
			b.Fatal(err)
		}
		for range min(perDelta, events) {
			events--
			rev++
			n, k := rnd.IntN(100), kinds[0]
			for _, k = range kinds {
				if n -= k.share; n < 0 {
					break
				}
			}
			key := fmt.Sprintf("/registry/%s/default/%s-%07d", k.name, k.name, rnd.IntN(k.objects))
			o := objects[key]
			if o == nil {
				o = &object{create: rev}
				objects[key] = o
				at := rnd.IntN(len(random) - k.size)
				if o.value = random[at : at+k.size]; !k.random { // text: compresses like an object
					o.value = bytes.Repeat([]byte(fmt.Sprintf("metadata:{name:%s uid:%x} ", key, random[at:at+8])), k.size/60+1)[:k.size]
				}
			}
			o.version++
			if k.random {
				at := rnd.IntN(len(random) - k.size)
				o.value = random[at : at+k.size]
			} else {
				o.value = bytes.Clone(o.value)
				copy(o.value[k.size/2:], fmt.Sprintf("resourceVersion:%d time:%d", rev, rnd.Uint32()))
			}
			if err := d.Append(time.Unix(1_700_000_000, rev), []*mvccpb.Event{{Kv: &mvccpb.KeyValue{
				Key: []byte(key), Value: o.value, CreateRevision: o.create, ModRevision: rev, Version: o.version}}}); err != nil {
				b.Fatal(err)
			}
		}
		sealed, err := d.Seal(time.Unix(1_700_000_000, 0), snapshot.Manifest{Lineage: snapshot.Lineage{ID: "bench"}})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { sealed.Close() })
		deltas = append(deltas, Delta{Name: sealed.Name.String(), Last: sealed.Name.Last, Open: func(o codec.ReaderOptions) (Records, error) {
			return codec.NewDeltaReader(sealed.Reader(), sealed.Name.Compression, o)
		}})
	}
	return deltas
}

func cpuSeconds() float64 {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return float64(u.Utime.Sec+u.Stime.Sec) + float64(u.Utime.Usec+u.Stime.Usec)/1e6
}

func BenchmarkRestore(b *testing.B) {
	for name, c := range map[string]struct {
		kinds    []kind
		perDelta int
		format   codec.Format
		o        Options
	}{
		"random native":              {randomWorkload, 7000, codec.Native, Options{}},
		"random json+gzip":           {randomWorkload, 7000, codec.V2JSON, Options{}},
		"random native with history": {randomWorkload, 7000, codec.Native, Options{KeepHistory: true}},
		"kubernetes native":          {kubernetesWorkload, 15_000, codec.Native, Options{}},
	} {
		b.Run(name, func(b *testing.B) {
			events := benchEvents(b)
			deltas := generate(b, c.kinds, events, c.perDelta, c.format)
			dir := b.TempDir()
			cpu := cpuSeconds()
			n := 0
			for b.Loop() {
				n++
				if _, err := Restore(context.Background(), Source{Deltas: deltas}, c.o, Target{Dir: filepath.Join(dir, strconv.Itoa(n)), Member: solo}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(events*n)/b.Elapsed().Seconds(), "events/s")
			b.ReportMetric((cpuSeconds()-cpu)*1e6/float64(events*n), "cpu-us/event")
		})
	}
}

// BenchmarkDecode is the part of BenchmarkRestore that is not this package's.
func BenchmarkDecode(b *testing.B) {
	for name, format := range map[string]codec.Format{"native": codec.Native, "json+gzip": codec.V2JSON} {
		b.Run(name, func(b *testing.B) {
			events := benchEvents(b)
			deltas := generate(b, randomWorkload, events, 7000, format)
			cpu := cpuSeconds()
			n := 0
			for b.Loop() {
				n++
				s := newSeeds()
				f := newFeed(context.Background(), deltas, &s, 2, 64<<20, 0, 0)
				for i := range deltas {
					for {
						p, err := f.next(context.Background(), i)
						if err != nil {
							break
						}
						f.release(p)
					}
				}
				f.close()
			}
			b.ReportMetric(float64(events*n)/b.Elapsed().Seconds(), "events/s")
			b.ReportMetric((cpuSeconds()-cpu)*1e6/float64(events*n), "cpu-us/event")
		})
	}
}

// BenchmarkBigBase replays a delta onto a base of DATADIR_KEYS keys of 1 KiB with a limit of
// 128 MiB. The anonymous memory of the process is printed by /proc/self/status meanwhile.
func BenchmarkBigBase(b *testing.B) {
	keys := 200_000
	if s := os.Getenv("DATADIR_KEYS"); s != "" {
		var err error
		if keys, err = strconv.Atoi(s); err != nil {
			b.Fatal(err)
		}
	}
	dir := b.TempDir()
	base := filepath.Join(dir, "base")
	f, err := os.Create(base)
	if err != nil {
		b.Fatal(err)
	}
	w := boltfile.NewWriter(f, nil)
	w.Begin(keyBucket)
	rnd := rand.New(rand.NewPCG(1, 1))
	random := make([]byte, 1<<20)
	for i := range random {
		random[i] = byte(rnd.Uint32())
	}
	key := func(i int) []byte { return fmt.Appendf(nil, "/registry/big/%09d", i) }
	for i := range keys {
		at := rnd.IntN(len(random) - 1024)
		rev := int64(i + 2)
		v, err := (&mvccpb.KeyValue{Key: key(i), Value: random[at : at+1024], CreateRevision: rev, ModRevision: rev, Version: 1}).Marshal()
		if err != nil {
			b.Fatal(err)
		}
		if err := w.Put(appendRevision(nil, snapshot.Revision(rev), 0, false), v); err != nil {
			b.Fatal(err)
		}
	}
	w.Begin(metaBucket)
	if err := w.Finish(); err != nil {
		b.Fatal(err)
	}
	f.Close()
	events := keys / 8
	d, err := codec.NewDelta(codec.DeltaOptions{SpillDir: dir})
	if err != nil {
		b.Fatal(err)
	}
	for i := range events {
		at := rnd.IntN(len(random) - 1024)
		rev := int64(keys + 2 + i)
		if err := d.Append(time.Unix(1_700_000_000, rev), []*mvccpb.Event{{Kv: &mvccpb.KeyValue{
			Key: key(i * 8), Value: random[at : at+1024], CreateRevision: int64(i*8 + 2), ModRevision: rev, Version: 2}}}); err != nil {
			b.Fatal(err)
		}
	}
	sealed, err := d.Seal(time.Unix(1_700_000_000, 0), snapshot.Manifest{Lineage: snapshot.Lineage{ID: "bench"}})
	if err != nil {
		b.Fatal(err)
	}
	defer sealed.Close()
	n := 0
	for b.Loop() {
		n++
		r, _, err := NewSnapshotReader(base)
		if err != nil {
			b.Fatal(err)
		}
		var phase Phase
		out := filepath.Join(dir, "out")
		peak := int64(0)
		report, err := Rebuild(context.Background(), Source{Base: r, BaseName: "base", Deltas: []Delta{{Name: "delta", Last: sealed.Name.Last, Open: func(o codec.ReaderOptions) (Records, error) {
			return codec.NewDeltaReader(sealed.Reader(), sealed.Name.Compression, o)
		}}}}, Options{MemoryLimit: 128 << 20, Progress: func(p Progress) {
			if p.Phase != phase {
				phase = p.Phase
				b.Logf("%v %s", b.Elapsed(), phase)
			}
			peak = max(peak, rssAnon())
		}}, out)
		r.Close()
		if err != nil {
			b.Fatal(err)
		}
		os.Remove(out)
		b.ReportMetric(float64(peak)/(1<<20), "anon-MiB")
		b.ReportMetric(float64(report.SpilledBytes)/(1<<20), "spilled-MiB")
		b.Logf("%v %d keys, %d bytes", b.Elapsed(), report.Keys, report.DatabaseBytes)
	}
}

// rssAnon is the anonymous memory of this process, in bytes; 0 where /proc does not tell.
func rssAnon() int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, rest, _ := bytes.Cut(status, []byte("RssAnon:"))
	var kib int64
	fmt.Fscan(bytes.NewReader(rest), &kib)
	return kib << 10
}
