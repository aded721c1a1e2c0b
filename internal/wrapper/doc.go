// Package wrapper is etcd's supervisor: it asks the backup sidecar to make the data directory
// ready, fetches etcd's configuration from it, runs etcd within the process, tells probes how etcd
// fares, and ends it so that the others of the cluster notice little: leadership goes to the member
// that is furthest before etcd stops.
//
// One life of etcd after the other:
//
//	initialize -> configure -> examine -> start -> serve -> hand over -> stop
//	    ^                                                                  |
//	    +----------------------------- restart ----------------------------+
//
// A learner may be started twice in one life, see introduction.
//
// It decides nothing about data: whether they are restored, thrown away or used is the sidecar's.
// All it does itself is to refuse data that this etcd could not be started on without harm. It
// takes no backups, changes no membership and repairs nothing. When etcd fails, it ends with an
// error and leaves it to whoever started the process to start another one.
package wrapper
