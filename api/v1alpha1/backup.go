package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BackupSpec is about the sidecar of each member and the backups it makes.
//
// +kubebuilder:validation:XValidation:rule="!has(self.deltaSnapshotPeriod) || !has(self.garbageCollectionPeriod) || duration(self.garbageCollectionPeriod) <= duration('1s') || duration(self.deltaSnapshotPeriod) < duration(self.garbageCollectionPeriod)",fieldPath=".deltaSnapshotPeriod",message="must be shorter than garbageCollectionPeriod: shorten the one or lengthen the other, or switch the collection off with garbageCollectionPeriod: 0s"
// +kubebuilder:validation:XValidation:rule="!has(self.compactionResources) || !has(self.snapshotCompaction) || !has(self.snapshotCompaction.resources)",fieldPath=".compactionResources",message="is the old name of snapshotCompaction.resources, which is set too: remove compactionResources"
type BackupSpec struct {
	// Port of the sidecar's HTTP API. Default: 8080.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +kubebuilder:default=8080
	// +optional
	Port *int32 `json:"port,omitempty"`
	// TLS of the sidecar's HTTP API. Default: none.
	// +optional
	TLS *TLSConfig `json:"tls,omitempty"`
	// Image of the container backup-restore, and of the Jobs that look after backups. Default: the operator's own image, than
	// which no other may be older: programs refuse flags, and keys of their configuration, that they do not know. An image of the
	// original project, which does not take our flags, is replaced by the operator's; the condition
	// ImagesReplaced and an event say so. It is known by its name, such as etcdbrctl, wherever it comes from.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Image *string `json:"image,omitempty"`
	// Where the backups are. Default: no backups.
	// +optional
	Store *StoreSpec `json:"store,omitempty"`
	// Compute resources of the container backup-restore. Default: requests of 50m CPU and 128Mi
	// memory, no limits.
	// +kubebuilder:validation:XValidation:rule="[has(self.limits) ? self.limits : {}, has(self.requests) ? self.requests : {}].all(m, m.all(k, !string(m[k]).matches('[eE][-+]?[0-9]{3}')))",message="holds a quantity with an exponent of more than two digits: write it with a suffix, such as 128Mi"
	// +kubebuilder:default={requests: {cpu: "50m", memory: "128Mi"}}
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`
	// Deprecated: the old name of snapshotCompaction.resources, and the same as that. Only one of
	// both may be set.
	// +kubebuilder:validation:XValidation:rule="[has(self.limits) ? self.limits : {}, has(self.requests) ? self.requests : {}].all(m, m.all(k, !string(m[k]).matches('[eE][-+]?[0-9]{3}')))",message="holds a quantity with an exponent of more than two digits: write it with a suffix, such as 128Mi"
	// +optional
	CompactionResources *corev1.ResourceRequirements `json:"compactionResources,omitempty"`
	// When the deltas since the last full snapshot are merged into a new one by a Job. Until the
	// operator has a controller for that, the condition FieldsWithoutEffect names these fields.
	// +optional
	SnapshotCompaction *SnapshotCompactionSpec `json:"snapshotCompaction,omitempty"`
	// Schedule of full snapshots, in cron's five fields (minute, hour, day of month, month, day of
	// week) or as a word such as @daily; in UTC, unless it begins with CRON_TZ=ZONE and a space. Where
	// clocks change, a run whose local time is skipped comes at the change, and a run whose local time
	// comes twice is made once. Default: "0 0 * * *", daily at midnight. The condition SchedulesValid
	// reports a schedule that is invalid, and the schedule before stays in force.
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="self.matches('^[ ]*((CRON_)?TZ=[^ ]+[ ]+)?(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|@every[ ]+[^ ]+|[-0-9A-Za-z*?,/]+([ ]+[-0-9A-Za-z*?,/]+){4})[ ]*$')",message="must be a schedule of cron: five fields (minute, hour, day of month, month, day of week) such as 30 2 * * *, or a word such as @daily"
	// +kubebuilder:default="0 0 * * *"
	// +optional
	FullSnapshotSchedule *string `json:"fullSnapshotSchedule,omitempty"`
	// Which full snapshots are kept: LimitBased keeps the newest maxBackupsLimitBasedGC; Exponential
	// keeps all of the current hour, the last of each hour today, of each of the last 7 days and of
	// each of the 4 weeks before. The newest restorable backup, what a lock in the bucket protects,
	// and a full snapshot that a kept delta builds on stay whatever the policy says.
	// Default: LimitBased.
	// +kubebuilder:default=LimitBased
	// +optional
	GarbageCollectionPolicy *GarbageCollectionPolicy `json:"garbageCollectionPolicy,omitempty"`
	// How many full snapshots LimitBased keeps, the newest included. Default: 30.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	// +kubebuilder:default=30
	// +optional
	MaxBackupsLimitBasedGC *int32 `json:"maxBackupsLimitBasedGC,omitempty"`
	// How often old backups are deleted, such as 12h. Up to 1s: never. Default: 12h.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+([.][0-9]+)?(ns|us|µs|ms|s|m|h))+$') && duration(self) >= duration('0s')",message="must be a duration such as 20s, 5m or 1h30m"
	// +kubebuilder:default="12h"
	// +optional
	GarbageCollectionPeriod *metav1.Duration `json:"garbageCollectionPeriod,omitempty"`
	// How often what changed is uploaded, such as 5m: the longest time whose changes are lost with
	// all volumes. Less than 1s: never, only full snapshots. Shorter than garbageCollectionPeriod.
	// Default: 20s.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+([.][0-9]+)?(ns|us|µs|ms|s|m|h))+$') && duration(self) >= duration('0s')",message="must be a duration such as 20s, 5m or 1h30m"
	// +kubebuilder:default="20s"
	// +optional
	DeltaSnapshotPeriod *metav1.Duration `json:"deltaSnapshotPeriod,omitempty"`
	// How much the changes may have grown before they are uploaded without waiting for
	// deltaSnapshotPeriod, such as 100Mi. Default: 100Mi.
	// +kubebuilder:validation:XValidation:rule="string(self).matches('^[0-9]{1,15}([.][0-9]{1,9})?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|[eE][0-9]{1,2})?$') && quantity(string(self)).isGreaterThan(quantity('0'))",message="must be a quantity greater than 0, such as 100Mi"
	// +kubebuilder:default="100Mi"
	// +optional
	DeltaSnapshotMemoryLimit *resource.Quantity `json:"deltaSnapshotMemoryLimit,omitempty"`
	// How long deltas of earlier full snapshots are kept, such as 96h: within this time any revision
	// can be restored. The full snapshot they build on is kept with them. Default: 96h.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+([.][0-9]+)?(ns|us|µs|ms|s|m|h))+$') && duration(self) >= duration('0s')",message="must be a duration such as 20s, 5m or 1h30m"
	// +kubebuilder:default="96h"
	// +optional
	DeltaSnapshotRetentionPeriod *metav1.Duration `json:"deltaSnapshotRetentionPeriod,omitempty"`
	// How snapshots are compressed.
	// +kubebuilder:default={}
	// +optional
	Compression *CompressionSpec `json:"compression,omitempty"`
	// How deltas are written: native, or v2-json, which the original project can read if it can read
	// the compression too. Both are always read, and a bucket may hold both. Full snapshots are files
	// that etcd itself can restore in either case. Default: native.
	// +kubebuilder:default=native
	// +optional
	SnapshotFormat *SnapshotFormat `json:"snapshotFormat,omitempty"`
	// Serve Go's profiles under /debug/pprof/ of the sidecar's HTTP API. Default: false.
	// +kubebuilder:default=false
	// +optional
	EnableProfiling *bool `json:"enableProfiling,omitempty"`
	// Time after which a full snapshot ends of which nothing moves, neither from etcd nor to the store, such as
	// 15m; above 0. A full snapshot that moves may take longer. The operator waits so long for the answer to one
	// that it asked for, and counts with it for locks and for overdue backups: set it above the time that a full
	// snapshot takes. Default: 15m.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+([.][0-9]+)?(ns|us|µs|ms|s|m|h))+$') && duration(self) > duration('0s')",message="must be a duration such as 20s, 5m or 1h30m, above 0"
	// +kubebuilder:default="15m"
	// +optional
	EtcdSnapshotTimeout *metav1.Duration `json:"etcdSnapshotTimeout,omitempty"`
	// How the sidecars find out which of them makes the backups: that of etcd's leader.
	// +kubebuilder:default={}
	// +optional
	LeaderElection *LeaderElectionSpec `json:"leaderElection,omitempty"`
}

// GarbageCollectionPolicy says which full snapshots are kept.
//
// +kubebuilder:validation:Enum=Exponential;LimitBased
type GarbageCollectionPolicy string

// The policies.
const (
	GarbageCollectionExponential GarbageCollectionPolicy = "Exponential"
	GarbageCollectionLimitBased  GarbageCollectionPolicy = "LimitBased"
)

// SnapshotFormat is the encoding of deltas.
//
// +kubebuilder:validation:Enum=native;v2-json
type SnapshotFormat string

// The formats.
const (
	SnapshotFormatNative SnapshotFormat = "native"
	SnapshotFormatV2JSON SnapshotFormat = "v2-json"
)

// CompressionSpec says how snapshots are compressed. Objects that are in the bucket already are
// read whatever they were compressed with.
type CompressionSpec struct {
	// Compress snapshots. Default: true.
	// +kubebuilder:default=true
	// +optional
	Enabled *bool `json:"enabled,omitempty"`
	// With what: zstd, gzip, lzw or zlib. zstd is the fastest and smallest, but the original project
	// can read none of the snapshots written with it: choose gzip, together with snapshotFormat:
	// v2-json, as long as you may want to go back. Default: zstd.
	// +kubebuilder:default=zstd
	// +optional
	Policy *CompressionPolicy `json:"policy,omitempty"`
}

// CompressionPolicy is the algorithm of compression.
//
// +kubebuilder:validation:Enum=zstd;gzip;lzw;zlib
type CompressionPolicy string

// The algorithms.
const (
	CompressionZstd CompressionPolicy = "zstd"
	CompressionGzip CompressionPolicy = "gzip"
	CompressionLZW  CompressionPolicy = "lzw"
	CompressionZlib CompressionPolicy = "zlib"
)

// SnapshotCompactionSpec is about the Job that merges deltas into a new full snapshot.
type SnapshotCompactionSpec struct {
	// Compute resources of the Job. Default: requests of 600m CPU and 3Gi memory, no limits.
	// +kubebuilder:validation:XValidation:rule="[has(self.limits) ? self.limits : {}, has(self.requests) ? self.requests : {}].all(m, m.all(k, !string(m[k]).matches('[eE][-+]?[0-9]{3}')))",message="holds a quantity with an exponent of more than two digits: write it with a suffix, such as 128Mi"
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`
	// How many events the deltas must hold before they are merged. Default: that of the operator's
	// configuration, 1000000.
	// +kubebuilder:validation:Minimum=1
	// +optional
	EventsThreshold *int64 `json:"eventsThreshold,omitempty"`
	// How many events the deltas must hold before a full snapshot is made of the running cluster
	// instead. Default: that of the operator's configuration, 3000000.
	// +kubebuilder:validation:Minimum=1
	// +optional
	TriggerFullSnapshotThreshold *int64 `json:"triggerFullSnapshotThreshold,omitempty"`
}

