package workload

import (
	"fmt"

	"go.etcd.io/etcd/api/v3/mvccpb"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// pods are those of the control planes, and the events about them.
type pods struct {
	k      *Kubernetes
	nodes  int
	all    []*corev1.Pod
	told   []*corev1.Event // events that live, the oldest first
	lease  int64           // of new events
	leased int             // events attached to it
}

// The API server attaches up to a thousand events to one etcd lease.
const (
	firstLease     = 0x694d8c1f00000001
	eventsPerLease = 1000
	eventsAlive    = 6000
	eventsRecent   = 500 // among which a repeated one is found
)

func newPods(k *Kubernetes, n, nodes int) *pods {
	p := &pods{k: k, nodes: nodes, all: make([]*corev1.Pod, n), lease: firstLease}
	for i := range p.all {
		p.all[i] = p.make(i)
	}
	return p
}

func (p *pods) put(i int) *mvccpb.Event {
	o := p.all[i]
	return p.k.put(podKey(o), stored("v1", "Pod", o), 0)
}

func podKey(o *corev1.Pod) string { return "/registry/pods/" + o.Namespace + "/" + o.Name }

// statuses: the kubelet reports that a container became ready or ceased to be.
func (p *pods) statuses() kind {
	return kind{share: 15, count: len(p.all), put: p.put, change: func() *mvccpb.Event {
		i := p.k.rnd.IntN(len(p.all))
		o, t := p.all[i], p.k.time()
		o.Status.Phase = corev1.PodRunning
		for c := 1; c <= 2; c++ {
			condition := &o.Status.Conditions[c]
			condition.LastTransitionTime = t
			if condition.Status == corev1.ConditionTrue {
				condition.Status, condition.Reason, condition.Message = corev1.ConditionFalse, "ContainersNotReady", "containers with unready status: [main]"
			} else {
				condition.Status, condition.Reason, condition.Message = corev1.ConditionTrue, "", ""
			}
		}
		container := &o.Status.ContainerStatuses[0]
		container.RestartCount += int32(p.k.rnd.IntN(2))
		container.Ready = !container.Ready
		o.ManagedFields[1].Time = &t
		return p.put(i)
	}}
}

// replacements: a pod is deleted and another one made.
func (p *pods) replacements() kind {
	return kind{share: 2, change: func() *mvccpb.Event {
		i := p.k.rnd.IntN(len(p.all))
		deleted := p.k.remove(podKey(p.all[i]))
		p.all[i] = p.make(i)
		return p.k.both(deleted, func() *mvccpb.Event { return p.put(i) })
	}}
}

// events: something is worth telling about a pod, for the first time or again.
func (p *pods) events() kind {
	return kind{share: 12, change: func() *mvccpb.Event {
		if p.leased++; p.leased > eventsPerLease {
			p.lease, p.leased = p.lease+1, 1
		}
		if n := len(p.told); n > eventsRecent && p.k.rnd.IntN(3) == 0 {
			e, t := p.told[n-1-p.k.rnd.IntN(eventsRecent)], p.k.time()
			e.Count++
			e.LastTimestamp = t
			e.ManagedFields[0].Time = &t
			return p.putEvent(e)
		}
		e := p.event(p.all[p.k.rnd.IntN(len(p.all))])
		p.told = append(p.told, e)
		var expired *mvccpb.Event
		if len(p.told) > eventsAlive {
			expired = p.k.remove(eventKey(p.told[0]))
			p.told = p.told[1:]
		}
		return p.k.both(expired, func() *mvccpb.Event { return p.putEvent(e) })
	}}
}

func (p *pods) putEvent(e *corev1.Event) *mvccpb.Event {
	return p.k.put(eventKey(e), stored("v1", "Event", e), p.lease)
}

func eventKey(e *corev1.Event) string { return "/registry/events/" + e.Namespace + "/" + e.Name }

func (p *pods) event(o *corev1.Pod) *corev1.Event {
	k, t := p.k, p.k.time()
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: o.Name + "." + k.hex(16), Namespace: o.Namespace, UID: k.uid(), CreationTimestamp: t,
			ManagedFields: []metav1.ManagedFieldsEntry{k.managed("kubelet", eventFields, "")}},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: o.Namespace, Name: o.Name, UID: o.UID, APIVersion: "v1", FieldPath: "spec.containers{main}"},
		Reason:         "Unhealthy",
		Message:        fmt.Sprintf("Readiness probe failed: Get \"https://%s:10258/healthz\": context deadline exceeded (Client.Timeout exceeded while awaiting headers)", o.Status.PodIP),
		Type:           corev1.EventTypeWarning, Count: 1, FirstTimestamp: t, LastTimestamp: t,
		Source:              corev1.EventSource{Component: "kubelet", Host: o.Spec.NodeName},
		ReportingController: "kubelet", ReportingInstance: o.Spec.NodeName,
	}
}

var apps = []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "cloud-controller-manager", "csi-driver-controller", "prometheus", "dns-controller", "machine-controller"}

