// Package adoption judges whether a running cluster of the original is taken over, and what has to be
// done before its objects can be applied like any others.
//
// Most of a take-over is no business of this package: names, Services, ports and paths are the
// original's, so its objects are changed in place, and its pods are replaced like those of any other
// change, one at a time while all members are healthy. Three things are different, and are decided here:
//
//   - What runs must be what the specification says, and an etcd whose data etcd 3.6 reads. Otherwise
//     nothing is touched, and the reason names the way out.
//   - A StatefulSet from before the original had today's labels cannot be changed into ours. It is
//     deleted without its pods, and made anew around them.
//   - Until then pods and volume claims have to carry the labels by which the new one finds them.
//
// It reads nothing and changes nothing, and it says nothing about the order of the pods: that is
// rollout's.
package adoption
