package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"druid.internal/druid/test/process"
)

// room is a machine of its own as far as programs can tell: processes, mounts, network, host name.
// It is held by its first process, which sleeps. When that ends, which it does with us, the kernel
// kills every process in the room, whoever started it, and its mounts and network devices go.
type room struct {
	name   string
	holder *process.Process
}

// binding is a directory of ours that a room has elsewhere.
type binding struct{ from, to string }

// furnish is what the first process does, with the room's name and its bindings as arguments. What
// programs keep outside of their own directories, they keep in the room. A kubelet sets some of the
// kernel's settings, which are the whole machine's: it gets copies to set.
const furnish = `set -e
mount --make-rprivate /
mount -t proc proc /proc
mount -t tmpfs -o mode=755 tmpfs /run
mount -t tmpfs -o mode=755 tmpfs /var/lib
hostname "$1"
shift
while [ $# -gt 0 ]; do
	mkdir -p "$2"
	mount --bind "$1" "$2"
	shift 2
done
for setting in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops kernel/keys/root_maxkeys kernel/keys/root_maxbytes; do
	mkdir -p "/run/settings/${setting%/*}"
	cat "/proc/sys/$setting" > "/run/settings/$setting"
	mount --bind "/run/settings/$setting" "/proc/sys/$setting"
done
mount --make-rshared /
echo 1 > /proc/sys/net/ipv4/ip_forward
ip link set lo up
trap '' CHLD # the kernel reaps what is handed to us
exec sleep infinity
`

func newRoom(ctx context.Context, name string, bindings ...binding) (*room, error) {
	args := []string{"-c", furnish, "furnish", name}
	for _, b := range bindings {
		args = append(args, b.from, b.to)
	}
	command := process.Command{
		Name: "the room of " + name, Path: "/bin/sh", Args: args, Env: process.BareEnvironment("/"),
		Namespaces: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
	}
	holder, err := command.Start()
	if err != nil {
		return nil, err
	}
	r := &room{name: name, holder: holder}
	if err := holder.Await(ctx, r.furnished); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

// furnished is nil once the first process sleeps.
func (r *room) furnished(context.Context) error {
	comm, err := os.ReadFile(filepath.Join("/proc", r.pid(), "comm"))
	if err != nil {
		return err
	}
	if got := strings.TrimSpace(string(comm)); got != "sleep" {
		return fmt.Errorf("the first process is still %s", got)
	}
	return nil
}

func (r *room) pid() string { return strconv.Itoa(r.holder.PID()) }

// enter has a program run in the room; nil is our own place. What is started is a program that
// starts it and waits, hence the group.
func (r *room) enter(c process.Command) (process.Command, error) {
	if r == nil {
		return c, nil
	}
	nsenter, err := exec.LookPath("nsenter")
	if err != nil {
		return c, err
	}
	c.Args = append([]string{"--target", r.pid(), "--net", "--mount", "--pid", "--uts", "--ipc", "--", c.Path}, c.Args...)
	c.Path, c.Group = nsenter, true
	return c, nil
}

// ip sets up the network of the room, nil: ours, line by line. Of the room it enters the network
// alone, so that other rooms can be named by their process ids.
func (r *room) ip(ctx context.Context, lines ...string) error {
	words := []string{"ip", "-batch", "-"}
	if r != nil {
		words = append([]string{"nsenter", "--target", r.pid(), "--net", "--"}, words...)
	}
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
	_, err := run(cmd, "ip", strings.Join(lines, "; "))
	return err
}

// run runs a command to its end, which is called asked in errors, and returns what it printed.
func run(cmd *exec.Cmd, asked ...string) (string, error) {
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s: %w: %s", strings.Join(asked, " "), err, strings.TrimSpace(errs.String()))
	}
	return out.String(), nil
}

// close ends everything in the room and returns when it is gone.
func (r *room) close() { r.holder.Kill() }

// errNeedsRoot is said before anything is begun.
var errNeedsRoot = errors.New("nodes need root: containers, networks and volumes are made; without nodes (Nodes: 0) a cluster needs nothing")
