// Command demokube shows the operator on a real Kubernetes: three nodes, the Helm chart, an Etcd of
// three members that backs itself up into object-locked storage. Under load a node is turned off,
// then all pods and volumes are destroyed, and the cluster comes back from the bucket by itself.
//
// It judges by what the clients were told: every write that was acknowledged and uploaded must be
// there again, with its revision.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// tellWithin bounds how long is asked for what went wrong.
const tellWithin = time.Minute

func main() {
	bin := flag.String("bin", "../bin", "directory with etcdbrctl")
	image := flag.String("image", "", "name and tag of the operator's image")
	tar := flag.String("tar", "../bin/etcd-druid-image.tar", "tarball of that image")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal does not wait for the end: all dies with this process
	if err := play(ctx, *bin, *image, *tar); err != nil {
		fmt.Fprintf(os.Stderr, "\nFAIL: %v\n", err)
		os.Exit(1)
	}
}

// play runs the demonstration and stops everything, whatever happens.
func play(ctx context.Context, bin, image, tar string) (err error) {
	began := time.Now()
	if image == "" {
		return errors.New("say by -image how the image in the tarball is named; make demo does")
	}
	if bin, err = filepath.Abs(bin); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "druid-demo-")
	if err != nil {
		return err
	}
	d := &demo{ctx: ctx, out: os.Stdout, dir: dir, etcdbrctl: filepath.Join(bin, "etcdbrctl"), image: image, tar: tar}
	err = d.run()
	if err != nil && ctx.Err() == nil {
		d.tell()
	}
	if err := errors.Join(err, d.close(), os.RemoveAll(dir)); err != nil {
		return err
	}
	fmt.Printf("\nPASS in %s: %d writes were acknowledged, and every one that had been uploaded survived the loss of all pods and volumes.\n",
		time.Since(began).Round(time.Second), d.writers.EverAcknowledged())
	return nil
}
