package operator_test

import "testing"

// Tests go beside each other in lanes, because most of their time they wait for what may not come sooner. Those with many operators,
// or with nodes, have a lane of their own, one at a time: what goes on while they wait for the processor, such as each second's look
// at every Etcd, would be work as well. All others share another one.
var (
	heavy = make(chan struct{}, 1)
	light = make(chan struct{}, 1)
)

// together lets a test go beside those of other lanes.
func together(t *testing.T, lane chan struct{}) {
	t.Helper()
	t.Parallel()
	lane <- struct{}{}
	t.Cleanup(func() { <-lane })
}
