// Command image packs static programs into a container image, without Docker:
//
//	go run ./cmd/image -name registry.local/etcd-druid:v1 -out image.tar PATH=FILE...
//
// PATH is where the file will be in the image. With -system the image also has what programs
// expect of an operating system: the user they run as, certificate authorities, and /tmp.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"

	"druid.internal/druid/test/cluster/image"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	flags := flag.NewFlagSet("image", flag.ExitOnError)
	name := flags.String("name", "", "name and tag that the image is loaded as")
	out := flags.String("out", "", "the tarball")
	entrypoint := flags.String("entrypoint", "", "program that is run, with spaces between its arguments (default: none, whoever starts it says)")
	user := flags.String("user", "", fmt.Sprintf("number of the user, or of user:group (default %d:%d)", image.User, image.User))
	system := flags.Bool("system", false, "add users, certificate authorities and /tmp")
	_ = flags.Parse(args)
	if *name == "" || *out == "" || flags.NArg() == 0 {
		return errors.New("say -name, -out and at least one PATH=FILE")
	}
	spec := image.Spec{Name: *name, User: *user, Entrypoint: strings.Fields(*entrypoint)}
	for _, arg := range flags.Args() {
		path, source, ok := strings.Cut(arg, "=")
		if !ok {
			return fmt.Errorf("%q is not PATH=FILE", arg)
		}
		spec.Files = append(spec.Files, image.File{Path: path, Source: source})
	}
	if *system {
		files, err := image.System()
		if err != nil {
			return err
		}
		spec.Files = append(spec.Files, files...)
	}
	return image.Write(*out, spec)
}
