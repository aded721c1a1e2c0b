// Package member talks to a running etcd: the snapshot stream, the watch of everything, the
// few questions a backup asks (status, revision, HashKV, leases), and the administration of
// the cluster (members, learners, alarms, leadership, defragmentation).
//
// Every answer comes from one member, the one a [Member] was made for: a revision read
// from one member says nothing about the database file of another. What the cluster decides is
// asked of a [Cluster], through whichever endpoint can answer. The package verifies no content,
// waits for nothing and plans nothing; callers decide what a failure means.
package member
