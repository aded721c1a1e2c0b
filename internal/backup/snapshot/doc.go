// Package snapshot names the objects of a backup: full and delta snapshots with their
// revision ranges, manifests, owner records and lineages, and the keys they have in a bucket.
//
// It reads and writes no object: it is the vocabulary that every other package of
// internal/backup and the engine share.
package snapshot
