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

func TestMemoryOfAContentIsNotUsedAgainWhileABatchHoldsIt(t *testing.T) {
	var memory Contents
	how := ReaderOptions{BatchBytes: 2000, Whole: inMemory(&memory)}
	all := history(rand.New(rand.NewPCG(7, 7)), 2, 60)
	want := wantRecords(t, all)
	_, object := seal(t, all, DeltaOptions{})

	d, err := NewDeltaReader(bytes.NewReader(object), snapshot.Zstd, how)
	if err != nil {
		t.Fatal(err)
	}
	var held []*Batch
	for {
		b, err := d.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, b)
	}
	if len(held) < 3 {
		t.Fatalf("%d batches, too few to tell anything", len(held))
	}
	d.Close()

	_, other := seal(t, history(rand.New(rand.NewPCG(8, 8)), 2, 60), DeltaOptions{})
	if _, _, err := readOnce(bytes.NewReader(other), snapshot.Zstd, how); err != nil {
		t.Fatal(err)
	}
	if n := len(memory.spare); n != 1 {
		t.Errorf("%d contents to be used again while the first is held, want that of the second", n)
	}
	var got []Record
	for _, b := range held {
		got = append(got, b.Records...)
	}
	if diff := diffRecords(want, got); diff != "" {
		t.Errorf("what the batches held changed: %s", diff)
	}
	for _, b := range held {
		b.Release()
	}
	if n := len(memory.spare); n != 2 {
		t.Errorf("%d contents to be used again after the last batch was released, want 2", n)
	}
	if _, _, err := readOnce(bytes.NewReader(object), snapshot.Zstd, how); err != nil {
		t.Fatal(err)
	}
	if n := len(memory.spare); n != 2 {
		t.Errorf("%d contents after one more delta, want 2: memory was not used again", n)
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
	if len(memory.spare) != 1 || len(memory.packs) != 1 {
		t.Errorf("%d contents and %d packs went back, want 1 of each", len(memory.spare), len(memory.packs))
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
