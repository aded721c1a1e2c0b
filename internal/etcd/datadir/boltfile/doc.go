// Package boltfile reads and writes bolt database files without transactions: a Reader walks
// the pages of a file that nobody changes, checking every bound instead of trusting it, and a
// Writer lays sorted records down in one sequential pass.
//
//	page 0, 1   meta: where the root bucket is, how many pages there are
//	page 2...   leaves and branches of the first bucket, in the order they were filled
//	...         the other buckets, the root bucket, an empty free list
//
// It replaces bolt only where bolt does too much: reading while memory is scarce, checking
// damaged files, and bulk loading. It never changes an existing file.
package boltfile

import "errors"

// ErrCorrupt is wrapped by every error about the structure of a file.
var ErrCorrupt = errors.New("corrupt bolt database")

const (
	magic        = 0xED0CDAED
	version      = 2
	pageHeader   = 16
	element      = 16 // bytes of an element's header, in leaves and in branches
	metaBytes    = 64 // of the structure behind the header of a meta page
	bucketHeader = 16 // bytes before the page of an inline bucket
	noFreelist   = ^uint64(0)
	maxDepth     = 64 // of a tree; 2 children per branch would already be 2^64 pages
)

const (
	branchPage   = 0x01
	leafPage     = 0x02
	metaPage     = 0x04
	freelistPage = 0x10
	bucketEntry  = 0x01 // flag of a leaf element
)
