package main

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"druid.internal/druid/internal/backup/snapshot"
)

// oddPrefixes are ways to write a prefix, and below which directory of a Local store it is.
var oddPrefixes = map[string]string{
	"":                                 "v2",
	".":                                "v2",
	"lead/x":                           "lead/x/v2",
	"/lead/x":                          "lead/x/v2",
	"//lead//x/":                       "lead/x/v2",
	"a//b":                             "a/b/v2",
	"a/./b":                            "a/b/v2",
	"./a/":                             "a/v2",
	"a b/c":                            "a b/c/v2",
	"a%2Fb%00":                         "a%2Fb%00/v2",
	"ünïcode/路径":                       "ünïcode/路径/v2",
	"x/v2":                             "x/v2/v2",
	"ns/etcd-main/v2/":                 "ns/etcd-main/v2/v2",
	"v1":                               "v1/v2",
	"x/v2/Full-00000000-00000001-1.gz": "x/v2/Full-00000000-00000001-1.gz/v2",
	"x/Owner-00000001":                 "x/Owner-00000001/v2",
	"...":                              ".../v2",
	"druid-probe":                      "druid-probe/v2",
	strings.Repeat("long-prefix/", 42): strings.Repeat("long-prefix/", 42) + "v2",
}

// badPrefixes are refused, with a part of the one sentence that every verb says.
var badPrefixes = map[string]string{
	"a/../b":   `contains an element ".."`,
	"..":       `contains an element ".."`,
	"/":        "names no path",
	" ":        "begins or ends with a space",
	"a ":       "begins or ends with a space",
	"a\n":      "contains a control character",
	"a\x00b":   "contains a control character",
	`a\b`:      "contains a backslash",
	"a\xffb":   "is not valid UTF-8",
	"a\u200bb": "contains a control character or an invisible one",
	strings.Repeat("x", snapshot.MaxPrefixLength+1): "at most 512",
}

// verbs are all that take a prefix, without the store's flags. A verb that reads and finds nothing fails.
func verbs(t *testing.T) map[string][]string {
	dir := func() string { return "--data-dir=" + filepath.Join(t.TempDir(), "data") }
	return map[string][]string{
		"restore":    {"restore", dir()},
		"dry run":    {"restore", "--dry-run", dir()},
		"list":       {"list"},
		"verify":     {"verify"},
		"compact":    {"compact"},
		"collect":    {"collect", "--garbage-collection-policy=LimitBased", "--max-backups=1"},
		"exclude":    {"exclude", lastFixture},
		"include":    {"include", lastFixture},
		"extend":     {"extend-snapshot-immutability", "--retention-period=96h", "--dry-run"},
		"initialize": {"initialize", dir()},
	}
}

// lastFixture is the newest snapshot of the fixture.
const lastFixture = "Incr-00000857-00000871-1795164965.gz"

func TestEveryVerbFindsWhatAnotherWroteBelowAnOddPrefix(t *testing.T) {
	fixture, err := filepath.Abs("../../testdata/upstream-bucket-gzip")
	if err != nil {
		t.Fatal(err)
	}
	for prefix, where := range oddPrefixes {
		t.Run(prefix, func(t *testing.T) {
			container := t.TempDir()
			local := []string{"--storage-provider=Local", "--store-container=" + container, "--store-prefix=" + prefix}
			must := func(args ...string) (stdout string) {
				t.Helper()
				code, stdout, stderr := etcdbrctl(t, args...)
				if code != exitOK {
					t.Errorf("%s: exit code %d: %s", args[0], code, stderr)
				}
				return stdout
			}
			must(append([]string{"copy", "--source-storage-provider=Local", "--source-store-container=" + fixture, "--source-store-prefix=ns--uid/etcd-main"}, local...)...)
			if _, err := os.Stat(filepath.Join(container, where, lastFixture)); err != nil {
				t.Fatal(err)
			}
			for name, args := range verbs(t) {
				if name == "extend" || name == "exclude" {
					continue // below
				}
				if out := must(append(args, local...)...); name == "list" && strings.Contains(out, "no snapshots") {
					t.Errorf("list shows\n%s", out)
				}
			}
			must(append(verbs(t)["exclude"], local...)...)
			must(append(verbs(t)["include"], local...)...)
			if _, _, stderr := etcdbrctl(t, append(verbs(t)["extend"], local...)...); !strings.Contains(stderr, "lock") || strings.Contains(stderr, "no way") {
				t.Errorf("extend: %s; want that it finds the backups, and no locks", stderr)
			}
			must(append([]string{"store", "probe"}, local...)...)
			target := t.TempDir()
			must("copy", "--source-storage-provider=Local", "--source-store-container="+container, "--source-store-prefix="+prefix,
				"--storage-provider=Local", "--store-container="+target, "--store-prefix=other")
			if _, err := os.Stat(filepath.Join(target, "other/v2", lastFixture)); err != nil {
				t.Error(err)
			}
			roots, err := os.ReadDir(container)
			if err != nil || len(roots) > 1 && where != "v2" {
				t.Errorf("in the bucket are %v, %v; want nothing beside the prefix", roots, err)
			}
		})
	}
}

