package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"druid.internal/druid/internal/agent/config"
	"druid.internal/druid/internal/agent/memberconf"
)

func TestThePagesAboutTheSidecarAreUpToDate(t *testing.T) {
	for name, page := range map[string]func() (string, error){"sidecar.md": sidecarPage, "metrics.md": metricsPage} {
		got, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", name))
		if err != nil {
			t.Fatal(err)
		}
		want, err := page()
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Errorf("docs/reference/%s is not what the code says; run make generate", name)
		}
	}
}

func TestThePageOfMetricsTellsKindsAndLabels(t *testing.T) {
	page, err := metricsPage()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| `etcdbr_backup_leader` | gauge |  |", "| `etcdbr_snapshot_gc_total` | counter | kind, succeeded |",
		"| `etcdbr_network_received_bytes` | counter |", "| `etcdbr_restoration_duration_seconds` | histogram | restore, succeeded |",
		"| `etcdbr_snapstore_latest_deltas_total` | gauge |",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
}

// The page is tried by hand with the programs; that its files are understood is tried here.
func TestTheExampleOfPlainProcessesIsUnderstood(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "..", "docs", "operations", "processes.md"))
	if err != nil {
		t.Fatal(err)
	}
	page := strings.NewReplacer("$dir", "/srv/etcd/m-0", "$root", "/srv/etcd", "$address", "127.0.0.11", "$m", "m-0").Replace(string(b))
	file := func(name string) []byte {
		_, rest, found := strings.Cut(page, name+" <<EOF\n")
		content, _, ended := strings.Cut(rest, "\nEOF\n")
		if !found || !ended {
			t.Fatalf("the page has no %s", name)
		}
		return []byte(content)
	}
	c, err := config.Parse(file("sidecar.yaml"))
	if err != nil || c.Etcd.Endpoints[0] != "https://127.0.0.11:2379" || c.Store.Provider != "Local" || c.Server.TokenFile == "" {
		t.Errorf("the sidecar's file: %+v, %v", c, err)
	}
	tm, err := memberconf.Parse(file("etcd.conf.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if _, wanted := tm.Peer("m-0"); !wanted || len(tm.Wanted()) != 3 || !tm.SecurePeers("m-0") {
		t.Errorf("etcd's file wants %+v", tm.Wanted())
	}
}
