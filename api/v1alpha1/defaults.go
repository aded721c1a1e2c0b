package v1alpha1

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SetDefaults fills in what is not set, as the API server does from the schema. Whoever reads an
// Etcd from an API server needs it not: it is for those that come from a file or a test. A test
// keeps both the same.
func (e *Etcd) SetDefaults() {
	spec := &e.Spec
	setDefault(&spec.StorageCapacity, resource.MustParse("16Gi"))
	setDefault(&spec.RunAsRoot, false)
	setDefault(&spec.SharedConfig, SharedConfig{})
	setDefault(&spec.SharedConfig.AutoCompactionMode, CompactionPeriodic)
	setDefault(&spec.SharedConfig.AutoCompactionRetention, "30m")
	spec.Etcd.setDefaults()
	spec.Backup.setDefaults()
	if h := spec.Hibernation; h != nil {
		setDefault(&h.AllowUnprotected, false)
		setDefault(&h.Volumes, HibernationKeepsVolumes)
	}
}

func (c *EtcdConfig) setDefaults() {
	setDefault(&c.Quota, resource.MustParse("8Gi"))
	setDefault(&c.SnapshotCount, 10000)
	setDefault(&c.EnableGRPCGateway, false)
	setDefault(&c.DefragmentationSchedule, "0 0 */3 * *")
	setDefault(&c.ServerPort, 2380)
	setDefault(&c.ClientPort, 2379)
	setDefault(&c.WrapperPort, 9095)
	setDefault(&c.Metrics, MetricsBasic)
	setDefault(&c.Resources, smallRequests())
	setDefault(&c.EtcdDefragTimeout, metav1.Duration{Duration: 15 * time.Minute})
	setDefault(&c.HeartbeatDuration, metav1.Duration{Duration: 10 * time.Second})
	setDefault(&c.BackendBboltFreelistType, FreelistArray)
	if c.PeerUrlTLS != nil {
		setDefault(&c.PeerUrlTLS.SkipClientSANVerification, false)
	}
}

func (b *BackupSpec) setDefaults() {
	setDefault(&b.Port, 8080)
	setDefault(&b.Resources, smallRequests())
	setDefault(&b.FullSnapshotSchedule, "0 0 * * *")
	setDefault(&b.GarbageCollectionPolicy, GarbageCollectionLimitBased)
	setDefault(&b.MaxBackupsLimitBasedGC, 30)
	setDefault(&b.GarbageCollectionPeriod, metav1.Duration{Duration: 12 * time.Hour})
	setDefault(&b.DeltaSnapshotPeriod, metav1.Duration{Duration: 20 * time.Second})
	setDefault(&b.DeltaSnapshotMemoryLimit, resource.MustParse("100Mi"))
	setDefault(&b.DeltaSnapshotRetentionPeriod, metav1.Duration{Duration: 96 * time.Hour})
	setDefault(&b.Compression, CompressionSpec{})
	setDefault(&b.Compression.Enabled, true)
	setDefault(&b.Compression.Policy, CompressionZstd)
	setDefault(&b.SnapshotFormat, SnapshotFormatNative)
	setDefault(&b.EnableProfiling, false)
	setDefault(&b.EtcdSnapshotTimeout, metav1.Duration{Duration: 15 * time.Minute})
	setDefault(&b.LeaderElection, LeaderElectionSpec{})
	setDefault(&b.LeaderElection.ReelectionPeriod, metav1.Duration{Duration: time.Second})
	setDefault(&b.LeaderElection.EtcdConnectionTimeout, metav1.Duration{Duration: 5 * time.Second})
}

func smallRequests() corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("50m"),
		corev1.ResourceMemory: resource.MustParse("128Mi"),
	}}
}

func setDefault[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}
