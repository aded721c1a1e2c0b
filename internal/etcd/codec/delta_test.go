package codec

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"druid.internal/druid/internal/backup/snapshot"
	"github.com/google/go-cmp/cmp"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// exampleDelta is the worked example of docs/format/delta.md.
func exampleDelta() []response {
	put := func(key, value string, create, mod, version, lease int64) *mvccpb.Event {
		return &mvccpb.Event{Kv: &mvccpb.KeyValue{Key: []byte(key), Value: []byte(value), CreateRevision: create, ModRevision: mod, Version: version, Lease: lease}}
	}
	return []response{
		{time.Unix(0, 1000).UTC(), []*mvccpb.Event{put("foo", "bar", 2, 300, 5, 0)}},
		{time.Unix(0, 1500).UTC(), []*mvccpb.Event{
			{Type: mvccpb.DELETE, Kv: &mvccpb.KeyValue{Key: []byte("foo"), ModRevision: 301}},
			put("k", "", 301, 301, 1, 7),
		}},
	}
}

func TestTheFormatsAreWhatTheDocumentShows(t *testing.T) {
	_, native := seal(t, exampleDelta(), DeltaOptions{}, snapshot.LeaseState{ID: 7, TTL: 60})
	_, asJSON := seal(t, exampleDelta(), DeltaOptions{Format: V2JSON})
	content := unpack(t, native, snapshot.Zstd)
	// Not the header of native itself: it holds the digest of what this version of zstd makes.
	header, err := appendHeader(&snapshot.Manifest{
		Version: 1, Snapshot: "Incr-00000300-00000301-1795168609.zst", Lineage: snapshot.Lineage{ID: "one"},
		Digest: signedDigest(nil), Size: 116, ContentSize: int64(len(content)), LastRevision: 301, Events: 3,
		Leases: []snapshot.LeaseRecord{{Revision: 301, States: snapshot.LeaseStates{{ID: 7, TTL: 60}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for file, got := range map[string][]byte{"header.hex": header, "native.hex": content, "json.hex": asJSON} {
		got := []byte(hex.Dump(got))
		path := filepath.Join("testdata", file)
		if *update {
			if err := os.WriteFile(path, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", file, diff)
		}
		doc, err := os.ReadFile("../../../docs/format/delta.md")
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(doc, want) {
			t.Errorf("docs/format/delta.md does not show %s", file)
		}
	}
}

func TestTheHeaderDescribesTheObject(t *testing.T) {
	all := history(rand.New(rand.NewPCG(5, 5)), 205, 100)
	s, object := seal(t, all, DeltaOptions{}, snapshot.LeaseState{ID: 9, TTL: 3600}, snapshot.LeaseState{ID: -2, TTL: 5})
	m, length, need, err := ParseHeader(object[:HeaderProbe])
	if err != nil || m == nil || need != length || length%headerAlign != 0 {
		t.Fatalf("manifest %v, length %d, need %d, error %v", m, length, need, err)
	}
	if diff := cmp.Diff(s.Manifest, *m); diff != "" {
		t.Errorf("Seal and the header disagree (-want +got):\n%s", diff)
	}
	leases := []snapshot.LeaseRecord{{Revision: 304, States: snapshot.LeaseStates{{ID: 9, TTL: 3600}, {ID: -2, TTL: 5}}}}
	want := snapshot.Manifest{
		Version: 1, Snapshot: s.Name.String(), Lineage: snapshot.Lineage{ID: "one"}, Writer: "test",
		Digest: signedDigest(object[length:]), Size: int64(len(object)), ContentSize: int64(len(unpack(t, object, snapshot.Zstd))),
		LastRevision: 304, Leases: leases, Events: int64(len(wantRecords(t, all))), Earliest: all[0].received, Latest: all[len(all)-1].received,
	}
	if diff := cmp.Diff(want, *m); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if wantName := fmt.Sprintf("Incr-00000205-00000304-%d.zst", testEpoch.Add(time.Hour).Unix()); s.Name.String() != wantName {
		t.Errorf("name %s, want %s", s.Name, wantName)
	}
	_, d, err := readAll(bytes.NewReader(object), snapshot.Zstd, ReaderOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(leases, d.Leases()); diff != "" {
		t.Errorf("leases (-want +got):\n%s", diff)
	}
	if d.Header() == nil || d.Header().Snapshot != s.Name.String() || d.ContentSize() != m.ContentSize {
		t.Errorf("the reader's header is %v and it read %d bytes", d.Header(), d.ContentSize())
	}
}

func signedDigest(b []byte) snapshot.Digest { return snapshot.Digest(signed(b)[len(b):]) }

func TestAHeaderIsReadFromPieces(t *testing.T) {
	s, object := seal(t, exampleDelta(), DeltaOptions{})
	_, length, _, err := ParseHeader(object)
	if err != nil {
		t.Fatal(err)
	}
	for n := range length {
		m, _, need, err := ParseHeader(object[:n])
		want := headerFixed
		if n >= headerFixed {
			want = length
		}
		if m != nil || need != want || err != nil {
			t.Fatalf("from %d bytes: manifest %v, need %d, error %v; want nothing but need %d", n, m, need, err, want)
		}
	}
	for bit := range 8 * length {
		flipped := bytes.Clone(object[:length])
		flipped[bit/8] ^= 1 << (bit % 8)
		if m, _, need, err := ParseHeader(flipped); m != nil || err == nil && need <= length {
			t.Fatalf("bit %d flipped: manifest %v, need %d, error %v", bit, m, need, err)
		}
	}
	_, asJSON := seal(t, exampleDelta(), DeltaOptions{Format: V2JSON, Compression: snapshot.Zstd})
	if _, _, _, err := ParseHeader(asJSON); !errors.Is(err, ErrNoHeader) {
		t.Errorf("of a delta without header: %v, want ErrNoHeader", err)
	}
	if m := s.Manifest; m.Events != 3 {
		t.Errorf("%d events, want 3", m.Events)
	}
}

func TestAHeaderOfAnotherContentIsRefused(t *testing.T) {
	s, object := seal(t, exampleDelta(), DeltaOptions{})
	_, length, _, _ := ParseHeader(object)
	lies := map[string]func(*snapshot.Manifest){
		"digest":         func(m *snapshot.Manifest) { m.Digest[0] ^= 1 },
		"size":           func(m *snapshot.Manifest) { m.Size++ },
		"content size":   func(m *snapshot.Manifest) { m.ContentSize-- },
		"events":         func(m *snapshot.Manifest) { m.Events++ },
		"first revision": func(m *snapshot.Manifest) { m.Snapshot = "Incr-00000299-00000301-5.zst" },
		"last revision": func(m *snapshot.Manifest) {
			m.Snapshot, m.LastRevision = "Incr-00000300-00000302-5.zst", 302
		},
	}
	for what, lie := range lies {
		t.Run(what, func(t *testing.T) {
			m := s.Manifest
			m.Size -= int64(length)
			lie(&m)
			header, err := appendHeader(&m)
			if err != nil {
				t.Fatal(err)
			}
			_, _, err = readAll(bytes.NewReader(append(header, object[length:]...)), snapshot.Zstd, ReaderOptions{})
			if !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrDigest) {
				t.Errorf("error %v, want ErrMalformed or ErrDigest", err)
			}
		})
	}
}

func TestAppendTakesOnlyWhatContinuesTheDelta(t *testing.T) {
	put := func(revs ...int64) (events []*mvccpb.Event) {
		for _, rev := range revs {
			events = append(events, &mvccpb.Event{Kv: &mvccpb.KeyValue{Key: []byte("k"), CreateRevision: 1, ModRevision: rev, Version: 1}})
		}
		return events
	}
	tests := map[string]struct {
		first   snapshot.Revision
		before  []*mvccpb.Event
		events  []*mvccpb.Event
		wantGap *GapError
		wantOut *OrderError
		wantBad bool
	}{
		"the revision expected":              {first: 7, events: put(7, 7, 8)},
		"any revision when none is expected": {events: put(400)},
		"a later one than expected":          {first: 7, events: put(8), wantGap: &GapError{6, 8}},
		"an earlier one than expected":       {first: 7, events: put(6), wantOut: &OrderError{6, 6}},
		"a gap between responses":            {before: put(7), events: put(9), wantGap: &GapError{7, 9}},
		"a gap in the response":              {before: put(7), events: put(8, 10), wantGap: &GapError{8, 10}},
		"one revision in two responses":      {before: put(7), events: put(7), wantOut: &OrderError{7, 7}},
		"backwards":                          {before: put(7), events: put(8, 9, 8), wantOut: &OrderError{9, 8}},
		"nothing":                            {before: put(7)},
		"no key-value pair":                  {events: []*mvccpb.Event{{}}, wantBad: true},
		"an unknown type":                    {events: []*mvccpb.Event{{Type: 2, Kv: put(7)[0].Kv}}, wantBad: true},
		"an empty key":                       {events: []*mvccpb.Event{{Kv: &mvccpb.KeyValue{ModRevision: 7, CreateRevision: 7, Version: 1}}}, wantBad: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			d, err := NewDelta(DeltaOptions{First: tt.first})
			if err != nil {
				t.Fatal(err)
			}
			defer d.Discard()
			if err := d.Append(testEpoch, tt.before); err != nil {
				t.Fatal(err)
			}
			events, last := d.Events(), d.Last()
			err = d.Append(testEpoch, tt.events)
			var gap *GapError
			errors.As(err, &gap)
			var out *OrderError
			errors.As(err, &out)
			if diff := cmp.Diff(tt.wantGap, gap); diff != "" {
				t.Errorf("gap (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.wantOut, out); diff != "" {
				t.Errorf("order (-want +got):\n%s", diff)
			}
			if errors.Is(err, ErrMalformed) != tt.wantBad {
				t.Errorf("error %v, want malformed: %v", err, tt.wantBad)
			}
			if refused := gap != nil || out != nil || tt.wantBad; refused && (d.Events() != events || d.Last() != last) {
				t.Errorf("a refused response left %d events up to %d, want %d up to %d", d.Events(), d.Last(), events, last)
			} else if !refused && err != nil {
				t.Error(err)
			}
		})
	}
	d, err := NewDelta(DeltaOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Discard()
	if err := d.Append(time.Time{}, put(7)); err == nil {
		t.Error("a response without a time was taken")
	}
}

func TestAnEmptyDeltaIsNotSealed(t *testing.T) {
	d, err := NewDelta(DeltaOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Discard()
	if _, err := d.Seal(testEpoch, snapshot.Manifest{}); !errors.Is(err, ErrEmptyDelta) {
		t.Fatalf("error %v, want ErrEmptyDelta", err)
	}
	resp := exampleDelta()[0]
	if err := d.Append(resp.received, resp.events); err != nil {
		t.Fatalf("after an empty seal: %v", err)
	}
	s, err := d.Seal(testEpoch, snapshot.Manifest{})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Append(resp.received, resp.events); err == nil {
		t.Error("a sealed delta took more events")
	}
	if err := d.Discard(); err != nil {
		t.Error(err)
	}
	if _, err := io.ReadAll(s.Reader()); err != nil {
		t.Errorf("reading the sealed object after Discard: %v", err)
	}
}

func TestDeltaCountsItsLeases(t *testing.T) {
	d, err := NewDelta(DeltaOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Discard()
	var events []*mvccpb.Event
	for i, lease := range []int64{5, 0, 3, 5, -4} {
		rev := int64(i + 2)
		events = append(events, &mvccpb.Event{Kv: &mvccpb.KeyValue{Key: []byte("k"), CreateRevision: 2, ModRevision: rev, Version: rev - 1, Lease: lease}})
	}
	if err := d.Append(testEpoch, events); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int64{3, 5, -4}, d.LeaseIDs()); diff != "" || d.Leases() != 3 {
		t.Errorf("%d leases (-want +got):\n%s", d.Leases(), diff)
	}
}

func TestALargeDeltaSpillsIntoAFileWithoutAName(t *testing.T) {
	dir := t.TempDir()
	all := history(rand.New(rand.NewPCG(6, 6)), 2, 5000)
	for _, format := range []Format{Native, V2JSON} {
		d, err := NewDelta(DeltaOptions{Format: format, SpillDir: dir, MemoryLimit: 100_000})
		if err != nil {
			t.Fatal(err)
		}
		for _, resp := range all {
			if err := d.Append(resp.received, resp.events); err != nil {
				t.Fatal(err)
			}
		}
		s, err := d.Seal(testEpoch, snapshot.Manifest{})
		if err != nil {
			t.Fatal(err)
		}
		if d.Spilled() < 100_000 {
			t.Errorf("%s: %d bytes spilled of %d", format, d.Spilled(), s.Size())
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("the directory shows %v (%v)", left, err)
		}
		for range 2 {
			got, _, err := readAll(s.Reader(), s.Name.Compression, ReaderOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := diffRecords(wantRecords(t, all), got); diff != "" {
				t.Errorf("%s: %s", format, diff)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if _, err := io.ReadAll(s.Reader()); err == nil {
			t.Error("reading after Close succeeded")
		}
	}
}

func TestAFullDiskEndsTheDelta(t *testing.T) {
	d, err := NewDelta(DeltaOptions{Format: V2JSON, SpillDir: filepath.Join(t.TempDir(), "missing"), MemoryLimit: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Discard()
	value := make([]byte, 600_000) // more than is kept back to be packed at once
	event := func(rev int64) []*mvccpb.Event {
		return []*mvccpb.Event{{Kv: &mvccpb.KeyValue{Key: []byte("k"), CreateRevision: 1, ModRevision: rev, Version: rev, Value: value}}}
	}
	err = d.Append(testEpoch, event(1))
	if !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("error %v, want that of the directory", err)
	}
	if again := d.Append(testEpoch, event(2)); !errors.Is(again, os.ErrNotExist) {
		t.Errorf("the next append: %v, want the same error", again)
	}
	if _, again := d.Seal(testEpoch, snapshot.Manifest{}); !errors.Is(again, os.ErrNotExist) {
		t.Errorf("sealing: %v, want the same error", again)
	}
}
