package codec

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"druid.internal/druid/internal/backup/snapshot"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// cluster makes the events of a Kubernetes-like cluster: structured objects of 0.5 to 8 KB of which
// each update changes a few fields, most of them renewals of leases.
func cluster(n int) []response {
	r := rand.New(rand.NewPCG(7, 7))
	hex := func(n int) string { return fmt.Sprintf("%0*x", n, r.Uint64()) }
	type object struct {
		key             string
		create, version int64
		fixed, status   string
	}
	kinds := []struct {
		prefix      string
		count, size int
		share       int // of a hundred events
	}{{"leases/kube-node-lease", 600, 400, 60}, {"pods/shoot", 3000, 3600, 18}, {"events/shoot", 6000, 800, 10}, {"minions/worker", 200, 7600, 5}, {"endpointslices/shoot", 400, 1000, 7}}
	objects := make([][]*object, len(kinds))
	for k, kind := range kinds {
		for i := range kind.count {
			o := &object{key: fmt.Sprintf("/registry/%s-%02d/%s-%05d", kind.prefix, i%20, hex(8), i)}
			for len(o.fixed) < kind.size {
				o.fixed += fmt.Sprintf(`{"name":"field-%d","uid":"%s-%s","enabled":true,"image":"registry.example.org/project/releases/component:v1.%d"},`, len(o.fixed)%17, hex(8), hex(12), i%9)
			}
			objects[k] = append(objects[k], o)
		}
	}
	var all []response
	at := testEpoch
	for rev := int64(2); len(all) < n; rev++ {
		at = at.Add(20 * time.Millisecond)
		pick, k := r.IntN(100), 0
		for pick >= kinds[k].share {
			pick -= kinds[k].share
			k++
		}
		o := objects[k][r.IntN(len(objects[k]))]
		if o.version++; o.version == 1 {
			o.create = rev
		}
		o.status = fmt.Sprintf(`"status":{"renewTime":"%s","phase":"Running","restartCount":%d,"conditions":[{"type":"Ready","status":"%t"}]}}`, at.Format(time.RFC3339Nano), r.IntN(3), r.IntN(2) == 0)
		kv := &mvccpb.KeyValue{Key: []byte(o.key), CreateRevision: o.create, ModRevision: rev, Version: o.version, Value: []byte("k8s\x00" + o.fixed[:len(o.fixed)/2] + o.status + o.fixed[len(o.fixed)/2:])}
		all = append(all, response{at, []*mvccpb.Event{{Kv: kv}}})
	}
	return all
}

const benchEvents = 50_000

func BenchmarkEncode(b *testing.B) {
	all := cluster(benchEvents)
	for name, o := range map[string]DeltaOptions{"native": {}, "json+gzip": {Format: V2JSON, Compression: snapshot.Gzip}, "json": {Format: V2JSON}} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				s, object := seal(b, all, o)
				s.Close()
				b.SetBytes(s.Manifest.ContentSize)
				b.ReportMetric(float64(len(object))/benchEvents, "stored-B/event")
			}
			b.ReportMetric(benchEvents*float64(b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
	// What the original does: encoding/json per event, one buffer, compress/gzip.
	b.Run("json+gzip-standard-library", func(b *testing.B) {
		for b.Loop() {
			text := []byte{'['}
			for _, resp := range all {
				e, err := json.Marshal(jsonEvent{resp.events[0], resp.received})
				if err != nil {
					b.Fatal(err)
				}
				text = append(append(text, ','), e...)
			}
			sum := sha256.Sum256(text)
			var object bytes.Buffer
			z := gzip.NewWriter(&object)
			z.Write(append(text, sum[:]...))
			z.Close()
			b.SetBytes(int64(len(text)))
			b.ReportMetric(float64(object.Len())/benchEvents, "stored-B/event")
		}
		b.ReportMetric(benchEvents*float64(b.N)/b.Elapsed().Seconds(), "events/s")
	})
}

func BenchmarkDecode(b *testing.B) {
	all := cluster(benchEvents)
	for name, o := range map[string]DeltaOptions{"native": {}, "json+gzip": {Format: V2JSON, Compression: snapshot.Gzip}, "json": {Format: V2JSON}} {
		s, object := seal(b, all, o)
		c := s.Name.Compression
		b.Run(name, func(b *testing.B) {
			b.SetBytes(s.Manifest.ContentSize)
			for b.Loop() {
				d, err := NewDeltaReader(bytes.NewReader(object), c, ReaderOptions{})
				if err != nil {
					b.Fatal(err)
				}
				for {
					batch, err := d.Next()
					if err == io.EOF {
						break
					}
					if err != nil {
						b.Fatal(err)
					}
					batch.Release()
				}
				d.Close()
			}
			b.ReportMetric(benchEvents*float64(b.N)/b.Elapsed().Seconds(), "events/s")
		})
		b.Run(name+"/unpack-alone", func(b *testing.B) {
			b.SetBytes(s.Manifest.ContentSize)
			for b.Loop() {
				z, err := newUnpacker(bytes.NewReader(object), c, 1)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := io.Copy(io.Discard, z); err != nil {
					b.Fatal(err)
				}
				z.Close()
			}
		})
	}
}

func BenchmarkCompressFull(b *testing.B) {
	content := blend(64 << 20)
	b.SetBytes(int64(len(content)))
	for b.Loop() {
		z, err := Compress(bytes.NewReader(content), snapshot.Zstd)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, z); err != nil {
			b.Fatal(err)
		}
		z.Close()
	}
}
