package stores

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

// Install gets the server unless it is there already, and says on w what it does while it does
// it. Two installs at once wait for each other. An interrupted install leaves nothing that
// looks installed.
//
// The working directory must be in this module: some servers are built from it.
func Install(ctx context.Context, pin Pin, w io.Writer) error {
	if err := install(ctx, pin, w); err != nil {
		return fmt.Errorf("install %s %s: %w", pin.Name, pin.Version, err)
	}
	return nil
}

// InstallAll gets the servers. What is built takes all processors, so one is built after the other; what is
// downloaded comes meanwhile. The first failure ends both.
func InstallAll(ctx context.Context, pins []Pin, w io.Writer) error {
	lanes := map[bool][]Pin{}
	for _, pin := range pins {
		_, built := pin.from.(golang)
		lanes[built] = append(lanes[built], pin)
	}
	both, ctx := errgroup.WithContext(ctx)
	for _, lane := range lanes {
		both.Go(func() error {
			for _, pin := range lane {
				if err := Install(ctx, pin, w); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return both.Wait()
}

func install(ctx context.Context, pin Pin, w io.Writer) error {
	dir, err := pin.dir()
	if err != nil {
		return err
	}
	path := pin.from.path(dir)
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	unlock, err := lock(dir+".lock", func() { fmt.Fprintf(w, "%s: another process is installing it, waiting\n", pin.Name) })
	if err != nil {
		return err
	}
	defer unlock()

	if err := pin.Installed(); err == nil {
		fmt.Fprintf(w, "%s %s: installed, %s\n", pin.Name, pin.Version, path)
		return nil
	}
	// The name keeps away from others' directories, the rename makes it appear whole.
	tmp, err := os.MkdirTemp(filepath.Dir(dir), pin.Name+"-building-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	if err := os.Chmod(tmp, 0o755); err != nil {
		return err
	}
	fmt.Fprintf(w, "%s %s: %s (%s)\n", pin.Name, pin.Version, pin.from.doing(), pin.About)
	begun := time.Now()
	if err := pin.from.fetch(tmp, &runner{ctx: ctx, name: pin.Name, w: w, begun: begun}); err != nil {
		return err
	}
	if _, elsewhere := pin.from.(shared); !elsewhere {
		if err := os.RemoveAll(dir); err != nil { // what a former version of this program left
			return err
		}
		if err := os.Rename(tmp, dir); err != nil {
			return err
		}
	}
	if err := pin.Installed(); err != nil {
		return fmt.Errorf("everything went well and still %w", err)
	}
	fmt.Fprintf(w, "%s %s: installed in %s, %s\n", pin.Name, pin.Version, time.Since(begun).Round(time.Second), pin.from.path(dir))
	return nil
}

// lock takes an exclusive lock on a file; the kernel releases it if we die. waiting is called
// if somebody else has it.
func lock(path string, waiting func()) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		waiting()
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
			f.Close()
			return nil, err
		}
	}
	return func() { f.Close() }, nil
}
