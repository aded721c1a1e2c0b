// Package stores provides the real servers that tests and demonstrations run against: object
// stores and etcd. It builds each pinned version once, caches the binary by version, starts it
// with TLS by a CA of its own, waits until it answers, and stops it by its own process.
//
// Servers are executed, never linked (etcd is linked into a program of its own, not into
// tests), and a missing one fails a test with the command that installs it; nothing is
// skipped. Servers die with the process that started them.
//
// It does not judge what a server does: conformance is storetest's business.
package stores
