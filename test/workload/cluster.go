package workload

import (
	"fmt"

	"go.etcd.io/etcd/api/v3/mvccpb"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// newLeases makes the heartbeats of nodes, and behind them those of controllers that elect
// leaders. A renewal changes two times.
func newLeases(k *Kubernetes, n, nodes int) kind {
	all := make([]*coordinationv1.Lease, n)
	for i := range all {
		holder, ns := nodeName(i), "kube-node-lease"
		if i >= nodes {
			holder, ns = fmt.Sprintf("controller-%d_%s", i, k.uid()), namespace(i)
		}
		seconds, acquired := int32(40), k.microTime()
		all[i] = &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("lease-%05d", i), Namespace: ns, UID: k.uid(), CreationTimestamp: k.time(),
				ManagedFields: []metav1.ManagedFieldsEntry{k.managed("kubelet", leaseFields, "")}},
			Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &acquired, AcquireTime: &acquired},
		}
	}
	put := func(i int) *mvccpb.Event {
		o := all[i]
		return k.put("/registry/leases/"+o.Namespace+"/"+o.Name, stored("coordination.k8s.io/v1", "Lease", o), 0)
	}
	return kind{share: 57, count: n, put: put, change: func() *mvccpb.Event {
		i := k.rnd.IntN(n)
		renewed, t := k.microTime(), k.time()
		all[i].Spec.RenewTime = &renewed
		all[i].ManagedFields[0].Time = &t
		return put(i)
	}}
}

// newNodes makes nodes, whose kubelets report all conditions with a new time, and the images.
func newNodes(k *Kubernetes, n int) kind {
	all := make([]*corev1.Node, n)
	for i := range all {
		all[i] = k.node(i)
	}
	put := func(i int) *mvccpb.Event {
		return k.put("/registry/minions/"+all[i].Name, stored("v1", "Node", all[i]), 0)
	}
	return kind{share: 4, count: n, put: put, change: func() *mvccpb.Event {
		i, t := k.rnd.IntN(n), k.time()
		for c := range all[i].Status.Conditions {
			all[i].Status.Conditions[c].LastHeartbeatTime = t
		}
		all[i].ManagedFields[0].Time = &t
		return put(i)
	}}
}

func (k *Kubernetes) node(i int) *corev1.Node {
	t := k.time()
	o := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName(i), UID: k.uid(), CreationTimestamp: t,
		Labels: map[string]string{"kubernetes.io/arch": "amd64", "kubernetes.io/hostname": nodeName(i), "topology.kubernetes.io/zone": fmt.Sprintf("zone-%d", i%3),
			"worker.example.org/pool": "a", "node.kubernetes.io/instance-type": "large-16"},
		Annotations: map[string]string{"csi.volume.kubernetes.io/nodeid": `{"csi.example.org":"i-` + k.hex(16) + `"}`, "node.alpha.kubernetes.io/ttl": "0",
			"checksum/cloud-config-data": k.hex(64)},
		ManagedFields: []metav1.ManagedFieldsEntry{k.managed("kubelet", nodeFields, "status")}}}
	for range 40 {
		o.Status.Images = append(o.Status.Images, corev1.ContainerImage{Names: []string{"registry.example.org/releases/image-" + k.hex(8) + "@sha256:" + k.hex(64)}, SizeBytes: k.rnd.Int64N(1 << 28)})
	}
	for _, c := range []corev1.NodeConditionType{"MemoryPressure", "DiskPressure", "PIDPressure", "Ready", "KernelDeadlock", "ReadonlyFilesystem", "NetworkUnavailable"} {
		o.Status.Conditions = append(o.Status.Conditions, corev1.NodeCondition{Type: c, Status: corev1.ConditionFalse, Reason: "KubeletHas" + string(c),
			Message: "kubelet has sufficient resources available", LastHeartbeatTime: t, LastTransitionTime: t})
	}
	o.Status.NodeInfo = corev1.NodeSystemInfo{MachineID: k.hex(32), SystemUUID: k.hex(32), BootID: k.hex(32), KernelVersion: "6.12.30-cloud-amd64",
		OSImage: "Linux 13.1", ContainerRuntimeVersion: "containerd://2.1.4", KubeletVersion: "v1.36.2", Architecture: "amd64", OperatingSystem: "linux"}
	o.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("16"), corev1.ResourceMemory: resource.MustParse("65000000Ki"), corev1.ResourcePods: resource.MustParse("110")}
	o.Status.Allocatable = o.Status.Capacity
	return o
}

