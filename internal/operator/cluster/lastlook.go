package cluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// lastLook asks the API server for the pods beside one that is about to be deleted, and says which of those that the decision
// counted on is not what it was; empty: all are. Since they were looked at the sidecars were asked and other Etcds served, which
// takes seconds, and a drain or another operator may have taken one meanwhile: without both there may be no majority.
func (r *Reconciler) lastLook(ctx context.Context, o *Observed, going string) (string, error) {
	for _, was := range o.Pods {
		if was.Name == going || !podReady(was) || was.DeletionTimestamp != nil {
			continue
		}
		var is corev1.Pod
		err := r.live.Get(ctx, client.ObjectKeyFromObject(was), &is)
		switch {
		case apierrors.IsNotFound(err):
			return was.Name + " is gone", nil
		case err != nil:
			return "", fmt.Errorf("look at pod %s before %s goes: %w", was.Name, going, err)
		case is.UID != was.UID:
			return was.Name + " is another one", nil
		case is.DeletionTimestamp != nil:
			return was.Name + " is being deleted", nil
		case !podReady(&is):
			return was.Name + " is not ready any more", nil
		}
	}
	return "", nil
}
