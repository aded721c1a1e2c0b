package members

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"druid.internal/druid/test/process"
)

// room is a set of namespaces that processes are started in. It is held by a process that sleeps,
// and nothing has a name: when that process ends, which it does with us, mounts and network
// devices are gone.
type room struct {
	holder *process.Process
	net    bool
	mount  bool
}

// newRoom makes namespaces for the network, mounts, or both.
func newRoom(ctx context.Context, name string, net, mount bool) (*room, error) {
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("namespaces for %s need root", name)
	}
	r := &room{net: net, mount: mount}
	args := []string{}
	if net {
		args = append(args, "--net")
	}
	if mount {
		args = append(args, "--mount")
	}
	unshare, err := exec.LookPath("unshare")
	if err != nil {
		return nil, fmt.Errorf("namespaces for %s: %w; it comes with util-linux", name, err)
	}
	if r.holder, err = process.Start("the namespaces of "+name, unshare, append(args, "sleep", "infinity"), process.BareEnvironment("/")); err != nil {
		return nil, err
	}
	if err := r.holder.Await(ctx, r.made); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

// made is nil when the holder is in its namespaces: it sleeps then.
func (r *room) made(context.Context) error {
	comm, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(r.holder.PID()), "comm"))
	if err != nil {
		return err
	}
	if got := strings.TrimSpace(string(comm)); got != "sleep" {
		return fmt.Errorf("the holder is still %s", got)
	}
	return nil
}

// wrap is a command within the room.
func (r *room) wrap(path string, args []string) (string, []string) {
	if r == nil {
		return path, args
	}
	in := []string{"--target", strconv.Itoa(r.holder.PID())}
	if r.net {
		in = append(in, "--net")
	}
	if r.mount {
		in = append(in, "--mount")
	}
	return "nsenter", append(append(in, "--", path), args...)
}

// command has a program run in the room. Its process id stays: nsenter becomes it.
func (r *room) command(c process.Command) process.Command {
	if r == nil {
		return c
	}
	path, args := r.wrap(c.Path, c.Args)
	if found, err := exec.LookPath(path); err == nil {
		path = found
	}
	c.Path, c.Args = path, args
	return c
}

// run runs a command in the room to its end.
func (r *room) run(ctx context.Context, words ...string) error {
	path, args := r.wrap(words[0], words[1:])
	return run(ctx, append([]string{path}, args...)...)
}

func run(ctx context.Context, words ...string) error {
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(words, " "), err, strings.TrimSpace(out.String()))
	}
	return nil
}

// path is where a file of the room is for us.
func (r *room) path(p string) string {
	if r == nil || !r.mount {
		return p
	}
	return filepath.Join("/proc", strconv.Itoa(r.holder.PID()), "root", p)
}

func (r *room) close() {
	if r != nil {
		r.holder.Kill()
	}
}
