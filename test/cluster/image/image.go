// Package image makes container images of static programs without Docker: a tarball that
// containerd, Docker and Podman load. The same files make the same tarball, byte for byte.
//
// It does not pull, has no base images and makes one layer: whatever a program needs of an
// operating system is given as a file.
package image

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// User is the number of the user and group that images of ours run as.
const User = 65532

// Spec says what is in an image.
type Spec struct {
	Name       string   // as registry.local/etcd-druid:v1; what it is loaded as
	Files      []File   // the directories they are in come by themselves
	Entrypoint []string // none: whoever starts it says what
	Env        []string // NAME=value
	User       string   // number or number:number; empty: the user and group User
	WorkingDir string   // empty: /
	Labels     map[string]string
}

// File is one file of an image, owned by root.
type File struct {
	Path    string // in the image, absolute
	Source  string // the file on this machine, or
	Content []byte // what it holds
	Mode    int64  // empty: 0755 for a Source that is executable, else 0644
	Dir     bool   // an empty directory, as /tmp with 01777
}

// Write makes the tarball. An interrupted Write leaves no file of that name.
func Write(file string, spec Spec) error {
	if err := write(file, spec); err != nil {
		return fmt.Errorf("make the image %s: %w", spec.Name, err)
	}
	return nil
}

func write(file string, spec Spec) error {
	if err := spec.valid(); err != nil {
		return err
	}
	layer, err := os.CreateTemp(filepath.Dir(file), ".layer-")
	if err != nil {
		return err
	}
	defer os.Remove(layer.Name())
	defer layer.Close()
	digest := sha256.New()
	if err := writeLayer(io.MultiWriter(layer, digest), spec.Files); err != nil {
		return err
	}
	size, err := layer.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	if _, err := layer.Seek(0, io.SeekStart); err != nil {
		return err
	}

	out, err := os.CreateTemp(filepath.Dir(file), ".image-")
	if err != nil {
		return err
	}
	defer os.Remove(out.Name())
	defer out.Close()
	if err := writeArchive(out, spec, layer, blob{hex.EncodeToString(digest.Sum(nil)), size}); err != nil {
		return err
	}
	if err := out.Chmod(0o644); err != nil {
		return err
	}
	if err := out.Close(); err != nil {
		return err
	}
	return os.Rename(out.Name(), file)
}

func (s Spec) valid() error {
	if i := strings.LastIndexByte(s.Name, ':'); i <= 0 || i < strings.LastIndexByte(s.Name, '/') || i == len(s.Name)-1 {
		return fmt.Errorf("the name %q is not NAME:TAG", s.Name)
	}
	seen := map[string]bool{}
	for _, f := range s.Files {
		if !path.IsAbs(f.Path) || path.Clean(f.Path) != f.Path || f.Path == "/" {
			return fmt.Errorf("the file %q is not an absolute, clean path", f.Path)
		}
		if seen[f.Path] {
			return fmt.Errorf("the file %s is there twice", f.Path)
		}
		seen[f.Path] = true
	}
	return nil
}

// writeLayer writes the files in the order of their paths, each after its directories. Times are
// the beginning of time and owners root, so that nothing of this machine gets in.
func writeLayer(w io.Writer, files []File) error {
	files = slices.SortedFunc(slices.Values(files), func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	t := tar.NewWriter(w)
	made := map[string]bool{"/": true}
	for _, f := range files {
		if f.Dir {
			made[f.Path] = true
		}
	}
	written := map[string]bool{"/": true}
	for _, f := range files {
		for _, dir := range parents(f.Path) {
			if written[dir] || made[dir] {
				continue
			}
			written[dir] = true
			if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir[1:] + "/", Mode: 0o755, Format: tar.FormatPAX}); err != nil {
				return err
			}
		}
		if err := writeFile(t, f); err != nil {
			return err
		}
	}
	return t.Close()
}

// parents are the directories above a path, the outermost first.
func parents(p string) []string {
	var dirs []string
	for dir := path.Dir(p); dir != "/"; dir = path.Dir(dir) {
		dirs = append(dirs, dir)
	}
	slices.Reverse(dirs)
	return dirs
}

