// Package storetest proves that a provider keeps the contract of package store, and offers an
// honest store in memory for the tests of everything above.
//
// Run is the conformance suite: a provider's test is a factory and one call. Memory is a
// bucket with versions, markers, locks, holds, tags and a clock of its own, and with the
// attacks a real bucket suffers from others. Faulty wraps any store, Memory or a real one,
// and injects failures by script; it also tells a test of every operation before and after
// it happens, which is how crash tests find the moments to strike at.
//
// What a run showed can be kept: Report.Publish, one line before Run, has each case's outcome
// (proven, fallback proven, not proven here and why) compared with a file that is committed,
// and docs/reference/stores.md is made of these files. A case in which a provider cannot do
// something says so by Options.note, never by a bare return.
//
// It measures no speed and knows no provider.
package storetest
