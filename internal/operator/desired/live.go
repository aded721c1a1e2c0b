package desired

import (
	"path"
	"slices"
	"strings"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// Live is what a ConfigMap that exists says about the members, whoever wrote it.
type Live struct {
	Members int32  // that it lists: the highest ordinal of ours, plus one; 0: it cannot be read
	PeerTLS bool   // the scheme that it names
	Clients string // where clients are listened to

	peerCA  string // the key of the authority in its Secret
	skipSAN bool
}

// ReadConfigMap reads the file of etcd; nil: there is none.
func ReadConfigMap(e *druidv1alpha1.Etcd, c *corev1.ConfigMap) Live {
	if c == nil {
		return Live{}
	}
	var file struct {
		Cluster string `json:"initial-cluster"`
		Listen  string `json:"listen-peer-urls"`
		Clients string `json:"listen-client-urls"`
		Peers   struct {
			CA      string `json:"trusted-ca-file"`
			SkipSAN bool   `json:"skip-client-san-verification"`
		} `json:"peer-transport-security"`
	}
	if yaml.Unmarshal([]byte(c.Data[EtcdFile]), &file) != nil {
		return Live{}
	}
	l := Live{PeerTLS: strings.HasPrefix(file.Listen, "https://"), Clients: file.Clients, skipSAN: file.Peers.SkipSAN}
	if file.Peers.CA != "" {
		l.peerCA = path.Base(file.Peers.CA)
	}
	for member := range strings.SplitSeq(file.Cluster, ",") {
		name, _, _ := strings.Cut(strings.TrimSpace(member), "=")
		if n, ours := e.MemberOrdinal(name); ours && n < 100 {
			l.Members = max(l.Members, int32(n)+1)
		}
	}
	return l
}

// PortsInUse has an Etcd name the ports on which pods listen.
func PortsInUse(e *druidv1alpha1.Etcd, pod corev1.PodSpec) {
	fields := map[string]**int32{
		clientPortName: &e.Spec.Etcd.ClientPort, serverPortName: &e.Spec.Etcd.ServerPort, wrapperPortName: &e.Spec.Etcd.WrapperPort, sidecarPortName: &e.Spec.Backup.Port,
	}
	for _, c := range pod.Containers {
		for _, p := range c.Ports {
			if field, is := fields[p.Name]; is {
				*field = &p.ContainerPort
			}
		}
	}
}

// Abridge keeps of a pod what is read of it anywhere: where it is, which images, Secrets and volume claims it has, and
// how its sidecar is reached.
func Abridge(pod corev1.PodSpec) corev1.PodSpec {
	kept := corev1.PodSpec{NodeName: pod.NodeName}
	for _, c := range pod.Containers {
		short := corev1.Container{Name: c.Name, Image: c.Image}
		if c.Name == ContainerSidecar {
			short.Ports = c.Ports
		}
		for _, a := range c.Args {
			if strings.HasPrefix(a, caArgument) {
				short.Args = append(short.Args, a)
			}
		}
		kept.Containers = append(kept.Containers, short)
	}
	for _, v := range pod.Volumes {
		if v.Secret != nil || v.PersistentVolumeClaim != nil {
			kept.Volumes = append(kept.Volumes, v)
		}
	}
	return kept
}

// OfOriginal tells whether a pod is of the original: ours have the token of the sidecars, which it does
// not know.
func OfOriginal(pod corev1.PodSpec) bool {
	return !slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == tokenVolume && v.Secret != nil })
}

// HasPeerCertificates tells whether pods have the certificates for peers mounted.
func HasPeerCertificates(pod corev1.PodSpec) bool {
	return slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == peerServerVolume && v.Secret != nil })
}

// HasClientCertificates says whether etcd has certificates for clients in a pod.
func HasClientCertificates(pod corev1.PodSpec) bool {
	return slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == clientServerVol && v.Secret != nil })
}

// Sidecar is how the sidecar of a pod is reached: as the pod was made, whatever the specification says by
// now. Names are empty without TLS.
type Sidecar struct {
	Port         int32
	CASecret, CA string // the Secret with the authorities of its certificate, and the key in it
}

// SidecarOf reads it from a pod of ours; false: it has no sidecar.
func SidecarOf(pod corev1.PodSpec) (Sidecar, bool) {
	var s Sidecar
	for _, v := range pod.Volumes {
		if v.Name == sidecarCAVolume && v.Secret != nil {
			s.CASecret, s.CA = v.Secret.SecretName, caKey
		}
	}
	for _, c := range pod.Containers {
		for _, p := range c.Ports {
			if c.Name == ContainerSidecar && p.Name == sidecarPortName {
				s.Port = p.ContainerPort
			}
		}
		for _, a := range c.Args {
			if file, is := strings.CutPrefix(a, caArgument+sidecarCA+"/"); is && c.Name == ContainerEtcd {
				s.CA = file
			}
		}
	}
	return s, s.Port != 0
}

// PeerTLSInUse is the section peerUrlTls that pods and ConfigMap were made of, nil if they have none.
// It serves while members still use what the specification does not name any more.
func PeerTLSInUse(l Live, pod corev1.PodSpec) *druidv1alpha1.PeerTLSConfig {
	var t druidv1alpha1.PeerTLSConfig
	for _, v := range pod.Volumes {
		switch {
		case v.Secret == nil:
		case v.Name == peerCAVolume:
			t.TLSCASecretRef.Name = v.Secret.SecretName
		case v.Name == peerServerVolume:
			t.ServerTLSSecretRef.Name = v.Secret.SecretName
		}
	}
	if t.TLSCASecretRef.Name == "" || t.ServerTLSSecretRef.Name == "" {
		return nil
	}
	if l.peerCA != "" {
		t.TLSCASecretRef.DataKey = &l.peerCA
	}
	t.SkipClientSANVerification = &l.skipSAN
	return &t
}
