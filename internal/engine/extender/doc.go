// Package extender keeps the newest backup of a cluster that sleeps locked: it finds what a restore
// to the newest revision needs, reads it before its lock is prolonged for the first time and
// sometimes later, prolongs every lock that ends soon in the cheapest way the store has, and tells
// only ends that were read back.
//
//	catalog ─> chain ─> locks ─> decide ─> verify ─> prolong ─> read back ─> old copies go
//	             ^                            │
//	             └──── without what is damaged┘
//
// A full that is named is kept besides, whatever is newer, and comes first: whoever may write can add what is newer.
//
// It keeps no state: whether something was prolonged before is seen in the end of its lock, or in the
// manifest of a copy. Whatever is damaged is never prolonged. Nothing is deleted here: copies that it
// made and that have expired are left to package collector.
package extender
