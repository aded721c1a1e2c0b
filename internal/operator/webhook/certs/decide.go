package certs

import (
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Lifetimes are how long things are good for.
type Lifetimes struct {
	Authority time.Duration
	Serving   time.Duration
	// Settle is how long the API server's configuration must have named an authority before anything is
	// signed with it: API servers learn of it by a watch.
	Settle time.Duration
	// Look is how often is looked at all of it, and at most how late an operator serves what is new.
	Look time.Duration
}

// Usual lifetimes. What is due is replaced when a third of its life is left, so every certificate can be
// missed for a month, and every authority for a year, before anything stops working.
var Usual = Lifetimes{Authority: 3 * 365 * 24 * time.Hour, Serving: 90 * 24 * time.Hour, Settle: time.Minute, Look: time.Minute}

// Facts are what was found.
type Facts struct {
	Material
	// Names by which the API server reaches the webhook.
	Names []string
	// Trusted are the authorities of the API server's configuration.
	Trusted []*x509.Certificate
	// TrustedFor is how long the newest authority has been seen there; 0: it is not, or was just now.
	TrustedFor time.Duration
}

// Plan is what shall be there, and why it differs.
type Plan struct {
	Material
	Reasons []string // empty: the Secret stays as it is
}

// Decide says what is made anew. What it makes depends on nothing but the facts and random numbers.
func Decide(f Facts, life Lifetimes, now time.Time) (Plan, error) {
	p := Plan{Material: f.Material}
	p.Authorities = slices.DeleteFunc(slices.Clone(f.Authorities), func(a *x509.Certificate) bool { return now.After(a.NotAfter) })
	for _, a := range f.Authorities {
		if now.After(a.NotAfter) {
			p.because("the authority of serial number %x has ended", a.SerialNumber)
		}
	}
	fresh := false
	if why := f.authorityIsDue(now); why != "" {
		if len(p.Authorities) == 0 {
			// The Secret was lost: what other operators serve at the moment goes on being trusted.
			p.Authorities = slices.DeleteFunc(slices.Clone(f.Trusted), func(a *x509.Certificate) bool { return now.After(a.NotAfter) })
		}
		a, key, err := newAuthority(now, life.Authority)
		if err != nil {
			return Plan{}, err
		}
		p.Authorities, p.AuthorityKey, fresh = slices.Insert(p.Authorities, 0, a), key, true
		p.because("a new authority, because %s", why)
	}
	why, urgent := p.servingIsDue(f.Names, now)
	if why == "" || !urgent && (fresh || f.TrustedFor < life.Settle) {
		return p, nil
	}
	serving, err := newServing(p.Authorities[0], p.AuthorityKey, f.Names, now, life.Serving)
	if err != nil {
		return Plan{}, err
	}
	p.Serving = serving
	p.because("a new certificate, because %s", why)
	return p, nil
}

func (p *Plan) because(reason string, args ...any) {
	p.Reasons = append(p.Reasons, fmt.Sprintf(reason, args...))
}

// authorityIsDue says why a new authority is needed; empty: it is not.
func (m Material) authorityIsDue(now time.Time) string {
	switch {
	case len(m.Authorities) == 0:
		return "there is none"
	case m.AuthorityKey == nil:
		return "the key of the former is lost"
	case due(m.Authorities[0], now):
		return "the former ends at " + m.Authorities[0].NotAfter.UTC().Format(time.RFC3339)
	}
	return ""
}

// servingIsDue says why a new certificate is needed. urgent: nobody can connect with the one there is.
func (m Material) servingIsDue(names []string, now time.Time) (why string, urgent bool) {
	if m.Serving == nil {
		return "there is none", true
	}
	leaf, roots := m.Serving.Leaf, x509.NewCertPool()
	for _, a := range m.Authorities {
		roots.AddCert(a)
	}
	for _, name := range names {
		if _, err := leaf.Verify(x509.VerifyOptions{DNSName: name, Roots: roots, CurrentTime: now}); err != nil {
			return "the former does not do: " + strings.TrimPrefix(err.Error(), "x509: "), true
		}
	}
	switch {
	case due(leaf, now):
		return "the former ends at " + leaf.NotAfter.UTC().Format(time.RFC3339), false
	case leaf.CheckSignatureFrom(m.Authorities[0]) != nil:
		return "there is a newer authority", false
	}
	return "", false
}

// due: a third of its life is left, or less.
func due(c *x509.Certificate, now time.Time) bool {
	return c.NotAfter.Sub(now) <= c.NotAfter.Sub(c.NotBefore.Add(skew))/3
}
