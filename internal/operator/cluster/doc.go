// Package cluster is the controller of Etcds. Each look at one goes through four files:
//
//	observe.go   what is there, from the manager's cache; the sidecars are asked only while something changes
//	decide.go    what follows from it: a plan with reasons. Pure
//	apply.go     carries the plan out: objects first, then what is superfluous, then at most one pod
//	report.go    the status, written only when it differs
//
// Nothing is remembered between two looks but what saves requests: whatever step the operator is
// killed at, the next look begins from what is there.
//
// It deliberately knows no etcd and no bucket: how a cluster is comes from the Leases and EtcdMembers
// that the sidecars write, and from the sidecars' HTTP API. How objects look is in package desired,
// in which order pods and members change in package rollout, what is healthy in package health.
package cluster
