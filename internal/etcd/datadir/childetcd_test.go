package datadir

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.etcd.io/etcd/server/v3/storage/wal"
)

// Some tests run etcd in another process, which is this test binary again: one that is killed, or
// one that may refuse its data, which etcd does by ending the process.
const (
	childEtcd = "DATADIR_CHILD_ETCD" // the data directory
	childLoad = "DATADIR_CHILD_LOAD" // write until killed; otherwise tell what is there and stop
)

func runChildEtcd(dir string) {
	wal.SegmentSizeBytes = 1 << 20
	cfg := embed.NewConfig()
	cfg.Dir, cfg.Name, cfg.LogLevel = dir, "default", "error"
	cfg.TickMs, cfg.ElectionMs = 10, 50
	cfg.SnapshotCount, cfg.SnapshotCatchUpEntries = 500, 100
	any, _ := url.Parse("http://127.0.0.1:0")
	cfg.ListenPeerUrls, cfg.ListenClientUrls = []url.URL{*any}, []url.URL{*any}
	cfg.AdvertisePeerUrls, cfg.AdvertiseClientUrls = []url.URL{*any}, []url.URL{*any}
	cfg.InitialCluster = "default=http://127.0.0.1:0"
	fail := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	e, err := embed.StartEtcd(cfg)
	fail(err)
	select {
	case <-e.Server.ReadyNotify():
	case <-e.Server.StopNotify():
		fail(errors.New("etcd stopped by itself"))
	case <-time.After(time.Minute):
		fail(errors.New("etcd did not become ready"))
	}
	c := v3client.New(e.Server)
	if os.Getenv(childLoad) == "" {
		r, err := c.Get(context.Background(), "\x00", clientv3.WithFromKey())
		fail(err)
		sum := sha256.New()
		for _, kv := range r.Kvs {
			fmt.Fprint(sum, line(kv))
		}
		fmt.Printf("%d %x\n", r.Header.Revision, sum.Sum(nil))
		c.Close()
		e.Close()
		os.Exit(0)
	}
	var mu sync.Mutex
	for w := range 4 {
		go func() {
			for i := 0; ; i++ {
				value := strings.Repeat(fmt.Sprint(i%10), 1+i*7919%9000)
				if i%50 == 7 {
					value = string(make([]byte, 4000)) // sectors of zeros, as in a torn write
				}
				r, err := c.Put(context.Background(), fmt.Sprintf("k%d-%d", w, i%200), value)
				fail(err)
				mu.Lock()
				fmt.Println(r.Header.Revision)
				mu.Unlock()
			}
		}()
	}
	select {}
}

// killedUnderLoad runs etcd on dir, kills it after so many writes and returns the highest revision
// it acknowledged.
func killedUnderLoad(t *testing.T, dir string, writes int) int64 {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEtcd+"="+dir, childLoad+"=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	highest := int64(0)
	lines := bufio.NewScanner(out)
	for n := 0; lines.Scan(); n++ {
		var rev int64
		if _, err := fmt.Sscan(lines.Text(), &rev); err == nil { // the last line may be cut
			highest = max(highest, rev)
		}
		if n == writes {
			cmd.Process.Kill()
		}
	}
	if err := cmd.Wait(); err == nil || highest == 0 {
		t.Fatalf("etcd was not killed: %v, %d", err, highest)
	}
	return highest
}

// startedInChild starts etcd on dir in another process and returns what it found there: the
// revision and a digest of all keys.
func startedInChild(t testing.TB, dir string) (string, error) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEtcd+"="+dir)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%w: %.300s", err, stderr.String())
	}
	return string(out), nil
}
