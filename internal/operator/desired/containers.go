package desired

import (
	"fmt"
	"strings"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// The containers, as the original names them.
const (
	ContainerEtcd    = "etcd"
	ContainerSidecar = "backup-restore"
)

// What is read from pods that are there already, see SidecarOf and PortsInUse.
const (
	clientPortName  = "client"
	serverPortName  = "server"
	wrapperPortName = "wrapper"
	sidecarPortName = "backuprestore"
	caArgument      = "--backup-restore-ca-cert-bundle-path="
)

func etcdContainer(in Input) corev1.Container {
	e := in.Etcd
	args := []string{
		"start-etcd",
		fmt.Sprintf("--backup-restore-host-port=%s:%d", e.LocalHostName(), sidecarPort(e)),
		fmt.Sprintf("--backup-restore-tls-enabled=%t", e.Spec.Backup.TLS != nil),
		"--backup-restore-token-path=" + tokenDir + "/" + TokenKey,
		"--etcd-wrapper-token-path=" + tokenDir + "/" + TokenKey,
		fmt.Sprintf("--etcd-wrapper-port=%d", wrapperPort(e)),
		"--etcd-config-path=" + scratchDir + "/etcd.conf.yaml",
		"--exit-code-path=" + dataVolume + "/exit_code",
	}
	if t := e.Spec.Backup.TLS; t != nil {
		args = append(args, caArgument+sidecarCA+"/"+value(t.TLSCASecretRef.DataKey, caKey))
		if t.ClientSecret() != "" {
			args = append(args, "--backup-restore-client-cert-path="+sidecarClientTLS+"/tls.crt", "--backup-restore-client-key-path="+sidecarClientTLS+"/tls.key")
		}
	}
	probes := corev1.URISchemeHTTP
	if e.Spec.Etcd.ClientUrlTLS != nil {
		probes = corev1.URISchemeHTTPS
		// Only the sidecar's token lets anybody stop etcd: a certificate for etcd does not.
		args = append(args, "--etcd-wrapper-cert-path="+clientServerTLS+"/tls.crt", "--etcd-wrapper-key-path="+clientServerTLS+"/tls.key")
	}
	live := httpGet("/livez", wrapperPort(e), probes)
	return corev1.Container{
		Name:            ContainerEtcd,
		Image:           in.Images.Wrapper,
		ImagePullPolicy: corev1.PullIfNotPresent,
		Command:         []string{"/usr/local/bin/etcd-wrapper"},
		Args:            args,
		Ports: []corev1.ContainerPort{
			{Name: serverPortName, ContainerPort: peerPort(e), Protocol: corev1.ProtocolTCP},
			{Name: clientPortName, ContainerPort: clientPort(e), Protocol: corev1.ProtocolTCP},
			{Name: wrapperPortName, ContainerPort: wrapperPort(e), Protocol: corev1.ProtocolTCP},
		},
		// Ready when a linearizable read succeeds. Alive also without a quorum, and for as long as a
		// restoration takes.
		ReadinessProbe:  probe(httpGet("/readyz", wrapperPort(e), probes), 2, 3),
		LivenessProbe:   alive(live),
		StartupProbe:    probe(live, 1, 120),
		Resources:       resources(e.Spec.Etcd.Resources),
		SecurityContext: containerSecurity(value(e.Spec.RunAsRoot, false)),
		VolumeMounts:    etcdMounts(in),
	}
}

func sidecarContainer(in Input) corev1.Container {
	e := in.Etcd
	scheme := corev1.URISchemeHTTP
	if e.Spec.Backup.TLS != nil {
		scheme = corev1.URISchemeHTTPS
	}
	// It answers whatever state the member and the store are in.
	live := httpGet("/initialization/status", sidecarPort(e), scheme)
	env, _, _ := credentials(e.Spec.Backup.Store, ownStore)
	return corev1.Container{
		Name:            ContainerSidecar,
		Image:           in.Images.Sidecar,
		ImagePullPolicy: corev1.PullIfNotPresent,
		Command:         []string{"/usr/local/bin/etcdbrctl"},
		Args:            []string{"server", "--config-file=" + configDir + "/" + SidecarFile},
		Ports:           []corev1.ContainerPort{{Name: sidecarPortName, ContainerPort: sidecarPort(e), Protocol: corev1.ProtocolTCP}},
		Env:             append(memberEnv(e), env...),
		LivenessProbe:   alive(live),
		StartupProbe:    probe(live, 1, 120),
		Resources:       resources(e.Spec.Backup.Resources),
		SecurityContext: containerSecurity(value(e.Spec.RunAsRoot, false)),
		VolumeMounts:    sidecarMounts(in),
	}
}

// memberEnv tells the sidecar which member it is of.
func memberEnv(e *druidv1alpha1.Etcd) []corev1.EnvVar {
	field := func(name, path string) corev1.EnvVar {
		return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: path}}}
	}
	env := []corev1.EnvVar{field("POD_NAMESPACE", "metadata.namespace")}
	if prefix := value(e.Spec.MemberNamePrefix, ""); prefix != "" {
		env = append(env,
			field("KUBERNETES_POD_NAME", "metadata.name"),
			corev1.EnvVar{Name: "POD_NAME", Value: prefix + "-$(KUBERNETES_POD_NAME)"})
	} else {
		env = append(env, field("POD_NAME", "metadata.name"))
	}
	return append(env,
		corev1.EnvVar{Name: "ETCD_CONF", Value: configDir + "/" + EtcdFile},
		corev1.EnvVar{Name: "HOME", Value: home})
}

