// Package retention decides what may leave a bucket: for every version of every object below
// a prefix whether it is kept, deleted, or ought to go but is still protected, and why.
//
// It deletes nothing and asks neither a store nor a clock: a Plan is a value that can be
// printed, tested and, by the collector alone, carried out. What a policy wants never depends
// on locks or proofs; what is allowed does. Whatever the policy says, these hold:
//
//   - nothing is deleted that is newer than, or part of, the newest chain of its lineage that was
//     proven by reading it (see Proof); without such a chain nothing is deleted
//   - the newest chain by the listing is kept whole, and so is the stream being written
//   - what a kept delta needs to be restorable is kept
//   - a lineage goes only when a newer one has a proven chain
//   - nothing under a lock or a hold is deleted, nor anything whose lock is unknown
//   - parts of an upload that may still be running are kept, and so is what may still be
//     waiting for its manifest
//   - a key is deleted whole or not at all, the version that counts last
//   - no policy deletes nothing, and owner records are none of its business
package retention
