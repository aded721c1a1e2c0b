// Package volumes decides what is done about the volumes of a cluster's members: how they grow, and what
// becomes of one that its member cannot work with.
//
// [Decide] is a pure function of what is the case. It names at most one step, with the rule that it
// follows from:
//
//	1  what is under way   a claim that we deleted goes with its pod; the StatefulSet is made anew
//	2  a sick volume       read-only: replaced, once for each volume
//	                       somebody else's data: the pod is restarted, once for each volume
//	3  growth              the claims ask for more, where their class can grow volumes
//	                       the StatefulSet's template, which cannot be changed, is made anew
//	                       else the members get new volumes, one after the other, the leader last
//
// A step that destroys something is taken only while everybody else votes, is healthy and is a quorum by
// themselves. What it acts on is written down before it, see [Record], so that neither a crash nor
// the old words of a member have it done twice. Whoever carries the steps out may be stopped between any
// two of them.
//
// It deliberately removes no member from etcd: a member that comes back with an empty volume is
// replaced in the list and joins as a learner by its own sidecar, which decides about data. The only
// copy of the data is never given up here, and no volume ever shrinks.
package volumes