// newEndpointSlices makes slices of 1 to 12 endpoints, one of which becomes ready or unready.
func newEndpointSlices(k *Kubernetes, n, nodes int) kind {
	all := make([]*discoveryv1.EndpointSlice, n)
	for i := range all {
		o := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("service-%05d-%s", i, k.hex(5)), Namespace: namespace(i), UID: k.uid(),
			CreationTimestamp: k.time(), Labels: map[string]string{"kubernetes.io/service-name": fmt.Sprintf("service-%05d", i)}, Annotations: map[string]string{},
			ManagedFields: []metav1.ManagedFieldsEntry{k.managed("kube-controller-manager", sliceFields, "")}}, AddressType: discoveryv1.AddressTypeIPv4}
		for range 1 + i%12 {
			ready, node := true, nodeName(k.rnd.IntN(nodes))
			o.Endpoints = append(o.Endpoints, discoveryv1.Endpoint{Addresses: []string{k.ip()}, Conditions: discoveryv1.EndpointConditions{Ready: &ready},
				NodeName: &node, TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: o.Namespace, Name: "pod-" + k.hex(10), UID: k.uid()}})
		}
		all[i] = o
	}
	put := func(i int) *mvccpb.Event {
		o := all[i]
		return k.put("/registry/endpointslices/"+o.Namespace+"/"+o.Name, stored("discovery.k8s.io/v1", "EndpointSlice", o), 0)
	}
	return kind{share: 4, count: n, put: put, change: func() *mvccpb.Event {
		i, t := k.rnd.IntN(n), k.time()
		o := all[i]
		e := &o.Endpoints[k.rnd.IntN(len(o.Endpoints))]
		ready := !*e.Conditions.Ready
		e.Conditions.Ready = &ready
		o.Generation++
		o.Annotations["endpoints.kubernetes.io/last-change-trigger-time"] = k.now.Format("2006-01-02T15:04:05Z07:00")
		o.ManagedFields[0].Time = &t
		return put(i)
	}}
}

const (
	leaseFields = `{"f:metadata":{"f:ownerReferences":{".":{},"k:{\"uid\":\"x\"}":{}}},"f:spec":{"f:holderIdentity":{},"f:leaseDurationSeconds":{},"f:renewTime":{}}}`
	nodeFields  = `{"f:metadata":{"f:annotations":{"f:csi.volume.kubernetes.io/nodeid":{}}},"f:status":{"f:allocatable":{"f:cpu":{},"f:memory":{}},"f:capacity":{"f:cpu":{},"f:memory":{}},"f:conditions":{"k:{\"type\":\"DiskPressure\"}":{"f:lastHeartbeatTime":{}},"k:{\"type\":\"MemoryPressure\"}":{"f:lastHeartbeatTime":{}},"k:{\"type\":\"PIDPressure\"}":{"f:lastHeartbeatTime":{}},"k:{\"type\":\"Ready\"}":{"f:lastHeartbeatTime":{}}},"f:images":{},"f:nodeInfo":{"f:bootID":{}}}}`
	sliceFields = `{"f:addressType":{},"f:endpoints":{},"f:metadata":{"f:annotations":{".":{},"f:endpoints.kubernetes.io/last-change-trigger-time":{}},"f:labels":{".":{},"f:kubernetes.io/service-name":{}}},"f:ports":{}}`
)
