package kube

import (
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// againSoon is when something that failed is tried again first.
const againSoon = 5 * time.Millisecond

// Again is when an object is looked at once more of which something failed: later each time, but never later than atMost. By itself
// controller-runtime goes up to 17 minutes, in which what mended it is not noticed.
func Again(atMost time.Duration) workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](againSoon, atMost)
}
