// Package e2e tries whole journeys on real parts: etcdbrctl as a process against a real etcd and
// a real object store, killed and cut off at every step, and judged by an independent record of
// what etcd did.
//
// It holds only tests; single packages are tested beside their code.
package e2e
