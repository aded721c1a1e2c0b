// Package gcs keeps backups in Google Cloud Storage, through its JSON API: retention policies
// of buckets, retention of single objects, holds, generations, metadata, conditional writes.
//
// A version is a generation. In a bucket that keeps none but the live one the live generation
// has no ID; noncurrent ones that are there all the same, because versions were kept once, are
// listed with theirs, so that nothing can be hidden by switching versions off. Google has no
// delete markers: of a key whose live generation was deleted the others stay listed, and none
// of them is the latest.
//
// An object is one upload, never composed of several: the parts would stay for as long as the
// bucket's policy keeps everything. Every change names the generation and the state of the
// metadata it is meant for, so that what the SDK repeats cannot do harm.
//
// Only [Admin] creates and configures buckets. It reads no environment except through the SDK where
// the identity is ambient, and does not retry across calls: a single request is repeated a few
// times, the rest is package retry's.
package gcs
