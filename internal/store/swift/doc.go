// Package swift keeps backups in OpenStack Swift and in what speaks its protocol (Ceph).
//
// Swift has no object lock, and this package says so: whoever may write to a container may
// delete and overwrite everything in it. Versions are not used either. What remains is care:
//
//   - Put looks whether the key is taken, asks the server to refuse an overwrite
//     (If-None-Match: *, which only some servers honour), and looks again after a long upload.
//     Of two who write one key at the very same moment, the later may still win: see
//     Options.ConditionalPut.
//   - What does not fit into one segment becomes a static large object: segments below the
//     key, each with its MD5 verified by the server, and last of all a manifest that lists
//     them with their digests. Only the manifest makes the object visible, and a server does
//     not serve it once a segment is missing or altered.
//   - Large objects of the original are dynamic ones: an empty manifest and all segments that
//     are found below its name. They are read segment by segment with their digests verified.
//   - A large object of either kind is one object to the users of the port: its segments are
//     not listed, its size is that of all segments, and it is deleted as a whole, the manifest
//     first. What a crash leaves behind is segments without a manifest, which are listed each
//     on its own and never look like a snapshot.
//
// Swift's listings are updated with delay when the cluster is under load, so an object may be
// listed late. Only [Admin] creates containers. This package does not read the
// environment, and does not retry across calls: a single request is repeated a few times, the
// rest is package retry's.
package swift
