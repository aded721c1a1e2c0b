package image_test

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"druid.internal/druid/test/cluster/image"
)

func spec(t *testing.T) image.Spec {
	t.Helper()
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, []byte("#!/bin/true\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return image.Spec{
		Name:       "registry.local/team/program:v1",
		Entrypoint: []string{"/usr/bin/program", "serve"},
		Files: []image.File{
			{Path: "/usr/bin/program", Source: program},
			{Path: "/tmp", Dir: true, Mode: 0o1777},
			{Path: "/etc/motd", Content: []byte("hello\n")},
		},
	}
}

func TestTheSameFilesMakeTheSameImageAtAnyTimeInAnyOrder(t *testing.T) {
	dir, s := t.TempDir(), spec(t)
	if err := image.Write(filepath.Join(dir, "one.tar"), s); err != nil {
		t.Fatal(err)
	}
	long := time.Now().Add(-100 * time.Hour)
	if err := os.Chtimes(s.Files[0].Source, long, long); err != nil {
		t.Fatal(err)
	}
	s.Files[0], s.Files[2] = s.Files[2], s.Files[0]
	if err := image.Write(filepath.Join(dir, "other.tar"), s); err != nil {
		t.Fatal(err)
	}
	one, err := os.ReadFile(filepath.Join(dir, "one.tar"))
	other, err2 := os.ReadFile(filepath.Join(dir, "other.tar"))
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(one, other) {
		t.Error("two images differ")
	}
}

func TestAnImageIsWhatBothItsDescriptionsSay(t *testing.T) {
	file := filepath.Join(t.TempDir(), "image.tar")
	if err := image.Write(file, spec(t)); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	parts := read(t, text)

	// As Docker reads it.
	var docker []struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	decode(t, parts["manifest.json"].content, &docker)
	if len(docker) != 1 || len(docker[0].Layers) != 1 || !cmp.Equal(docker[0].RepoTags, []string{"registry.local/team/program:v1"}) {
		t.Fatalf("manifest.json is %+v", docker)
	}

	// As containerd reads it.
	type descriptor struct {
		Digest      string
		Size        int
		Annotations map[string]string
	}
	var index struct{ Manifests []descriptor }
	decode(t, parts["index.json"].content, &index)
	if len(index.Manifests) != 1 || index.Manifests[0].Annotations["io.containerd.image.name"] != "registry.local/team/program:v1" {
		t.Fatalf("index.json is %+v", index)
	}
	blob := func(d descriptor) []byte {
		content := parts["blobs/sha256/"+strings.TrimPrefix(d.Digest, "sha256:")].content
		if sum := sha256.Sum256(content); "sha256:"+hex.EncodeToString(sum[:]) != d.Digest || len(content) != d.Size {
			t.Errorf("the blob %s is not what its name says", d.Digest)
		}
		return content
	}
	var manifest struct {
		Config descriptor
		Layers []descriptor
	}
	decode(t, blob(index.Manifests[0]), &manifest)
	var config struct {
		Config struct {
			User, WorkingDir string
			Entrypoint       []string
		}
		RootFS struct {
			DiffIDs []string `json:"diff_ids"`
		}
	}
	decode(t, blob(manifest.Config), &config)
	if docker[0].Config != "blobs/sha256/"+strings.TrimPrefix(manifest.Config.Digest, "sha256:") || !cmp.Equal(config.RootFS.DiffIDs, []string{manifest.Layers[0].Digest}) {
		t.Error("the two descriptions are of different images")
	}
	if got := config.Config; got.User != "65532:65532" || got.WorkingDir != "/" || !cmp.Equal(got.Entrypoint, []string{"/usr/bin/program", "serve"}) {
		t.Errorf("what is run is %+v", got)
	}

	var got []string
	for name, f := range read(t, blob(manifest.Layers[0])) {
		got = append(got, f.mode+" "+name+" "+string(f.content))
	}
	want := []string{
		"drwxr-xr-x etc/ ", "-rw-r--r-- etc/motd hello\n", "dtrwxrwxrwx tmp/ ",
		"drwxr-xr-x usr/ ", "drwxr-xr-x usr/bin/ ", "-rwxr-xr-x usr/bin/program #!/bin/true\n",
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestAnImageThatCannotBeIsRefusedAndLeavesNoFile(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*image.Spec)
		want string
	}{
		"a name without a tag":       {func(s *image.Spec) { s.Name = "registry.local:5000/program" }, "NAME:TAG"},
		"a path that is relative":    {func(s *image.Spec) { s.Files[0].Path = "program" }, "absolute"},
		"a path that climbs":         {func(s *image.Spec) { s.Files[0].Path = "/usr/../program" }, "clean"},
		"a file twice":               {func(s *image.Spec) { s.Files[0].Path = "/etc/motd" }, "twice"},
		"a program that is not here": {func(s *image.Spec) { s.Files[0].Source += "-not" }, "no such file"},
		"a directory as a program":   {func(s *image.Spec) { s.Files[0].Source = filepath.Dir(s.Files[0].Source) }, "not a file"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, s := t.TempDir(), spec(t)
			c.edit(&s)
			err := image.Write(filepath.Join(dir, "image.tar"), s)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want it to contain %q", err, c.want)
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v (%v)", left, err)
			}
		})
	}
}

func TestASystemHasUsersAndAuthorities(t *testing.T) {
	files, err := image.System()
	if err != nil {
		t.Fatal(err)
	}
	s := spec(t)
	s.Files = append([]image.File{s.Files[0]}, files...)
	if err := image.Write(filepath.Join(t.TempDir(), "image.tar"), s); err != nil {
		t.Fatal(err)
	}
	paths := map[string]bool{}
	for _, f := range files {
		paths[f.Path] = true
	}
	for _, want := range []string{"/etc/passwd", "/etc/group", "/tmp", "/etc/ssl/certs/ca-certificates.crt"} {
		if !paths[want] {
			t.Errorf("there is no %s", want)
		}
	}
}

type entry struct {
	mode    string
	content []byte
}

func read(t *testing.T, archive []byte) map[string]entry {
	t.Helper()
	entries := map[string]entry{}
	r := tar.NewReader(bytes.NewReader(archive))
	for {
		h, err := r.Next()
		if err == io.EOF {
			return entries
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if h.Uid != 0 || h.Gid != 0 || h.ModTime.Unix() > 0 {
			t.Errorf("%s is of %d:%d from %s, want nothing of this machine", h.Name, h.Uid, h.Gid, h.ModTime)
		}
		entries[h.Name] = entry{h.FileInfo().Mode().String(), content}
	}
}

func decode(t *testing.T, text []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
}
