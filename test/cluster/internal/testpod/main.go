// Command testpod is what runs in the pods of this directory's tests:
//
//	testpod serve       answer on :8080 with the pod's name until told to end
//	testpod get URL     print what somebody answers
//	testpod lookup NAME print the addresses of a name
//	testpod size DIR    print the size of the file system in bytes
//	testpod fill FILE   write until there is no space left, print why it ended
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sort"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "testpod:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 1 && args[0] == "serve" {
		return serve(ctx)
	}
	if len(args) != 2 {
		return errors.New("say serve, get URL, lookup NAME, size DIR or fill FILE")
	}
	switch args[0] {
	case "get":
		return get(ctx, args[1])
	case "lookup":
		addrs, err := net.DefaultResolver.LookupHost(ctx, args[1])
		sort.Strings(addrs)
		fmt.Println(strings.Join(addrs, "\n"))
		return err
	case "size":
		var s syscall.Statfs_t
		if err := syscall.Statfs(args[1], &s); err != nil {
			return err
		}
		fmt.Println(int64(s.Blocks) * s.Bsize)
		return nil
	case "fill":
		return fill(args[1])
	}
	return fmt.Errorf("unknown verb %q", args[0])
}

func serve(ctx context.Context) error {
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	server := &http.Server{Addr: ":8080", Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, name) })}
	ended := make(chan error, 1)
	go func() { ended <- server.ListenAndServe() }()
	fmt.Println(name, "serves")
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return server.Close()
	}
}

func get(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, err = io.Copy(os.Stdout, response.Body)
	return err
}

func fill(file string) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer f.Close()
	block := make([]byte, 1<<20)
	for {
		if _, err := f.Write(block); err != nil {
			fmt.Println(err)
			return os.Remove(file)
		}
	}
}
