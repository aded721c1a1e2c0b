// Package upkeep keeps a running cluster in order: it promotes the own learner, removes members
// that nobody wants, has one of these members lead instead of one outside, follows changed peer URLs
// and certificate authorities, defragments, and answers the alarms NOSPACE and CORRUPT.
//
// Each task is a pure decision over a [View] of the cluster and a runner that looks, decides and
// does one step at a time, so that whatever happens between two steps is seen by the next look.
// Promotion, peer URLs, authorities and quarantine are every sidecar's own affair, a claim to lead is
// that of the lowest ordinal; the rest is done by the sidecar of the etcd leader alone.
//
// It starts no etcd, touches no data directory and never adds a member: initialization does.
package upkeep
