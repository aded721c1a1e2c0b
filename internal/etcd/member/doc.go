// Package member talks to a running etcd: the snapshot stream, the watch of everything, and
// the few questions a backup asks (status, revision, HashKV, leases).
//
// Every answer comes from one member, the one a [Member] was made for: a revision read
// from one member says nothing about the database file of another. The package verifies no
// content and retries nothing; callers decide what a failure means.
package member
