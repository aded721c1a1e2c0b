package e2e

import (
	"bytes"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

var rssAnon = regexp.MustCompile(`(?m)^RssAnon:\s+(\d+) kB$`)

// TestARestoreOfMuchMoreThanItsMemoryLimitStaysBelowIt restores 300 MB of random data with
// --memory-limit=64Mi.
func TestARestoreOfMuchMoreThanItsMemoryLimitStaysBelowIt(t *testing.T) {
	w := newWorld(t, 81, 60)
	w.useLocal(t.TempDir())
	r := w.snapshot("--data-dir="+w.etcd.DataDir(), "--delta-snapshot-memory-limit=100M")
	w.uploaded(r, w.write(10))
	src := rand.New(rand.NewSource(81))
	value := make([]byte, 10_000)
	for i := range 300 {
		var ops []clientv3.Op
		for j := range 100 {
			src.Read(value)
			ops = append(ops, clientv3.OpPut(fmt.Sprintf("/bulk/%d/%d", j, (i*7919+j)%25_000), string(value)))
		}
		if _, err := w.client.Txn(t.Context()).Then(ops...).Commit(); err != nil {
			t.Fatal(err)
		}
	}
	last := w.write(10)
	w.uploaded(r, last)
	r.stop()

	dir := filepath.Join(t.TempDir(), "restored")
	restore := start(t, w.command("restore", slices.Concat([]string{"--data-dir=" + dir, "--memory-limit=64Mi", "-o=json"}, alone)...))
	var peak, samples int64
	for over := false; !over; {
		if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", restore.cmd.Process.Pid)); err == nil {
			if m := rssAnon.FindSubmatch(b); m != nil {
				kb, _ := strconv.ParseInt(string(m[1]), 10, 64)
				peak, samples = max(peak, kb<<10), samples+1
			}
		}
		select {
		case <-restore.ended:
			over = true
		case <-time.After(2 * time.Millisecond):
		}
	}
	if code := restore.wait(); code != 0 {
		t.Fatalf("exit code %d\n%s", code, restore.log)
	}
	w.check(dir, last)
	out := []byte(restore.log.String())
	report := decode[restored](t, string(out[bytes.LastIndex(out, []byte("\n{\n"))+1:]))
	t.Logf("at most %d MB anonymous in %d samples, %d MB spilled", peak>>20, samples, report.SpilledBytes>>20)
	if limit := int64(64+130) << 20; peak > limit || samples < 20 {
		t.Errorf("%d MB anonymous in %d samples, want at most %d MB", peak>>20, samples, limit>>20)
	}
	if report.SpilledBytes == 0 {
		t.Error("nothing was spilled: the test does not reach the limit")
	}
}
