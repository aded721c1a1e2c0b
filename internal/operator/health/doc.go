// Package health says how a cluster is: which members work, which conditions hold, and how many
// pods must stay when a node is drained.
//
// Everything is a function of what was observed and of the time. What was found before counts only
// for the times of transitions, and for a cluster without pods, whose conditions stay as they were.
//
// Whether a member works is told by its Lease, which its sidecar renews, and by its pod. What a
// member says of itself in its EtcdMember is evidence: it makes messages, and the backups are
// judged by it, always by the times in it and never by its revisions, which fall when a cluster is
// restored.
//
// It deliberately observes nothing and mends nothing, and knows no metrics.
package health
