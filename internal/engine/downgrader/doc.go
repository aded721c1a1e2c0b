// Package downgrader has the members of a running cluster bring their data into the form of the etcd
// before theirs, so that each can then be started with that etcd, one after the other. It is how a
// cluster goes back to whoever runs the earlier version, without a moment's rest and without a restore.
//
//	look at all members -> decide -> allow the downgrade -> look again -> ... -> ready
//
// It starts and stops no etcd, and makes no backup: both are its callers'. It may be ended between any
// two steps and begun again: what was done is read from the members.
package downgrader
