package stores

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The pinned versions. A new version is a new cache directory, so both can be kept.
const (
	AzuriteVersion = "3.37.0"
	CephVersion    = "16.2" // the distribution's, see [debian]
	EtcdVersion    = "v3.6.16"
	FakeGCSVersion = "v1.56.1"
	MinIOVersion   = "v0.0.0-20260212201848-7aac2a2c5b7c"
	RcloneVersion  = "v1.75.1" // as in cmd/rclone/go.mod
)

// A Pin is one server at one version and how it comes to be here.
type Pin struct {
	Name    string
	Version string
	About   string

	from source
}

// A source is a place that servers come from: golang, npm or debian.
type source interface {
	// path is where the program is, or will be, if the pin's own directory is dir.
	path(dir string) string

	// doing is what takes its time, in words for whoever waits.
	doing() string

	// fetch leaves the program at path(dir). dir exists and is empty; it is thrown away
	// unless nil is returned.
	fetch(dir string, r *runner) error
}

// A shared source puts its programs where the whole system has them, not into the cache.
type shared interface {
	// installed is nil if the programs are there and run.
	installed() error
}

// Pins lists the servers in the order of their names.
func Pins() []Pin {
	return []Pin{
		{
			Name:    "azurite",
			Version: AzuriteVersion,
			About:   "Azure blobs, without immutability",
			from:    npm{pkg: "azurite", version: AzuriteVersion, program: "azurite-blob"},
		},
		{
			Name:    "ceph",
			Version: CephVersion,
			About:   "Ceph's object gateway: S3 with object lock and without conditional writes, and Swift",
			from: debian{
				packages: []string{"ceph-mon", "ceph-osd", "radosgw"},
				programs: []string{"ceph-mon", "ceph-osd", "radosgw", "radosgw-admin", "ceph", "ceph-authtool", "monmaptool"},
			},
		},
		{
			Name:    "etcd",
			Version: EtcdVersion,
			About:   "the database that is backed up",
			from:    golang{name: "etcd", build: "cmd/etcd"},
		},
		{
			Name:    "fake-gcs-server",
			Version: FakeGCSVersion,
			About:   "the JSON API of Google Cloud Storage; gcsworm adds the locks it lacks",
			from:    golang{name: "fake-gcs-server", install: "github.com/fsouza/fake-gcs-server@" + FakeGCSVersion},
		},
		{
			Name:    "minio",
			Version: MinIOVersion,
			About:   "S3 with object lock, versions and conditional writes (AGPLv3: executed, never linked)",
			from:    golang{name: "minio", install: "github.com/minio/minio@" + MinIOVersion},
		},
		{
			Name:    "rclone",
			Version: RcloneVersion,
			About:   "S3 that accepts object lock and ignores it",
			from:    golang{name: "rclone", build: "cmd/rclone"},
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

// CacheDir is where servers are kept: $DRUID_TEST_CACHE, else druid-test in the user's cache
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

// dir is the directory of this pin alone.
func (p Pin) dir() (string, error) {
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(cache, p.Name+"-"+p.Version), nil
}

// Path is where the program is, or will be once installed.
func (p Pin) Path() (string, error) {
	dir, err := p.dir()
	if err != nil {
		return "", err
	}
	return p.from.path(dir), nil
}

// Installed is nil if the server is there.
func (p Pin) Installed() error {
	if s, ok := p.from.(shared); ok {
		return s.installed()
	}
	path, err := p.Path()
	if err != nil {
		return err
	}
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("there is no %s", path)
	} else if err != nil {
		return err
	}
	return nil
}

// Binary returns the path of the installed program of that name. If it is not installed, the
// error is the command that installs it.
func Binary(name string) (string, error) {
	pin, err := Find(name)
	if err != nil {
		return "", err
	}
	if err := pin.Installed(); err != nil {
		return "", fmt.Errorf("the test server %s %s is not installed (%w); install it with: (cd test && go run ./cmd/stores install %s)", name, pin.Version, err, name)
	}
	return pin.Path()
}
