package certs

import (
	"context"
	"crypto/tls"
	"slices"
	"time"
)

// First sees to it that there is a certificate that the API server trusts when an operator begins, whoever
// leads: that may be one without a webhook, which ends only once this one is ready.
//
// It makes what is missing and judges no time: what is due, or has ended, is up to the [Keeper]. It takes no
// authority out of what is trusted. Once there is what it wants it ends.
type First struct{ keeper *Keeper }

// NewFirst does what a keeper would do first.
func NewFirst(k *Keeper) *First { return &First{k} }

// NeedLeaderElection is false: who waits for the lease waits for the certificate before.
func (*First) NeedLeaderElection() bool { return false }

// Start looks until nothing is missing.
func (f *First) Start(ctx context.Context) error {
	for wait := impatience; ; wait = min(2*wait, f.keeper.life.Look) {
		err := f.look(ctx)
		if err == nil || ctx.Err() != nil {
			return nil
		}
		if !faster(err) {
			f.keeper.log.Warn("the webhook may have no certificate that the API server trusts, it is tried again", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// look is nil if nothing is missing.
func (f *First) look(ctx context.Context) error {
	k := f.keeper
	configuration, secret, facts, err := k.find(ctx)
	if err != nil {
		return err
	}
	authorities := facts.Authorities
	if _, err := tls.X509KeyPair(secret.Data[keyServing], secret.Data[keyServingKey]); err != nil {
		p, err := Decide(facts, k.life, k.clock())
		if err != nil {
			return err
		}
		if err := k.write(ctx, secret, p); err != nil {
			return err
		}
		authorities = p.Authorities
	}
	changed := false
	for i := range configuration.Webhooks {
		to := &configuration.Webhooks[i].ClientConfig
		there := parseAll(to.CABundle)
		for _, a := range authorities {
			if slices.ContainsFunc(there, a.Equal) {
				continue
			}
			if n := len(to.CABundle); n > 0 && to.CABundle[n-1] != '\n' {
				to.CABundle = append(to.CABundle, '\n')
			}
			to.CABundle = append(to.CABundle, encode("CERTIFICATE", a.Raw)...)
			changed = true
		}
	}
	if !changed {
		return nil
	}
	return k.tell(ctx, configuration)
}
