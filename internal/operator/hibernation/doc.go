// Package hibernation decides what comes before the members of a cluster stop because none is wanted, what
// goes on while it sleeps, and what comes when it wakes up. It is pure: what was seen goes in, one step with
// its reason comes out, and whoever decides anew from the same gets the same.
//
//	                      replicas: 0
//	awake ──────> ClosingToClients ──> TakingFinalSnapshot ──> ScalingToZero ──> DeletingVolumes ──> Hibernated
//	  ^             ports leave the      taken, read back,      every member      only if wanted       the task
//	  |             client Service,      proven, locked         stands at its     and proven           prolongs locks
//	  |             members refuse         ^         |          last revision                             |
//	  |             whoever is there       └ blocked ┘                                                    | replicas: n
//	  └────────────────────────── WakingUp: until a new full snapshot is in the bucket <──────────────────┘
//
// Members refuse clients for a time that is prolonged while they are held, so they serve them again if nobody is there to
// ask, and at once when they are wanted again. They have refused them for longer than what is told of their revisions
// can be old when they stop, and still will when they end.
//
// The record in status.hibernation is written before the step that depends on it. It counts for one uid and
// one generation of an Etcd alone, so nothing that was taken for an earlier hibernation, or of another
// cluster of the same name, lets members stop or volumes go.
package hibernation
