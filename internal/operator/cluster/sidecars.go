package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/operator/desired"
)

// asker asks the sidecars of a cluster what they know of their members. Who does not answer in time is
// left out.
type asker interface {
	ask(ctx context.Context, o *Observed) map[int]agentapi.Member
}

// askTimeout is for all sidecars of a cluster together.
const askTimeout = 3 * time.Second

// httpAsker asks by the addresses of the pods, with the token and the authorities that the Secrets
// hold at the moment.
type httpAsker struct {
	secrets client.Reader
	log     *slog.Logger
}

func (a httpAsker) ask(ctx context.Context, o *Observed) map[int]agentapi.Member {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	answers := map[int]agentapi.Member{}
	dial, err := a.dialer(ctx, o.Etcd)
	if err != nil && !o.originals() {
		a.log.Warn("the sidecars cannot be asked", "namespace", o.Etcd.Namespace, "etcd", o.Etcd.Name, "error", err)
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
	var all sync.WaitGroup
	for i := range o.Pods {
		pod := &o.Pods[i]
		n, _ := o.Etcd.PodOrdinal(pod.Name)
		if pod.Status.PodIP == "" || pod.DeletionTimestamp != nil || !everRan(pod) {
			continue
		}
		all.Go(func() {
			m, err := askPod(pod, n)
			if err == nil && m.Name != o.Etcd.MemberName(n) {
				err = fmt.Errorf("that of %q answers", m.Name) // the address belongs to another pod since
			}
			if err != nil {
				a.log.Info("a member did not answer", "namespace", pod.Namespace, "pod", pod.Name, "error", err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			answers[n] = m
		})
	}
	all.Wait()
	return answers
}

func memberOf(ctx context.Context, dial dialer, pod *corev1.Pod, host string) (agentapi.Member, error) {
	c, err := dial(ctx, pod, host)
	if err != nil {
		return agentapi.Member{}, err
	}
	defer c.Close()
	return c.Member(ctx)
}

// dialer makes a client for the sidecar of a pod, whose certificate is for the host. Port and TLS are those
// with which the pod was made: while they change, some pods have the former ones.
type dialer func(ctx context.Context, pod *corev1.Pod, host string) (*agentapi.Client, error)

func (a httpAsker) dialer(ctx context.Context, e *druidv1alpha1.Etcd) (dialer, error) {
	content, err := a.key(ctx, e, e.TokenSecretName(), desired.TokenKey)
	if err != nil {
		return nil, err
	}
	first, _, _ := strings.Cut(strings.TrimSpace(string(content)), "\n")
	token := strings.TrimSpace(first)
	return func(ctx context.Context, pod *corev1.Pod, host string) (*agentapi.Client, error) {
		sidecar, ok := desired.SidecarOf(pod.Spec)
		if !ok {
			return nil, fmt.Errorf("the pod %s has no sidecar", pod.Name)
		}
		scheme := "http"
		var authorities *x509.CertPool
		if sidecar.CASecret != "" {
			scheme = "https"
			var err error
			if authorities, err = a.pool(ctx, e, sidecar.CASecret, sidecar.CA); err != nil {
				return nil, err
			}
		}
		transport := &http.Transport{
			TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: authorities, ServerName: host},
			MaxResponseHeaderBytes: 64 << 10,
		}
		h := &http.Client{
			Transport:     bearer{token, transport},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
		return agentapi.NewClientOver(h, scheme+"://"+net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(int(sidecar.Port))), askTimeout)
	}, nil
}

// bearer shows a token with each call.
type bearer struct {
	token string
	*http.Transport
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	with := r.Clone(r.Context())
	with.Header.Set("Authorization", "Bearer "+b.token)
	return b.Transport.RoundTrip(with)
}

// authorities are those that a section of the specification names.
func (a httpAsker) authorities(ctx context.Context, e *druidv1alpha1.Etcd, t *druidv1alpha1.TLSConfig) (*x509.CertPool, error) {
	key := "ca.crt"
	if k := t.TLSCASecretRef.DataKey; k != nil && *k != "" {
		key = *k
	}
	return a.pool(ctx, e, t.TLSCASecretRef.Name, key)
}

// pool holds the certificates under a key of a Secret.
func (a httpAsker) pool(ctx context.Context, e *druidv1alpha1.Etcd, name, key string) (*x509.CertPool, error) {
	content, err := a.key(ctx, e, name, key)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(content) {
		return nil, fmt.Errorf("the Secret %s holds no certificate under %s", name, key)
	}
	return pool, nil
}

func (a httpAsker) key(ctx context.Context, e *druidv1alpha1.Etcd, name, key string) ([]byte, error) {
	var secret corev1.Secret
	if err := a.secrets.Get(ctx, types.NamespacedName{Namespace: e.Namespace, Name: name}, &secret); err != nil {
		return nil, fmt.Errorf("read the Secret %s: %w", name, err)
	}
	value, ok := secret.Data[key]
	if !ok {
		return nil, fmt.Errorf("the Secret %s has no key %s", name, key)
	}
	return value, nil
}
