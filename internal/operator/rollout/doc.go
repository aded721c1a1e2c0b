// Package rollout decides how the pods of a cluster are replaced and how their number changes: which
// pod goes now, which members the configuration lists, how many pods the StatefulSet has, and with
// which scheme the members reach each other.
//
// Both decisions are pure functions of what is the case. Nothing is remembered between two calls,
// so whoever carries the steps out may be stopped at any point, and may carry a step out twice.
//
// [Next] replaces pods of a StatefulSet that replaces none itself (OnDelete):
//
//	idle pods          at once, even while backups or other members are ill: the pod takes no part
//	                   in the quorum, so nothing gets worse, and the new template may mend it
//	followers          one at a time, the highest ordinal first, only while everybody else takes
//	                   part, is ready, and the backups are healthy
//	the leader         last, after somebody else leads
//
// A pod whose volume claim is being deleted takes its volume along. It goes only while a majority has the data
// without it.
//
// [Scale] changes the number of members in the one order in which nothing is lost:
//
//	out   list the new members -> raise the replicas -> each joins as a learner, then votes
//	in    list without them -> the sidecars remove them, with regard to the quorum -> lower the replicas
//	TLS   certificates into all pods -> the other scheme is listed -> the sidecars move one member
//	      after the other -> certificates out of the pods, if they are not needed any more
//
// It deliberately does nothing about members whose data are lost or damaged: the sidecars decide
// about data. It adds and removes no member of etcd either; it lists who is wanted, and waits.
package rollout