// localInit gives the directory of a local store to the user of the containers. It is the only thing
// that runs as root, and only with a local store.
func localInit(in Input) corev1.Container {
	_, mount := localStore(in)
	return giveAway("change-backup-bucket-permissions", in.Images.Init, mount)
}

// giveAway gives what is mounted to the user of the containers.
func giveAway(name, image string, mount corev1.VolumeMount) corev1.Container {
	root, nonRoot, no, yes := int64(0), false, false, true
	return corev1.Container{
		Name:            name,
		Image:           image,
		ImagePullPolicy: corev1.PullIfNotPresent,
		Command:         []string{"/usr/local/bin/etcdbrctl"},
		Args:            []string{"own", fmt.Sprintf("--user=%d", user), fmt.Sprintf("--group=%d", user), literal([]string{mount.MountPath})[0]},
		VolumeMounts:    []corev1.VolumeMount{mount},
		SecurityContext: &corev1.SecurityContext{
			RunAsUser: &root, RunAsGroup: &root, RunAsNonRoot: &nonRoot,
			AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes,
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}, Add: []corev1.Capability{"CHOWN", "DAC_OVERRIDE", "FOWNER"}},
		},
	}
}

// literal has a program get arguments as they are. Kubernetes puts a variable of the container in the place of $(NAME),
// which may be one with a credential, and the program may repeat what it got.
func literal(args []string) []string {
	all := make([]string, 0, len(args))
	for _, a := range args {
		all = append(all, strings.ReplaceAll(a, "$", "$$"))
	}
	return all
}

func httpGet(path string, port int32, scheme corev1.URIScheme) corev1.ProbeHandler {
	return corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromInt32(port), Scheme: scheme}}
}

// probe asks every so many seconds, and gives up after so many failures.
func probe(h corev1.ProbeHandler, period, failures int32) *corev1.Probe {
	return &corev1.Probe{ProbeHandler: h, PeriodSeconds: period, FailureThreshold: failures, SuccessThreshold: 1, TimeoutSeconds: 5}
}

// hungGrace is how long a container that does not answer any more has to end, in seconds. What hangs does not end by itself, so that all
// of the pod's grace period would pass before it is killed. Who only is slow can still hand the leadership over. It loses nothing if it
// is killed then: what etcd acknowledged is in its WAL, and each step of the sidecar is on the disk, or in the bucket, before the next begins.
const hungGrace = 10

// alive is the probe whose failure has a container restarted: after a minute without an answer.
func alive(h corev1.ProbeHandler) *corev1.Probe {
	p, grace := probe(h, 10, 6), int64(hungGrace)
	p.TerminationGracePeriodSeconds = &grace
	return p
}

func resources(r *corev1.ResourceRequirements) corev1.ResourceRequirements {
	if r == nil {
		return corev1.ResourceRequirements{}
	}
	return *r.DeepCopy()
}
