// Package agent is the sidecar of one etcd member: it puts together what its sub-packages do and
// runs it until it is told to stop.
//
//	initialize ──▶ data directory, etcd's configuration      before etcd starts
//	follow     ──▶ what etcd is at the moment                 while it runs
//	backup     ──▶ the bucket, while the own etcd leads
//	upkeep     ──▶ learners, members, databases, alarms
//	serve      ──▶ whoever asks
//
// It decides nothing itself, and opens no store: it is given functions that do.
package agent
