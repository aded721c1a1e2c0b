package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Group and Version of the resources, and their kinds.
const (
	Group   = "druid.gardener.cloud"
	Version = "v1alpha1"

	KindEtcd                = "Etcd"
	KindEtcdMember          = "EtcdMember"
	KindEtcdCopyBackupsTask = "EtcdCopyBackupsTask"
	KindEtcdOperatorTask    = "EtcdOperatorTask"
	KindEtcdOpsTask         = "EtcdOpsTask"
)

// GroupVersion of all resources here.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: Group, Version: Version}
}

// Kind of a resource here, with group and version.
func Kind(kind string) schema.GroupVersionKind { return GroupVersion().WithKind(kind) }

// Resource in the plural, such as "etcds", with its group.
func Resource(plural string) schema.GroupResource {
	return schema.GroupResource{Group: Group, Resource: plural}
}

// AddToScheme makes the resources known to a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion(),
		&Etcd{}, &EtcdList{},
		&EtcdMember{}, &EtcdMemberList{},
		&EtcdCopyBackupsTask{}, &EtcdCopyBackupsTaskList{},
		&EtcdOperatorTask{}, &EtcdOperatorTaskList{},
		&EtcdOpsTask{}, &EtcdOpsTaskList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion())
	return nil
}
