// Package timeline makes sense of what a listing of a bucket found: which version of each
// object counts, to which lineage it belongs, which deltas continue which full, where a chain
// ends and why, and everything about the listing that looks wrong.
//
// It reads no object and asks no clock. What an object's content says is known to it only as far
// as the caller put it into the Listing (digests, manifests, headers). It never repairs, and it
// never hides: whatever it does not use is a Finding.
package timeline
