// Package oss keeps backups in Alibaba Cloud OSS: bucket retention policies (WORM), versions,
// tags, refusal to overwrite.
//
// It lists versions, never "the objects", and addresses versions, never "the latest", so that
// neither a delete marker nor an overwrite can hide a backup. Where a bucket keeps no versions
// the server is asked to refuse an overwrite (x-oss-forbid-overwrite); where it does keep them
// OSS ignores that wish, and a further version appears.
//
// Locks are the bucket's alone: its retention policy protects every object for a number of
// days from its last modification. A policy that was only begun (InProgress) protects as well,
// but it can be aborted and lapses after a day unless it is completed, so it counts as no more
// than that. Everything sent carries an MD5, and the CRC-64 that OSS computes is compared
// with ours. Of what is read it is not: that would take twice as long, and whoever reads a
// backup checks the SHA-256 of its content.
//
// Only [Admin] creates and configures buckets. It does not read the environment, offers no locks of
// single objects (OSS has them by invitation only), and does not retry across calls: the SDK
// repeats a single request a few times, the rest is package retry's.
package oss
