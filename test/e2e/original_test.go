package e2e

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"druid.internal/druid/test/history"
)

// originalDelta reads a delta as the original program does, from the format alone: gzip of a
// JSON array followed by the SHA-256 of its text.
func originalDelta(t *testing.T, packed []byte) (events []*mvccpb.Event, times []time.Time) {
	t.Helper()
	text := gunzip(t, packed)
	if len(text) <= sha256.Size {
		t.Fatalf("a delta of %d bytes", len(text))
	}
	text, sum := text[:len(text)-sha256.Size], text[len(text)-sha256.Size:]
	if want := sha256.Sum256(text); !bytes.Equal(sum, want[:]) {
		t.Fatal("the SHA-256 behind the events is not theirs")
	}
	var wrapped []struct {
		EtcdEvent struct {
			Type mvccpb.Event_EventType `json:"type"`
			Kv   *struct {
				Key            []byte `json:"key"`
				CreateRevision int64  `json:"create_revision"`
				ModRevision    int64  `json:"mod_revision"`
				Version        int64  `json:"version"`
				Value          []byte `json:"value"`
				Lease          int64  `json:"lease"`
			} `json:"kv"`
		} `json:"etcdEvent"`
		Time time.Time `json:"time"`
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&wrapped); err != nil {
		t.Fatal(err)
	}
	for _, e := range wrapped {
		kv := e.EtcdEvent.Kv
		if kv == nil || e.Time.IsZero() {
			t.Fatalf("an event without content or time: %+v", e)
		}
		events = append(events, &mvccpb.Event{Type: e.EtcdEvent.Type, Kv: &mvccpb.KeyValue{Key: kv.Key, Value: kv.Value,
			CreateRevision: kv.CreateRevision, ModRevision: kv.ModRevision, Version: kv.Version, Lease: kv.Lease}})
		times = append(times, e.Time)
	}
	return events, times
}

func gunzip(t *testing.T, packed []byte) []byte {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

var originalName = regexp.MustCompile(`^(Full|Incr)-(\d{8,})-(\d{8,})-(\d{10})\.gz$`)

// TestWhatTheOriginalShallReadParsesByItsFormatAlone replays a bucket of v2-json with a reader
// of its own and compares with what etcd did.
func TestWhatTheOriginalShallReadParsesByItsFormatAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 61, 60)
	container := t.TempDir()
	w.useLocal(container)
	last := w.backup(200, "--snapshot-format=v2-json")

	objects := originalsObjects(t, filepath.Join(container, prefix, "v2"))
	if len(objects) < 3 || objects[0].kind != "Full" {
		t.Fatalf("%d objects", len(objects))
	}
	base := gunzip(t, objects[0].content)
	if len(base)%512 != sha256.Size {
		t.Fatalf("a full of %d bytes is no etcd snapshot with its trailer", len(base))
	}
	database, sum := base[:len(base)-sha256.Size], base[len(base)-sha256.Size:]
	if want := sha256.Sum256(database); !bytes.Equal(sum, want[:]) {
		t.Fatal("the trailer of the full is not its SHA-256")
	}
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "member", "snap"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "member", "snap", "db"), database, 0o600); err != nil {
		t.Fatal(err)
	}
	kvs, at := keySpace(t, dir)
	live := map[string]*mvccpb.KeyValue{}
	for _, kv := range kvs {
		live[string(kv.Key)] = kv
	}
	if want := objects[0].last; at < want-1 && at != 0 {
		t.Errorf("the full reaches revision %d, its name says %d", at, want)
	}
	end := objects[0].last
	for _, o := range objects[1:] {
		if o.kind != "Incr" {
			continue
		}
		events, _ := originalDelta(t, o.content)
		if o.start != end+1 || events[len(events)-1].Kv.ModRevision != o.last {
			t.Errorf("a delta %d-%d follows revision %d and ends at %d", o.start, o.last, end, events[len(events)-1].Kv.ModRevision)
		}
		end = o.last
		for _, e := range events {
			if e.Kv.ModRevision < o.start {
				t.Errorf("revision %d is in a delta %d-%d", e.Kv.ModRevision, o.start, o.last)
			}
			if e.Type == mvccpb.DELETE {
				delete(live, string(e.Kv.Key))
			} else {
				live[string(e.Kv.Key)] = e.Kv
			}
		}
	}
	if end != last {
		t.Errorf("the deltas end at %d, want %d", end, last)
	}
	kvs = nil
	for _, kv := range live {
		kvs = append(kvs, kv)
	}
	slices.SortFunc(kvs, func(a, b *mvccpb.KeyValue) int { return bytes.Compare(a.Key, b.Key) })
	if diff := history.Diff(kvs, w.history.At(last)); len(diff) > 0 {
		t.Errorf("replayed by the format alone the key space differs: %q", diff)
	}
	restored, err := w.restore()
	if err != nil {
		t.Fatal(err)
	}
	w.check(restored, last)
	w.verifies()
}

func TestABucketOfBothEncodingsAndEveryCompressionRestores(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 62, 60)
	w.useLocal(t.TempDir())
	var ends []int64
	for _, args := range [][]string{
		nil,
		{"--snapshot-format=v2-json"},
		{"--snapshot-format=v2-json", "--compression-policy=zlib"},
		{"--snapshot-format=v2-json", "--compression-policy=lzw"},
		{"--snapshot-format=v2-json", "--compress-snapshots=false"},
		nil,
	} {
		ends = append(ends, w.backup(60, args...))
	}
	for _, rev := range append(slices.Clone(ends), ends[0]+1, ends[2]-1, ends[4]+2) {
		dir, err := w.restore("--to-revision=" + strconv.FormatInt(rev, 10))
		if err != nil {
			t.Error(err)
			continue
		}
		w.check(dir, rev)
	}
	w.verifies()
}
