// Package snapshotter backs up a running etcd into a store until it is stopped: full snapshots
// by a schedule and on demand, and between them deltas that hold every event.
//
//	etcd ── watch of everything ──▶ buffer ──▶ Incr-…     one after the other, without a gap
//	     ── snapshot stream ───────────────▶ Full-…       on its own, while deltas go on
//	                                    └──▶ Manifest-…   when the full is complete
//
// The deltas of one lineage form a single sequence that the fulls do not interrupt. A full is
// named after the end of the last delta before it, so that the next delta continues its name,
// whether or not the content of the full is ahead of it. Deltas that continue nothing, because
// there is no full yet or etcd has forgotten revisions, wait for the next full.
//
// A session is one run over one history of etcd, from one reading of the bucket on. Trouble
// that does not question the history (a store or an etcd that does not answer) is waited out
// within the session, and nothing received is dropped, unless there is no room for it: that is said,
// and a full, which needs none, makes up for it. Whatever questions it (etcd is behind
// what was backed up, another cluster answers) ends the session; the next one finds out from
// the bucket, the data directory and etcd what is true. The bucket alone decides where a session
// starts, so that a crash at any moment costs nothing but an overlap.
//
// The package deletes nothing, restores nothing and runs no etcd.
package snapshotter
