package open

import (
	"fmt"
	"slices"
	"strings"
)

// Provider is the canonical name of a kind of store.
type Provider string

// The providers. The last four are recognised but not yet in this build.
const (
	S3    Provider = "S3"
	ECS   Provider = "ECS"
	OCS   Provider = "OCS"
	Local Provider = "Local"
	ABS   Provider = "ABS"
	GCS   Provider = "GCS"
	Swift Provider = "Swift"
	OSS   Provider = "OSS"
)

// names are what each provider is called by the original: on its command line, in Etcd
// resources, by Gardener.
var names = []struct {
	provider Provider
	names    []string
	built    bool
}{
	{S3, []string{"S3", "s3", "aws", "stackit"}, true},
	{ECS, []string{"ECS", "ecs", "dell"}, true},
	{OCS, []string{"OCS", "ocs", "openshift"}, true},
	{Local, []string{"Local", "local"}, true},
	{ABS, []string{"ABS", "abs", "azure"}, true},
	{GCS, []string{"GCS", "gcs", "gcp"}, true},
	{Swift, []string{"Swift", "swift", "openstack"}, true},
	{OSS, []string{"OSS", "oss", "alicloud"}, false},
}

// ParseProvider recognises the names of the original and fails, with those that work, where a
// name is unknown or its provider not yet in this build.
func ParseProvider(name string) (Provider, error) {
	if name == "" {
		return "", fmt.Errorf("no storage provider is named (--storage-provider): use one of %s", Supported())
	}
	for _, n := range names {
		if !slices.Contains(n.names, name) {
			continue
		}
		if !n.built {
			return "", fmt.Errorf("storage provider %s is not yet in this build: use one of %s", n.provider, Supported())
		}
		return n.provider, nil
	}
	return "", fmt.Errorf("storage provider %q is unknown (--storage-provider): use one of %s", name, Supported())
}

// Supported lists what is in this build, without the other names of each.
func Supported() string {
	var all []string
	for _, n := range names {
		if n.built {
			all = append(all, n.names[0])
		}
	}
	return strings.Join(all, ", ")
}