// make makes the i-th pod anew, under a new name.
func (p *pods) make(i int) *corev1.Pod {
	k, t := p.k, p.k.time()
	app, ns, template, owner, ip := apps[i%len(apps)], namespace(i), k.hex(10), k.uid(), k.ip()
	condition := func(kind corev1.PodConditionType, status corev1.ConditionStatus) corev1.PodCondition {
		return corev1.PodCondition{Type: kind, Status: status, LastTransitionTime: t}
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: app + "-" + template + "-" + k.hex(5), GenerateName: app + "-" + template + "-", Namespace: ns, UID: k.uid(), CreationTimestamp: t,
			Labels: map[string]string{"app": app, "role": "controlplane", "pod-template-hash": template,
				"networking.example.org/to-dns": "allowed", "networking.example.org/to-public-networks": "allowed"},
			Annotations:     map[string]string{"checksum/config": k.hex(64), "checksum/secret-ca": k.hex(64), "prometheus.io/scrape": "true"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: app + "-" + template, UID: owner}},
			ManagedFields: []metav1.ManagedFieldsEntry{
				k.managed("kube-controller-manager", fmt.Sprintf(podSpecFields, owner), ""),
				k.managed("kubelet", fmt.Sprintf(podStatusFields, ip), "status")},
		},
		Spec: corev1.PodSpec{
			NodeName: nodeName(k.rnd.IntN(p.nodes)), ServiceAccountName: app, SchedulerName: "default-scheduler", DNSPolicy: corev1.DNSClusterFirst, RestartPolicy: corev1.RestartPolicyAlways,
			Containers: []corev1.Container{{
				Name: "main", Image: "registry.example.org/releases/" + app + "@sha256:" + k.hex(64), ImagePullPolicy: corev1.PullIfNotPresent,
				Args:      []string{"--kubeconfig=/etc/kubeconfig", "--tls-cert-file=/srv/tls.crt", "--tls-private-key-file=/srv/tls.key", "--v=2", "--namespace=" + ns, "--leader-elect=true", "--concurrent-syncs=20"},
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("50m"), corev1.ResourceMemory: resource.MustParse("128Mi")}},
				LivenessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromInt32(10258), Scheme: corev1.URISchemeHTTPS}},
					PeriodSeconds: 10, FailureThreshold: 3, TimeoutSeconds: 5},
				VolumeMounts: []corev1.VolumeMount{{Name: "config", MountPath: "/etc/config"}, {Name: "kube-api-access-" + k.hex(5), MountPath: "/var/run/secrets/kubernetes.io/serviceaccount", ReadOnly: true}},
			}},
			Volumes: []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: app + "-config-" + k.hex(8)}}}}},
			Tolerations: []corev1.Toleration{
				{Key: "node.kubernetes.io/not-ready", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
				{Key: "node.kubernetes.io/unreachable", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodPending, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}}, HostIP: "10.250.0.7", StartTime: &t, QOSClass: corev1.PodQOSBurstable,
			Conditions: []corev1.PodCondition{condition(corev1.PodInitialized, corev1.ConditionTrue), condition(corev1.PodReady, corev1.ConditionFalse),
				condition(corev1.ContainersReady, corev1.ConditionFalse), condition(corev1.PodScheduled, corev1.ConditionTrue)},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "main", Image: "registry.example.org/releases/" + app, ImageID: "sha256:" + k.hex(64), ContainerID: "containerd://" + k.hex(64)}},
		},
	}
}

const (
	eventFields     = `{"f:count":{},"f:firstTimestamp":{},"f:involvedObject":{},"f:lastTimestamp":{},"f:message":{},"f:reason":{},"f:reportingComponent":{},"f:source":{"f:component":{},"f:host":{}},"f:type":{}}`
	podSpecFields   = `{"f:metadata":{"f:annotations":{".":{},"f:checksum/config":{},"f:prometheus.io/scrape":{}},"f:generateName":{},"f:labels":{".":{},"f:app":{},"f:pod-template-hash":{},"f:role":{}},"f:ownerReferences":{".":{},"k:{\"uid\":\"%s\"}":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"main\"}":{".":{},"f:args":{},"f:image":{},"f:imagePullPolicy":{},"f:livenessProbe":{".":{},"f:failureThreshold":{},"f:httpGet":{".":{},"f:path":{},"f:port":{},"f:scheme":{}},"f:periodSeconds":{},"f:timeoutSeconds":{}},"f:name":{},"f:resources":{".":{},"f:requests":{".":{},"f:cpu":{},"f:memory":{}}},"f:volumeMounts":{".":{},"k:{\"mountPath\":\"/etc/config\"}":{".":{},"f:mountPath":{},"f:name":{}}}}},"f:dnsPolicy":{},"f:enableServiceLinks":{},"f:restartPolicy":{},"f:schedulerName":{},"f:securityContext":{},"f:terminationGracePeriodSeconds":{},"f:volumes":{}}}`
	podStatusFields = `{"f:status":{"f:conditions":{"k:{\"type\":\"ContainersReady\"}":{".":{},"f:lastProbeTime":{},"f:lastTransitionTime":{},"f:status":{},"f:type":{}},"k:{\"type\":\"Initialized\"}":{".":{},"f:lastProbeTime":{},"f:lastTransitionTime":{},"f:status":{},"f:type":{}},"k:{\"type\":\"Ready\"}":{".":{},"f:lastProbeTime":{},"f:lastTransitionTime":{},"f:status":{},"f:type":{}}},"f:containerStatuses":{},"f:hostIP":{},"f:phase":{},"f:podIP":{},"f:podIPs":{".":{},"k:{\"ip\":\"%s\"}":{".":{},"f:ip":{}}},"f:startTime":{}}}`
)
