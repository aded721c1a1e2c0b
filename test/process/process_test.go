package process

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestWhoGivesUpSaysWhatWasMissingLast(t *testing.T) {
	p, err := Command{Name: "server", Path: "/bin/sleep", Args: []string{"600"}}.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Kill()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	asked := 0
	err = p.Await(ctx, func(ctx context.Context) error {
		if asked++; asked == 1 {
			return errors.New("two of three are there")
		}
		cancel() // as if the time were over while the answer is waited for
		return ctx.Err()
	})
	if err == nil || !strings.Contains(err.Error(), "two of three are there") {
		t.Errorf("%v, want the last answer", err)
	}
}

func TestTheTailOfALogIsItsLastLines(t *testing.T) {
	for _, n := range []int{0, 1, tailLines, tailLines + 1, 100} {
		log, want := &Log{}, ""
		for i := range n {
			line := fmt.Sprintf("line %d\n", i)
			fmt.Fprint(log, line)
			if i >= n-tailLines {
				want += line
			}
		}
		if got := log.Tail(); got != strings.TrimSuffix(want, "\n") {
			t.Errorf("of %d lines: %q, want %q", n, got, want)
		}
	}
}

func TestFreePortsAreNoneThatTheKernelGivesAway(t *testing.T) {
	addrs, err := FreePorts("127.0.0.1", 20)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, a := range addrs {
		var port int
		if n, err := fmt.Sscanf(a, "127.0.0.1:%d", &port); n != 1 || port < firstPort || port >= endOfPorts || seen[a] {
			t.Errorf("%s of %q: %v, want different ports from %d to below %d", a, addrs, err, firstPort, endOfPorts)
		}
		seen[a] = true
	}
	if _, err := FreePorts("192.0.2.1", 1); err == nil {
		t.Error("a port of an address that is not this machine's was found")
	}
}
