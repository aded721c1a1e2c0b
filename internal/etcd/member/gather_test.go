package member

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"testing"
)

// scripted is a connection on which pieces arrive one after the other, and then an error.
type scripted struct {
	net.Conn
	pieces [][]byte
	err    error
	reads  int
}

func (s *scripted) Read(p []byte) (int, error) {
	s.reads++
	if len(s.pieces) == 0 {
		return 0, s.err
	}
	n := copy(p, s.pieces[0])
	if s.pieces[0] = s.pieces[0][n:]; len(s.pieces[0]) == 0 {
		s.pieces = s.pieces[1:]
	}
	if len(s.pieces) == 0 {
		return n, s.err // with the last bytes, as a connection may
	}
	return n, nil
}

func TestAGatheredConnectionLosesNothing(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	broken := errors.New("the connection broke")
	for name, sizes := range map[string][]int{
		"nothing":                 {},
		"one small piece":         {5},
		"some pieces":             {1, 1200, 7},
		"more than fits at once":  {3*gatherBytes + 17},
		"as much as fits, and on": {gatherBytes, 1},
	} {
		t.Run(name, func(t *testing.T) {
			conn, want := &scripted{err: broken}, []byte{}
			for _, n := range sizes {
				piece := make([]byte, n)
				for i := range piece {
					piece[i] = byte(random.Uint32())
				}
				conn.pieces, want = append(conn.pieces, piece), append(want, piece...)
			}
			g := &gathered{Conn: conn}
			var got []byte
			for {
				p := make([]byte, 1+random.IntN(5000))
				n, err := g.Read(p)
				got = append(got, p[:n]...)
				if err == nil {
					continue
				}
				if !errors.Is(err, broken) || n > 0 {
					t.Errorf("%d bytes with %v, want none with %v", n, err, broken)
				}
				break
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%d bytes are not the %d that were sent", len(got), len(want))
			}
		})
	}
}

// TestWhatArrivesInAPauseIsReadAtOnce sends many pieces while the reader pauses: few reads have them.
func TestWhatArrivesInAPauseIsReadAtOnce(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	near, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	far, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	counted := &counting{Conn: near}
	g := &gathered{Conn: counted}
	want := bytes.Repeat([]byte("a piece "), 1000)
	const first = 8 * gatherAfter // whoever reads so often without a silence pauses
	got := make([]byte, first)
	for at := 0; at < first; at += 8 {
		if _, err := far.Write(want[at : at+8]); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(g, got[at:at+8]); err != nil {
			t.Fatal(err)
		}
	}
	if counted.reads != gatherAfter {
		t.Fatalf("%d reads for the first %d pieces", counted.reads, gatherAfter)
	}
	sent := make(chan error, 1)
	go func() {
		defer far.Close()
		for at := first; at < len(want); at += 8 {
			if _, err := far.Write(want[at : at+8]); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	rest, err := io.ReadAll(g)
	if got = append(got, rest...); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes, %v, want the %d that were sent", len(got), err, len(want))
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	if counted.reads > 100 {
		t.Errorf("%d reads for a thousand pieces, want few", counted.reads)
	}
}

type counting struct {
	net.Conn
	reads int
}

func (c *counting) Read(p []byte) (int, error) {
	c.reads++
	return c.Conn.Read(p)
}
