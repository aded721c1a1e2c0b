// Package v1alpha1 holds the resources of the operator: Etcd, EtcdMember, EtcdCopyBackupsTask,
// EtcdOperatorTask and EtcdOpsTask, in the group druid.gardener.cloud and the version v1alpha1.
//
// What the API server checks and fills in stands beside the fields, as markers from which
// `make generate` makes the CustomResourceDefinitions in config/crd/bases and the page
// docs/reference/api.md. Names of objects, labels and annotations are here too, because whoever
// reads the resources needs them as well as whoever makes them.
//
// The package decides nothing and asks nobody. It imports the Kubernetes API types alone.
//
// Fields of a status carry no enumerations: an older definition must never refuse what a newer
// writer reports.
//
// +kubebuilder:object:generate=true
// +groupName=druid.gardener.cloud
package v1alpha1
