package desired

import (
	"maps"
	"slices"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// The ports of a pod, when the Etcd has not got its defaults.
const (
	defaultClientPort  = 2379
	defaultPeerPort    = 2380
	defaultSidecarPort = 8080
	defaultWrapperPort = 9095
)

func clientPort(e *druidv1alpha1.Etcd) int32 {
	return value(e.Spec.Etcd.ClientPort, defaultClientPort)
}

func peerPort(e *druidv1alpha1.Etcd) int32 { return value(e.Spec.Etcd.ServerPort, defaultPeerPort) }

func sidecarPort(e *druidv1alpha1.Etcd) int32 { return value(e.Spec.Backup.Port, defaultSidecarPort) }

func wrapperPort(e *druidv1alpha1.Etcd) int32 {
	return value(e.Spec.Etcd.WrapperPort, defaultWrapperPort)
}

func clientService(in Input) *corev1.Service {
	e, everywhere := in.Etcd, corev1.ServiceInternalTrafficPolicyCluster // else clients on nodes without a member find none
	s := &corev1.Service{
		TypeMeta:   typeMeta("v1", "Service"),
		ObjectMeta: meta(e, druidv1alpha1.ComponentClientService, e.ClientServiceName()),
		Spec: corev1.ServiceSpec{
			Type:                  corev1.ServiceTypeClusterIP,
			SessionAffinity:       corev1.ServiceAffinityNone,
			InternalTrafficPolicy: &everywhere,
			Selector:              e.MemberPodLabels(),
			Ports: []corev1.ServicePort{
				port(clientPortName, clientPort(e)),
				port(serverPortName, peerPort(e)),
				port(sidecarPortName, sidecarPort(e)),
			},
		},
	}
	if in.Closed {
		s.Spec.Ports = []corev1.ServicePort{port(sidecarPortName, sidecarPort(e))}
	}
	if c := e.Spec.Etcd.ClientService; c != nil {
		labels := maps.Clone(c.Labels)
		if labels == nil {
			labels = map[string]string{}
		}
		maps.Copy(labels, s.Labels)
		s.Labels, s.Annotations = labels, maps.Clone(c.Annotations)
		s.Spec.TrafficDistribution = c.TrafficDistribution
	}
	return s
}

// Serves tells whether clients of etcd reach the members by the Service.
func Serves(s *corev1.Service) bool {
	return slices.ContainsFunc(s.Spec.Ports, func(p corev1.ServicePort) bool { return p.Name == clientPortName })
}

// peerService gives each pod a name as soon as it has an address, ready or not: members must find
// each other to become ready.
func peerService(in Input) *corev1.Service {
	e := in.Etcd
	return &corev1.Service{
		TypeMeta:   typeMeta("v1", "Service"),
		ObjectMeta: meta(e, druidv1alpha1.ComponentPeerService, e.PeerServiceName()),
		Spec: corev1.ServiceSpec{
			Type:                     corev1.ServiceTypeClusterIP,
			ClusterIP:                corev1.ClusterIPNone,
			SessionAffinity:          corev1.ServiceAffinityNone,
			Selector:                 e.MemberPodLabels(),
			PublishNotReadyAddresses: true,
			Ports:                    []corev1.ServicePort{port("peer", peerPort(e))},
		},
	}
}

func port(name string, number int32) corev1.ServicePort {
	return corev1.ServicePort{Name: name, Protocol: corev1.ProtocolTCP, Port: number, TargetPort: intstr.FromInt32(number)}
}
