package main

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"druid.internal/druid/internal/operator/metrics"
)

func TestTheReferencePagesAreUpToDate(t *testing.T) {
	for name, page := range pages() {
		got, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", name))
		if err != nil {
			t.Error(err)
			continue
		}
		if string(got) != page {
			t.Errorf("docs/reference/%s is not what the program says; run make generate", name)
		}
	}
}

func TestAlertsAreAboutMetricsThatThereAre(t *testing.T) {
	there := map[string]bool{}
	for _, r := range append(metrics.New().Rows(), metrics.NewTasks().Rows()...) {
		there[r.Name] = true
	}
	for _, r := range unmeasured {
		if there[r.Name] {
			t.Errorf("%s is measured", r.Name)
		}
	}
	ours := regexp.MustCompile(`etcddruid_[a-z_]+`)
	for _, a := range alerts {
		for _, name := range ours.FindAllString(a.condition, -1) {
			if !there[name] {
				t.Errorf("%s: there is no metric %s", a.condition, name)
			}
		}
	}
}
