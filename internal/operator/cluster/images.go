package cluster

import (
	"strings"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/operator/desired"
)

// imagesFor are those of the specification, or else the operator's. Those of the original project, which
// know neither our flags nor our files, are replaced by the operator's; replaced names their fields.
func imagesFor(e *druidv1alpha1.Etcd, own desired.Images) (images desired.Images, replaced []string) {
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
		case ofOriginal(*f.image):
			replaced = append(replaced, f.field+" "+*f.image)
		default:
			*f.into = *f.image
		}
	}
	return images, replaced
}

// ofOriginal tells images of the original project, such as
// europe-docker.pkg.dev/gardener-project/public/gardener/etcdbrctl:v0.41.2, by their path: the name
// of the program, and gardener before it.
func ofOriginal(image string) bool {
	path, _, _ := strings.Cut(image, "@")
	if slash := strings.LastIndex(path, "/"); strings.LastIndex(path, ":") > slash {
		path = path[:strings.LastIndex(path, ":")]
	}
	parts := strings.Split(path, "/")
	switch parts[len(parts)-1] {
	case "etcdbrctl", "etcd-backup-restore", "etcd-wrapper", "etcd", "etcd-druid":
	default:
		return false
	}
	for _, p := range parts[:len(parts)-1] {
		if p == "gardener" || p == "gardener-project" {
			return true
		}
	}
	return false
}
