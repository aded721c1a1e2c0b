package desired

import (
	"fmt"
	"strings"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Images are the images of the containers.
type Images struct {
	Wrapper string // of the container etcd
	Sidecar string // of the container backup-restore
	Init    string // of the init container that a local store needs
}

// Input is everything that the objects depend on.
type Input struct {
	Etcd   *druidv1alpha1.Etcd // with its defaults
	Images Images

	Members          int32 // members that the configuration lists
	Replicas         int32 // pods that there shall be; while the cluster grows or shrinks it differs from Members
	PeerTLS          bool  // the scheme of the peer URLs that the configuration names
	PeerCertificates bool  // the pods have the certificates for peers mounted
	MinAvailable     int32 // of the PodDisruptionBudget

	// Owner is what the sidecars claim the prefix of the store with, such as
	// CLUSTER/NAMESPACE/NAME/UID. TakeOver: they write although another owner claimed it.
	Owner    string
	TakeOver bool
	// Token of the sidecars' HTTP API; nil: the Secret that exists stays as it is.
	Token []byte
	// ClaimTemplate is that of the StatefulSet that exists: it cannot be changed. nil: a new one.
	ClaimTemplate *corev1.PersistentVolumeClaim
	// Original: pods of the original still run, with the ServiceAccount.
	Original bool
	// Closed: clients are not to reach the members any more; sidecars are.
	Closed bool
	// AtLeast is a revision that the backups held when the cluster fell asleep: members do not begin with less. 0: not known.
	AtLeast int64
	// LastKnown is a revision that clients may have seen: a restore goes beyond it. 0: the bucket tells enough.
	LastKnown int64
	// OthersLeave: others than those that are listed may still run: nothing is to be begun beside them.
	OthersLeave bool
	// FullFirst: the cluster wakes up, and no member is known to have taken a full since.
	FullFirst bool
	// DisableServiceAccountAutomount of the ServiceAccount. The members' pods do not use it in any
	// case: only the sidecar has a token, which is mounted by name.
	DisableServiceAccountAutomount bool
}

// Owner is in whose name the backups of an Etcd are made, in the cluster whose namespace kube-system has a uid.
func Owner(cluster string, e *druidv1alpha1.Etcd) string {
	return strings.Join([]string{cluster, e.Namespace, e.Name, string(e.UID)}, "/")
}

// DefaultHostPath is the directory of the nodes below which local stores are.
const DefaultHostPath = "/etc/gardener/local-backupbuckets"

// Set is all objects of an Etcd.
type Set struct {
	ServiceAccount      *corev1.ServiceAccount
	Role                *rbacv1.Role
	RoleBinding         *rbacv1.RoleBinding
	Token               *corev1.Secret // nil without Input.Token
	Leases              []*coordinationv1.Lease
	Members             []*druidv1alpha1.EtcdMember
	PodDisruptionBudget *policyv1.PodDisruptionBudget
	ClientService       *corev1.Service
	PeerService         *corev1.Service
	ConfigMap           *corev1.ConfigMap
	StatefulSet         *appsv1.StatefulSet
}

// InOrder are the objects in the order in which they are made: nothing refers to something that
// comes after it.
func (s Set) InOrder() []client.Object {
	all := []client.Object{s.ServiceAccount, s.Role, s.RoleBinding}
	if s.Token != nil {
		all = append(all, s.Token)
	}
	for _, m := range s.Members {
		all = append(all, m)
	}
	for _, l := range s.Leases {
		all = append(all, l)
	}
	return append(all, s.PodDisruptionBudget, s.ClientService, s.PeerService, s.ConfigMap, s.StatefulSet)
}

// Objects makes them. It fails only for what the schema of the Etcd lets through and nothing can be
// made of.
func Objects(in Input) (Set, error) {
	config, err := configMap(in)
	if err != nil {
		return Set{}, err
	}
	set := Set{
		ServiceAccount:      serviceAccount(in),
		Role:                role(in),
		RoleBinding:         roleBinding(in),
		PodDisruptionBudget: podDisruptionBudget(in),
		ClientService:       clientService(in),
		PeerService:         peerService(in),
		ConfigMap:           config,
	}
	if len(in.Token) > 0 {
		set.Token = tokenSecret(in)
	}
	for i := range int(max(in.Members, in.Replicas)) {
		set.Leases = append(set.Leases, memberLease(in.Etcd, i))
		set.Members = append(set.Members, member(in.Etcd, i))
	}
	set.StatefulSet, err = statefulSet(in)
	if err != nil {
		return Set{}, fmt.Errorf("%s: %w", in.Etcd.Name, err)
	}
	return set, nil
}

// meta is the head of an object of the Etcd.
func meta(e *druidv1alpha1.Etcd, component, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name:            name,
		Namespace:       e.Namespace,
		Labels:          e.ObjectLabels(component, name),
		OwnerReferences: []metav1.OwnerReference{e.OwnerReference()},
	}
}

func typeMeta(version, kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: version, Kind: kind}
}

// value is what p points to, or what stands there by default.
func value[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}