// LeaderElectionSpec says how the sidecars look for etcd's leader.
type LeaderElectionSpec struct {
	// How often each sidecar asks its etcd who leads, and with it whether it is the one that makes the backups, such as 5s; at least
	// 100ms, and what is above 30s counts as 30s. A sidecar that cannot tell goes on for three times as long. Default: 1s.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+([.][0-9]+)?(ns|us|µs|ms|s|m|h))+$') && duration(self) >= duration('100ms')",message="must be a duration such as 20s, 5m or 1h30m, of at least 100ms"
	// +kubebuilder:default="1s"
	// +optional
	ReelectionPeriod *metav1.Duration `json:"reelectionPeriod,omitempty"`
	// How long the connection for that may take, such as 5s; above 0. Default: 5s.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+([.][0-9]+)?(ns|us|µs|ms|s|m|h))+$') && duration(self) > duration('0s')",message="must be a duration such as 20s, 5m or 1h30m, above 0"
	// +kubebuilder:default="5s"
	// +optional
	EtcdConnectionTimeout *metav1.Duration `json:"etcdConnectionTimeout,omitempty"`
}

// StoreSpec says where backups are.
//
// +kubebuilder:validation:XValidation:rule="has(self.provider)",fieldPath=".provider",reason=FieldValueRequired,message="is required: name the provider of the object store, such as aws, azure, gcp, openstack, alicloud or local; for no backups leave store out"
// +kubebuilder:validation:XValidation:rule="has(self.container) || !has(self.provider) || self.provider in ['local', 'Local']",fieldPath=".container",reason=FieldValueRequired,message="is required: name the bucket or container"
// +kubebuilder:validation:XValidation:rule="!has(self.immutability) || !has(self.provider) || !(self.provider in ['openstack', 'Swift', 'swift'])",fieldPath=".immutability",message="OpenStack Swift cannot lock objects, so nothing keeps backups there from being deleted; use a bucket of another provider, or leave immutability out"
// +kubebuilder:validation:XValidation:rule="!has(self.immutability) || !has(self.provider) || !(self.provider in ['local', 'Local'])",fieldPath=".immutability",message="a directory of a node cannot be locked against who may write there; use an object store, or leave immutability out"
// +kubebuilder:validation:XValidation:rule="!has(self.immutability) || !has(self.immutability.retentionType) || self.immutability.retentionType != 'object' || !has(self.provider) || !(self.provider in ['alicloud', 'OSS', 'oss'])",fieldPath=".immutability.retentionType",message="Alibaba OSS locks by the bucket's policy alone; use the type bucket, and make the policy with etcdbrctl bucket ensure"
// +kubebuilder:validation:XValidation:rule="!has(self.roles) || !has(self.provider) || !(self.provider in ['local', 'Local'])",fieldPath=".roles",message="a directory of a node is reached without credentials, so roles separate nothing; use an object store, or leave roles out"
// +kubebuilder:validation:XValidation:rule="!has(self.roles) || !has(self.provider) || !(self.provider in ['openstack', 'Swift', 'swift'])",fieldPath=".roles",message="whoever may write to OpenStack Swift may also delete there, so roles separate nothing; use a bucket of another provider, or leave roles out"
// +kubebuilder:validation:XValidation:rule="!has(self.roles) || !has(self.roles.collectorSecretRef) || !has(self.secretRef) || !has(self.secretRef.name) || self.roles.collectorSecretRef.name != self.secretRef.name",fieldPath=".roles.collectorSecretRef",message="is the Secret of the members, too: another identity needs another Secret"
// +kubebuilder:validation:XValidation:rule="!has(self.roles) || !has(self.roles.extenderSecretRef) || !has(self.secretRef) || !has(self.secretRef.name) || self.roles.extenderSecretRef.name != self.secretRef.name",fieldPath=".roles.extenderSecretRef",message="is the Secret of the members, too: another identity needs another Secret"
// +kubebuilder:validation:XValidation:rule="!has(self.roles) || !has(self.roles.excluderSecretRef) || !has(self.secretRef) || !has(self.secretRef.name) || self.roles.excluderSecretRef.name != self.secretRef.name",fieldPath=".roles.excluderSecretRef",message="is the Secret of the members, too: another identity needs another Secret"
// +kubebuilder:validation:XValidation:rule="!has(self.serverSideEncryption) || !has(self.provider) || self.provider in ['aws', 'S3', 's3', 'stackit', 'dell', 'ECS', 'ecs', 'openshift', 'OCS', 'ocs']",fieldPath=".serverSideEncryption",message="is a setting of the S3 protocol; remove it, and set encryption up at the provider"
type StoreSpec struct {
	// Name of the bucket or container, which must exist. With the provider local: of a directory, and
	// optional.
	// +kubebuilder:validation:MinLength=3
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-zA-Z0-9][a-zA-Z0-9._-]*[a-zA-Z0-9]$')",message="must hold letters, digits, dots, underscores and hyphens alone, and begin and end with a letter or digit"
	// +optional
	Container *string `json:"container,omitempty"`
	// URL of the object store, for stores that are not where the provider's own are. Default: the
	// provider's.
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="isURL(self) && (self.startsWith('http://') || self.startsWith('https://'))",message="must be a URL that begins with http:// or https://, such as https://minio.example.org:9000"
	// +optional
	EndpointOverride *string `json:"endpointOverride,omitempty"`
	// How the bucket keeps backups from being deleted. Without it the bucket counts as one from which they
	// can be deleted: no condition watches over locks, although status.backup tells of those that there are.
	// May be removed again: what is locked stays so until its lock ends, and the condition BackupsProtected
	// says when that is. Backups that can be deleted need another bucket, to which an EtcdCopyBackupsTask
	// copies. In such a task it counts for the target alone, and only with the retentionType object, by which
	// each copy is locked; the task says so of others.
	// +optional
	Immutability *ImmutabilitySpec `json:"immutability,omitempty"`
	// Path within the bucket under which the backups are, as <prefix>/v2/. Two clusters must never
	// have the same: the sidecar of the second refuses to write. May be empty. Doubled and trailing slashes
	// are dropped; a leading slash is part of the keys. At most 512 bytes.
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="size(bytes(self)) <= 512",message="must have at most 512 bytes"
	// +kubebuilder:validation:XValidation:rule="self.matches(r'^[\\pL\\pM\\pN\\pP\\pS ]*$') && !self.contains('\\\\')",message="must contain no control characters, invisible characters or backslashes"
	// +kubebuilder:validation:XValidation:rule="!self.matches('(^|/) | (/|$)')",message="must have no element that begins or ends with a space"
	// +kubebuilder:validation:XValidation:rule="!('/' + self + '/').contains('/../')",message="must have no element '..': write the path without it"
	// +kubebuilder:validation:XValidation:rule="!self.matches(r'^/(\\.?/)*\\.?$')",message="must name a path: leave it empty for the root of the bucket"
	// +required
	Prefix string `json:"prefix"`
	// Who the object store is of: aws or S3, azure or ABS, gcp or GCS, openstack or Swift, alicloud
	// or OSS, dell or ECS, openshift or OCS, stackit, or local, which is a directory of the node.
	// Required.
	// +optional
	Provider *StorageProvider `json:"provider,omitempty"`
	// Who does what the pods beside etcd need not be able to do. Each role that is named is taken by Jobs with
	// credentials of their own; the sidecars then do not do it, and their own credentials (secretRef) need no
	// right to it. Of an Etcd alone. Default: the sidecars collect, and secretRef extends and excludes.
	// +optional
	Roles *StoreRoles `json:"roles,omitempty"`
	// Secret with the credentials. Must be in the namespace of the Etcd. Default: the identity that
	// the cloud gives the pods. Of a local store it is not read, and the condition FieldsWithoutEffect of the Etcd, or
	// Succeeded of the task, says so: the original takes the directory from its key hostPath, by which whoever may write a Secret could have any
	// directory of a node mounted. Here it is below /etc/gardener/local-backupbuckets.
	// +optional
	SecretRef *corev1.SecretReference `json:"secretRef,omitempty"`
	// Server-side encryption that each upload requests, for buckets that deny uploads without it. For the
	// providers of the S3 protocol only: aws, dell, openshift and stackit. In an EtcdCopyBackupsTask it has an effect in
	// targetStore only. Default: serverSideEncryption and kmsKeyID of the Secret; without these none is
	// requested, and the bucket's default encryption applies.
	// +optional
	ServerSideEncryption *ServerSideEncryption `json:"serverSideEncryption,omitempty"`
}

