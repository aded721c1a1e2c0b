package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"druid.internal/druid/test/cluster"
)

// A cluster belongs to a process and dies with it. up starts that process and leaves it, which
// then does what the other verbs ask it for over a socket: a line of words, answered by what to
// say, "ok" or "error: ..." as the last line.

func socketIn(dir string) string { return filepath.Join(dir, "control.sock") }

// logBeside is the output of the process, beside its directory, which it empties at its start.
func logBeside(dir string) string { return dir + ".log" }

// up starts the process and shows what it says until the cluster serves.
func up(ctx context.Context, dir string, args []string) error {
	if _, err := options(args); err != nil {
		return err
	}
	if pid, err := owner(dir); pid != 0 || err != nil {
		return fmt.Errorf("a cluster is up in %s; end it with: go run ./cmd/cluster down", dir)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	self, err = keep(self, dir)
	if err != nil {
		return err
	}
	log, err := os.Create(logBeside(dir))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(self, append([]string{"-dir", dir, "serve"}, args...)...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	_ = os.Remove(socketIn(dir)) // of one that was killed
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	shown, err := os.Open(log.Name())
	if err != nil {
		return err
	}
	defer shown.Close()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		_, _ = io.Copy(os.Stderr, shown)
		if pid, _ := owner(dir); pid != 0 {
			_, _ = io.Copy(os.Stderr, shown)
			fmt.Println("export KUBECONFIG=" + cluster.KubeconfigIn(dir))
			return nil
		}
		select {
		case err := <-ended:
			_, _ = io.Copy(os.Stderr, shown)
			return fmt.Errorf("the cluster did not start: %v", err)
		case <-ctx.Done():
			_ = cmd.Process.Signal(syscall.SIGTERM)
			return errors.Join(ctx.Err(), <-ended)
		case <-tick.C:
		}
	}
}

func programBeside(dir string) string { return dir + ".program" }

// keep copies the program to where it stays: go run removes what it built.
func keep(program, dir string) (string, error) {
	kept := programBeside(dir)
	in, err := os.Open(program)
	if err != nil {
		return "", err
	}
	defer in.Close()
	_ = os.Remove(kept) // it may run
	out, err := os.OpenFile(kept, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o755)
	if err != nil {
		return "", err
	}
	if _, err := io.Copy(out, in); err != nil {
		return "", errors.Join(err, out.Close())
	}
	return kept, out.Close()
}

// serve runs the cluster until it is asked to stop.
func serve(ctx context.Context, dir string, args []string) error {
	opts, err := options(args)
	if err != nil {
		return err
	}
	opts.Dir, opts.Progress = dir, os.Stderr
	c, err := cluster.Start(ctx, opts)
	if err != nil {
		return err
	}
	l, err := net.Listen("unix", socketIn(dir))
	if err != nil {
		return errors.Join(err, c.Stop())
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	closed := context.AfterFunc(ctx, func() { l.Close() })
	defer closed()
	for {
		conn, err := l.Accept()
		if err != nil {
			break // closed
		}
		down := answer(ctx, c, conn)
		if down {
			err = c.Stop()
			reply(conn, err)
			conn.Close()
			return err
		}
		conn.Close()
	}
	return c.Stop()
}

// answer does what one line asks for, except for down, which it reports.
func answer(ctx context.Context, c *cluster.Cluster, conn net.Conn) (down bool) {
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return false
	}
	words := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
	if words[0] == "down" {
		return true
	}
	reply(conn, do(ctx, c, words))
	return false
}

func reply(w io.Writer, err error) {
	if err != nil {
		fmt.Fprintf(w, "error: %s\n", strings.ReplaceAll(err.Error(), "\n", " "))
		return
	}
	fmt.Fprintln(w, "ok")
}

func do(ctx context.Context, c *cluster.Cluster, words []string) error {
	if len(words) != 2 {
		return fmt.Errorf("%s takes one argument", words[0])
	}
	if words[0] == "load" {
		return c.LoadImage(ctx, words[1])
	}
	node, err := c.Node(words[1])
	if err != nil {
		return err
	}
	switch words[0] {
	case "kill":
		return node.Kill()
	case "start":
		return node.Start(ctx)
	case "disconnect":
		return node.Disconnect(ctx)
	case "connect":
		return node.Connect(ctx)
	}
	return fmt.Errorf("unknown verb %q", words[0])
}

// ask has the cluster's process do something.
func ask(ctx context.Context, dir string, words []string) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socketIn(dir))
	if err != nil {
		return fmt.Errorf("no cluster is up in %s (%w); start one with: go run ./cmd/cluster up", dir, err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if _, err := fmt.Fprintln(conn, strings.Join(words, "\t")); err != nil {
		return err
	}
	answer, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return fmt.Errorf("the cluster's process ended: %w; it wrote %s", err, logBeside(dir))
	}
	if message, failed := strings.CutPrefix(strings.TrimSpace(answer), "error: "); failed {
		return errors.New(message)
	}
	return nil
}

// downTimeout is how long a cluster may take to end before its process is killed, which ends it too.
const downTimeout = 30 * time.Second

// down ends the cluster, or removes what one left whose process was killed.
func down(ctx context.Context, dir string) error {
	if err := end(ctx, dir); err != nil {
		return err
	}
	for _, file := range []string{logBeside(dir), programBeside(dir)} {
		if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return cluster.Remove(ctx, dir)
}

// end has the process of the cluster end, if there is one.
func end(ctx context.Context, dir string) error {
	pid, err := owner(dir)
	if pid == 0 || err != nil {
		return err
	}
	asked, cancel := context.WithTimeout(ctx, downTimeout)
	defer cancel()
	err = ask(asked, dir, []string{"down"})
	if asked.Err() == nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "cluster: it does not end, killing its process %d\n", pid)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return cluster.Await(ctx, downTimeout, func(context.Context) error {
		if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); err == nil {
			return fmt.Errorf("process %d is still there", pid)
		}
		return nil
	})
}

// owner is the process that listens on the socket, 0 if none does.
func owner(dir string) (pid int, err error) {
	conn, err := net.Dial("unix", socketIn(dir))
	if err != nil {
		return 0, nil
	}
	defer conn.Close()
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0, err
	}
	var peer *syscall.Ucred
	err = errors.Join(raw.Control(func(fd uintptr) {
		peer, err = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	}), err)
	if err != nil {
		return 0, err
	}
	return int(peer.Pid), nil
}
