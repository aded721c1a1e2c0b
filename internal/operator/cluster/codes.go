package cluster

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
)

// The codes of errors in status.lastErrors, besides those of objects: ERR_SYNC_STATEFULSET and so on,
// as the original has them.
const (
	codeObserve    druidv1alpha1.ErrorCode = "ERR_OBSERVE"           // what is there could not be read
	codeDecide     druidv1alpha1.ErrorCode = "ERR_SPECIFICATION"     // nothing can be made of the specification
	codeRefused    druidv1alpha1.ErrorCode = "ERR_REFUSED"           // what the specification wants is not done
	codeRemount    druidv1alpha1.ErrorCode = "ERR_REMOUNT_CONFIGMAP" // a pod could not be told of a change
	codeAdopt      druidv1alpha1.ErrorCode = "ERR_TAKE_OVER"         // a cluster of the original could not be taken over
	codeReplacePod druidv1alpha1.ErrorCode = "ERR_REPLACE_POD"
	codeVolumes    druidv1alpha1.ErrorCode = "ERR_VOLUMES" // a step about the volumes could not be taken
)

// components are the words of the codes, by the label of the object.
var components = map[string]string{
	druidv1alpha1.ComponentServiceAccount:      "SERVICE_ACCOUNT",
	druidv1alpha1.ComponentRole:                "ROLE",
	druidv1alpha1.ComponentRoleBinding:         "ROLE_BINDING",
	druidv1alpha1.ComponentSidecarToken:        "SIDECAR_TOKEN",
	druidv1alpha1.ComponentMember:              "MEMBER",
	druidv1alpha1.ComponentMemberLease:         "MEMBER_LEASE",
	druidv1alpha1.ComponentSnapshotLease:       "SNAPSHOT_LEASE",
	druidv1alpha1.ComponentPodDisruptionBudget: "POD_DISRUPTION_BUDGET",
	druidv1alpha1.ComponentClientService:       "CLIENT_SERVICE",
	druidv1alpha1.ComponentPeerService:         "PEER_SERVICE",
	druidv1alpha1.ComponentConfigMap:           "CONFIGMAP",
	druidv1alpha1.ComponentStatefulSet:         "STATEFULSET",
	druidv1alpha1.ComponentHibernationTask:     "HIBERNATION_TASK",
	druidv1alpha1.ComponentCollectionTask:      "COLLECTION_TASK",
}

// codeOf is the code of an error with an object; what is SYNC or DELETE.
func codeOf(what string, o client.Object) druidv1alpha1.ErrorCode {
	word, ok := components[o.GetLabels()[druidv1alpha1.LabelComponent]]
	if !ok {
		word = "OBJECT"
	}
	return druidv1alpha1.ErrorCode("ERR_" + what + "_" + word)
}
