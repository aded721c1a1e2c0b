package open

import (
	"fmt"
	"slices"
	"strings"
)

// Provider is the canonical name of a kind of store.
type Provider string

// The providers.
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
}{
	{S3, []string{"S3", "s3", "aws", "stackit"}},
	{ECS, []string{"ECS", "ecs", "dell"}},
	{OCS, []string{"OCS", "ocs", "openshift"}},
	{Local, []string{"Local", "local"}},
	{ABS, []string{"ABS", "abs", "azure"}},
	{GCS, []string{"GCS", "gcs", "gcp"}},
	{Swift, []string{"Swift", "swift", "openstack"}},
	{OSS, []string{"OSS", "oss", "alicloud"}},
}

// ParseProvider recognises the names of the original and fails, with those that work, where a
// name is unknown.
func ParseProvider(name string) (Provider, error) {
	if name == "" {
		return "", fmt.Errorf("no storage provider is named (--storage-provider): use one of %s", Supported())
	}
	for _, n := range names {
		if slices.Contains(n.names, name) {
			return n.provider, nil
		}
	}
	return "", fmt.Errorf("storage provider %q is unknown (--storage-provider): use one of %s", name, Supported())
}

// Supported lists the providers, without the other names of each.
func Supported() string {
	var all []string
	for _, n := range names {
		all = append(all, n.names[0])
	}
	return strings.Join(all, ", ")
}
