// Package copier copies the snapshots below one prefix to another, in the same store or a
// different one: inside the store where that works, else streamed through us with bounded
// memory, and proven by size and digest. It looks, shows a Plan, and carries it out.
//
// What is copied is what can be restored: excluded and damaged objects and chunks stay behind,
// and so do owner records, because a copy belongs to whoever writes into it first. Nothing is
// ever deleted or overwritten, and locks at the destination are those its bucket gives.
//
// A copy may be interrupted anywhere and run again: what has arrived is found in the
// destination's own listing. A State in a local file (None, Copied or NotFound for each object)
// is a record for people, and saves reading again what no manifest proves, such as all that has
// neither a version ID nor a lock and may have been overwritten since; being local it needs
// no right to rewrite anything in a write-once bucket, and losing it loses nothing.
package copier
