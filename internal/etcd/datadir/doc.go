// Package datadir makes etcd data directories out of backups, without running etcd: it replays
// a full snapshot and any number of deltas into one new database with exact revisions, versions
// and leases, wraps it with the membership and the write-ahead log of a new cluster, verifies
// the result and gives the directory its final name only when everything is on the disk. It
// also reads directories and database files that no etcd is using.
//
// Before an etcd starts, [Inspect] tells what its directory is good for: from the log and the
// database, with the same choices that etcd would make, and with the damage at which etcd would
// end its process or, worse, go on. [Settle] applies what only the log has, [SetAside] takes data
// away without losing them.
//
// It does not choose snapshots, fetch or decode them (see package codec), does not decide what
// becomes of a member, and never opens a directory that a running etcd holds. It runs etcd in
// Settle only.
package datadir
