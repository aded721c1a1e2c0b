// Package initialize decides how the etcd of one member is started, and prepares its data for it:
// with the data that are there, restored from the backup, as a learner of the cluster the others
// form, or as a new cluster.
//
// A [Machine] looks at [Facts], lets [Decide], which is pure, take one [Decision] by them, does
// what it says one durable step at a time, and looks again, until etcd may be started. What it
// cannot know yet it waits for. It starts no etcd, promotes no learner and takes no backup.
//
// # Why there is never a second cluster
//
// Two things must not happen: that a cluster is begun while another one lives or may come back,
// and that a member that has acknowledged writes comes back without them under its old id, so that
// a majority no longer is one.
//
// Several members begin a cluster only with each other's word. Each one whose volume is empty
// writes a random number, its nonce, to its volume and publishes it. A member begins when, in one
// look that came after its own nonce was on the disk, every other one is empty and has a nonce. It
// first writes down and publishes which nonces it saw; from then on its own nonce is used up. The
// ids of the cluster and of its members are computed from all these nonces. So:
//
//   - A member whose volume is lost has another nonce, hence another id: nothing takes it for the
//     member it was.
//   - Members that saw different nonces have different clusters, and etcd keeps those apart.
//   - Who comes later may still begin with the others if every one that began saw this very
//     nonce. Otherwise it waits for their cluster and joins that as a learner.
//
// Restoring a cluster from the backup is for the one wanted member with the lowest ordinal: when
// every other one, in one look, is empty and has no nonce, and it has none itself any more. A
// member can only begin with a nonce that it made after that look, and will not find one at the
// restoring member.
//
//	volume  no nonce -- offer --> nonce -- all others seen --> saw, nonce used up --> etcd begins
//	           ^                   |                                 |
//	           +---- withdraw -----+------------- emptied -----------+
//
// A member that has data is never made empty while it may be needed: only if no client ever wrote
// to it, if its cluster has removed it, or if it is damaged. What is replaced is set aside.
package initialize
