package stores

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The pinned versions. A new version is a new cache directory, so both can be kept.
const (
	MinIOVersion = "v0.0.0-20260212201848-7aac2a2c5b7c"
	EtcdVersion  = "v3.6.16"
)

// A Pin is one server at one version and how its binary comes to be.
type Pin struct {
	Name    string
	Version string
	About   string

	// build is the go command that leaves the binary in dir as Name.
	build func(dir string) command
}

// command is a go command: its arguments and what it adds to the environment.
type command struct {
	args []string
	env  []string
}

// Pins lists the servers in the order of their names.
func Pins() []Pin {
	return []Pin{
		{
			Name:    "etcd",
			Version: EtcdVersion,
			About:   "the database that is backed up",
			build: func(dir string) command {
				return command{
					args: []string{"build", "-v", "-trimpath", "-ldflags=-s -w", "-o", filepath.Join(dir, "etcd"), "druid.internal/druid/test/cmd/etcd"},
					env:  []string{"CGO_ENABLED=0"},
				}
			},
		},
		{
			Name:    "minio",
			Version: MinIOVersion,
			About:   "S3 with object lock, versions and conditional writes (AGPLv3: executed, never linked)",
			build: func(dir string) command {
				return command{
					args: []string{"install", "-v", "-trimpath", "-ldflags=-s -w", "github.com/minio/minio@" + MinIOVersion},
					env:  []string{"CGO_ENABLED=0", "GOBIN=" + dir},
				}
			},
		},
	}
}

// Find returns the pin of that name.
func Find(name string) (Pin, error) {
	pins := Pins()
	i := slices.IndexFunc(pins, func(p Pin) bool { return p.Name == name })
	if i < 0 {
		names := make([]string, len(pins))
		for i, p := range pins {
			names[i] = p.Name
		}
		return Pin{}, fmt.Errorf("there is no server %q, known are: %s", name, strings.Join(names, ", "))
	}
	return pins[i], nil
}

// CacheDir is where binaries are kept: $DRUID_TEST_CACHE, else druid-test in the user's cache
// directory.
func CacheDir() (string, error) {
	if dir := os.Getenv("DRUID_TEST_CACHE"); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no place to keep test servers (set DRUID_TEST_CACHE): %w", err)
	}
	return filepath.Join(dir, "druid-test"), nil
}

// Path is where the binary is, or will be once installed.
func (p Pin) Path() (string, error) {
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(cache, p.Name+"-"+p.Version, p.Name), nil
}

// Binary returns the path of the installed binary of that name. If it is not installed, the
// error is the command that installs it.
func Binary(name string) (string, error) {
	pin, err := Find(name)
	if err != nil {
		return "", err
	}
	path, err := pin.Path()
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("the test server %s %s is not installed; install it with: (cd test && go run ./cmd/stores install %s)", name, pin.Version, name)
	}
	return path, nil
}
