// Package dbstream watches an etcd database file go by, once and in file order, and knows at
// its end whether the file arrived whole and which revision it contains.
//
// It never holds the file: memory is a few bytes per recently written page. It changes
// nothing of what passes through, opens no database and verifies no page; that the content
// makes sense is the restorer's business.
package dbstream
