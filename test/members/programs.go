package members

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// Programs are the paths of what a member consists of.
type Programs struct {
	Etcdbrctl, Wrapper string
}

// Build builds the programs from this tree into dir. The working directory must be in this module.
func Build(ctx context.Context, dir string) (Programs, error) {
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "druid.internal/druid").Output()
	if err != nil {
		return Programs{}, fmt.Errorf("find the module of the programs, beside which this must be run: %w", err)
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-tags=disable_grpc_modules", "-o", dir+string(filepath.Separator), "./cmd/etcdbrctl", "./cmd/etcd-wrapper")
	cmd.Dir = strings.TrimSpace(string(root))
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return Programs{}, fmt.Errorf("build the programs: %w\n%s", err, out)
	}
	return Programs{Etcdbrctl: filepath.Join(dir, "etcdbrctl"), Wrapper: filepath.Join(dir, "etcd-wrapper")}, nil
}

// bin names the directory of programs that were built already from this tree, as make test has it.
const bin = "DRUID_TEST_BIN"

// Built has the programs, built once when they are needed first, or by make. The zero value is ready.
type Built struct {
	once sync.Once
	dir  string
	p    Programs
	err  error
}

// Get builds, or returns what was built.
func (b *Built) Get() (Programs, error) {
	b.once.Do(func() {
		if dir := os.Getenv(bin); dir != "" {
			b.p = Programs{Etcdbrctl: filepath.Join(dir, "etcdbrctl"), Wrapper: filepath.Join(dir, "etcd-wrapper")}
			_, err := os.Stat(b.p.Etcdbrctl) // so that the result of a test depends on them
			_, err2 := os.Stat(b.p.Wrapper)
			b.err = errors.Join(err, err2)
			return
		}
		if b.dir, b.err = os.MkdirTemp("", "druid-programs-"); b.err == nil {
			b.p, b.err = Build(context.Background(), b.dir)
		}
	})
	return b.p, b.err
}

// Remove removes what was built.
func (b *Built) Remove() {
	if b.dir != "" {
		os.RemoveAll(b.dir)
	}
}