// ServerSideEncryption is the server-side encryption that uploads request from S3.
//
// +kubebuilder:validation:XValidation:rule="self.algorithm != 'AES256' || !has(self.kmsKeyID)",fieldPath=".kmsKeyID",message="only goes with the algorithm aws:kms or aws:kms:dsse; AES256 takes no key"
type ServerSideEncryption struct {
	// Algorithm of the encryption. AES256: keys that the store manages (SSE-S3). aws:kms: a key of the
	// store's key management service (SSE-KMS). aws:kms:dsse: the same, encrypted twice.
	// +required
	Algorithm EncryptionAlgorithm `json:"algorithm"`
	// Key of aws:kms or aws:kms:dsse: its ID, ARN or alias. The identity that writes needs kms:GenerateDataKey and
	// kms:Decrypt on it, each identity that reads kms:Decrypt. **Without the key, backups cannot be restored.**
	// Default: the account's own key for S3.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	// +optional
	KMSKeyID *string `json:"kmsKeyID,omitempty"`
}

// EncryptionAlgorithm is an algorithm of server-side encryption.
//
// +kubebuilder:validation:Enum=AES256;"aws:kms";"aws:kms:dsse"
type EncryptionAlgorithm string

// StoreRoles are the Secrets of who does what with backups that are there already. Their keys are those of the
// store's secretRef.
//
// +kubebuilder:validation:XValidation:rule="has(self.collectorSecretRef) || has(self.extenderSecretRef) || has(self.excluderSecretRef)",message="names no role: name a Secret in collectorSecretRef, extenderSecretRef or excluderSecretRef, or leave roles out"
// +kubebuilder:validation:XValidation:rule="!has(self.collectorSecretRef) || !has(self.extenderSecretRef) || !has(self.collectorSecretRef.name) || !has(self.extenderSecretRef.name) || self.collectorSecretRef.name != self.extenderSecretRef.name",fieldPath=".extenderSecretRef",message="is that of collectorSecretRef, too: who deletes must not be who locks; name another Secret"
// +kubebuilder:validation:XValidation:rule="!has(self.excluderSecretRef) || !has(self.excluderSecretRef.name) || !has(self.collectorSecretRef) || !has(self.collectorSecretRef.name) || self.excluderSecretRef.name != self.collectorSecretRef.name",fieldPath=".excluderSecretRef",message="is that of collectorSecretRef, too: who excludes must not be who deletes; name another Secret"
// +kubebuilder:validation:XValidation:rule="!has(self.excluderSecretRef) || !has(self.excluderSecretRef.name) || !has(self.extenderSecretRef) || !has(self.extenderSecretRef.name) || self.excluderSecretRef.name != self.extenderSecretRef.name",fieldPath=".excluderSecretRef",message="is that of extenderSecretRef, too: who excludes must not be who locks; name another Secret"
type StoreRoles struct {
	// Secret of who deletes backups that retention lets go, and expired copies that an extension made. With it the
	// sidecars delete nothing, and an EtcdOperatorTask of the type CollectBackups, which the operator makes, does it by
	// Jobs about as often as garbageCollectionPeriod says. Must be in the namespace of the Etcd. Default: the
	// sidecars delete with secretRef, and an extension its own copies.
	// +kubebuilder:validation:XValidation:rule="has(self.name) && self.name != ''",fieldPath=".name",reason=FieldValueRequired,message="is required: name the Secret"
	// +optional
	CollectorSecretRef *corev1.SecretReference `json:"collectorSecretRef,omitempty"`
	// Secret of who prolongs the locks of the newest backup while the Etcd is hibernated, in the Jobs of an
	// EtcdOperatorTask of the type ExtendFullSnapshotImmutability. Must be in the namespace of the Etcd. Default:
	// they use secretRef.
	// +kubebuilder:validation:XValidation:rule="has(self.name) && self.name != ''",fieldPath=".name",reason=FieldValueRequired,message="is required: name the Secret"
	// +optional
	ExtenderSecretRef *corev1.SecretReference `json:"extenderSecretRef,omitempty"`
	// Secret of who leaves snapshots out of restores and takes that back, in the Jobs of EtcdOperatorTasks of the type
	// ExcludeSnapshots. Must be in the namespace of the Etcd. Default: they use secretRef.
	// +kubebuilder:validation:XValidation:rule="has(self.name) && self.name != ''",fieldPath=".name",reason=FieldValueRequired,message="is required: name the Secret"
	// +optional
	ExcluderSecretRef *corev1.SecretReference `json:"excluderSecretRef,omitempty"`
}

