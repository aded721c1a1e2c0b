package codec

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"druid.internal/druid/internal/backup/snapshot"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// FuzzJSONAgreesWithEncodingJSON: a signed text is accepted exactly if the reference takes it, with the same records,
// however it is cut into batches.
func FuzzJSONAgreesWithEncodingJSON(f *testing.F) {
	f.Add([]byte(`[]`), 0)
	for seed := range uint64(4) {
		r := rand.New(rand.NewPCG(seed, 1))
		all := referenceJSON(f, history(r, 1+r.Int64N(1000), 2))
		f.Add(all[:len(all)-32], int(seed)*100)
	}
	f.Add([]byte(` [ {"time" : "2026-01-01T00:00:00.5+02:00", "etcdEvent":{"type":1,"kv":{"key":"QQ==","mod_revision":3}}} ,{"ETCDEVENT":{"kv":{"key":"QQ==","mod_revision":4,"version":1,"create_revision":4,"value":"","lease":-1}}}] `), 1)
	f.Add([]byte(strings.Repeat(`[{"etcdEvent":{"kv":{"key":"QQ==","create_revision":4,"mod_revision":4,"version":1}},"time":"1970-01-01T00:00:00Z"}`, 2)), 1)
	f.Fuzz(func(t *testing.T, text []byte, batch int) {
		if !looksLikeJSON(text) || bytes.Count(text, []byte("[")) > 5000 {
			return // another encoding, or deeper than encoding/json goes
		}
		want, reason := referenceRecords(text)
		got, _, err := readAll(bytes.NewReader(signed(text)), snapshot.None, ReaderOptions{BatchBytes: batch})
		switch {
		case err != nil && reason == "":
			t.Fatalf("the reference accepts what the reader refuses: %v", err)
		case err == nil && reason != "":
			t.Fatalf("the reader accepts what the reference refuses: %s", reason)
		case err == nil:
			if diff := diffRecords(want, got); diff != "" {
				t.Fatal(diff)
			}
		}
	})
}

// FuzzNative: a content is refused, or its records unmarshal to what etcd's own code makes
// of the same bytes and marshal to them again.
func FuzzNative(f *testing.F) {
	f.Add([]byte{}, 1)
	for seed := range uint64(4) {
		r := rand.New(rand.NewPCG(seed, 1))
		_, object := seal(f, history(r, 1+r.Int64N(1000), 2), DeltaOptions{}, snapshot.LeaseState{ID: 5, TTL: 9})
		content := unpack(f, object, snapshot.Zstd)
		f.Add(content[len(nativeMagic):len(content)-2], int(seed)*100)
	}
	f.Fuzz(func(t *testing.T, entries []byte, batch int) {
		content := append(append([]byte(nativeMagic), entries...), 0, markEnd)
		got, _, err := readAll(bytes.NewReader(content), snapshot.None, ReaderOptions{BatchBytes: batch, MaxEventBytes: 4 << 20, Grow: bounded(t, 4<<20+keyValueOverhead+16), headless: true})
		if err != nil {
			return
		}
		for _, r := range got {
			var kv mvccpb.KeyValue
			if err := kv.Unmarshal(r.Value); err != nil {
				t.Fatalf("%v: %v", r, err)
			}
			again, err := kv.Marshal()
			if err != nil || !bytes.Equal(again, r.Value) || !bytes.Equal(kv.Key, r.Key) {
				t.Fatalf("%v unmarshals to %v (%v)", r, kv, err)
			}
			if !r.Tombstone && (snapshot.Revision(kv.ModRevision) != r.Main || snapshot.Revision(kv.CreateRevision) != r.Create || kv.Version != r.Version || kv.Lease != r.Lease) {
				t.Fatalf("%v unmarshals to %v", r, kv)
			}
		}
	})
}

// FuzzObject: nothing makes a reader panic or hang, whatever suffix the object claims.
// bounded fails the test when a reader wants more memory for one event than so many bytes.
func bounded(t *testing.T, most int) func(int) error {
	return func(n int) error {
		if n > most {
			t.Errorf("%d bytes are taken for one event, want at most %d", n, most)
		}
		return nil
	}
}

func FuzzObject(f *testing.F) {
	all := exampleDelta()
	_, native := seal(f, all, DeltaOptions{})
	f.Add(native, ".zst")
	for _, c := range suffixes {
		_, object := seal(f, all, DeltaOptions{Format: V2JSON, Compression: c})
		f.Add(object, string(c))
	}
	want := wantRecords(f, all)
	f.Fuzz(func(t *testing.T, object []byte, suffix string) {
		_, d, err := readAll(bytes.NewReader(object), snapshot.Compression(suffix), ReaderOptions{MaxEventBytes: 1 << 20, Grow: bounded(t, max(2<<20, maxDeltaWindow))})
		if err == nil && d.Header() != nil && d.Header().Events != int64(len(want)) && d.Header().Events != d.Events() {
			t.Fatal("the header and the content disagree without an error")
		}
	})
}

func FuzzParseHeader(f *testing.F) {
	_, object := seal(f, exampleDelta(), DeltaOptions{})
	f.Add(object)
	f.Add(object[:20])
	f.Fuzz(func(t *testing.T, first []byte) {
		m, length, need, err := ParseHeader(first)
		switch {
		case err != nil:
			if m != nil || length != 0 || need != 0 {
				t.Fatalf("error %v with manifest %v, length %d, need %d", err, m, length, need)
			}
			if !errors.Is(err, ErrNoHeader) && !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrDigest) && !errors.Is(err, ErrEncoding) {
				t.Fatalf("an error without a type: %v", err)
			}
		case m == nil:
			if need <= len(first) || need > maxHeader {
				t.Fatalf("of %d bytes need %d", len(first), need)
			}
		case length > len(first) || m.Snapshot == "":
			t.Fatalf("length %d of %d bytes, manifest %v", length, len(first), m)
		}
	})
}
