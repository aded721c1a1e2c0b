package stores

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"testing"
)

func TestThePinsAreWhatIsBuilt(t *testing.T) {
	for _, c := range []struct{ file, module, version string }{
		{"etcd35/go.mod", "go.etcd.io/etcd/server/v3", Etcd35Version},
		{"etcd3512/go.mod", "go.etcd.io/etcd/server/v3", Etcd3512Version},
		{"etcdutl35/go.mod", "go.etcd.io/etcd/etcdutl/v3", Etcd35Version},
		{"fakegcs/go.mod", "github.com/fsouza/fake-gcs-server", FakeGCSVersion},
		{"kubernetes/go.mod", "k8s.io/kubernetes", KubernetesVersion},
		{"kubernetes/older.mod", "k8s.io/kubernetes", Kubernetes134Version},
		{"rclone/go.mod", "github.com/rclone/rclone", RcloneVersion},
	} {
		if got := requirements(t, filepath.Join("..", "cmd", c.file))[c.module]; got != c.version {
			t.Errorf("cmd/%s requires %s %q, pin.go names %s", c.file, c.module, got, c.version)
		}
	}
}

// A package in another version is another package, and so is every package above it: two versions of one small module
// had half of the product compiled twice.
func TestWhatIsNeededInSeveralPlacesIsCompiledOnce(t *testing.T) {
	tests := requirements(t, filepath.Join("..", "go.mod"))
	for file, remedy := range map[string]string{
		"../../go.mod":              "raise the older one: go get MODULE@VERSION",
		"../cmd/certmanager/go.mod": "run cmd/align.sh certmanager",
		"../cmd/fakegcs/go.mod":     "run cmd/align.sh fakegcs",
		"../cmd/kubernetes/go.mod":  "run cmd/kubernetes/require.sh, which says how",
		"../cmd/rclone/go.mod":      "run cmd/align.sh rclone",
	} {
		shared := 0
		for module, version := range requirements(t, filepath.FromSlash(file)) {
			if want, ok := tests[module]; ok {
				shared++
				if version != want {
					t.Errorf("%s requires %s %s, and the tests %s; %s", file, module, version, want, remedy)
				}
			}
		}
		if shared < 10 {
			t.Errorf("%s shares %d modules with the tests: has it been read?", file, shared)
		}
	}
}

// requirements are the modules that a file lists, in the versions that it replaces them with.
func requirements(t *testing.T, file string) map[string]string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "mod", "edit", "-json", file).Output()
	if err != nil {
		t.Fatalf("read %s: %v", file, err)
	}
	var mod struct {
		Require []struct{ Path, Version string }
		Replace []struct {
			Old, New struct{ Path, Version string }
		}
	}
	if err := json.Unmarshal(out, &mod); err != nil {
		t.Fatalf("read %s: %v", file, err)
	}
	versions := map[string]string{}
	for _, r := range mod.Require {
		versions[r.Path] = r.Version
	}
	for _, r := range mod.Replace {
		if _, ok := versions[r.Old.Path]; ok {
			versions[r.Old.Path] = r.New.Version
		}
	}
	delete(versions, "druid.internal/druid") // the tests have it beside them
	return versions
}
