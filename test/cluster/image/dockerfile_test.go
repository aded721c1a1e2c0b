package image_test

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"druid.internal/druid/test/cluster/image"
)

const root = "../../.."

// There is no Docker where the tests run, so the Dockerfile is compared with what is tested.
func TestTheDockerfileMakesWhatMakeImageMakes(t *testing.T) {
	stages := dockerfile(t)
	if len(stages) != 2 {
		t.Fatalf("there are %d stages, want one that builds and one that is the image", len(stages))
	}
	build, final := stages[0], stages[1]
	made := makeImage(t)

	if want := "golang:" + goVersion(t); !slices.Contains(strings.Fields(build.of("FROM")[0]), want) {
		t.Errorf("it is built with %q, want the version of go.mod, %s", build.of("FROM")[0], want)
	}
	if got := build.of("RUN"); !slices.Contains(got, made.build) {
		t.Errorf("it is built by\n%s\nwant that of make build:\n%s", strings.Join(got, "\n"), made.build)
	}
	if got := copied(t, final); !slices.Equal(got, made.files) {
		t.Errorf("it has %q, want the programs of make image: %q", got, made.files)
	}
	for _, want := range []struct{ instruction, value string }{
		{"USER", fmt.Sprintf("%d:%d", image.User, image.User)},
		{"WORKDIR", "/"}, // that of the base is another one
	} {
		if got := final.of(want.instruction); !slices.Equal(got, []string{want.value}) {
			t.Errorf("%s is %q, want %q", want.instruction, got, want.value)
		}
	}
	if base := final.of("FROM")[0]; !strings.HasPrefix(base, "gcr.io/distroless/static-") || !strings.HasSuffix(base, ":nonroot") {
		t.Errorf("the base is %s, want one that has authorities, users and /tmp and nothing that could be run", base)
	}
	for _, instruction := range []string{"ENTRYPOINT", "CMD", "ENV", "EXPOSE", "VOLUME"} {
		if got := final.of(instruction); len(got) > 0 {
			t.Errorf("%s is %q, which the image of make image does not have", instruction, got)
		}
	}
}

// stage is a stage of a Dockerfile: instructions with what stands behind them.
type stage [][2]string

func (s stage) of(instruction string) (values []string) {
	for _, line := range s {
		if line[0] == instruction {
			values = append(values, line[1])
		}
	}
	return values
}

func dockerfile(t *testing.T) (stages []stage) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if strings.HasSuffix(line, `\`) {
			t.Fatalf("%q goes on in the next line, which this test does not read: make it one line", line)
		}
		instruction, value, _ := strings.Cut(line, " ")
		if instruction == "FROM" {
			stages = append(stages, nil)
		}
		if len(stages) > 0 {
			last := &stages[len(stages)-1]
			*last = append(*last, [2]string{instruction, value})
		}
	}
	return stages
}

// copied are the files that come from the first stage, as "/usr/local/bin/p=bin/p".
func copied(t *testing.T, s stage) (files []string) {
	t.Helper()
	for _, line := range s.of("COPY") {
		words := strings.Fields(line)
		if words[0] != "--from=build" || len(words) < 3 {
			t.Fatalf("COPY %s does not copy from the stage that builds", line)
		}
		to := words[len(words)-1]
		for _, from := range words[1 : len(words)-1] {
			file, ok := strings.CutPrefix(from, "/src/")
			if !ok || !strings.HasSuffix(to, "/") {
				t.Fatalf("COPY %s is not from /src into a directory", line)
			}
			files = append(files, path.Join(to, path.Base(from))+"="+file)
		}
	}
	slices.Sort(files)
	return files
}

// recipe is what make would do.
type recipe struct {
	build string   // with the variables of Docker for what make takes from the machine
	files []string // as "/usr/local/bin/p=bin/p"
}

func makeImage(t *testing.T) (r recipe) {
	t.Helper()
	cmd := exec.Command("make", "--dry-run", "--always-make", "--no-print-directory", "image", "GO=go", "VERSION=v1.2.3")
	cmd.Dir = root
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { // of a make that runs this test
		return strings.HasPrefix(v, "MAKE") || strings.HasPrefix(v, "MFLAGS=")
	})
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("make: %v\n%s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSpace(line)
		if strings.Contains(line, "go build ") {
			line = strings.ReplaceAll(line, "v1.2.3", "$VERSION")
			r.build = strings.Replace(line, "CGO_ENABLED=0 ", "CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH ", 1)
		}
		if !strings.Contains(line, "./cmd/image ") {
			continue
		}
		for word := range strings.FieldsSeq(line) {
			if to, from, ok := strings.Cut(word, "="); ok && path.IsAbs(to) {
				r.files = append(r.files, to+"="+strings.TrimPrefix(from, "../"))
			}
		}
	}
	if r.build == "" || len(r.files) == 0 {
		t.Fatalf("what make would do is not understood:\n%s", out)
	}
	slices.Sort(r.files)
	return r
}

// goVersion is that of go.mod, without the patch.
func goVersion(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "go "); ok {
			return v[:strings.LastIndex(v, ".")]
		}
	}
	t.Fatal("go.mod names no version")
	return ""
}
