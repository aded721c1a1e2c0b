package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// text is what go-cmp compares line by line.
func text(all map[string][]byte) map[string]string {
	out := map[string]string{}
	for name, b := range all {
		out[name] = string(b)
	}
	return out
}

func TestTheChartRepeatsWhatTheRestSays(t *testing.T) {
	all, err := files()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	root := "../../charts/druid/files"
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		name, _ := filepath.Rel(root, path)
		got[filepath.ToSlash(name)] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(text(all), got); d != "" {
		t.Errorf("run make generate; -want +got:\n%s", d)
	}
}

func TestDefinitionsOutliveTheRelease(t *testing.T) {
	all, err := files()
	if err != nil {
		t.Fatal(err)
	}
	definitions := 0
	for name, b := range all {
		if !strings.HasPrefix(name, "crds/") {
			continue
		}
		definitions++
		if strings.Count(string(b), keep) != 1 {
			t.Errorf("%s would be deleted with the release", name)
		}
	}
	if definitions != 5 {
		t.Errorf("%d definitions, want 5", definitions)
	}
	if _, err := kept("x.yaml", []byte("metadata:\n  name: x\n")); err == nil {
		t.Error("a definition that cannot be marked is taken")
	}
}
