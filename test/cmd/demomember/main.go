// Command demomember shows how a cluster heals itself, on real processes: three members, each an
// etcd-wrapper and a sidecar, with TLS on every connection and a bucket of a real object store,
// while clients write all the time. Members are killed, lose their data and get them damaged, the
// cluster grows and shrinks, the store goes away, and finally every volume is lost.
//
// It judges by what the clients were told: no acknowledged write may be missing from the live
// cluster, and none that was also uploaded from what is restored.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"druid.internal/druid/test/members"
)

// tellWithin bounds how long the members are asked for what went wrong.
const tellWithin = 30 * time.Second

func main() {
	bin := flag.String("bin", "../bin", "directory with etcdbrctl and etcd-wrapper")
	keep := flag.Bool("keep", false, "keep the working directory")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := play(ctx, *bin, *keep); err != nil {
		fmt.Fprintf(os.Stderr, "\nFAIL: %v\n", err)
		os.Exit(1)
	}
}

// play runs the demonstration and stops everything, whatever happens.
func play(ctx context.Context, bin string, keep bool) error {
	began := time.Now()
	bin, err := filepath.Abs(bin)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "druid-demo-member-")
	if err != nil {
		return err
	}
	d := &demo{ctx: ctx, dir: dir, out: os.Stdout,
		programs: members.Programs{Etcdbrctl: filepath.Join(bin, "etcdbrctl"), Wrapper: filepath.Join(bin, "etcd-wrapper")}}
	err = d.run()
	if err != nil && ctx.Err() == nil {
		d.tell()
	}
	d.close()
	if keep {
		fmt.Printf("\nkept: %s\n", dir)
	} else {
		os.RemoveAll(dir)
	}
	if err != nil {
		return err
	}
	fmt.Printf("\nPASS in %s: %d acknowledged writes, and every one of them was where it had to be.\n", time.Since(began).Round(time.Second), d.writers.EverAcknowledged())
	return nil
}