func writeFile(t *tar.Writer, f File) error {
	h := &tar.Header{Typeflag: tar.TypeReg, Name: f.Path[1:], Mode: f.Mode, Format: tar.FormatPAX}
	if f.Dir {
		h.Typeflag, h.Name = tar.TypeDir, h.Name+"/"
		if h.Mode == 0 {
			h.Mode = 0o755
		}
		return t.WriteHeader(h)
	}
	var content io.Reader = bytes.NewReader(f.Content)
	h.Size = int64(len(f.Content))
	if h.Mode == 0 {
		h.Mode = 0o644
	}
	if f.Source != "" {
		in, err := os.Open(f.Source)
		if err != nil {
			return err
		}
		defer in.Close()
		stat, err := in.Stat()
		if err != nil {
			return err
		}
		if !stat.Mode().IsRegular() {
			return fmt.Errorf("%s is not a file", f.Source)
		}
		content, h.Size = in, stat.Size()
		if f.Mode == 0 && stat.Mode()&0o111 != 0 {
			h.Mode = 0o755
		}
	}
	if err := t.WriteHeader(h); err != nil {
		return err
	}
	if n, err := io.Copy(t, content); err != nil {
		return err
	} else if n != h.Size {
		return errors.New("the file " + f.Source + " changed while it was read")
	}
	return nil
}

// blob is a part of the archive by its content.
type blob struct {
	digest string
	size   int64
}

func (b blob) path() string { return "blobs/sha256/" + b.digest }

func blobOf(content []byte) blob {
	sum := sha256.Sum256(content)
	return blob{hex.EncodeToString(sum[:]), int64(len(content))}
}

// writeArchive writes both descriptions of an image that are in use, over the same blobs: the
// index of the OCI and the manifest of docker save.
func writeArchive(w io.Writer, spec Spec, layer io.Reader, layerBlob blob) error {
	config, err := json.Marshal(configOf(spec, layerBlob))
	if err != nil {
		return err
	}
	configBlob := blobOf(config)
	manifest, err := json.Marshal(object{
		"schemaVersion": 2,
		"mediaType":     "application/vnd.oci.image.manifest.v1+json",
		"config":        descriptor("application/vnd.oci.image.config.v1+json", configBlob),
		"layers":        []object{descriptor("application/vnd.oci.image.layer.v1.tar", layerBlob)},
	})
	if err != nil {
		return err
	}
	manifestBlob := blobOf(manifest)
	entry := descriptor("application/vnd.oci.image.manifest.v1+json", manifestBlob)
	entry["annotations"] = object{
		"io.containerd.image.name":          spec.Name,
		"org.opencontainers.image.ref.name": spec.Name[strings.LastIndexByte(spec.Name, ':')+1:],
	}
	entry["platform"] = object{"architecture": runtime.GOARCH, "os": "linux"}
	index, err := json.Marshal(object{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": []object{entry}})
	if err != nil {
		return err
	}
	docker, err := json.Marshal([]object{{"Config": configBlob.path(), "RepoTags": []string{spec.Name}, "Layers": []string{layerBlob.path()}}})
	if err != nil {
		return err
	}
	t := tar.NewWriter(w)
	for _, part := range []struct {
		name    string
		size    int64
		content io.Reader
	}{
		{"oci-layout", int64(len(layout)), strings.NewReader(layout)},
		{"index.json", int64(len(index)), bytes.NewReader(index)},
		{"manifest.json", int64(len(docker)), bytes.NewReader(docker)},
		{manifestBlob.path(), manifestBlob.size, bytes.NewReader(manifest)},
		{configBlob.path(), configBlob.size, bytes.NewReader(config)},
		{layerBlob.path(), layerBlob.size, layer},
	} {
		if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: part.name, Size: part.size, Mode: 0o644, Format: tar.FormatPAX}); err != nil {
			return err
		}
		if _, err := io.Copy(t, part.content); err != nil {
			return err
		}
	}
	return t.Close()
}

const layout = `{"imageLayoutVersion":"1.0.0"}`

// object is JSON, whose keys are written in their order.
type object map[string]any

func descriptor(mediaType string, b blob) object {
	return object{"mediaType": mediaType, "digest": "sha256:" + b.digest, "size": b.size}
}

func configOf(spec Spec, layer blob) object {
	run := object{"User": spec.User, "WorkingDir": spec.WorkingDir, "Env": spec.Env}
	if spec.User == "" {
		run["User"] = fmt.Sprintf("%d:%d", User, User)
	}
	if spec.WorkingDir == "" {
		run["WorkingDir"] = "/"
	}
	if len(spec.Env) == 0 {
		run["Env"] = []string{"PATH=/usr/local/bin:/usr/bin:/bin"}
	}
	if len(spec.Entrypoint) > 0 {
		run["Entrypoint"] = spec.Entrypoint
	}
	if len(spec.Labels) > 0 {
		run["Labels"] = spec.Labels
	}
	return object{
		"architecture": runtime.GOARCH,
		"os":           "linux",
		"created":      "1970-01-01T00:00:00Z",
		"config":       run,
		"rootfs":       object{"type": "layers", "diff_ids": []string{"sha256:" + layer.digest}},
		"history":      []object{{"created": "1970-01-01T00:00:00Z", "created_by": "druid test image"}},
	}
}
