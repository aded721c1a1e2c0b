package datadir

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/etcd/codec"
	"druid.internal/druid/internal/etcd/datadir/boltfile"
)

// story makes the records of a history told in words, one revision per line:
//
//	2 put a, put b
//	3 delete a
func story(t testing.TB, text string) []codec.Record {
	var events []*mvccpb.Event
	type state struct{ create, version int64 }
	keys := map[string]state{}
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		rev, ops, _ := strings.Cut(strings.TrimSpace(line), " ")
		var main int64
		fmt.Sscan(rev, &main)
		for _, op := range strings.Split(ops, ", ") {
			words := strings.Fields(op)
			kv := &mvccpb.KeyValue{Key: []byte(words[1]), ModRevision: main}
			e := &mvccpb.Event{Kv: kv}
			s := keys[words[1]]
			if words[0] == "delete" {
				e.Type = mvccpb.DELETE
				delete(keys, words[1])
			} else {
				if s.version == 0 {
					s.create = main
				}
				s.version++
				keys[words[1]] = s
				kv.CreateRevision, kv.Version = s.create, s.version
				kv.Value = []byte(fmt.Sprintf("%s at %d", words[1], main))
				if len(words) > 2 {
					fmt.Sscan(words[2], &kv.Lease)
				}
			}
			events = append(events, e)
		}
	}
	return recordsOf(t, events, received)
}

// baseOf makes a full snapshot that holds the records.
func baseOf(t testing.TB, records []codec.Record) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "base")
	if _, err := Rebuild(context.Background(), Source{Deltas: []Delta{deltaOf("records", records)}}, Options{KeepHistory: true}, path); err != nil {
		t.Fatal(err)
	}
	r, size, err := NewSnapshotReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil || int64(len(b)) != size {
		t.Fatalf("%d of %d bytes, %v", len(b), size, err)
	}
	return b
}

const life = `
2 put a, put b
3 put a
4 delete b
5 put b, put c
6 put a, delete c
7 put b
8 put d
9 delete d`

func without(rs []codec.Record, drop func(codec.Record) bool) []codec.Record {
	var kept []codec.Record
	for _, r := range rs {
		if !drop(r) {
			kept = append(kept, r)
		}
	}
	return kept
}

