package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EtcdConfig is about the etcd process of each member.
//
// +kubebuilder:validation:XValidation:rule="has(oldSelf.bootstrapWithExistingCluster) || !has(self.bootstrapWithExistingCluster)",fieldPath=".bootstrapWithExistingCluster",message="cannot be added later, because the members have a cluster of their own already: make a new Etcd with it"
// +kubebuilder:validation:XValidation:rule="!has(self.additionalAdvertisePeerURLs) || self.additionalAdvertisePeerURLs.all(m, m.urls.all(u, u.startsWith(has(self.peerUrlTls) ? 'https://' : 'http://')))",fieldPath=".additionalAdvertisePeerURLs",message="urls must begin with https:// if peerUrlTls is set, and with http:// if it is not: change the URLs or peerUrlTls"
// +kubebuilder:validation:XValidation:rule="!has(self.bootstrapWithExistingCluster) || self.bootstrapWithExistingCluster.members.all(m, m.peerUrls.all(u, u.startsWith(has(self.peerUrlTls) ? 'https://' : 'http://')))",fieldPath=".bootstrapWithExistingCluster.members",message="peerUrls must begin with https:// if peerUrlTls is set, and with http:// if it is not: change the URLs or peerUrlTls"
// +kubebuilder:validation:XValidation:rule="!has(self.bootstrapWithExistingCluster) || self.bootstrapWithExistingCluster.clientEndpoints.all(u, u.startsWith(has(self.clientUrlTls) ? 'https://' : 'http://'))",fieldPath=".bootstrapWithExistingCluster.clientEndpoints",message="must begin with https:// if clientUrlTls is set, and with http:// if it is not: change the URLs or clientUrlTls"
type EtcdConfig struct {
	// Size of the database at which etcd refuses writes, such as 8Gi. Default: 8Gi.
	// +kubebuilder:validation:XValidation:rule="string(self).matches('^[0-9]{1,15}([.][0-9]{1,9})?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|[eE][0-9]{1,2})?$') && quantity(string(self)).isGreaterThan(quantity('0'))",message="must be a quantity greater than 0, such as 8Gi"
	// +kubebuilder:default="8Gi"
	// +optional
	Quota *resource.Quantity `json:"quota,omitempty"`
	// How many transactions etcd keeps in memory and in its log for slow followers before it writes
	// its own internal snapshot. Nothing to do with backups. Default: 10000.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:default=10000
	// +optional
	SnapshotCount *int64 `json:"snapshotCount,omitempty"`
	// Serve the JSON gateway on the client port. Default: false.
	// +kubebuilder:default=false
	// +optional
	EnableGRPCGateway *bool `json:"enableGRPCGateway,omitempty"`
	// Schedule on which the backup leader checks whether members need defragmentation, in cron's five
	// fields (minute, hour, day of month, month, day of week) or as a word such as @daily; in UTC,
	// unless it begins with CRON_TZ=ZONE and a space. Clock changes are handled as for
	// spec.backup.fullSnapshotSchedule. A member is defragmented only if enough space can be gained.
	// Default: "0 0 */3 * *", every third day. The condition SchedulesValid reports a schedule that is
	// invalid, and the schedule before stays in force.
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="self.matches('^[ ]*((CRON_)?TZ=[^ ]+[ ]+)?(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|@every[ ]+[^ ]+|[-0-9A-Za-z*?,/]+([ ]+[-0-9A-Za-z*?,/]+){4})[ ]*$')",message="must be a schedule of cron: five fields (minute, hour, day of month, month, day of week) such as 30 2 * * *, or a word such as @daily"
	// +kubebuilder:default="0 0 */3 * *"
	// +optional
	DefragmentationSchedule *string `json:"defragmentationSchedule,omitempty"`
	// Port on which members talk to each other. Default: 2380.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +kubebuilder:default=2380
	// +optional
	ServerPort *int32 `json:"serverPort,omitempty"`
	// Port on which clients are served. Default: 2379.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +kubebuilder:default=2379
	// +optional
	ClientPort *int32 `json:"clientPort,omitempty"`
	// Port of etcd's supervisor: readiness and the request to stop. Default: 9095.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +kubebuilder:default=9095
	// +optional
	WrapperPort *int32 `json:"wrapperPort,omitempty"`
	// Image of the container etcd. Default: the operator's own image. An image of the original
	// project, which does not take our flags, is replaced by the operator's; the condition
	// ImagesReplaced and an event say so. It is known by its name, such as etcd-wrapper, wherever it comes from.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Image *string `json:"image,omitempty"`
	// Secret with the keys username and password of the etcd user, with the role root, as which the
	// sidecar connects. Needed once authentication is switched on in this etcd; the operator does
	// not switch it on. The Secret must be in the namespace of the Etcd. Default: none.
	// +optional
	AuthSecretRef *corev1.SecretReference `json:"authSecretRef,omitempty"`
	// Detail of etcd's metrics: basic, or extensive, which adds histograms. Default: basic.
	// +kubebuilder:default=basic
	// +optional
	Metrics *MetricsLevel `json:"metrics,omitempty"`
	// Compute resources of the container etcd. Default: requests of 50m CPU and 128Mi memory, no
	// limits.
	// +kubebuilder:validation:XValidation:rule="[has(self.limits) ? self.limits : {}, has(self.requests) ? self.requests : {}].all(m, m.all(k, !string(m[k]).matches('[eE][-+]?[0-9]{3}')))",message="holds a quantity with an exponent of more than two digits: write it with a suffix, such as 128Mi"
	// +kubebuilder:default={requests: {cpu: "50m", memory: "128Mi"}}
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`
	// TLS of the client port. Default: none, clients talk HTTP. clientTLSSecretRef is needed, because
	// etcd then asks every client for a certificate, the sidecar too.
	// +kubebuilder:validation:XValidation:rule="has(self.clientTLSSecretRef) && has(self.clientTLSSecretRef.name) && size(self.clientTLSSecretRef.name) > 0",fieldPath=".clientTLSSecretRef",reason=FieldValueRequired,message="is required: etcd asks every client for a certificate, the sidecar too; name a Secret with tls.crt and tls.key signed by the CA in tlsCASecretRef"
	// +optional
	ClientUrlTLS *TLSConfig `json:"clientUrlTls,omitempty"`
	// TLS between members. Default: none. Setting or removing it on a running cluster restarts the
	// members in two rounds, so that they can always talk to each other. The certificate of the Secret
	// serverTLSSecretRef must be for servers and for clients, and must name each member's pod in the peer Service,
	// such as etcd-main-0.etcd-main-peer.NAMESPACE.svc or *.etcd-main-peer.NAMESPACE.svc: until it does, a running
	// cluster is not changed to TLS. Members show it as clients, too: clientTLSSecretRef is not read, and the condition
	// FieldsWithoutEffect says so.
	// +optional
	PeerUrlTLS *PeerTLSConfig `json:"peerUrlTls,omitempty"`
	// URLs by which members can be reached from outside, besides the one within this Kubernetes.
	// Default: none.
	// +kubebuilder:validation:MaxItems=10
	// +listType=map
	// +listMapKey=memberName
	// +optional
	AdditionalAdvertisePeerURLs []AdditionalPeerURL `json:"additionalAdvertisePeerURLs,omitempty"`
	// How long the defragmentation of one member may take, such as 15m; above 0. Default: 15m.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+([.][0-9]+)?(ns|us|µs|ms|s|m|h))+$') && duration(self) > duration('0s')",message="must be a duration such as 20s, 5m or 1h30m, above 0"
	// +kubebuilder:default="15m"
	// +optional
	EtcdDefragTimeout *metav1.Duration `json:"etcdDefragTimeout,omitempty"`
	// How often each sidecar renews the Lease of its member, such as 10s; at least 1s. Keep it far below the
	// operator's unknownThreshold, 1m unless configured: members that renew more rarely count as unknown between
	// two renewals, and beyond unknownThreshold and notReadyThreshold, 6m, as lost. Default: 10s.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+([.][0-9]+)?(ns|us|µs|ms|s|m|h))+$') && duration(self) >= duration('1s')",message="must be a duration such as 20s, 5m or 1h30m, of at least 1s"
	// +kubebuilder:default="10s"
	// +optional
	HeartbeatDuration *metav1.Duration `json:"heartbeatDuration,omitempty"`
	// The Service <Etcd>-client.
	// +optional
	ClientService *ClientService `json:"clientService,omitempty"`
	// How etcd's database remembers free pages: array, or map, which is faster with a large and
	// fragmented database. Default: array.
	// +kubebuilder:default=array
	// +optional
	BackendBboltFreelistType *FreelistType `json:"backendBboltFreelistType,omitempty"`
	// Join a cluster that runs elsewhere instead of making a new one: the members are added to it as
	// learners, one after the other, and promoted, so that the cluster can be moved without downtime.
	// Only at creation. As long as it is set no cluster is begun and no backup restored: members that
	// find no data wait for that cluster. The condition BootstrappedWithExistingCluster tells how far it
	// is and what to do next. When it is removed, members outside that are still in the cluster are
	// removed by the sidecars, one at a time. Default: a new cluster.
	// +optional
	BootstrapWithExistingCluster *BootstrapWithExistingCluster `json:"bootstrapWithExistingCluster,omitempty"`
}

// MetricsLevel is the detail of etcd's metrics.
//
// +kubebuilder:validation:Enum=basic;extensive
type MetricsLevel string

// The levels of metrics.
const (
	MetricsBasic     MetricsLevel = "basic"
	MetricsExtensive MetricsLevel = "extensive"
)

// FreelistType says how etcd's database remembers free pages.
//
// +kubebuilder:validation:Enum=array;map
type FreelistType string

// The types of free lists.
const (
	FreelistArray FreelistType = "array"
	FreelistMap   FreelistType = "map"
)

// TLSConfig names the Secrets for TLS on one port. All must be in the namespace of the Etcd.
type TLSConfig struct {
	// Secret with the certificates of the CA that signed the others.
	// +kubebuilder:validation:XValidation:rule="has(self.name) && size(self.name) > 0",fieldPath=".name",reason=FieldValueRequired,message="is required: name the Secret that holds the certificates of the CA"
	// +required
	TLSCASecretRef SecretReference `json:"tlsCASecretRef"`
	// Secret with the server's certificate and key in tls.crt and tls.key.
	// +kubebuilder:validation:XValidation:rule="has(self.name) && size(self.name) > 0",fieldPath=".name",reason=FieldValueRequired,message="is required: name the Secret that holds the server's tls.crt and tls.key"
	// +required
	ServerTLSSecretRef corev1.SecretReference `json:"serverTLSSecretRef"`
	// Secret with a client's certificate and key in tls.crt and tls.key. An empty one counts as
	// absent. Default: none.
	// +optional
	ClientTLSSecretRef *corev1.SecretReference `json:"clientTLSSecretRef,omitempty"`
}

// PeerTLSConfig is TLS between members.
type PeerTLSConfig struct {
	TLSConfig `json:",inline"`
	// Do not check that the address from which a member connects stands in its certificate. Needed
	// where an address is translated on the way. Default: false.
	// +kubebuilder:default=false
	// +optional
	SkipClientSANVerification *bool `json:"skipClientSANVerification,omitempty"`
}

// SecretReference names a Secret and a key in it.
type SecretReference struct {
	corev1.SecretReference `json:",inline"`
	// Key under which the Secret holds what is wanted. Default: ca.crt for certificates of a CA.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	DataKey *string `json:"dataKey,omitempty"`
}

// AdditionalPeerURL is by which URLs one member can be reached from outside.
type AdditionalPeerURL struct {
	// Name of the member: [<memberNamePrefix>-]<Etcd>-<index>, the index lower than replicas.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +required
	MemberName string `json:"memberName"`
	// Its URLs, which etcd advertises to the other members besides the one within this Kubernetes.
	// https:// if peerUrlTls is set, otherwise http://.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=5
	// +kubebuilder:validation:items:MaxLength=512
	// +kubebuilder:validation:items:XValidation:rule="isURL(self) && (self.startsWith('http://') || self.startsWith('https://'))",message="must be a URL that begins with http:// or https://, such as https://etcd-main-0.example.org:2380"
	// +required
	URLs []string `json:"urls"`
}

// ClientService is what can be chosen about the Service for clients.
type ClientService struct {
	// Annotations of the Service. Default: none.
	// +kubebuilder:validation:MaxProperties=256
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
	// Labels of the Service besides those that the operator sets, which win. Default: none.
	// +kubebuilder:validation:MaxProperties=256
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// Which members clients are sent to by preference: PreferSameZone, PreferSameNode, or PreferClose,
	// the old name of PreferSameZone. Default: any.
	// +kubebuilder:validation:Enum=PreferSameZone;PreferSameNode;PreferClose
	// +optional
	TrafficDistribution *string `json:"trafficDistribution,omitempty"`
}

// BootstrapWithExistingCluster is the cluster that the members join.
type BootstrapWithExistingCluster struct {
	// The members of the existing cluster, all of them. A cluster that lists none of them is not
	// joined.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=10
	// +listType=map
	// +listMapKey=name
	// +required
	Members []ExistingMember `json:"members"`
	// URLs on which the existing cluster serves clients; one that answers is enough. https:// if
	// clientUrlTls is set, otherwise http://; the Secrets named there must be good for them.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=10
	// +kubebuilder:validation:items:MaxLength=512
	// +kubebuilder:validation:items:XValidation:rule="isURL(self) && (self.startsWith('http://') || self.startsWith('https://'))",message="must be a URL that begins with http:// or https://, such as https://etcd.example.org:2379"
	// +required
	ClientEndpoints []string `json:"clientEndpoints"`
}

// ExistingMember is a member of a cluster that runs elsewhere.
type ExistingMember struct {
	// Name that the member has in its cluster. It must not be a name that a member of this Etcd gets.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +required
	Name string `json:"name"`
	// URLs by which the member advertises itself to other members. https:// if peerUrlTls is set,
	// otherwise http://.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=5
	// +kubebuilder:validation:items:MaxLength=512
	// +kubebuilder:validation:items:XValidation:rule="isURL(self) && (self.startsWith('http://') || self.startsWith('https://'))",message="must be a URL that begins with http:// or https://, such as https://etcd-0.example.org:2380"
	// +required
	PeerURLs []string `json:"peerUrls"`
}
