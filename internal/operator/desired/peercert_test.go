package desired

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
)

// issuer is a certificate authority.
type issuer struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

var issued = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

func newIssuer(t *testing.T) issuer {
	t.Helper()
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: issued, NotAfter: issued.AddDate(10, 0, 0), KeyUsage: x509.KeyUsageCertSign,
	}
	key, der := sign(t, c, c, nil)
	return issuer{c, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

func sign(t *testing.T, c, parent *x509.Certificate, by *ecdsa.PrivateKey) (*ecdsa.PrivateKey, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if by == nil {
		by = key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, by)
	if err != nil {
		t.Fatal(err)
	}
	return key, der
}

// secret is a certificate for some names, valid for a year.
func (i issuer) secret(t *testing.T, uses []x509.ExtKeyUsage, names ...string) *corev1.Secret {
	t.Helper()
	key, der := sign(t, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "peer"}, DNSNames: names,
		NotBefore: issued, NotAfter: issued.AddDate(1, 0, 0), KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: uses,
	}, i.cert, i.key)
	plain, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return &corev1.Secret{Data: map[string][]byte{
		corev1.TLSCertKey:       pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		corev1.TLSPrivateKeyKey: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: plain}),
	}}
}

func TestCertificatesThatPeersCouldNotUseAreTold(t *testing.T) {
	e := etcd(func(e *druidv1alpha1.Etcd) {
		e.Spec.Etcd.PeerUrlTLS = &druidv1alpha1.PeerTLSConfig{TLSConfig: tls("peer")}
	})
	one, other := newIssuer(t), newIssuer(t)
	ca := &corev1.Secret{Data: map[string][]byte{"bundle.crt": one.pem}}
	both := []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	wild := "*.etcd-main-peer.shoot--a--b.svc"
	named := one.secret(t, both, "localhost", e.PeerHost(0), e.PeerHost(1), e.PeerHost(2))
	mixed := one.secret(t, both, wild)
	mixed.Data[corev1.TLSPrivateKeyKey] = named.Data[corev1.TLSPrivateKeyKey]
	for name, c := range map[string]struct {
		server, ca *corev1.Secret
		members    int
		after      time.Duration
		want       string // a part of what is told; empty: nothing is wrong
	}{
		"for each":            {server: named, ca: ca},
		"for all":             {server: one.secret(t, both, wild), ca: ca, members: 5},
		"not for new members": {server: named, ca: ca, members: 5, want: "the Secret peer-server is not for etcd-main-3.etcd-main-peer.shoot--a--b.svc, etcd-main-4.etcd-main-peer.shoot--a--b.svc: issue it with these DNS names, or with *.etcd-main-peer.shoot--a--b.svc"},
		"of clients":          {server: one.secret(t, both, "etcd-main-client.shoot--a--b.svc"), ca: ca, want: "is not for etcd-main-0.etcd-main-peer"},
		"not as a client":     {server: one.secret(t, both[:1], wild), ca: ca, want: `not valid for "client auth"`},
		"not as a server":     {server: one.secret(t, both[1:], wild), ca: ca, want: `not valid for "server auth"`},
		"by somebody else":    {server: other.secret(t, both, wild), ca: ca, want: "by the authority in the Secret peer-ca"},
		"expired":             {server: named, ca: ca, after: 366 * 24 * time.Hour, want: "expired"},
		"of another key":      {server: mixed, ca: ca, want: "no certificate with its key in tls.crt and tls.key"},
		"garbage":             {server: &corev1.Secret{Data: map[string][]byte{"tls.crt": []byte("?")}}, ca: ca, want: "the Secret peer-server has no certificate"},
		"no authority":        {server: named, ca: &corev1.Secret{Data: map[string][]byte{"ca.crt": one.pem}}, want: "the Secret peer-ca has no certificate of an authority in bundle.crt"},
		"no Secret":           {ca: ca, want: "the Secret peer-server does not exist"},
		"no Secret with it":   {server: named, want: "the Secret peer-ca does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			got := PeerCertificateFault(e, c.server, c.ca, max(c.members, 3), issued.Add(time.Hour+c.after))
			if !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
				t.Errorf("told is %q, want %q", got, c.want)
			}
		})
	}
}

func TestCertificatesThatNobodyCouldUseAreTold(t *testing.T) {
	authority := newIssuer(t)
	good := authority.secret(t, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, "main-client")
	other := authority.secret(t, nil, "other")
	keys := func(pairs ...string) *corev1.Secret {
		s := &corev1.Secret{Data: map[string][]byte{}}
		for i := 0; i < len(pairs); i += 2 {
			s.Data[pairs[i]] = []byte(pairs[i+1])
		}
		return s
	}
	crt, key := string(good.Data["tls.crt"]), string(good.Data["tls.key"])
	e := &druidv1alpha1.Etcd{}
	e.Spec.Etcd.ClientUrlTLS = &druidv1alpha1.TLSConfig{}
	const server, client, ca = "spec.etcd.clientUrlTls.serverTLSSecretRef", "spec.backup.tls.clientTLSSecretRef", "spec.etcd.clientUrlTls.tlsCASecretRef"
	for phrase, c := range map[string]struct {
		field  string
		secret *corev1.Secret
		after  time.Duration // since it was issued
		want   string
	}{
		"a certificate":                          {server, good, time.Hour, ""},
		"on its last day":                        {client, good, 365 * 24 * time.Hour, ""},
		"a day later":                            {client, good, 366 * 24 * time.Hour, "the certificate in tls.crt ended at 2027-01-01T00:00:00Z"},
		"a day before it begins":                 {server, good, -24 * time.Hour, "the certificate in tls.crt begins at 2026-01-01T00:00:00Z"},
		"garbage":                                {server, keys("tls.crt", "no", "tls.key", "no"), 0, "tls.crt and tls.key are no certificate with its key: tls: failed to find any PEM data in certificate input"},
		"another's key":                          {server, keys("tls.crt", crt, "tls.key", string(other.Data["tls.key"])), 0, "private key does not match public key"},
		"no key, which is told as such":          {server, keys("tls.crt", crt), 0, ""},
		"an authority":                           {ca, keys("ca.crt", string(authority.pem)), time.Hour, ""},
		"a key in place of it":                   {ca, keys("ca.crt", key), time.Hour, "ca.crt holds no certificate of an authority in PEM"},
		"credentials, of which nothing is known": {druidv1alpha1.FieldStoreSecret, keys("accessKeyID", "no"), 0, ""},
	} {
		if got := Fault(e, c.field, c.secret, issued.Add(c.after)); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", phrase, got, c.want)
		}
	}
}
