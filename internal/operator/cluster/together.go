package cluster

import (
	"context"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// togetherWithin is how long is waited for more, when something about the objects of an Etcd changed:
// controllers of Kubernetes and sidecars change several within moments, and one look is for all.
const togetherWithin = 200 * time.Millisecond

// together has changes that come close to each other looked at together. What was there when the
// operator began is not waited for.
func together(h handler.EventHandler) handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) {
			if !e.IsInInitialList {
				q = waiting{q}
			}
			h.Create(ctx, e, q)
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) { h.Update(ctx, e, waiting{q}) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { h.Delete(ctx, e, waiting{q}) },
	}
}

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// waiting is a queue to which everything is added a little later.
type waiting struct{ queue }

func (w waiting) Add(r reconcile.Request) { w.AddAfter(r, togetherWithin) }
