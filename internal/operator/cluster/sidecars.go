package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/operator/desired"
	"druid.internal/druid/internal/operator/sidecars"
)

// asker asks the sidecars of a cluster what they know of their members. Who does not answer in time is
// left out; why nobody can be asked at all is put down in [Observed.Unasked].
type asker interface {
	ask(ctx context.Context, o *Observed) map[int]agentapi.Member
	// refuse has members refuse clients for so long, or admit them with 0. Whether they do is seen with the next look.
	refuse(ctx context.Context, o *Observed, d time.Duration)
}

// askTimeout is for all sidecars of a cluster together.
const askTimeout = 3 * time.Second

// httpAsker asks by the addresses of the pods, with the token and the authorities that the Secrets
// hold at the moment.
type httpAsker struct {
	secrets client.Reader
	budget  agentapi.Budget
	log     *slog.Logger
}

func (a httpAsker) ask(ctx context.Context, o *Observed) map[int]agentapi.Member {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	answers := map[int]agentapi.Member{}
	dial, err := a.dialer(ctx, o.Etcd)
	if err != nil && !o.originals() {
		a.log.Warn("the sidecars cannot be asked", "namespace", o.Etcd.Namespace, "etcd", o.Etcd.Name, "error", err)
		o.Unasked = "the sidecars cannot be asked: " + err.Error()
		return answers
	}
	askPod := func(pod *corev1.Pod, n int) (agentapi.Member, error) {
		switch {
		case desired.OfOriginal(pod.Spec):
			return a.askEtcd(ctx, o.Etcd, pod.Status.PodIP)
		case err != nil:
			return agentapi.Member{}, err
		}
		return memberOf(ctx, dial, pod, o.Etcd.PeerHost(n))
	}
	var mu sync.Mutex
	each(o, func(pod *corev1.Pod, n int) {
		m, err := askPod(pod, n)
		if err == nil && m.Name != o.Etcd.MemberName(n) {
			err = fmt.Errorf("that of %q answers", m.Name) // the address belongs to another pod since
		}
		if err != nil {
			a.log.Info("a member did not answer", "namespace", pod.Namespace, "pod", pod.Name, "error", agentapi.Clip(err.Error(), agentapi.MaxText))
			return
		}
		mu.Lock()
		defer mu.Unlock()
		answers[n] = m
	})
	return answers
}

// podsAtOnce is how many pods of one Etcd are asked at the same time: as many as a large cluster has.
const podsAtOnce = 16

// each calls do for every pod that can be asked, at the same time, and waits.
func each(o *Observed, do func(pod *corev1.Pod, n int)) {
	var all sync.WaitGroup
	turns := make(chan struct{}, podsAtOnce)
	for _, pod := range askable(o) {
		n, _ := o.Etcd.PodOrdinal(pod.Name)
		all.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			do(pod, n)
		})
	}
	all.Wait()
}

// refuse asks those that just answered as members of this cluster, and know how: what is behind an address is known to be
// the one that is meant.
func (a httpAsker) refuse(ctx context.Context, o *Observed, d time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	dial, err := a.dialer(ctx, o.Etcd)
	if err != nil {
		a.log.Warn("the sidecars cannot be asked", "namespace", o.Etcd.Namespace, "etcd", o.Etcd.Name, "error", err)
		return
	}
	each(o, func(pod *corev1.Pod, n int) {
		if m := o.Sidecars[n]; m.Refusal == nil || m.Refusal.Impossible != "" {
			return
		}
		log := a.log.With("namespace", pod.Namespace, "pod", pod.Name, "refuse", d.String())
		c, err := dial(ctx, pod, o.Etcd.PeerHost(n))
		if err == nil {
			defer c.Close()
			_, err = c.Refuse(ctx, d)
		}
		if err != nil {
			log.Warn("a member was not told how to treat clients", "error", err)
			return
		}
		log.Info("a member was told how to treat clients")
	})
}

func memberOf(ctx context.Context, dial dialer, pod *corev1.Pod, host string) (agentapi.Member, error) {
	c, err := dial(ctx, pod, host)
	if err != nil {
		return agentapi.Member{}, err
	}
	defer c.Close()
	return c.Member(ctx)
}

// dialer makes a client for the sidecar of a pod.
type dialer = sidecars.Dial

func (a httpAsker) dialer(ctx context.Context, e *druidv1alpha1.Etcd) (dialer, error) {
	return a.dials().Of(ctx, e)
}

func (a httpAsker) dials() sidecars.Dialer {
	return sidecars.Dialer{Secrets: a.secrets, Timeout: askTimeout, Budget: a.budget}
}
