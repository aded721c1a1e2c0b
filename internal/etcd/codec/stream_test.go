package codec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"testing"
	"testing/iotest"
	"time"

	"druid.internal/druid/internal/backup/snapshot"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// response is one watch response.
type response struct {
	received time.Time
	events   []*mvccpb.Event
}

var testEpoch = time.Date(2026, 11, 20, 8, 56, 49, 16745788, time.UTC)

// history makes watch responses the way an etcd does: revisions without gaps, transactions of
// several operations, deletions, leases, keys and values of any bytes.
func history(r *rand.Rand, first int64, revisions int) []response {
	type state struct{ create, version int64 }
	keys := map[string]*state{}
	var all []response
	at := testEpoch
	for rev := first; rev < first+int64(revisions); {
		at = at.Add(time.Duration(r.IntN(2e9)))
		if r.IntN(20) == 0 {
			at = at.Add(-3 * time.Second) // clocks are set back
		}
		resp := response{received: at}
		for n := 1 + r.IntN(3); n > 0 && rev < first+int64(revisions); n-- {
			ops := 1
			if r.IntN(5) == 0 {
				ops = 1 + r.IntN(30)
			}
			touched := map[string]bool{}
			for range ops {
				key := fmt.Sprintf("/registry/pods/ns-%d/pod-%d", r.IntN(5), r.IntN(20))
				if r.IntN(30) == 0 {
					key = string([]byte{0xff, 0, byte(r.IntN(256)), '"', '\\'})
				}
				if touched[key] {
					continue
				}
				touched[key] = true
				s := keys[key]
				if s != nil && r.IntN(6) == 0 {
					delete(keys, key)
					resp.events = append(resp.events, &mvccpb.Event{Type: mvccpb.DELETE, Kv: &mvccpb.KeyValue{Key: []byte(key), ModRevision: rev}})
					continue
				}
				if s == nil {
					s = &state{create: rev}
					keys[key] = s
				}
				s.version++
				kv := &mvccpb.KeyValue{Key: []byte(key), CreateRevision: s.create, ModRevision: rev, Version: s.version}
				if size := r.IntN(400); size > 5 {
					kv.Value = make([]byte, size)
					for i := range kv.Value {
						kv.Value[i] = byte(r.UintN(256))
					}
				}
				switch r.IntN(12) {
				case 0:
					kv.Lease = 7587875011961028609 + r.Int64N(4)
				case 1:
					kv.Lease = -1 - r.Int64N(3) // clients may choose such ids
				}
				resp.events = append(resp.events, &mvccpb.Event{Kv: kv})
			}
			rev++
		}
		all = append(all, resp)
	}
	return all
}

// wantRecords says what a reader has to make of the responses, by etcd's own marshaller.
func wantRecords(t testing.TB, all []response) []Record {
	t.Helper()
	var want []Record
	var last, sub int64
	for _, resp := range all {
		for _, e := range resp.events {
			if sub++; e.Kv.ModRevision != last {
				last, sub = e.Kv.ModRevision, 0
			}
			stored := *e.Kv
			r := Record{Main: snapshot.Revision(last), Sub: sub, Received: resp.received.UnixNano(), Key: e.Kv.Key}
			if e.Type == mvccpb.DELETE {
				stored = mvccpb.KeyValue{Key: e.Kv.Key}
				r.Tombstone = true
			} else {
				r.Create, r.Version, r.Lease = snapshot.Revision(stored.CreateRevision), stored.Version, stored.Lease
			}
			var err error
			if r.Value, err = stored.Marshal(); err != nil {
				t.Fatal(err)
			}
			want = append(want, r)
		}
	}
	return want
}

// referenceJSON writes a delta the way the original does.
func referenceJSON(t testing.TB, all []response) []byte {
	t.Helper()
	var events []jsonEvent
	for _, resp := range all {
		for _, e := range resp.events {
			events = append(events, jsonEvent{e, resp.received.UTC()})
		}
	}
	text, err := json.Marshal(events)
	if err != nil {
		t.Fatal(err)
	}
	return signed(text)
}

