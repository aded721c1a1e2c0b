package stores

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// golang servers are built by the go command: either a published program as it is published, or by one
// directory of this module (which may be a module of its own).
type golang struct {
	name    string // of the program
	install string // MODULE@VERSION, or
	build   string // a directory below this module's

	program      string   // the package that is built there; empty: the directory's own
	requirements string   // the file beside go.mod that is used instead; empty: go.mod
	variables    []string // package.name=value, set by the linker
	links        []string // further names of the program, for those that go by their name
}

func (g golang) path(dir string) string { return filepath.Join(dir, g.name) }
func (g golang) doing() string {
	return "building; the first time this downloads modules and takes a while"
}

// fetch builds without the caller's GOFLAGS and workspace, which must not change the result. What changes how packages are compiled
// is as in the Makefile.
func (g golang) fetch(dir string, r *runner) error {
	env := []string{"GOFLAGS=", "GOWORK=off", "CGO_ENABLED=0"}
	flags := []string{"-v", "-trimpath", "-tags=disable_grpc_modules", "-gcflags=all=-dwarf=false", "-ldflags=-s -w"}
	for _, v := range g.variables {
		flags[len(flags)-1] += " -X " + v
	}
	if g.install != "" {
		return golangCommand(r, append(env, "GOBIN="+dir), append(append([]string{"install"}, flags...), g.install))
	}
	root, err := exec.CommandContext(r.ctx, "go", "list", "-m", "-f", "{{.Dir}}", "druid.internal/druid/test").Output()
	if err != nil {
		return fmt.Errorf("find the module of the tests, in which this must be run: %w", err)
	}
	from := filepath.Join(strings.TrimSpace(string(root)), g.build)
	if g.requirements != "" {
		flags = append(flags, "-modfile="+g.requirements)
	}
	program := cmp.Or(g.program, ".")
	if err := golangCommand(r, env, append(append([]string{"build", "-C", from}, flags...), "-o", g.path(dir), program)); err != nil {
		return err
	}
	for _, link := range g.links {
		if err := os.Symlink(g.name, filepath.Join(dir, link)); err != nil {
			return err
		}
	}
	return nil
}

// golangCommand runs the go command with patience: a build of minutes must not slow down what
// else the machine does.
func golangCommand(r *runner, env, args []string) error {
	if nice, err := exec.LookPath("nice"); err == nil {
		return r.run(goKind, env, nice, append([]string{"-n", "10", "go"}, args...)...)
	}
	return r.run(goKind, env, "go", args...)
}

func goKind(line string) string {
	if strings.HasPrefix(line, "go: downloading") {
		return "modules downloaded"
	}
	return "packages compiled"
}

// npm servers are packages of Node.js at an exact version.
type npm struct {
	pkg, version, program string
}

func (n npm) path(dir string) string {
	return filepath.Join(dir, "node_modules", ".bin", n.program)
}

func (n npm) doing() string { return "downloading some hundred packages, about a minute" }

// fetch brings Node.js as well where it is missing and Debian's packages can be had.
func (n npm) fetch(dir string, r *runner) error {
	if _, err := exec.LookPath("npm"); err != nil {
		node := debian{packages: []string{"nodejs", "npm"}, programs: []string{"npm"}}
		if err := node.fetch("", r); err != nil {
			return fmt.Errorf("it comes by npm, which is not here and cannot be installed; install Node.js 18 or newer: %w", err)
		}
	}
	return r.run(npmKind, nil, "npm", "install", "--no-fund", "--no-audit", "--no-update-notifier",
		"--save-exact", "--loglevel=http", "--prefix", dir, n.pkg+"@"+n.version)
}

func npmKind(line string) string {
	if strings.HasPrefix(line, "npm http fetch GET 200") {
		return "answers of the registry"
	}
	return ""
}

// debian servers are packages of Debian and its descendants, in the version that the
// distribution has: the pin's version is what the tests were written against.
type debian struct {
	packages []string
	programs []string // that the tests execute; the first stands for all
	servers  []string // of these, those that are tried with --version
}

func (d debian) path(string) string {
	path, err := exec.LookPath(d.programs[0])
	if err != nil {
		return filepath.Join("/usr/bin", d.programs[0])
	}
	return path
}

func (d debian) doing() string { return "installing Debian packages, about half a minute" }

// installed executes the servers: after an interrupted installation they may be there without
// the libraries they need.
func (d debian) installed() error {
	for _, program := range d.programs {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("there is no %s", program)
		}
	}
	for _, program := range d.servers {
		if out, err := exec.Command(program, "--version").CombinedOutput(); err != nil {
			return fmt.Errorf("%s does not run: %w: %s", program, err, strings.TrimSpace(string(out)))
		}
	}
	return nil
}

// fetch asks for the packages, and for newer lists of what there is only if that fails.
func (d debian) fetch(_ string, r *runner) error {
	args := append([]string{"install", "-y", "--no-install-recommends"}, d.packages...)
	byHand := "apt-get update && apt-get " + strings.Join(args, " ")
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("it comes by apt-get, which is not here; install the programs %s in your distribution's way", strings.Join(d.programs, ", "))
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("Debian packages need root; run as root: %s", byHand)
	}
	env := []string{"DEBIAN_FRONTEND=noninteractive"}
	// dpkg has a lock of its own, for which others are waited too.
	apt := func(args ...string) error {
		return r.run(aptKind, env, "apt-get", append([]string{"-o", "DPkg::Lock::Timeout=300"}, args...)...)
	}
	first := apt(args...)
	if first == nil || r.ctx.Err() != nil {
		return first
	}
	fmt.Fprintf(r.w, "%s: the packages cannot be had yet, asking what there is\n", r.name)
	if err := apt("update"); err != nil {
		return errors.Join(first, err)
	}
	if err := apt(args...); err != nil {
		return fmt.Errorf("%w\nby hand: %s", err, byHand)
	}
	return nil
}

func aptKind(line string) string {
	switch {
	case strings.HasPrefix(line, "Get:"):
		return "packages downloaded"
	case strings.HasPrefix(line, "Unpacking "):
		return "unpacked"
	case strings.HasPrefix(line, "Setting up "):
		return "set up"
	}
	return ""
}
