package cluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// mayGo says whether a pod that was decided about may still be deleted: those beside it that the decision counted on are, by the API
// server, what they were. Since they were looked at the sidecars were asked and other Etcds served, which
// takes seconds, and a drain or another operator may have taken one meanwhile: without both there may be no majority.
func (r *Reconciler) mayGo(ctx context.Context, o *Observed, going string) (bool, error) {
	why, err := r.unlike(ctx, o, going)
	if why != "" {
		r.log(ctx).Info("a pod stays for now", "pod", going, "reason", why)
	}
	return why == "" && err == nil, err
}

// unlike says which pod but one is not what it was; empty: all are.
func (r *Reconciler) unlike(ctx context.Context, o *Observed, going string) (string, error) {
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