func TestEveryVerbRefusesABadPrefixInTheSameWords(t *testing.T) {
	container := t.TempDir()
	if err := os.WriteFile(filepath.Join(container, "marker"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	local := []string{"--storage-provider=Local", "--store-container=" + container}
	all := verbs(t)
	maps.Copy(all, map[string][]string{
		"snapshot": {"snapshot", "--endpoints=http://127.0.0.1:1"},
		"server":   {"server", "--endpoints=http://127.0.0.1:1"},
		"probe":    {"store", "probe"},
		"copy":     {"copy", "--source-storage-provider=Local", "--source-store-container=" + container},
	})
	for prefix, want := range badPrefixes {
		said := map[string]bool{}
		refused := func(name string, args ...string) {
			code, stdout, stderr := etcdbrctl(t, args...)
			if code != exitUsage || stdout != "" || !strings.Contains(stderr, want) {
				t.Errorf("%s %q: exit code %d, %q, %s; want %d and %q", name, prefix, code, stdout, stderr, exitUsage, want)
			}
			_, sentence, _ := strings.Cut(stderr, snapshot.ErrPrefix.Error())
			sentence, _, _ = strings.Cut(sentence, "; `etcdbrctl ")
			said[sentence] = true
		}
		for name, args := range all {
			refused(name, slices.Concat(args, local, []string{"--store-prefix=" + prefix})...)
		}
		refused("copy from", slices.Concat([]string{"copy", "--source-storage-provider=Local", "--source-store-container=" + container, "--source-store-prefix=" + prefix}, local)...)
		refused("the second store", slices.Concat([]string{"server", "--secondary-store-prefix=" + prefix}, local)...)
		if len(said) != 1 {
			t.Errorf("%q: the verbs say %q, want one sentence", prefix, slices.Collect(maps.Keys(said)))
		}
	}
	_ = filepath.WalkDir(container, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() && e.Name() != "marker" {
			t.Errorf("%s was written, %v", path, err)
		}
		return nil
	})
}

// A configuration file is read by the same constructor as a flag.
func TestTheSidecarsFileRefusesABadPrefix(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte("snapstoreConfig: {provider: Local, container: /tmp, prefix: \"a/../b\"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, stderr := etcdbrctl(t, "server", "--config-file="+file)
	if code != exitUsage || !strings.Contains(stderr, `not a valid store prefix: "a/../b" contains an element ".."`) {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

func TestAMemberDoesNotStartEmptyBesideBackupsBelowAConfusedPrefix(t *testing.T) {
	fixture, container := "../../testdata/upstream-bucket-gzip", t.TempDir()
	if err := os.CopyFS(container, os.DirFS(fixture)); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "data")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	// A refusal is waited on until a person does something about it.
	out := &untilSaid{what: `set the prefix to \"ns--uid/etcd-main\"`, then: cancel}
	code := run(ctx, []string{"initialize", "--data-dir=" + dir, "--storage-provider=Local", "--store-container=" + container, "--store-prefix=ns--uid/etcd-main/v2"},
		system{out: io.Discard, err: out, getenv: func(string) string { return "" }})
	if code != exitInterrupted {
		t.Errorf("exit code %d: %s", code, out.said.String())
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("a data directory was made: %v", err)
	}
}

// untilSaid calls then as soon as the text contains what.
type untilSaid struct {
	what string
	then func()
	said bytes.Buffer
}

func (u *untilSaid) Write(p []byte) (int, error) {
	u.said.Write(p)
	if bytes.Contains(u.said.Bytes(), []byte(u.what)) {
		u.then()
	}
	return len(p), nil
}
