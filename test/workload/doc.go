// Package workload makes the two histories that speed and memory are measured with, and the
// buckets and databases that hold them: "random", values that hardly compress, and "kubernetes",
// the objects of a control plane, of which every change touches a few fields.
//
// The same seed gives the same bytes, so figures of different days compare. It measures nothing,
// and it makes only histories without defects: damage is made elsewhere.
package workload

import "go.etcd.io/etcd/api/v3/mvccpb"

// Generator makes the events of a history, one per revision, from revision 2 on without an end.
type Generator interface {
	// Next returns the event of the next revision. It belongs to the caller.
	Next() *mvccpb.Event
}
