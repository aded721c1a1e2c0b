package desired

import (
	"path"
	"strings"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// providers are the names of the API, in lower case, with those that the sidecar knows.
var providers = map[string]string{
	"aws": "S3", "s3": "S3", "stackit": "S3",
	"azure": "ABS", "abs": "ABS",
	"gcp": "GCS", "gcs": "GCS",
	"openstack": "Swift", "swift": "Swift",
	"alicloud": "OSS", "oss": "OSS",
	"dell": "ECS", "ecs": "ECS",
	"openshift": "OCS", "ocs": "OCS",
	"local": localProvider,
}

const localProvider = "Local"

// Provider is the sidecar's name for a provider of the API. One that it does not know is returned as it
// is, for the sidecar to refuse.
func Provider(p druidv1alpha1.StorageProvider) string {
	if name, ok := providers[strings.ToLower(string(p))]; ok {
		return name
	}
	return string(p)
}

// KnowsProvider tells whether there is such a provider.
func KnowsProvider(p druidv1alpha1.StorageProvider) bool {
	return providers[strings.ToLower(string(p))] != ""
}

func isLocal(e *druidv1alpha1.Etcd) bool {
	return e.BackupsEnabled() && Provider(*e.Spec.Backup.Store.Provider) == localProvider
}

// container is the bucket, or the directory of a local store.
func container(s *druidv1alpha1.StoreSpec) string {
	c := value(s.Container, "")
	if c == "" && Provider(*s.Provider) == localProvider {
		c = "default.bkp"
	}
	return c
}

// objectLock is the lock that is asked for with each upload; no period: none.
func objectLock(s *druidv1alpha1.StoreSpec) (period, mode string) {
	i := s.Immutability
	if i == nil || i.RetentionType != druidv1alpha1.RetentionObject || i.RetentionPeriod == nil {
		return "", ""
	}
	return duration(i.RetentionPeriod, ""), string(value(i.Mode, druidv1alpha1.RetentionCompliance))
}

// encryptionFlags request the server-side encryption of a store with each upload.
func encryptionFlags(s *druidv1alpha1.StoreSpec) (flags []string) {
	e := s.ServerSideEncryption
	if e == nil {
		return nil
	}
	flags = append(flags, "--store-server-side-encryption="+string(e.Algorithm))
	if e.KMSKeyID != nil {
		flags = append(flags, "--store-kms-key-id="+*e.KMSKeyID)
	}
	return flags
}

// credentials are the environment and the files by which a store is reached: the fields of the Secret as
// files of one directory, which are read again when they change.
func credentials(s *druidv1alpha1.StoreSpec, at place) (env []corev1.EnvVar, volume *corev1.Volume, mount *corev1.VolumeMount) {
	if s == nil || s.Provider == nil || s.SecretRef == nil || s.SecretRef.Name == "" {
		return nil, nil, nil // the identity that the cloud gives the pod
	}
	provider, dir := Provider(*s.Provider), at.dir
	set := func(name, v string) {
		env = append(env, corev1.EnvVar{Name: at.prefix + name, Value: v})
	}
	switch provider {
	case localProvider:
		return nil, nil, nil
	case "S3":
		set("AWS_APPLICATION_CREDENTIALS", dir)
	case "ABS":
		set("AZURE_APPLICATION_CREDENTIALS", dir)
	case "GCS":
		dir = at.gcpDir
		set("GOOGLE_APPLICATION_CREDENTIALS", path.Join(dir, "serviceaccount.json"))
	case "Swift":
		set("OPENSTACK_APPLICATION_CREDENTIALS", dir)
	case "OSS":
		set("ALICLOUD_APPLICATION_CREDENTIALS", dir)
	case "OCS":
		set("OPENSHIFT_APPLICATION_CREDENTIALS", dir)
	case "ECS":
		set("ECS_APPLICATION_CREDENTIALS", dir)
	}
	volume = secretVolume(at.volume, s.SecretRef.Name)
	mount = &corev1.VolumeMount{Name: at.volume, MountPath: dir, ReadOnly: true}
	return env, volume, mount
}

// place is where the credentials of one store are.
type place struct{ volume, dir, gcpDir, prefix string }

var (
	ownStore = place{volume: "etcd-backup-secret", dir: "/var/etcd-backup", gcpDir: "/var/.gcp"}
	// sourceStore is what a copy reads.
	sourceStore = place{volume: "source-etcd-backup-secret", dir: "/var/source-etcd-backup", gcpDir: "/var/.source-gcp", prefix: "SOURCE_"}
)

// secretVolume mounts a Secret so that the group of the pod can read it.
func secretVolume(name, secret string) *corev1.Volume {
	mode := int32(0o640)
	return &corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
		Secret: &corev1.SecretVolumeSource{SecretName: secret, DefaultMode: &mode},
	}}
}

// Places of a local store.
const (
	home        = "/home/nonroot"
	localVolume = "local-backup"
)

// localStore is that of the members.
func localStore(in Input) (corev1.Volume, corev1.VolumeMount) {
	return localDirectory(in.Etcd.Spec.Backup.Store, localVolume)
}

// localDirectory is the directory of the node that a local store is, as a volume with its mount.
func localDirectory(s *druidv1alpha1.StoreSpec, volume string) (corev1.Volume, corev1.VolumeMount) {
	name := container(s)
	create := corev1.HostPathDirectoryOrCreate
	return corev1.Volume{Name: volume, VolumeSource: corev1.VolumeSource{
			HostPath: &corev1.HostPathVolumeSource{Path: path.Join(DefaultHostPath, name), Type: &create},
		}},
		corev1.VolumeMount{Name: volume, MountPath: path.Join(home, name)}
}

// duration is written as the sidecar reads it.
func duration(d *metav1.Duration, otherwise string) string {
	if d == nil {
		return otherwise
	}
	return d.Duration.String()
}