// seal makes an object of the responses.
func seal(t testing.TB, all []response, o DeltaOptions, leases ...snapshot.LeaseState) (*Sealed, []byte) {
	t.Helper()
	d, err := NewDelta(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Discard() })
	for _, resp := range all {
		if err := d.Append(resp.received, resp.events); err != nil {
			t.Fatal(err)
		}
	}
	m := snapshot.Manifest{Lineage: snapshot.Lineage{ID: "one"}, Writer: "test"}
	if len(leases) > 0 {
		m.Leases = []snapshot.LeaseRecord{{Revision: d.Last(), States: leases}}
	}
	s, err := d.Seal(testEpoch.Add(time.Hour), m)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	object, err := io.ReadAll(s.Reader())
	if err != nil {
		t.Fatal(err)
	}
	if int64(len(object)) != s.Size() {
		t.Fatalf("object of %d bytes, Size says %d", len(object), s.Size())
	}
	return s, object
}

// diffRecords is empty for equal records, and otherwise shows the first that differs.
func diffRecords(want, got []Record) string {
	for i := range max(len(want), len(got)) {
		if i >= len(want) || i >= len(got) {
			return fmt.Sprintf("want %d records, got %d", len(want), len(got))
		}
		if !reflect.DeepEqual(want[i], got[i]) {
			return fmt.Sprintf("record %d of %d: want %.2000q\ngot %.2000q", i, len(want), fmt.Sprint(want[i]), fmt.Sprint(got[i]))
		}
	}
	return ""
}

// readAll reads a delta to its verified end, in a stream and again at once, which must agree. The
// records own their bytes.
func readAll(object io.Reader, c snapshot.Compression, o ReaderOptions) (all []Record, d *DeltaReader, err error) {
	var again bytes.Buffer
	all, d, err = readOnce(io.TeeReader(object, &again), c, o)
	_, rest := io.Copy(&again, object)
	if rest == nil {
		rest = io.EOF
	}
	o.Whole = &Whole{MaxBytes: 1 << 30, Memory: new(Contents)}
	whole, _, wholeErr := readOnce(io.MultiReader(&again, iotest.ErrReader(rest)), c, o)
	switch {
	case (err == nil) != (wholeErr == nil):
		return all, d, fmt.Errorf("in a stream %v, at once %v", err, wholeErr)
	case err == nil && diffRecords(all, whole) != "":
		return all, d, fmt.Errorf("in a stream %d records, at once %d others", len(all), len(whole))
	case errors.Is(wholeErr, ErrDigest) && len(whole) > 0 && d != nil && o.Whole.fits(d.header):
		return all, d, fmt.Errorf("%d records were given out before %w", len(whole), wholeErr)
	}
	return all, d, err
}

func readOnce(object io.Reader, c snapshot.Compression, o ReaderOptions) (all []Record, d *DeltaReader, err error) {
	d, err = NewDeltaReader(object, c, o)
	if err != nil {
		return nil, nil, err
	}
	defer d.Close()
	for {
		b, err := d.Next()
		if err == io.EOF {
			return all, d, nil
		}
		if err != nil {
			return all, d, err
		}
		for _, r := range b.Records {
			r.Key, r.Value = bytes.Clone(r.Key), bytes.Clone(r.Value)
			all = append(all, r)
		}
		b.Release()
	}
}

// pack compresses content as an object with the suffix c.
func pack(t testing.TB, content []byte, c snapshot.Compression) []byte {
	t.Helper()
	z, err := Compress(bytes.NewReader(content), c)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	object, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return object
}

func unpack(t testing.TB, object []byte, c snapshot.Compression) []byte {
	t.Helper()
	z, err := Decompress(bytes.NewReader(object), c)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	content, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

var suffixes = map[string]snapshot.Compression{
	"none": snapshot.None, "gzip": snapshot.Gzip, "zlib": snapshot.Zlib, "lzw": snapshot.LZW, "zstd": snapshot.Zstd,
}
