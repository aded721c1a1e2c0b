// Package kube tells Kubernetes of one etcd member: it renews the member's Lease, which is its
// heartbeat, and writes the status of its EtcdMember, which is what the member says of itself.
//
//	board ──▶ heartbeat ──▶ Lease       holder and time, while etcd sees a leader
//	      └─▶ publisher ──▶ EtcdMember  status; the annotation create-as-learner goes when it votes
//
// Both are made by the operator and never here. What an EtcdMember said before this process began
// is read once and continued, so that a restart of the sidecar loses no history.
//
// Nobody waits for it: whatever the API server does, it tries again later, and etcd and the backups
// do not notice. It asks nobody but the API server, decides nothing, and knows neither the
// environment nor where credentials are: it is given a client that shows them. It needs three
// requests, and speaks them itself: client-go would be half the size of the program.
package kube
