package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Kubelets on one machine need a control group each as the root of their pods', or each removes
// what it takes for leftovers: the others' pods. Groups are the one thing that the kernel does not
// remove with a room, so they have the name of the cluster's device, whose absence tells that
// nobody uses them.

const cgroups = "/sys/fs/cgroup"

// hierarchies are the directories below which groups are made: one in the second version of
// control groups, one for each controller in the first.
func hierarchies() ([]string, error) {
	if _, err := os.Stat(filepath.Join(cgroups, "cgroup.controllers")); err == nil {
		return []string{cgroups}, nil
	}
	entries, err := os.ReadDir(cgroups)
	if err != nil {
		return nil, fmt.Errorf("control groups: %w", err)
	}
	var dirs []string
	for _, e := range entries {
		dir := filepath.Join(cgroups, e.Name())
		if _, err := os.Stat(filepath.Join(dir, "cgroup.procs")); err == nil && e.IsDir() {
			dirs = append(dirs, dir)
		}
	}
	if len(dirs) == 0 {
		return nil, fmt.Errorf("there are no control groups below %s", cgroups)
	}
	return dirs, nil
}

// makeCgroup makes the group CLUSTER/NODE with all that containers need of it.
func makeCgroup(cluster, node string) error {
	dirs, err := hierarchies()
	if err != nil {
		return err
	}
	for _, top := range dirs {
		parent := top
		for _, name := range []string{cluster, node} {
			delegate(parent)
			dir := filepath.Join(parent, name)
			if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
				return fmt.Errorf("make a control group: %w", err)
			}
			if err := inheritCPUs(parent, dir); err != nil {
				return fmt.Errorf("make a control group: %w", err)
			}
			parent = dir
		}
		delegate(parent)
	}
	return nil
}

// delegate has a group's children controlled, in the second version. What cannot be is missed by
// the kubelet, which says so better than we could.
func delegate(dir string) {
	available, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return
	}
	for _, controller := range strings.Fields(string(available)) {
		_ = os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+controller), 0o644)
	}
}

// inheritCPUs gives a group of the first version the processors of its parent: it begins with none.
func inheritCPUs(parent, dir string) error {
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		value, err := os.ReadFile(filepath.Join(parent, file))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err == nil && len(strings.TrimSpace(string(value))) > 0 {
			err = os.WriteFile(filepath.Join(dir, file), value, 0o644)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// removeCgroups removes a group, CLUSTER or CLUSTER/NODE, whose processes are gone, with all within.
func removeCgroups(ctx context.Context, group string) error {
	dirs, err := hierarchies()
	if err != nil {
		return err
	}
	var errs []error
	for _, top := range dirs {
		// A group can be removed a moment after its last process.
		errs = append(errs, Await(ctx, 10*time.Second, func(context.Context) error {
			return removeCgroup(filepath.Join(top, group))
		}))
	}
	return errors.Join(errs...)
}

// removeCgroup removes a group and those within. The files in it are not files, and stay.
func removeCgroup(dir string) error {
	var within []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err == nil && d.IsDir() {
			within = append(within, path)
		}
		return err
	})
	if err != nil {
		return err
	}
	for i := len(within) - 1; i >= 0; i-- {
		if err := os.Remove(within[i]); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// sweepCgroups removes the groups of clusters that are gone.
func sweepCgroups(ctx context.Context) error {
	dirs, err := hierarchies()
	if err != nil {
		return nil // then there are none
	}
	var errs []error
	swept := map[string]bool{}
	for _, top := range dirs {
		left, err := filepath.Glob(filepath.Join(top, linkPrefix+"*"))
		if err != nil {
			return err
		}
		for _, dir := range left {
			name := filepath.Base(dir)
			if _, err := net.InterfaceByName(name); err == nil || swept[name] {
				continue
			}
			swept[name] = true
			errs = append(errs, removeCgroups(ctx, name))
		}
	}
	return errors.Join(errs...)
}
