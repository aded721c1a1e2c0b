package desired

import (
	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
)

// Where things are in the containers, as in the original.
const (
	dataVolume = "/var/etcd/data"
	dataDir    = dataVolume + "/new.etcd"
	configDir  = "/var/etcd/config"

	clientCA         = "/var/etcd/ssl/ca"
	clientServerTLS  = "/var/etcd/ssl/server"
	clientTLS        = "/var/etcd/ssl/client"
	clientUser       = "/var/etcd/user"
	peerCA           = "/var/etcd/ssl/peer/ca"
	peerServerTLS    = "/var/etcd/ssl/peer/server"
	sidecarCA        = "/var/etcdbr/ssl/ca"
	sidecarServerTLS = "/var/etcdbr/ssl/server"
	sidecarClientTLS = "/var/etcdbr/ssl/client"

	tokenDir   = "/var/etcdbr/token"
	scratchDir = "/tmp"
	apiDir     = "/var/run/secrets/kubernetes.io/serviceaccount"

	caKey = "ca.crt" // in a Secret with a certificate authority, if no other key is named
)

// The names of volumes.
const (
	configVolume      = "etcd-config-file"
	tokenVolume       = "sidecar-token"
	etcdScratch       = "etcd-scratch"
	sidecarScratch    = "backup-restore-scratch"
	apiVolume         = "kube-api-access"
	clientCAVolume    = "etcd-ca"
	clientServerVol   = "etcd-server-tls"
	clientTLSVolume   = "etcd-client-tls"
	clientUserVolume  = "etcd-user"
	peerCAVolume      = "etcd-peer-ca"
	peerServerVolume  = "etcd-peer-server-tls"
	sidecarCAVolume   = "backup-restore-ca"
	sidecarServerVol  = "backup-restore-server-tls"
	sidecarClientVol  = "backup-restore-client-tls"
	apiTokenLifeInSec = 3607 // kubelets renew such a token like those that they mount by themselves
)

// secretUse is a Secret that a container has as files.
type secretUse struct {
	volume, secret, dir string
	etcd, sidecar       bool // which containers have it
}

// secrets are the Secrets with certificates and the token, in their order in the pod.
func secrets(in Input) []secretUse {
	e := in.Etcd
	var all []secretUse
	add := func(volume, secret, dir string, etcd, sidecar bool) {
		all = append(all, secretUse{volume, secret, dir, etcd, sidecar})
	}
	if t := e.Spec.Etcd.ClientUrlTLS; t != nil {
		add(clientCAVolume, t.TLSCASecretRef.Name, clientCA, true, true)
		add(clientServerVol, t.ServerTLSSecretRef.Name, clientServerTLS, true, false)
		if name := t.ClientSecret(); name != "" {
			add(clientTLSVolume, name, clientTLS, false, true)
		}
	}
	if name := authSecret(e); name != "" {
		add(clientUserVolume, name, clientUser, false, true)
	}
	if t := e.Spec.Etcd.PeerUrlTLS; t != nil && in.PeerCertificates {
		add(peerCAVolume, t.TLSCASecretRef.Name, peerCA, true, true)
		add(peerServerVolume, t.ServerTLSSecretRef.Name, peerServerTLS, true, true)
	}
	if t := e.Spec.Backup.TLS; t != nil {
		add(sidecarCAVolume, t.TLSCASecretRef.Name, sidecarCA, true, true)
		add(sidecarServerVol, t.ServerTLSSecretRef.Name, sidecarServerTLS, false, true)
		if name := t.ClientSecret(); name != "" {
			add(sidecarClientVol, name, sidecarClientTLS, true, true)
		}
	}
	add(tokenVolume, e.TokenSecretName(), tokenDir, true, true)
	return all
}

// authSecret is the Secret with the user as which the sidecar connects to etcd; empty: as none.
func authSecret(e *druidv1alpha1.Etcd) string {
	if e.Spec.Etcd.AuthSecretRef == nil {
		return ""
	}
	return e.Spec.Etcd.AuthSecretRef.Name
}

func volumes(in Input) []corev1.Volume {
	e := in.Etcd
	mode := int32(0o640)
	all := []corev1.Volume{
		{Name: configVolume, VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: e.ConfigMapName()}, DefaultMode: &mode,
		}}},
		{Name: etcdScratch, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		{Name: sidecarScratch, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		apiAccess(),
	}
	for _, s := range secrets(in) {
		all = append(all, *secretVolume(s.volume, s.secret))
	}
	if _, v, _ := credentials(e.Spec.Backup.Store, ownStore); v != nil {
		all = append(all, *v)
	}
	if isLocal(e) {
		v, _ := localStore(in)
		all = append(all, v)
	}
	return all
}

// apiAccess is what the kubelet mounts by itself into every container of a pod, for the sidecar alone.
func apiAccess() corev1.Volume {
	lifetime, mode := int64(apiTokenLifeInSec), int32(0o640)
	return corev1.Volume{Name: apiVolume, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		DefaultMode: &mode,
		Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: &lifetime}},
			{ConfigMap: &corev1.ConfigMapProjection{
				LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"},
				Items:                []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}},
			}},
			{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{
				{Path: "namespace", FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"}},
			}}},
		},
	}}}
}

func etcdMounts(in Input) []corev1.VolumeMount {
	mounts := []corev1.VolumeMount{
		{Name: in.claimName(), MountPath: dataVolume},
		{Name: etcdScratch, MountPath: scratchDir},
	}
	for _, s := range secrets(in) {
		if s.etcd {
			mounts = append(mounts, corev1.VolumeMount{Name: s.volume, MountPath: s.dir, ReadOnly: true})
		}
	}
	return mounts
}

func sidecarMounts(in Input) []corev1.VolumeMount {
	e := in.Etcd
	mounts := []corev1.VolumeMount{
		{Name: in.claimName(), MountPath: dataVolume},
		{Name: configVolume, MountPath: configDir, ReadOnly: true},
		{Name: sidecarScratch, MountPath: scratchDir},
		{Name: apiVolume, MountPath: apiDir, ReadOnly: true},
	}
	for _, s := range secrets(in) {
		if s.sidecar {
			mounts = append(mounts, corev1.VolumeMount{Name: s.volume, MountPath: s.dir, ReadOnly: true})
		}
	}
	if _, _, m := credentials(e.Spec.Backup.Store, ownStore); m != nil {
		mounts = append(mounts, *m)
	}
	if isLocal(e) {
		_, m := localStore(in)
		mounts = append(mounts, m)
	}
	return mounts
}

// claimName is the name of the template of the volume claims, which is that of the volume in the pod.
func (in Input) claimName() string { return claimTemplate(in).Name }
