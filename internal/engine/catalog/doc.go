// Package catalog reads what a bucket holds below a prefix: it lists every version of
// everything, reads the small objects that explain the large ones (manifests, headers of
// deltas, owner records), and hands the result to package timeline, which makes sense of it.
//
// It judges nothing itself, reads no snapshot's content unless a digest has to be measured, and
// writes only owner records. A store that does not answer is an error, never a shorter catalog.
package catalog
