// Package sidecars reaches the sidecars of a cluster: by the addresses of its pods, with the token and
// the authorities that its Secrets hold at the moment.
//
// It asks them nothing but who leads the backups, and decides nothing.
package sidecars

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/semaphore"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/agentapi/httpclient"
	"druid.internal/druid/internal/operator/desired"
)

// Dialer makes clients for sidecars.
type Dialer struct {
	Secrets client.Reader
	Timeout time.Duration   // of calls that should be answered at once
	Budget  agentapi.Budget // memory for answers that are read at the same time; nil: no limit
}

// budgetBytes is the memory of one budget: the container of the operator has 512 MiB.
const budgetBytes = 64 << 20

// NewBudget returns a budget for the answers of all sidecars that one controller asks.
func NewBudget() agentapi.Budget { return semaphore.NewWeighted(budgetBytes) }

// Dial makes a client for the sidecar of a pod, whose certificate is for the host. Port and TLS are those
// with which the pod was made: while they change, some pods have the former ones.
type Dial func(ctx context.Context, pod *corev1.Pod, host string) (*agentapi.Client, error)

// Of is for the sidecars of an Etcd.
func (d Dialer) Of(ctx context.Context, e *druidv1alpha1.Etcd) (Dial, error) {
	content, err := d.Key(ctx, e, e.TokenSecretName(), desired.TokenKey)
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
			if authorities, err = d.Pool(ctx, e, sidecar.CASecret, sidecar.CA); err != nil {
				return nil, err
			}
		}
		t := bearer{token, transport(authorities, host)}
		return agentapi.NewClientOver(t, scheme+"://"+net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(int(sidecar.Port))), d.Timeout, d.Budget)
	}, nil
}

// Upstream returns a client for the sidecar of upstream at base, which takes no token.
func (d Dialer) Upstream(base string, authorities *x509.CertPool, host string) (*agentapi.Client, error) {
	return agentapi.NewClientOver(transport(authorities, host), base, d.Timeout, d.Budget)
}

func transport(authorities *x509.CertPool, host string) *http.Transport {
	return httpclient.Transport(&tls.Config{MinVersion: tls.VersionTLS12, RootCAs: authorities, ServerName: host})
}

// Leader is a client for the backup leader among the pods, which the caller closes.
func (d Dialer) Leader(ctx context.Context, e *druidv1alpha1.Etcd, pods []corev1.Pod) (*agentapi.Client, error) {
	dial, err := d.Of(ctx, e)
	if err != nil {
		return nil, err
	}
	why := errors.New("no member has a sidecar that could be asked")
	for i := range pods {
		p := &pods[i]
		n, is := e.PodOrdinal(p.Name)
		if !is || p.Status.PodIP == "" || p.DeletionTimestamp != nil || desired.OfOriginal(p.Spec) {
			continue
		}
		c, err := dial(ctx, p, e.PeerHost(n))
		if err != nil {
			why = err // the next one may have been made with what there is now
			continue
		}
		m, err := c.Member(ctx)
		switch {
		case err != nil:
			why = fmt.Errorf("no sidecar answers that leads the backups: %w", err)
		case m.Name != e.MemberName(n):
			why = fmt.Errorf("the address of the pod %s is another's: %q answers", p.Name, m.Name)
		case m.BackupLeader:
			return c, nil
		default:
			why = errors.New("no sidecar leads the backups")
		}
		c.Close()
	}
	return nil, why
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

// Authorities are those that a section of the specification names.
func (d Dialer) Authorities(ctx context.Context, e *druidv1alpha1.Etcd, t *druidv1alpha1.TLSConfig) (*x509.CertPool, error) {
	key := "ca.crt"
	if k := t.TLSCASecretRef.DataKey; k != nil && *k != "" {
		key = *k
	}
	return d.Pool(ctx, e, t.TLSCASecretRef.Name, key)
}

// Pool holds the certificates under a key of a Secret.
func (d Dialer) Pool(ctx context.Context, e *druidv1alpha1.Etcd, name, key string) (*x509.CertPool, error) {
	content, err := d.Key(ctx, e, name, key)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(content) {
		return nil, fmt.Errorf("the Secret %s holds no certificate under %s", name, key)
	}
	return pool, nil
}

// Key is what a Secret of the Etcd's namespace holds under a key.
func (d Dialer) Key(ctx context.Context, e *druidv1alpha1.Etcd, name, key string) ([]byte, error) {
	var secret corev1.Secret
	if err := d.Secrets.Get(ctx, types.NamespacedName{Namespace: e.Namespace, Name: name}, &secret); err != nil {
		return nil, fmt.Errorf("read the Secret %s: %w", name, err)
	}
	value, ok := secret.Data[key]
	if !ok {
		return nil, fmt.Errorf("the Secret %s has no key %s", name, key)
	}
	return value, nil
}
