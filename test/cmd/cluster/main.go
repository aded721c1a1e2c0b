// Command cluster gives people the Kubernetes that tests run on: go run ./cmd/cluster -h says how. With -dir before the verb
// there can be several.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"druid.internal/druid/test/cluster"
	"druid.internal/druid/test/stores"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	err := verb(ctx, os.Args[1:])
	var ended *exec.ExitError
	if errors.As(err, &ended) { // kubectl has said why
		os.Exit(ended.ExitCode())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

const help = `The Kubernetes that tests run on:
  up [-nodes 3] [-image a.tar,b.tar]   start it and leave it running
  kubectl ARGS...                      kubectl, as its administrator
  load image.tar                       give its nodes an image
  kill|start|disconnect|connect NODE   what happens to machines
  bundle DIR                           write down all there is to know
  env                                  the line that has other programs use it
  down                                 stop it and remove everything`

const usage = "say what to do, -h lists it"

func verb(ctx context.Context, args []string) error {
	cache, err := stores.CacheDir()
	if err != nil {
		return err
	}
	flags := flag.NewFlagSet("cluster", flag.ExitOnError)
	dir := flags.String("dir", filepath.Join(cache, "cluster"), "where the cluster keeps everything")
	flags.Usage = func() {
		fmt.Fprintf(flags.Output(), "%s\nBefore the verb:\n", help)
		flags.PrintDefaults()
	}
	_ = flags.Parse(args)
	if *dir, err = filepath.Abs(*dir); err != nil {
		return err
	}
	if args = flags.Args(); len(args) == 0 {
		return errors.New(usage)
	}
	switch args[0] {
	case "up":
		return up(ctx, *dir, args[1:])
	case "serve": // what up leaves running
		return serve(ctx, *dir, args[1:])
	case "kubectl":
		return kubectl(ctx, *dir, args[1:])
	case "env":
		fmt.Println("export KUBECONFIG=" + cluster.KubeconfigIn(*dir))
		return nil
	case "bundle":
		if len(args) != 2 {
			return errors.New("say where to write: bundle DIR")
		}
		return bundle(ctx, *dir, args[1])
	case "load":
		if len(args) == 2 {
			if args[1], err = filepath.Abs(args[1]); err != nil {
				return err
			}
		}
		return ask(ctx, *dir, args)
	case "kill", "start", "disconnect", "connect":
		return ask(ctx, *dir, args)
	case "down":
		return down(ctx, *dir)
	}
	return fmt.Errorf("unknown verb %q; %s", args[0], usage)
}

func kubectl(ctx context.Context, dir string, args []string) error {
	program, err := stores.Binary("kubernetes")
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(filepath.Dir(program), "kubectl"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+cluster.KubeconfigIn(dir))
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd.Run()
}

func bundle(ctx context.Context, dir, to string) error {
	c, err := cluster.Use(cluster.KubeconfigIn(dir))
	if err != nil {
		return err
	}
	if err := c.Bundle(ctx, to); err != nil {
		return err
	}
	fmt.Println(to)
	return nil
}

// options are the flags of up, which hands them to serve.
func options(args []string) (cluster.Options, error) {
	opts := cluster.Options{}
	flags := flag.NewFlagSet("cluster up", flag.ExitOnError)
	flags.IntVar(&opts.Nodes, "nodes", 3, "nodes that run pods; 0: the API alone, which needs no root")
	flags.StringVar(&opts.Pin, "kubernetes", "kubernetes", "the installed version: kubernetes or kubernetes-1.34")
	images := flags.String("image", "", "tarballs of images that nodes begin with, with commas between")
	_ = flags.Parse(args)
	if flags.NArg() > 0 {
		return opts, fmt.Errorf("up takes flags only, not %q", flags.Args())
	}
	for image := range strings.SplitSeq(*images, ",") {
		if image == "" {
			continue
		}
		path, err := filepath.Abs(image)
		if err != nil {
			return opts, err
		}
		opts.Images = append(opts.Images, path)
	}
	return opts, nil
}
