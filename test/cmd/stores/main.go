// Command stores installs, lists and runs the pinned servers that tests and demonstrations
// use.
//
//	go run ./cmd/stores install [name...]   get what is not there; all if no name is given
//	go run ./cmd/stores list                what is pinned and where it is
//	go run ./cmd/stores run minio [flags]   run until interrupted; -h lists the flags
//	go run ./cmd/stores run ceph [flags]
//	go run ./cmd/stores run gcs [flags]
//	go run ./cmd/stores run azure [flags]
//	go run ./cmd/stores run oss [flags]
//	go run ./cmd/stores run etcd [flags]
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"text/tabwriter"

	"druid.internal/druid/test/stores"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := verb(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "stores:", err)
		os.Exit(1)
	}
}

func verb(ctx context.Context, args []string) error {
	const usage = "say what to do: install [name...], list, run minio|ceph|gcs|azure|oss|etcd"
	if len(args) == 0 {
		return fmt.Errorf("%s", usage)
	}
	switch args[0] {
	case "install":
		return install(ctx, args[1:])
	case "list":
		return list()
	case "run":
		return serve(ctx, args[1:])
	}
	return fmt.Errorf("unknown verb %q; %s", args[0], usage)
}

func install(ctx context.Context, names []string) error {
	pins := stores.Pins()
	if len(names) > 0 {
		pins = nil
		for _, name := range names {
			pin, err := stores.Find(name)
			if err != nil {
				return err
			}
			pins = append(pins, pin)
		}
	}
	return stores.InstallAll(ctx, pins, os.Stderr)
}

func list() error {
	w := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tVERSION\tINSTALLED\tPATH")
	for _, pin := range stores.Pins() {
		path, err := pin.Path()
		if err != nil {
			return err
		}
		state := "yes"
		if pin.Installed() != nil {
			state = "no"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", pin.Name, pin.Version, state, path)
	}
	return w.Flush()
}
