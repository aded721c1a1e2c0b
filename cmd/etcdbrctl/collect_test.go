package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"druid.internal/druid/internal/engine/collector"
)

// collection is a Local bucket with the backup of upstream, and a full of its newest revision that a
// compaction made.
type collection struct {
	t         *testing.T
	container string
	flags     []string
	compacted string // name of the newer full
}

func newCollection(t *testing.T) collection {
	t.Helper()
	c := collection{t: t, container: t.TempDir()}
	if err := os.CopyFS(c.container, os.DirFS("../../testdata/upstream-bucket-gzip")); err != nil {
		t.Fatal(err)
	}
	c.flags = []string{"--storage-provider=Local", "--store-container=" + c.container, "--store-prefix=ns--uid/etcd-main"}
	before := c.names()
	c.run(exitOK, "compact")
	for _, n := range c.names() {
		if !slices.Contains(before, n) && strings.HasPrefix(n, "Full-") {
			c.compacted = n
		}
	}
	if c.compacted == "" {
		t.Fatalf("no full was added to %v", before)
	}
	return c
}

func (c collection) dir() string { return filepath.Join(c.container, "ns--uid", "etcd-main", "v2") }

// names are the fulls and deltas in the bucket.
func (c collection) names() []string {
	c.t.Helper()
	entries, err := os.ReadDir(c.dir())
	if err != nil {
		c.t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "Full-") || strings.HasPrefix(e.Name(), "Incr-") {
			names = append(names, e.Name())
		}
	}
	return names
}

// run expects an exit code and returns what was printed.
func (c collection) run(want int, args ...string) (stdout, stderr string) {
	c.t.Helper()
	code, stdout, stderr := etcdbrctl(c.t, append(args, c.flags...)...)
	if code != want {
		c.t.Fatalf("%v: exit code %d, want %d:\n%s%s", args, code, want, stdout, stderr)
	}
	return stdout, stderr
}

func (c collection) collect(want int, more ...string) (stdout, stderr string) {
	c.t.Helper()
	return c.run(want, append([]string{"collect", "--garbage-collection-policy=LimitBased", "--max-backups=1", "--yes",
		"--restoration-temp-snapshots-dir=" + filepath.Join(c.t.TempDir(), "scratch")}, more...)...)
}

// damage changes three bytes in the middle of an object.
func (c collection) damage(name string) {
	c.t.Helper()
	path := filepath.Join(c.dir(), name)
	content, err := os.ReadFile(path)
	if err != nil {
		c.t.Fatal(err)
	}
	for i := range 3 {
		content[len(content)/2+i] ^= 0xff
	}
	if err := os.Remove(path); err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		c.t.Fatal(err)
	}
}

// restores expects that the newest state can be restored without the damaged object.
func (c collection) restores(revision int64) {
	c.t.Helper()
	stdout, _ := c.run(exitOK, "restore", "--data-dir="+filepath.Join(c.t.TempDir(), "data"), "--name=default",
		"--initial-cluster=default=http://127.0.0.1:2380", "--initial-advertise-peer-urls=http://127.0.0.1:2380", "-o", "json")
	var got restoreView
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || int64(got.Revision) != revision {
		c.t.Errorf("restored to revision %d, %v, want %d", got.Revision, err, revision)
	}
}

func TestCollectKeepsTheLastGoodChainWhenTheNewestFullIsDamaged(t *testing.T) {
	for _, flag := range []string{"--verify", "--verify=false"} {
		t.Run(flag, func(t *testing.T) {
			c := newCollection(t)
			c.damage(c.compacted)
			want := c.names()
			code := exitDamaged
			if flag == "--verify=false" {
				code = exitOK
			}
			stdout, stderr := c.collect(code, flag)
			if diff := cmp.Diff(want, c.names()); diff != "" {
				t.Errorf("something was deleted (-want +got):\n%s", diff)
			}
			if flag == "--verify" && !strings.Contains(stderr, c.compacted) || !strings.Contains(stdout+stderr, "waiting: 3 (") {
				t.Errorf("the damaged full or what waits is not named:\n%s%s", stdout, stderr)
			}
			c.restores(871)
		})
	}
}

func TestCollectDeletesWhatPrecedesTheChainThatItProved(t *testing.T) {
	c := newCollection(t)
	before := len(c.names())
	stdout, _ := c.collect(exitOK, "-o", "json")
	var r collector.Report
	if err := json.Unmarshal([]byte(stdout), &r); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{c.compacted}, c.names()); diff != "" {
		t.Errorf("what is left (-want +got):\n%s", diff)
	}
	if len(r.Proven) != 1 || r.Proven[0].Base != c.compacted || r.Proven[0].End != 871 || r.Waiting.Objects != 0 || len(r.Outcomes) < before-1 {
		t.Errorf("report %+v", r)
	}
	c.restores(871)
}

func TestCollectWithoutVerifyDeletesNothing(t *testing.T) {
	c := newCollection(t)
	want := c.names()
	stdout, _ := c.collect(exitOK, "--verify=false", "-o", "json")
	var r collector.Report
	if err := json.Unmarshal([]byte(stdout), &r); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, c.names()); diff != "" || len(r.Proven) != 0 || r.Waiting.Objects != 3 {
		t.Errorf("%d objects wait, and the bucket changed (-want +got):\n%s", r.Waiting.Objects, diff)
	}
}
