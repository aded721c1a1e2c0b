package desired

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// user is whom the containers run as, and the group of their files.
const user = 65532

// gracePeriod is how long a pod has to hand over its leadership and end, in seconds.
const gracePeriod = 60

func statefulSet(in Input) (*appsv1.StatefulSet, error) {
	e := in.Etcd
	checksum, err := configChecksum(in)
	if err != nil {
		return nil, err
	}
	annotations := maps.Clone(e.Spec.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[druidv1alpha1.AnnotationConfigMapChecksum] = checksum
	return &appsv1.StatefulSet{
		TypeMeta:   typeMeta("apps/v1", "StatefulSet"),
		ObjectMeta: meta(e, druidv1alpha1.ComponentStatefulSet, e.StatefulSetName()),
		Spec: appsv1.StatefulSetSpec{
			Replicas:            &in.Replicas,
			ServiceName:         e.PeerServiceName(),
			Selector:            &metav1.LabelSelector{MatchLabels: e.SelectorLabels()},
			PodManagementPolicy: appsv1.ParallelPodManagement,
			// The operator replaces the pods, one at a time and in an order that keeps the quorum.
			UpdateStrategy:       appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType},
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{claimTemplate(in)},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: e.PodLabels(), Annotations: annotations},
				Spec:       podSpec(in),
			},
		},
	}, nil
}

// configChecksum is over what takes effect only in a new pod. Who the members are, how they are
// reached, which cluster outside they join, what their backups must have, beyond which revision a restore
// goes, whether a full is taken first, and whether others leave is read by the sidecars while they run: a
// change of it replaces no pod.
func configChecksum(in Input) (string, error) {
	etcd := etcdConfig(in)
	for _, live := range []string{
		"initial-cluster", "initial-advertise-peer-urls", "advertise-client-urls", "listen-peer-urls", "peer-transport-security",
	} {
		delete(etcd, live)
	}
	in.AtLeast, in.LastKnown, in.FullFirst, in.OthersLeave = 0, 0, false, false
	sidecar := sidecarConfig(in)
	delete(sidecar, existingCluster)
	b, err := json.Marshal(map[string]any{EtcdFile: etcd, SidecarFile: sidecar})
	if err != nil {
		return "", fmt.Errorf("checksum of the configuration: %w", err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}

func claimTemplate(in Input) corev1.PersistentVolumeClaim {
	e := in.Etcd
	if in.ClaimTemplate != nil {
		t := in.ClaimTemplate
		return corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: t.Name, Labels: t.Labels, Annotations: t.Annotations},
			Spec:       *t.Spec.DeepCopy(),
		}
	}
	return ClaimTemplate(e)
}

// ClaimTemplate is that of a new StatefulSet.
func ClaimTemplate(e *druidv1alpha1.Etcd) corev1.PersistentVolumeClaim {
	var class *string
	if value(e.Spec.StorageClass, "") != "" {
		class = e.Spec.StorageClass
	}
	return corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: e.VolumeClaimTemplateName()},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			StorageClassName: class,
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceStorage: value(e.Spec.StorageCapacity, resource.MustParse("16Gi")),
			}},
		},
	}
}

func podSpec(in Input) corev1.PodSpec {
	e := in.Etcd
	no, grace := false, int64(gracePeriod)
	spec := corev1.PodSpec{
		ServiceAccountName: e.ServiceAccountName(),
		// The sidecar has a token of its own; etcd needs none.
		AutomountServiceAccountToken:  &no,
		EnableServiceLinks:            &no,
		TerminationGracePeriodSeconds: &grace,
		PriorityClassName:             value(e.Spec.PriorityClassName, ""),
		HostAliases:                   []corev1.HostAlias{{IP: "127.0.0.1", Hostnames: []string{e.LocalHostName()}}},
		SecurityContext:               podSecurity(value(e.Spec.RunAsRoot, false)),
		Containers:                    []corev1.Container{etcdContainer(in), sidecarContainer(in)},
		Volumes:                       volumes(in),
		Affinity:                      e.Spec.SchedulingConstraints.Affinity.DeepCopy(),
	}
	for _, c := range e.Spec.SchedulingConstraints.TopologySpreadConstraints {
		spec.TopologySpreadConstraints = append(spec.TopologySpreadConstraints, *c.DeepCopy())
	}
	if spec.Affinity == nil && len(spec.TopologySpreadConstraints) == 0 {
		spec.Affinity = spread(e)
	}
	if isLocal(e) && !value(e.Spec.RunAsRoot, false) {
		spec.InitContainers = []corev1.Container{localInit(in)}
	}
	return spec
}

// spread prefers nodes, and then zones, that have no other member.
func spread(e *druidv1alpha1.Etcd) *corev1.Affinity {
	apart := func(weight int32, topology string) corev1.WeightedPodAffinityTerm {
		return corev1.WeightedPodAffinityTerm{Weight: weight, PodAffinityTerm: corev1.PodAffinityTerm{
			TopologyKey:   topology,
			LabelSelector: &metav1.LabelSelector{MatchLabels: e.MemberPodLabels()},
		}}
	}
	return &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{
			apart(100, corev1.LabelHostname),
			apart(50, corev1.LabelTopologyZone),
		},
	}}
}

func podSecurity(asRoot bool) *corev1.PodSecurityContext {
	id, nonRoot := int64(user), true
	if asRoot {
		id, nonRoot = 0, false
	}
	onMismatch := corev1.FSGroupChangeOnRootMismatch
	return &corev1.PodSecurityContext{
		RunAsUser: &id, RunAsGroup: &id, FSGroup: &id, RunAsNonRoot: &nonRoot,
		FSGroupChangePolicy: &onMismatch,
		SeccompProfile:      &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
}

// containerSecurity is without capabilities, but that root may use the files that another user left: else a member that becomes root
// could not read its data, nor take the access of others from them.
func containerSecurity(asRoot bool) *corev1.SecurityContext {
	no, yes := false, true
	capabilities := &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}
	if asRoot {
		capabilities.Add = []corev1.Capability{"DAC_OVERRIDE", "FOWNER"}
	}
	return &corev1.SecurityContext{
		AllowPrivilegeEscalation: &no,
		ReadOnlyRootFilesystem:   &yes,
		Capabilities:             capabilities,
	}
}
