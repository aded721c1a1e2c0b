package main

import (
	"io"
	"net"
	"regexp"
	"slices"
	"testing"
	"time"
)

// echo answers with what it is told.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c); c.Close() }()
		}
	}()
	return l.Addr().String()
}

// Pieces are on their way at the same time: what is sent at once arrives at once, only later.
func TestAWireHoldsEachPieceBackForItself(t *testing.T) {
	w, err := layWire("127.0.0.1:0", echo(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.close)
	const delay, pieces, size = 200 * time.Millisecond, 40, 64 << 10 // each as large as what is read at once
	w.delay.Store(int64(delay))
	c, err := net.Dial("tcp", w.address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	began := time.Now()
	go func() {
		for range pieces {
			_, _ = c.Write(make([]byte, size)) // what is missing is missed below
		}
	}()
	if n, err := io.ReadFull(c, make([]byte, pieces*size)); err != nil {
		t.Fatalf("%d bytes came back: %v", n, err)
	}
	took := time.Since(began)
	if took < 2*delay {
		t.Errorf("all came back within %s, and was to take at least %s", took, 2*delay)
	}
	if most := pieces * delay; took >= most {
		t.Errorf("all came back within %s: the pieces waited for each other", took)
	}
	if got, want := w.passed.Load(), int64(2*pieces*size); got != want {
		t.Errorf("%d bytes passed, want %d", got, want)
	}
}

func TestARoundTripTakesTheDelayTwice(t *testing.T) {
	const delay = 3 * time.Millisecond
	if trip, err := roundTrip(t.Context(), delay); err != nil || trip < 2*delay {
		t.Errorf("it took %s (%v), want at least %s", trip, err, 2*delay)
	}
}

func TestAWireThatIsCutLetsNobodyWait(t *testing.T) {
	w, err := layWire("127.0.0.1:0", echo(t))
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", w.address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write([]byte{1}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	w.close()
	if _, err := io.ReadAll(c); err != nil && !isReset(err) {
		t.Error(err)
	}
}

func isReset(err error) bool { return regexp.MustCompile("reset by peer").MatchString(err.Error()) }

func TestAnsweredRequestsAreToldByTheirMeanAndTheSlowest(t *testing.T) {
	a := answered{took: 2 * time.Second}
	for range 198 {
		a.seconds = append(a.seconds, 0.001)
	}
	a.seconds = append(a.seconds, 0.101, 0.201)
	if got, want := a.String(), "2.50 (101.00) ms, 100/s"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// One member and three go the whole way; every request has figures for each network and both places.
func TestRequestsToOneMemberAndToThreeAreMeasured(t *testing.T) {
	t.Parallel()
	p := buildMembers(t)
	b := &bench{etcdbrctl: p.Etcdbrctl, wrapper: p.Wrapper, dir: t.TempDir(), quick: true, rounds: 1}
	r, err := measureLatency(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.tables) != 1 || len(r.tables[0].rows) != 2*len(requests) {
		t.Fatalf("the tables are %+v", r.tables)
	}
	figure := regexp.MustCompile(`^[0-9.]+ \([0-9.]+\) ms, [1-9][0-9]*/s$`)
	columns := 3 + len(delays)
	for i, row := range r.tables[0].rows {
		if len(row) != columns || len(r.tables[0].head) != columns {
			t.Fatalf("row %d has %d columns, and the head %d, want %d", i, len(row), len(r.tables[0].head), columns)
		}
		for j, cell := range row[2:] {
			if follower := i%2 == 1; follower && j == 0 {
				if cell != "" { // a single member has no followers
					t.Errorf("row %d has %q for a follower of a single member", i, cell)
				}
			} else if !figure.MatchString(cell) {
				t.Errorf("row %d has %q, which is no figure", i, cell)
			}
		}
	}
	if !slices.Contains(r.tables[0].head, "1 member") {
		t.Errorf("the head is %q", r.tables[0].head)
	}
}
