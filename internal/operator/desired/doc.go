// Package desired makes the objects of an Etcd: what stands in Kubernetes when everything is as it
// should be.
//
// It is pure: the same input gives the same objects, byte for byte, so that a reconcile without a
// change sends nothing. How many members there are at the moment, and by which scheme they reach each
// other, is decided elsewhere (package rollout) and given to it.
package desired
