package codec

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"testing"

	"druid.internal/druid/internal/backup/snapshot"
)

func inMemory(memory *Contents) *Whole {
	return &Whole{MaxBytes: 1 << 20, Memory: memory}
}

func TestMemoryOfContentsIsUsedAgain(t *testing.T) {
	var memory Contents
	how := ReaderOptions{Whole: inMemory(&memory)}
	for size := range 20 { // each larger than the one before
		_, object := seal(t, history(rand.New(rand.NewPCG(7, 7)), 2, 10+10*size), DeltaOptions{})
		for range 2 {
			if _, _, err := readOnce(bytes.NewReader(object), snapshot.Zstd, how); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := len(memory.spare); n != 2 {
		t.Errorf("%d pieces of memory after deltas of growing size, one after the other, want 2: packed and unpacked", n)
	}
}

func TestBatchesOutliveTheContent(t *testing.T) {
	var memory Contents
	how := ReaderOptions{BatchBytes: 2000, Whole: inMemory(&memory)}
	all := history(rand.New(rand.NewPCG(7, 7)), 2, 60)
	_, object := seal(t, all, DeltaOptions{})
	d, err := NewDeltaReader(bytes.NewReader(object), snapshot.Zstd, how)
	if err != nil {
		t.Fatal(err)
	}
	var got []Record
	for {
		b, err := d.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, b.Records...)
	}
	d.Close()
	for _, b := range memory.spare {
		clear(b[:cap(b)])
	}
	if diff := diffRecords(wantRecords(t, all), got); diff != "" {
		t.Errorf("the records changed with the content: %s", diff)
	}
}

func TestMemoryOfABrokenContentGoesBack(t *testing.T) {
	var memory Contents
	how := ReaderOptions{Whole: inMemory(&memory)}
	_, object := seal(t, exampleDelta(), DeltaOptions{})
	m, length, _, err := ParseHeader(object)
	if err != nil {
		t.Fatal(err)
	}
	m.Size, m.ContentSize = m.Size-int64(length), m.ContentSize+1
	header, err := appendHeader(m)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := readOnce(bytes.NewReader(append(header, object[length:]...)), snapshot.Zstd, how); !errors.Is(err, ErrMalformed) {
		t.Errorf("error %v, want %v", err, ErrMalformed)
	}
	if len(memory.spare) != 2 {
		t.Errorf("%d pieces of memory went back, want 2: packed and unpacked", len(memory.spare))
	}
}

func TestAReaderWaitsForItsTurn(t *testing.T) {
	over := errors.New("it is over")
	wait := func() error { return over }
	_, object := seal(t, exampleDelta(), DeltaOptions{})
	for name, o := range map[string]ReaderOptions{
		"at once":     {Wait: wait, Whole: inMemory(new(Contents))},
		"in a stream": {Wait: wait},
	} {
		if _, _, err := readOnce(bytes.NewReader(object), snapshot.Zstd, o); !errors.Is(err, over) {
			t.Errorf("%s: error %v, want %v", name, err, over)
		}
	}
}

func TestALargeContentIsStreamed(t *testing.T) {
	var memory Contents
	_, object := seal(t, exampleDelta(), DeltaOptions{})
	for name, limit := range map[string]int64{"content": 10, "packed content": int64(len(object))} {
		_, _, err := readOnce(bytes.NewReader(object), snapshot.Zstd, ReaderOptions{Whole: &Whole{MaxBytes: limit, Memory: &memory}})
		if err != nil || len(memory.spare) > 0 {
			t.Errorf("%s above the limit: error %v, %d pieces of memory used", name, err, len(memory.spare))
		}
	}
}

func TestOnlyTheNewestRecordOfAKeyHasAValue(t *testing.T) {
	all := history(rand.New(rand.NewPCG(9, 9)), 2, 200)
	_, object := seal(t, all, DeltaOptions{}, snapshot.LeaseState{ID: 9, TTL: 3600})
	want := wantRecords(t, all)
	how := inMemory(new(Contents))
	how.Newest = true
	got, d, err := readOnce(bytes.NewReader(object), snapshot.Zstd, ReaderOptions{BatchBytes: 2000, Whole: how})
	if err != nil {
		t.Fatal(err)
	}
	newest := map[string]int{}
	for i, r := range want {
		newest[string(r.Key)] = i
	}
	superseded := 0
	for i := range want {
		if newest[string(want[i].Key)] != i {
			want[i].Value = nil
			superseded++
		}
		if len(got) > i && len(got[i].Value) == 0 { // readOnce clones nil into nil, and into an empty slice
			got[i].Value = nil
		}
	}
	if diff := diffRecords(want, got); diff != "" {
		t.Error(diff)
	}
	if superseded == 0 || superseded == len(want) {
		t.Errorf("%d of %d records are superseded, which proves nothing", superseded, len(want))
	}
	if len(d.Leases()) != 1 {
		t.Errorf("leases %v, want one", d.Leases())
	}
}
