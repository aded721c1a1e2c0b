// Package s3 keeps backups in S3 and in what speaks its protocol (MinIO, Ceph, ECS, OCS):
// object lock, versions, tags, conditional writes.
//
// It lists versions, never "the objects", and addresses versions, never "the latest", so that
// neither a delete marker nor an overwrite can hide a backup. Everything sent carries a
// checksum, because S3 refuses a locked object without one and because a body must not be
// believed to have arrived. What the server does not tell is unknown, never "unprotected".
//
// Only [Admin] creates and configures buckets. It does not read the environment except for the
// ambient credentials of the SDK, and does not retry across calls: the SDK repeats a single
// request a few times, the rest is package retry's.
package s3