func TestBrokenChainsAreNamed(t *testing.T) {
	all := story(t, life)
	base := baseOf(t, between(all, 2, 4))
	changed := func(i int, edit func(*codec.Record)) []codec.Record {
		rs := append([]codec.Record(nil), all...)
		edit(&rs[i])
		return rs
	}
	anotherValue := func(r *codec.Record) { r.Value = append(bytes.Clone(r.Value), 0x32, 0) }
	for name, c := range map[string]struct {
		deltas []Delta
		o      Options
		want   error
	}{
		"a gap behind the base": {
			[]Delta{deltaOf("d", between(all, 6, 9))}, Options{},
			&GapError{After: 4, Next: 6, Before: "base", Source: "d"}},
		"a gap between deltas": {
			[]Delta{deltaOf("d1", between(all, 5, 6)), deltaOf("d2", between(all, 8, 9))}, Options{},
			&GapError{After: 6, Next: 8, Before: "d1", Source: "d2"}},
		"a gap inside of a delta": {
			[]Delta{deltaOf("d", without(between(all, 5, 9), func(r codec.Record) bool { return r.Main == 7 }))}, Options{},
			&GapError{After: 6, Next: 8, Before: "d", Source: "d"}},
		"the first change of a transaction is missing": {
			[]Delta{deltaOf("d", without(between(all, 5, 9), func(r codec.Record) bool { return r.Main == 5 && r.Sub == 0 }))}, Options{},
			&OrderError{Source: "d", Revision: 5, Previous: 4, SubRevision: 1, WantedSubRevision: 0}},
		"a change within a transaction is missing": {
			[]Delta{deltaOf("d", between(changed(7, func(r *codec.Record) { r.Sub = 2 }), 5, 9))}, Options{},
			&OrderError{Source: "d", Revision: 6, Previous: 6, SubRevision: 2, WantedSubRevision: 1}},
		"a revision goes backwards": {
			[]Delta{deltaOf("d", append(append([]codec.Record(nil), between(all, 5, 7)...), between(all, 6, 9)...))}, Options{},
			&OrderError{Source: "d", Revision: 6, Previous: 7}},
		"the base has something else": {
			[]Delta{deltaOf("d", between(changed(2, anotherValue), 3, 9))}, Options{},
			&OverlapError{Revision: 3, Source: "d", Reason: `base has another change there than that of key "a"`}},
		"the base lacks what a delta has": {
			[]Delta{deltaOf("d", between(changed(2, func(r *codec.Record) { r.Tombstone = true }), 3, 9))}, Options{},
			&OverlapError{Revision: 3, Source: "d", Reason: `base does not have its change of key "a"`}},
		"two deltas tell different things": {
			[]Delta{deltaOf("d1", between(all, 5, 8)), deltaOf("d2", between(changed(6, anotherValue), 6, 9))}, Options{},
			&OverlapError{Revision: 6, Source: "d2", Reason: "an earlier delta has other changes there"}},
		"a version is skipped": {
			[]Delta{deltaOf("d", between(changed(6, func(r *codec.Record) { r.Version = 7 }), 5, 9))}, Options{},
			&ChainError{Key: []byte("a"), Revision: 6, Reason: "its version does not follow the one before: changes in between are missing"}},
		"a version is skipped, found when memory was short": {
			[]Delta{deltaOf("d", between(changed(6, func(r *codec.Record) { r.Version = 7 }), 5, 9))}, Options{MemoryLimit: 1, unclamped: true},
			&ChainError{Key: []byte("a"), Revision: 6, Reason: "its version does not follow the one before: changes in between are missing"}},
		"a version is skipped, found with history when memory was short": {
			[]Delta{deltaOf("d", between(changed(6, func(r *codec.Record) { r.Version = 7 }), 5, 9))}, Options{MemoryLimit: 1, unclamped: true, KeepHistory: true},
			&ChainError{Key: []byte("a"), Revision: 6, Reason: "its version does not follow the one before: changes in between are missing"}},
		"a key was created somewhere else": {
			[]Delta{deltaOf("d", between(changed(6, func(r *codec.Record) { r.Create = 3 }), 5, 9))}, Options{},
			&ChainError{Key: []byte("a"), Revision: 6, Reason: "it was created at another revision than the version before"}},
		"the base lacks a key": {
			[]Delta{deltaOf("d", between(changed(9, func(r *codec.Record) { r.Version, r.Create = 4, 2 }), 5, 9))}, Options{},
			&ChainError{Key: []byte("d"), Revision: 8, Reason: "it has earlier versions that are in none of the snapshots"}},
		"the target is beyond": {
			[]Delta{deltaOf("d", between(all, 5, 9))}, Options{TargetRevision: 12},
			&TargetError{Want: 12, Earliest: 1, Last: 9}},
		"a delta ends early": {
			[]Delta{{Name: "d", Last: 11, Open: deltaOf("d", between(all, 5, 9)).Open}}, Options{},
			ErrNotAsNamed},
		"a delta cannot be opened": {
			[]Delta{{Name: "d", Open: func(o codec.ReaderOptions) (Records, error) { return nil, io.ErrClosedPipe }}}, Options{},
			io.ErrClosedPipe},
		"a delta is damaged at its end, behind the target": {
			[]Delta{{Name: "d", Open: func(o codec.ReaderOptions) (Records, error) {
				return &memoryDelta{records: between(all, 5, 9), batch: 2, fail: codec.ErrDigest}, nil
			}}}, Options{TargetRevision: 5},
			codec.ErrDigest},
	} {
		t.Run(name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "out")
			_, err := Rebuild(context.Background(), Source{Base: reader(base), BaseName: "base", Deltas: c.deltas}, c.o, out)
			if err == nil || !(errors.Is(err, c.want) || strings.Contains(err.Error(), c.want.Error())) {
				t.Errorf("got %v\nwant %v", err, c.want)
			}
			switch want := c.want.(type) {
			case *GapError:
				var got *GapError
				if !errors.As(err, &got) || *got != *want {
					t.Errorf("got %#v, want %#v", got, want)
				}
			case *ChainError:
				var got *ChainError
				if !errors.As(err, &got) {
					t.Errorf("%T is no ChainError", err)
				}
			}
			left, _ := os.ReadDir(filepath.Dir(out))
			if len(left) > 0 {
				t.Errorf("%v is left over", left)
			}
		})
	}
}

