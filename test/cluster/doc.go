// Package cluster runs a real Kubernetes for tests: the API server with its etcd and controller
// manager alone, which takes seconds and no privileges, or with nodes that run pods: containerd,
// kubelet, kube-proxy, scheduler, DNS and volumes that grow.
//
// A cluster belongs to the process that starts it and dies with it, however that ends. What a
// killed process leaves, files and empty control groups, the next start removes ([Sweep]).
// Several clusters can be up side by side.
//
// It installs nothing (the commands come from package stores, and a missing one is an error with
// the command that installs it), and it knows nothing of the operator.
package cluster
