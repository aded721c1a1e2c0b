package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"druid.internal/druid/internal/operator/kube"
)

// claimPatience is how long a claim has before it is in trouble, and a StatefulSet to make its pods.
const claimPatience = 30 * time.Second

// How often is asked for the events of claims in trouble: the more rarely, the longer they are. Nobody
// else keeps events in a cache, so each question is a search for the API server.
const (
	claimsOften  = 30 * time.Second
	claimsSeldom = 5 * time.Minute
)

// involved is an object of which events are asked for.
type involved struct{ kind, name string }

// claimNews is what was told of an Etcd's claims that are in trouble, and of its StatefulSet.
type claimNews struct {
	since, asked time.Time
	events       []corev1.Event
}

// stale: it is time to ask again.
func (n claimNews) stale(now time.Time) bool {
	return now.Sub(n.asked) >= min(max(claimsOften, n.asked.Sub(n.since)), claimsSeldom)
}

// claimEvents reads what is told of volume claims that are in trouble or may be, and of a StatefulSet that makes
// fewer pods than it should: a quota may refuse them.
func (r *Reconciler) claimEvents(ctx context.Context, o *Observed) {
	now, uid := r.now(), o.Etcd.UID
	troubled := append(troubledClaims(o, now), podless(o, now)...)
	r.mu.Lock()
	news, known := r.claims[uid]
	if known && len(troubled) == 0 {
		delete(r.claims, uid)
	}
	r.mu.Unlock()
	if len(troubled) == 0 {
		return
	}
	if !known {
		news.since = now
	}
	if news.stale(now) {
		events, err := r.eventsOf(ctx, o.Etcd.Namespace, troubled)
		if err != nil { // they only make a message better, and those who have them in trouble need the rest
			r.log(ctx).Info("what is told of the volume claims and pods cannot be read", "error", err)
			events = news.events
		}
		news.asked, news.events = now, events
		r.mu.Lock()
		r.claims[uid] = news
		r.mu.Unlock()
	}
	for _, e := range news.events {
		if e.InvolvedObject.Kind == kindStatefulSet {
			o.SetEvents = append(o.SetEvents, e)
		} else {
			o.ClaimEvents = append(o.ClaimEvents, e)
		}
	}
}

const kindStatefulSet = "StatefulSet"

// podless is the StatefulSet if pods of it do not exist that it should have made.
func podless(o *Observed, now time.Time) []involved {
	s := o.StatefulSet
	if s == nil || len(o.Pods) >= int(o.replicas()) || now.Sub(s.CreationTimestamp.Time) < claimPatience {
		return nil
	}
	return []involved{{kindStatefulSet, s.Name}}
}

// troubledClaims are those that are not bound, or smaller than they should be, or whose pod is on a node and not ready, for which the
// volume may be the reason.
func troubledClaims(o *Observed, now time.Time) (all []involved) {
	unready := map[string]bool{}
	for _, p := range o.Pods {
		if p.Spec.NodeName != "" && !podReady(p) && now.Sub(unreadySince(p)) >= claimPatience {
			for _, v := range p.Spec.Volumes {
				if v.PersistentVolumeClaim != nil {
					unready[v.PersistentVolumeClaim.ClaimName] = true
				}
			}
		}
	}
	for _, c := range o.Claims {
		want, has := c.Spec.Resources.Requests[corev1.ResourceStorage], c.Status.Capacity[corev1.ResourceStorage]
		if (c.Status.Phase != corev1.ClaimBound || has.Cmp(want) < 0 || unready[c.Name]) && now.Sub(c.CreationTimestamp.Time) >= claimPatience {
			all = append(all, involved{"PersistentVolumeClaim", c.Name})
		}
	}
	return all
}

// maxEvents limits the events about one object, in bytes. Fifty have some 50 KiB.
const maxEvents = 1 << 20

// eventsOf are the warnings about objects.
func (r *Reconciler) eventsOf(ctx context.Context, namespace string, about []involved) (all []corev1.Event, err error) {
	for _, i := range about {
		var list corev1.EventList
		err := r.live.List(kube.LimitAnswer(ctx, maxEvents), &list, client.InNamespace(namespace), client.MatchingFields{
			"involvedObject.kind": i.kind, "involvedObject.name": i.name, "type": corev1.EventTypeWarning,
		}, client.Limit(50))
		if errors.Is(err, kube.ErrTooLarge) {
			r.log(ctx).Warn("the events about an object are too large to be read", "namespace", namespace, "kind", i.kind, "name", i.name, "bytes", maxEvents)
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list the events of %s %s: %w", i.kind, i.name, err)
		}
		all = append(all, list.Items...)
	}
	return all, nil
}