// Leaders overlap, and a full may be ahead of its name by more than the
// whole first delta.
func TestOverlapsAreSkippedWhateverTheirLength(t *testing.T) {
	all := story(t, life)
	want, err := Rebuild(context.Background(), Source{Deltas: []Delta{deltaOf("all", all)}}, Options{}, filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	for ahead := snapshot.Revision(1); ahead <= 9; ahead++ {
		src := Source{}
		if ahead > 1 {
			src.Base, src.BaseName = reader(baseOf(t, between(all, 2, ahead))), "base"
		}
		src.Deltas = []Delta{deltaOf("d1", between(all, 2, 4)), deltaOf("d2", between(all, 3, 8)),
			deltaOf("d3", between(all, 3, 8)), deltaOf("d4", between(all, 9, 9))}
		got, err := Rebuild(context.Background(), src, Options{}, filepath.Join(t.TempDir(), "out"))
		if err != nil {
			t.Fatal(err)
		}
		if got.HashKV != want.HashKV || got.Revision != 9 {
			t.Errorf("base up to %d: %+v at %d, want %+v", ahead, got.HashKV, got.Revision, want.HashKV)
		}
	}
}

// The key that is deleted does not exist.
func TestADeletionOfAMissingKeyIsAppliedAndCounted(t *testing.T) {
	records := story(t, "2 put a\n3 delete x\n4 put a")
	for _, o := range []Options{{}, {KeepHistory: true}, {MemoryLimit: 1, unclamped: true}} {
		r, err := Rebuild(context.Background(), Source{Deltas: []Delta{deltaOf("d", records)}}, o, filepath.Join(t.TempDir(), "out"))
		if err != nil {
			t.Fatal(err)
		}
		if r.AbsentDeletes != 1 || r.Revision != 4 || r.Keys != 1 {
			t.Errorf("%d absent deletes, revision %d, %d keys", r.AbsentDeletes, r.Revision, r.Keys)
		}
	}
}

// A revision of more than 10240 operations and one of more than 10 MiB.
func TestHugeRevisionsAreRestored(t *testing.T) {
	var events []*mvccpb.Event
	for i := range 12_000 {
		events = append(events, &mvccpb.Event{Kv: &mvccpb.KeyValue{Key: fmt.Appendf(nil, "k%05d", i), Value: []byte("v"), CreateRevision: 2, ModRevision: 2, Version: 1}})
	}
	for i := range 50 {
		events = append(events, &mvccpb.Event{Kv: &mvccpb.KeyValue{Key: fmt.Appendf(nil, "large%02d", i), Value: bytes.Repeat([]byte{byte(i)}, 1<<20), CreateRevision: 3, ModRevision: 3, Version: 1}})
	}
	for i := range 12_000 {
		events = append(events, &mvccpb.Event{Type: mvccpb.DELETE, Kv: &mvccpb.KeyValue{Key: fmt.Appendf(nil, "k%05d", i), ModRevision: 4}})
	}
	records := recordsOf(t, events, received)
	for name, o := range map[string]Options{"compacted": {}, "with history": {KeepHistory: true}, "in little memory": {MemoryLimit: 1 << 20, unclamped: true}} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "out")
			r, err := Rebuild(context.Background(), Source{Deltas: []Delta{deltaOf("d", records)}}, o, path)
			if err != nil {
				t.Fatal(err)
			}
			wantRecords := int64(50 + 12_000)
			if o.KeepHistory {
				wantRecords += 12_000
			}
			if r.Keys != 50 || r.RecordsWritten != wantRecords || r.Events != 24_050 {
				t.Errorf("%d keys, %d records of %d events", r.Keys, r.RecordsWritten, r.Events)
			}
			boltCheck(t, path)
		})
	}
}

