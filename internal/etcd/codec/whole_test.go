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
	return &Whole{MaxBytes: 1 << 20, Memory: memory, Wait: func() error { return nil }}
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

func TestAContentWaitsForItsTurn(t *testing.T) {
	over := errors.New("it is over")
	how := inMemory(new(Contents))
	how.Wait = func() error { return over }
	_, object := seal(t, exampleDelta(), DeltaOptions{})
	if _, _, err := readOnce(bytes.NewReader(object), snapshot.Zstd, ReaderOptions{Whole: how}); !errors.Is(err, over) {
		t.Errorf("error %v, want %v", err, over)
	}
	how.MaxBytes = int64(len(object)) // a quarter of it is less than the object has
	if _, _, err := readOnce(bytes.NewReader(object), snapshot.Zstd, ReaderOptions{Whole: how}); err != nil {
		t.Errorf("a content that is too large was not streamed: %v", err)
	}
}
