// Package backup is what a sidecar does about backups. The sidecar beside the leader of etcd
// writes them: it runs the snapshotter against its own etcd, lets go of what a policy lets go,
// keeps a second store like the first, looks through the bucket, and proves or compacts the newest
// chain on request.
//
//	etcd's status ──▶ Leader.Run ──▶ term of leadership ──▶ snapshotter
//	every second      follows it                        ├─▶ collection     by period
//	                                                    ├─▶ second store   by period
//	                                                    └─▶ survey         by period
//
// There is no election of its own: whoever leads etcd writes. Two may write for a moment, while
// leadership moves; what they write overlaps, has the same content, and is resolved by readers. A
// store that is down, slow or denying ends nothing: it is waited out, and told.
//
// It opens no store by itself, serves nothing, restores nothing and changes nothing about etcd but
// its leader, and that only if this member's data differ from the majority's.
package backup