func TestACancelledRebuildLeavesNothing(t *testing.T) {
	all := story(t, life)
	for _, phase := range []Phase{ReadingBase, ScanningBase, ReadingDeltas, Writing, Verifying} {
		t.Run(string(phase), func(t *testing.T) {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			out := filepath.Join(t.TempDir(), "out")
			seen := false
			_, err := Rebuild(ctx, Source{Base: reader(baseOf(t, between(all, 2, 4))), BaseName: "base",
				Deltas: []Delta{deltaOf("d1", between(all, 5, 6)), deltaOf("d2", between(all, 7, 9))}},
				Options{Progress: func(p Progress) {
					if p.Phase == phase {
						seen = true
						cancel()
					}
				}}, out)
			if !seen {
				t.Fatal("the phase was never reported")
			}
			if phase != Verifying && !errors.Is(err, context.Canceled) {
				t.Errorf("%v, want context.Canceled", err)
			}
			if left, _ := os.ReadDir(filepath.Dir(out)); err != nil && len(left) > 0 {
				t.Errorf("%v is left over", left)
			}
		})
	}
}

// A disk that does not return what was written is noticed before the result gets its name.
func TestABitFlippedBetweenWritingAndReadingBackIsFound(t *testing.T) {
	records := story(t, life)
	for name, at := range map[string]int64{"in a value": 2*boltfile.PageSize + 16 + 6*16 + 17 + 15, "in a key": 2*boltfile.PageSize + 16 + 6*16 + 8, "in the root bucket": -2*boltfile.PageSize + 10} {
		t.Run(name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "out")
			_, err := Rebuild(context.Background(), Source{Deltas: []Delta{deltaOf("d", records)}}, Options{beforeReadBack: func() { flip(t, out, at) }}, out)
			if !errors.Is(err, ErrVerification) {
				t.Errorf("%v, want ErrVerification", err)
			}
		})
	}
}

func FuzzStoredRecordsAreParsedAsProtobufDoes(f *testing.F) {
	kv, _ := (&mvccpb.KeyValue{Key: []byte("k"), Value: []byte("v"), CreateRevision: 3, ModRevision: 300, Version: 2, Lease: -5}).Marshal()
	f.Add(kv)
	f.Add([]byte{})
	f.Add([]byte{0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01})
	f.Fuzz(func(t *testing.T, b []byte) {
		got, ok := parseStored(b)
		var want mvccpb.KeyValue
		if want.Unmarshal(b) != nil {
			return // that we did not panic is enough
		}
		same := func(got stored) bool {
			return bytes.Equal(got.key, want.Key) && got.create == want.CreateRevision && got.mod == want.ModRevision && got.version == want.Version && got.lease == want.Lease
		}
		if ok && !same(got) {
			t.Fatalf("%x: %+v, want %+v", b, got, want)
		}
		// What protobuf takes but would not write may be refused; what it writes may not.
		want.XXX_unrecognized = nil
		canonical, err := want.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		if got, ok = parseStored(canonical); !ok || !same(got) {
			t.Fatalf("%x: %+v, want %+v", canonical, got, want)
		}
	})
}

// flip inverts a bit of a file; a negative offset counts from its end.
func flip(t *testing.T, path string, at int64) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if at < 0 {
		at += int64(len(b))
	}
	b[at] ^= 4
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}
