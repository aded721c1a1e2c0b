package desired

import (
	"slices"
	"strings"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
)

// ImagesFor are those of the specification, or else the operator's. Those of the original project, which
// know neither our flags nor our files, are replaced by the operator's; replaced names their fields.
func ImagesFor(e *druidv1alpha1.Etcd, own Images) (images Images, replaced []string) {
	images = own
	for _, f := range []struct {
		field string
		image *string
		into  *string
	}{
		{"spec.etcd.image", e.Spec.Etcd.Image, &images.Wrapper},
		{"spec.backup.image", e.Spec.Backup.Image, &images.Sidecar},
	} {
		switch {
		case f.image == nil || *f.image == "":
		case imageOfOriginal(*f.image, own):
			replaced = append(replaced, f.field+" "+*f.image)
		default:
			*f.into = *f.image
		}
	}
	return images, replaced
}

// imageOfOriginal tells images of the original project, such as
// europe-docker.pkg.dev/gardener-project/public/gardener/etcdbrctl:v0.41.2, by the name of the program. Mirrors keep
// that and change the path. A name that others use as well counts with gardener in the path alone, and none does of
// the repositories that the operator's own images are in.
func imageOfOriginal(image string, own Images) bool {
	path := repository(image)
	for _, ours := range []string{own.Wrapper, own.Sidecar, own.Init} {
		if path == repository(ours) {
			return false
		}
	}
	parts := strings.Split(path, "/")
	switch parts[len(parts)-1] {
	case "etcdbrctl", "etcd-backup-restore", "etcd-wrapper":
		return true
	case "etcd", "etcd-druid":
		return slices.ContainsFunc(parts[:len(parts)-1], func(p string) bool { return p == "gardener" || p == "gardener-project" })
	}
	return false
}

// repository is an image without its tag and digest.
func repository(image string) string {
	path, _, _ := strings.Cut(image, "@")
	if slash := strings.LastIndex(path, "/"); strings.LastIndex(path, ":") > slash {
		path = path[:strings.LastIndex(path, ":")]
	}
	return path
}
