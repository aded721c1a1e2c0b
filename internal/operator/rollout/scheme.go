package rollout

import (
	"fmt"
	"slices"
	"strings"
)

// scheme says how the members' scheme differs from the wanted one. Empty: it does not.
func (f ScaleFacts) scheme() string {
	var other []string
	for _, m := range f.Members {
		if m.PeerTLS != f.WantPeerTLS {
			other = append(other, m.Name)
		}
	}
	switch {
	case len(other) > 0:
		return strings.Join(other, ", ")
	case f.PeerTLS != f.WantPeerTLS:
		return "the configuration"
	}
	return ""
}

// switchScheme changes how peers are reached. The members do it one after the other; a change of
// size and the replacement of pods wait for them.
func (f ScaleFacts) switchScheme() ScaleStep {
	to := "http"
	if f.WantPeerTLS {
		to = "https"
	}
	s := f.keep("peers change to %s", to)
	if f.PeerTLS == f.WantPeerTLS {
		s.Waits = fmt.Sprintf("%s to change to %s, one after the other", f.scheme(), to)
		s.Hold = "the change of peers to " + to
		return s
	}
	if why := f.ill(f.Listed); why != "" {
		s.Waits = "healthy members: " + why
		return s
	}
	if f.WantPeerTLS && (!f.Mounted || len(f.Uncertified) > 0) {
		s.Waits = "every pod to have the certificates for peers" + because(strings.Join(slices.Sorted(slices.Values(f.Uncertified)), ", "))
		return s
	}
	if f.WantPeerTLS && f.CertificateFault != "" {
		s.Waits = "certificates with which members reach each other: " + f.CertificateFault
		return s
	}
	// Members restart their etcds, whose sidecars would lose them if clients were served otherwise from then on, and no pod would be
	// replaced before all have done so.
	if f.Otherwise != "" {
		s.Waits = "every pod to have the newest template: " + f.Otherwise
		return s
	}
	s.PeerTLS = f.WantPeerTLS
	s.Hold = "the change of peers to " + to
	return s
}
