// Package datadir makes etcd data directories out of backups, without running etcd: it replays
// a full snapshot and any number of deltas into one new database with exact revisions, versions
// and leases, wraps it with the membership and the write-ahead log of a new cluster, verifies
// the result and gives the directory its final name only when everything is on the disk. It
// also reads directories and database files that no etcd is using.
//
// It does not choose snapshots, fetch or decode them (see package codec), and it never opens a
// directory that a running etcd holds.
package datadir
