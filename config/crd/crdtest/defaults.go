package crdtest

import (
	_ "embed"
	"fmt"

	"sigs.k8s.io/yaml"
)

//go:embed defaults.yaml
var defaults []byte

// Defaulted is the minimal Etcd, and one with every optional part that has defaults of its own, as
// an API server stores them.
func Defaulted() (minimal, parts map[string]any, err error) {
	var both struct{ Minimal, Parts map[string]any }
	if err := yaml.UnmarshalStrict(defaults, &both); err != nil {
		return nil, nil, fmt.Errorf("defaults.yaml: %w", err)
	}
	return whole(both.Minimal).(map[string]any), whole(both.Parts).(map[string]any), nil
}

// Parts is the minimal Etcd with the optional parts that have defaults of their own, each as empty
// as may be.
func Parts() map[string]any {
	object := Minimal("etcds")
	Set{
		"metadata.name":              "etcd-parts",
		"spec.sharedConfig":          `{}`,
		"spec.etcd.peerUrlTls":       tls,
		"spec.etcd.clientService":    `{}`,
		"spec.etcd.resources":        `{limits: {cpu: 1}}`,
		"spec.backup.resources":      `{}`,
		"spec.backup.compression":    `{policy: gzip}`,
		"spec.backup.store":          `{container: bucket, prefix: a, provider: aws}`,
		"spec.backup.leaderElection": `{reelectionPeriod: 2s}`,
	}.apply(object)
	return object
}
