package desired

import (
	cryptotls "crypto/tls"
	"crypto/x509"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
)

// PeerCertificateFault says why members could not reach each other with what the Secrets hold that
// spec.etcd.peerUrlTls names, and what to do; empty: they could. A Secret that is nil does not exist.
// Members present the same certificate as servers and as clients, and there are so many of them.
func PeerCertificateFault(e *druidv1alpha1.Etcd, server, authority *corev1.Secret, members int, now time.Time) string {
	peer := e.Spec.Etcd.PeerUrlTLS
	name, ca := peer.ServerTLSSecretRef.Name, peer.TLSCASecretRef.Name
	if server == nil {
		return fmt.Sprintf("the Secret %s does not exist", name)
	}
	if authority == nil {
		return fmt.Sprintf("the Secret %s does not exist", ca)
	}
	pair, err := cryptotls.X509KeyPair(server.Data[corev1.TLSCertKey], server.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return fmt.Sprintf("the Secret %s has no certificate with its key in %s and %s: %s", name, corev1.TLSCertKey, corev1.TLSPrivateKeyKey, err)
	}
	key := value(peer.TLSCASecretRef.DataKey, caKey)
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authority.Data[key]) {
		return fmt.Sprintf("the Secret %s has no certificate of an authority in %s", ca, key)
	}
	leaf := pair.Leaf
	for _, der := range pair.Certificate[1:] {
		if c, err := x509.ParseCertificate(der); err == nil {
			between.AddCert(c)
		}
	}
	for _, use := range []struct {
		of   x509.ExtKeyUsage
		name string
	}{{x509.ExtKeyUsageServerAuth, "server auth"}, {x509.ExtKeyUsageClientAuth, "client auth"}} {
		_, err := leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{use.of}})
		if err != nil {
			return fmt.Sprintf("the certificate in the Secret %s is not valid for %q by the authority in the Secret %s: %s", name, use.name, ca, err)
		}
	}
	var unnamed []string
	for i := range members {
		if host := e.PeerHost(i); leaf.VerifyHostname(host) != nil {
			unnamed = append(unnamed, host)
		}
	}
	if len(unnamed) > 0 {
		return fmt.Sprintf("the certificate in the Secret %s is not for %s: issue it with these DNS names, or with *.%s.%s.svc", name, strings.Join(unnamed, ", "), e.PeerServiceName(), e.Namespace)
	}
	return ""
}
