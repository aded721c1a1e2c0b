package certs

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Keeper looks after the Secret and after whom the API server trusts. One operator at a time has one.
type Keeper struct {
	secret        types.NamespacedName
	configuration string
	live          client.Reader
	writer        client.Writer
	life          Lifetimes
	clock         func() time.Time
	log           *slog.Logger

	// newest is the authority of the last look, and since when the configuration has been seen to name it.
	newest *seen
}

type seen struct {
	authority []byte
	since     time.Time
}

// NewKeeper is for a Secret and a ValidatingWebhookConfiguration, which live reads past any cache.
func NewKeeper(secret types.NamespacedName, configuration string, live client.Reader, writer client.Writer, life Lifetimes, log *slog.Logger) *Keeper {
	return &Keeper{secret: secret, configuration: configuration, live: live, writer: writer, life: life, clock: time.Now, log: log}
}

// NeedLeaderElection is true: what is due, and what has ended, is up to one clock.
func (*Keeper) NeedLeaderElection() bool { return true }

// Start looks until ctx ends.
func (k *Keeper) Start(ctx context.Context) error {
	for {
		wait := k.life.Look
		if err := k.look(ctx); faster(err) {
			wait = min(wait, impatience)
		} else if err != nil && ctx.Err() == nil {
			k.log.Error("the certificates of the webhook could not be looked after, it is tried again", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// faster: another operator wrote in the meantime, so this one looks again at what is there.
func faster(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }

// look makes what is due: the Secret first, so that what is trusted is never lost.
func (k *Keeper) look(ctx context.Context) error {
	configuration, secret, f, err := k.find(ctx)
	if err != nil {
		return err
	}
	now := k.clock()
	f.TrustedFor = k.trustedFor(f, configuration.Webhooks, now)
	p, err := Decide(f, k.life, now)
	if err != nil {
		return err
	}
	if len(p.Reasons) > 0 {
		if err := k.write(ctx, secret, p); err != nil {
			return err
		}
	}
	return k.trust(ctx, configuration, p.bundle())
}

// find reads the configuration before the Secret. What is trusted is in the Secret before: so who writes the configuration
// as it was read, by the Secret as it was read, leaves out nothing that has come to be trusted in the meantime.
func (k *Keeper) find(ctx context.Context) (*admissionregistrationv1.ValidatingWebhookConfiguration, *corev1.Secret, Facts, error) {
	configuration, secret := &admissionregistrationv1.ValidatingWebhookConfiguration{}, &corev1.Secret{}
	if err := k.live.Get(ctx, types.NamespacedName{Name: k.configuration}, configuration); err != nil {
		return nil, nil, Facts{}, fmt.Errorf("read the ValidatingWebhookConfiguration %s: %w", k.configuration, err)
	}
	names, err := namesOf(configuration.Webhooks)
	if err != nil {
		return nil, nil, Facts{}, fmt.Errorf("ValidatingWebhookConfiguration %s: %w", k.configuration, err)
	}
	if err := k.live.Get(ctx, k.secret, secret); client.IgnoreNotFound(err) != nil {
		return nil, nil, Facts{}, fmt.Errorf("read the Secret %s: %w", k.secret, err)
	}
	return configuration, secret, Facts{Material: read(secret.Data), Names: names, Trusted: trusted(configuration.Webhooks)}, nil
}

// trustedFor is how long every webhook has been seen to be asked under the newest authority.
func (k *Keeper) trustedFor(f Facts, webhooks []admissionregistrationv1.ValidatingWebhook, now time.Time) time.Duration {
	if len(f.Authorities) == 0 {
		return 0
	}
	newest := f.Authorities[0]
	for i := range webhooks {
		if !slices.ContainsFunc(parseAll(webhooks[i].ClientConfig.CABundle), newest.Equal) {
			k.newest = nil
			return 0
		}
	}
	if k.newest == nil || !bytes.Equal(k.newest.authority, newest.Raw) {
		k.newest = &seen{newest.Raw, now}
	}
	return now.Sub(k.newest.since)
}

func (k *Keeper) write(ctx context.Context, secret *corev1.Secret, p Plan) error {
	data, err := p.data()
	if err != nil {
		return err
	}
	secret.Data = data
	if secret.ResourceVersion != "" {
		err = k.writer.Update(ctx, secret)
	} else {
		secret.ObjectMeta = metav1.ObjectMeta{Name: k.secret.Name, Namespace: k.secret.Namespace, Labels: map[string]string{"app.kubernetes.io/name": "etcd-druid"}}
		secret.Type = corev1.SecretTypeTLS
		err = k.writer.Create(ctx, secret)
	}
	if err != nil {
		return fmt.Errorf("write the Secret %s: %w", k.secret, err)
	}
	k.log.Info("the certificates of the webhook were renewed", "reasons", strings.Join(p.Reasons, "; "),
		"authorities", len(p.Authorities), "until", p.Serving.Leaf.NotAfter)
	return nil
}

// trust has the API server trust the authorities, if it does not.
func (k *Keeper) trust(ctx context.Context, c *admissionregistrationv1.ValidatingWebhookConfiguration, bundle []byte) error {
	changed := false
	for i := range c.Webhooks {
		to := &c.Webhooks[i].ClientConfig
		changed = changed || !bytes.Equal(to.CABundle, bundle)
		to.CABundle = bundle
	}
	if !changed {
		return nil
	}
	return k.tell(ctx, c)
}

func (k *Keeper) tell(ctx context.Context, c *admissionregistrationv1.ValidatingWebhookConfiguration) error {
	if err := k.writer.Update(ctx, c); err != nil {
		return fmt.Errorf("have the API server trust the webhook's authority: %w", err)
	}
	k.log.Info("the API server was told whom to trust for the webhook")
	return nil
}

// trusted are the authorities that any of the webhooks is asked under.
func trusted(webhooks []admissionregistrationv1.ValidatingWebhook) []*x509.Certificate {
	var all []byte
	for i := range webhooks {
		all = append(all, webhooks[i].ClientConfig.CABundle...)
	}
	return parseAll(all)
}

// namesOf are the names by which the API server reaches the webhooks.
func namesOf(webhooks []admissionregistrationv1.ValidatingWebhook) ([]string, error) {
	var names []string
	for i := range webhooks {
		switch c := webhooks[i].ClientConfig; {
		case c.Service != nil:
			names = append(names, c.Service.Name+"."+c.Service.Namespace+".svc")
		case c.URL != nil:
			at, err := url.Parse(*c.URL)
			if err != nil {
				return nil, fmt.Errorf("webhook %s: %w", webhooks[i].Name, err)
			}
			names = append(names, at.Hostname())
		}
	}
	if len(names) == 0 {
		return nil, errors.New("it has no webhook that could be reached")
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}
