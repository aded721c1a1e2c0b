// Package gcsworm puts before fake-gcs-server what it lacks of Google Cloud Storage and what
// write-once backups stand on: retention policies of buckets, retention of single objects,
// holds, generations in all buckets, preconditions, the protocol of resumable uploads, tokens
// and permissions. It has a clock that can be moved; all it tells, the Date header included,
// is by that clock.
//
// Bytes, sizes and checksums are fake-gcs-server's; everything about an object is this
// package's and is forgotten when the process ends.
//
// It encodes what Google documents, not what was observed there: each rule names the page of
// cloud.google.com/storage/docs that it stands on. The conformance tests run the same probes
// against a real account when they are given one.
//
// It is no emulator of Google Cloud Storage: what no test here needs is passed on or refused.
package gcsworm
