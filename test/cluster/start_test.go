package cluster_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"druid.internal/druid/test/cluster"
	"druid.internal/druid/test/stores"
)

func TestWhatIsMissingIsNamedWithTheCommandThatInstallsIt(t *testing.T) {
	installed := t.TempDir()
	program := filepath.Join(installed, "kubernetes-"+stores.KubernetesVersion, "kubernetes")
	if err := os.MkdirAll(filepath.Dir(program), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		cache string
		nodes int
		want  string
	}{
		"Kubernetes":              {t.TempDir(), 0, "go run ./cmd/stores install kubernetes"},
		"what nodes need besides": {installed, 1, "go run ./cmd/stores install node-tools"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("DRUID_TEST_CACHE", c.cache)
			t.Setenv("PATH", t.TempDir())
			_, err := cluster.Start(t.Context(), cluster.Options{Nodes: c.nodes})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want it to contain %q", err, c.want)
			}
		})
	}
}

func TestNodesThatCannotBeAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		opts cluster.Options
		want string
	}{
		"too many":                       {cluster.Options{Nodes: 21}, "from 0 to 20"},
		"less than none":                 {cluster.Options{Nodes: -1}, "from 0 to 20"},
		"in a directory they cannot see": {cluster.Options{Nodes: 1, Dir: "/run/druid-test-of-a-refusal"}, "choose another"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := cluster.Start(t.Context(), c.opts)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want it to contain %q", err, c.want)
			}
			if c.opts.Dir != "" {
				_ = os.RemoveAll(c.opts.Dir)
			}
		})
	}
}