// ImmutabilitySpec says who locks backups, and for how long.
//
// +kubebuilder:validation:XValidation:rule="self.retentionType == 'object' || !has(self.retentionPeriod)",fieldPath=".retentionPeriod",message="only goes with the retentionType object: with bucket the period is that of the bucket, set by etcdbrctl bucket ensure --retention-period"
// +kubebuilder:validation:XValidation:rule="self.retentionType == 'object' || !has(self.mode)",fieldPath=".mode",message="only goes with the retentionType object: with bucket the mode is that of the bucket, set by etcdbrctl bucket ensure --retention-mode"
// +kubebuilder:validation:XValidation:rule="self.retentionType != 'object' || has(self.retentionPeriod)",fieldPath=".retentionPeriod",reason=FieldValueRequired,message="is required with the retentionType object: say for how long each backup is locked, such as 96h"
type ImmutabilitySpec struct {
	// Who locks. bucket: the bucket stamps a lock on every new object, for a period that only it knows; it must
	// have been made so, for example by etcdbrctl bucket ensure. object: the sidecar asks for a lock of the
	// given period and mode with each upload, which the bucket must allow; its credentials then must include
	// the right to set retention, and can lock for as long as the bucket's policies let them. Default: bucket.
	// +kubebuilder:default=bucket
	// +optional
	RetentionType RetentionType `json:"retentionType,omitempty"`
	// How long each object stays locked from its upload, such as 96h. With the type object alone, which
	// needs it. At least as long as a full snapshot may be the newest one, which the operator computes from the
	// schedule: what is less is refused with the arithmetic. At most 87600h (ten years), as a lock cannot be
	// shortened.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+([.][0-9]+)?(ns|us|µs|ms|s|m|h))+$') && duration(self) >= duration('1m') && duration(self) <= duration('87600h')",message="must be a duration from 1m to 87600h (ten years), such as 96h"
	// +optional
	RetentionPeriod *metav1.Duration `json:"retentionPeriod,omitempty"`
	// How strong the lock is. governance: identities with a special right can lift it. compliance: nobody can
	// before its end. With the type object alone. Default: compliance.
	// +optional
	Mode *RetentionMode `json:"mode,omitempty"`
}

// RetentionType says who locks backups.
//
// +kubebuilder:validation:Enum=bucket;object
type RetentionType string

// The retention types.
const (
	RetentionBucket RetentionType = "bucket"
	RetentionObject RetentionType = "object"
)

// RetentionMode is how strong a lock is.
//
// +kubebuilder:validation:Enum=governance;compliance
type RetentionMode string

// The retention modes.
const (
	RetentionGovernance RetentionMode = "governance"
	RetentionCompliance RetentionMode = "compliance"
)

// StorageProvider names who an object store is of.
//
// +kubebuilder:validation:Enum=aws;S3;s3;azure;ABS;abs;gcp;GCS;gcs;openstack;Swift;swift;alicloud;OSS;oss;dell;ECS;ecs;openshift;OCS;ocs;stackit;Local;local
type StorageProvider string
