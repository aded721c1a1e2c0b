package operator_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"druid.internal/druid/test/stores"
)

// TestTheTableOfVersionsIsWhatTheTestsRunOn: its versions are the installed ones, and its tests exist.
func TestTheTableOfVersionsIsWhatTheTestsRunOn(t *testing.T) {
	text, err := os.ReadFile("../../docs/reference/compatibility.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(text), "\n## Versions\n")
	table, _, ended := strings.Cut(table, "\n## ")
	if !found || !ended {
		t.Fatal("the page has no section Versions")
	}
	rows := map[string]string{}
	for line := range strings.Lines(table) {
		if cells := strings.Split(line, "|"); len(cells) == 5 {
			rows[strings.TrimSpace(cells[1])] = cells[2]
		}
	}
	for what, want := range map[string]string{
		"Kubernetes, newest": stores.KubernetesVersion,
		"Kubernetes, oldest; the chart refuses older ones":                                          stores.Kubernetes134Version,
		"etcd that members run, in the process of the wrapper":                                      stores.EtcdVersion,
		"etcd whose data and members are taken over":                                                stores.Etcd35Version,
		"etcd 3.5 whose watch lacks deletions of the compacted revision: a full replaces the delta": stores.Etcd3512Version,
		"etcd to which a cluster is handed back while it serves":                                    stores.Etcd35Version,
		"etcd that goes on from a bucket of `v2-json`, restored by its own tool":                    stores.Etcd35Version,
	} {
		if !strings.Contains(rows[what], want) {
			t.Errorf("the row %q says %q, and the tests run on %s", what, strings.TrimSpace(rows[what]), want)
		}
	}

	var chart struct{ KubeVersion string }
	meta, err := os.ReadFile("../../charts/druid/Chart.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(meta, &chart); err != nil {
		t.Fatal(err)
	}
	if minor := regexp.MustCompile(`^v(\d+\.\d+)\.`).FindStringSubmatch(stores.Kubernetes134Version); chart.KubeVersion != ">="+minor[1]+".0-0" {
		t.Errorf("the chart wants Kubernetes %s, and the oldest that tests run on is %s", chart.KubeVersion, stores.Kubernetes134Version)
	}

	named := regexp.MustCompile("`(Test[A-Za-z0-9]+)`").FindAllStringSubmatch(table, -1)
	if len(named) < 8 {
		t.Errorf("the table names %d tests", len(named))
	}
	var tests strings.Builder
	for _, dir := range []string{"../../cmd", "../../internal", ".."} {
		if err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			b, err := os.ReadFile(path)
			tests.Write(b)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range named {
		if !strings.Contains(tests.String(), "\nfunc "+n[1]+"(t *testing.T)") {
			t.Errorf("there is no test %s", n[1])
		}
	}
}
