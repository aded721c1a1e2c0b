package main

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// changing is what differs from run to run in what the program prints.
var changing = []struct {
	what *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`TOOK +`), "TOOK  "},
	{regexp.MustCompile(`\b[0-9.]+(µs|ms|s)\b *`), "DURATION  "},
	{regexp.MustCompile(`lineage  [0-9a-f]{32}`), "lineage  NEW"},
	{regexp.MustCompile(`\d+ per second`), "N per second"},
	{regexp.MustCompile(`("?stored"?: )"[^"]+"`), `${1}"WHEN THE FILE WAS WRITTEN"`},
}

// TestWhatPeopleSee pins the output of every verb that only reads, on the original's buckets.
func TestWhatPeopleSee(t *testing.T) {
	for name, args := range map[string][]string{
		"list":            {"list"},
		"list-json":       {"list", "-o", "json"},
		"list-yaml":       {"list", "-o", "yaml"},
		"restore-dry-run": {"restore", "--dry-run"},
		"restore-plan":    {"restore", "--dry-run", "--to-revision=500", "--bump-revision=auto", "-o", "json"},
		"restore-too-far": {"restore", "--to-revision=9999"},
		"restore-too-low": {"restore", "--to-revision=100"},
		"restore-early":   {"restore", "--to-time=2020-01-01T00:00:00Z"},
		"verify":          {"verify", "--all"},
		"extend-unlocked": {"extend-snapshot-immutability", "--retention-period=96h"},
		"collect":         {"collect", "--garbage-collection-policy=LimitBased", "--max-backups=1"},
	} {
		t.Run(name, func(t *testing.T) {
			container, err := filepath.Abs("../../testdata/upstream-bucket-gzip")
			if err != nil {
				t.Fatal(err)
			}
			full := append(args, "--storage-provider=Local", "--store-container="+container, "--store-prefix=ns--uid/etcd-main")
			if args[0] == "restore" {
				full = append(full, "--data-dir="+filepath.Join(t.TempDir(), "data"))
			}
			_, stdout, stderr := etcdbrctl(t, full...)
			got := strings.ReplaceAll("$ etcdbrctl "+strings.Join(args, " ")+"\n"+stdout+stderr, container, "BUCKET")
			for _, c := range changing {
				got = c.what.ReplaceAllString(got, c.with)
			}
			compareGolden(t, filepath.Join("testdata", name+".txt"), got)
		})
	}
}

// compareGolden compares got with the content of a file, which -update rewrites.
func compareGolden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("the output changed (-want +got), go test -update accepts it:\n%s", diff)
	}
}
