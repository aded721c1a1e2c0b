package desired

import (
	"testing"
)

// Whoever mirrors the original's images keeps the names of the programs, and seldom the path.
func TestImagesOfTheOriginalAreReplacedWhereverTheyComeFrom(t *testing.T) {
	own := Images{Wrapper: "registry.local/etcd-druid:v1", Sidecar: "registry.local/etcd-druid:v1", Init: "registry.local/etcd-druid:v1"}
	named := Images{Wrapper: "registry.local/ours/etcd-wrapper:v1", Sidecar: "registry.local:5000/ours/etcdbrctl:v1"}
	for phrase, c := range map[string]struct {
		image    string
		own      Images
		replaced bool
	}{
		"as the original names its wrapper":    {"europe-docker.pkg.dev/gardener-project/public/gardener/etcd-wrapper:v0.8.0", own, true},
		"its sidecar, by digest":               {"europe-docker.pkg.dev/gardener-project/releases/gardener/etcdbrctl@sha256:0123", own, true},
		"an old etcd of it":                    {"eu.gcr.io/gardener-project/gardener/etcd:v3.4.13", own, true},
		"its operator":                         {"europe-docker.pkg.dev/gardener-project/public/gardener/etcd-druid:v0.30.0", own, true},
		"a mirror without the path":            {"registry.example.org/etcd-wrapper:v0.8.0", own, true},
		"a mirror with another path":           {"mirror.corp:5000/keppel/etcdbrctl:v0.43.0", own, true},
		"a mirror of the former name":          {"mirror.corp/etcd-backup-restore:v0.20.0", own, true},
		"without a registry":                   {"etcdbrctl", own, true},
		"ours":                                 {"registry.local/etcd-druid:v1", own, false},
		"ours from elsewhere":                  {"mirror.corp/etcd-druid:v2", own, false},
		"another etcd":                         {"quay.io/coreos/etcd:v3.6.0", own, false},
		"somebody's own":                       {"registry.example.org/team/etcd-with-tools:1", own, false},
		"ours under the name of the original":  {"registry.local/ours/etcd-wrapper:v2", named, false},
		"ours under its name, with a port":     {"registry.local:5000/ours/etcdbrctl@sha256:0123", named, false},
		"the original's beside ours so named":  {"mirror.corp/etcd-wrapper:v0.8.0", named, true},
		"a registry that is named as the tool": {"etcdbrctl:5000/tools:1", own, false},
	} {
		e := etcd(nil)
		e.Spec.Etcd.Image, e.Spec.Backup.Image = &c.image, &c.image
		images, replaced := ImagesFor(e, c.own)
		if got := len(replaced) == 2; got != c.replaced || got != (images.Wrapper == c.own.Wrapper && images.Sidecar == c.own.Sidecar) && c.image != c.own.Wrapper {
			t.Errorf("%s: replaced %q, taken %+v; want that it is replaced: %t", phrase, replaced, images, c.replaced)
		}
	}
}
