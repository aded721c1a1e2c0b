package certs

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Serving has the certificate of the Secret for a server. Every operator has one.
type Serving struct {
	secret types.NamespacedName
	live   client.Reader
	every  time.Duration
	log    *slog.Logger
	now    atomic.Pointer[tls.Certificate]
}

// NewServing reads the Secret with live, again and again while it runs.
func NewServing(secret types.NamespacedName, live client.Reader, every time.Duration, log *slog.Logger) *Serving {
	return &Serving{secret: secret, live: live, every: every, log: log}
}

// NeedLeaderElection is false: every operator is asked by the API server.
func (*Serving) NeedLeaderElection() bool { return false }

// impatience is how often is looked for the first certificate.
const impatience = time.Second

// Start reads until ctx ends. A certificate that was read is kept until there is another that can be.
func (s *Serving) Start(ctx context.Context) error {
	for {
		wait := s.every
		if err := s.look(ctx); err != nil && ctx.Err() == nil {
			if s.now.Load() == nil {
				wait = min(wait, impatience)
			}
			s.log.Warn("the certificate of the webhook could not be read, it is tried again", "secret", s.secret, "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

func (s *Serving) look(ctx context.Context) error {
	var secret corev1.Secret
	if err := s.live.Get(ctx, s.secret, &secret); err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(secret.Data[keyServing], secret.Data[keyServingKey])
	if err != nil {
		return fmt.Errorf("%s and %s: %w", keyServing, keyServingKey, err)
	}
	if before := s.now.Swap(&pair); before == nil || !before.Leaf.Equal(pair.Leaf) {
		s.log.Info("the webhook has a certificate", "until", pair.Leaf.NotAfter)
	}
	return nil
}

// GetCertificate is for [tls.Config].
func (s *Serving) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if c := s.now.Load(); c != nil {
		return c, nil
	}
	return nil, errors.New("there is no certificate for the webhook yet")
}
