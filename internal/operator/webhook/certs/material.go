package certs

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"slices"
	"time"
)

// The keys of the Secret. Those of the server's certificate are as everywhere.
const (
	keyAuthorities  = "ca.crt" // newest first
	keyAuthorityKey = "ca.key" // of the newest
	keyServing      = "tls.crt"
	keyServingKey   = "tls.key"
)

// Material is what the Secret holds. What cannot be read is nil: it is made anew.
type Material struct {
	Authorities  []*x509.Certificate // that the API server trusts, newest first
	AuthorityKey *ecdsa.PrivateKey   // of the newest; nil: it is lost
	Serving      *tls.Certificate    // with its Leaf
}

// read takes out of a Secret what is usable.
func read(data map[string][]byte) Material {
	m := Material{Authorities: parseAll(data[keyAuthorities])}
	if block, _ := pem.Decode(data[keyAuthorityKey]); block != nil && len(m.Authorities) > 0 {
		key, err := x509.ParseECPrivateKey(block.Bytes)
		if err == nil && key.PublicKey.Equal(m.Authorities[0].PublicKey) {
			m.AuthorityKey = key
		}
	}
	if pair, err := tls.X509KeyPair(data[keyServing], data[keyServingKey]); err == nil {
		if _, ours := pair.PrivateKey.(*ecdsa.PrivateKey); ours {
			m.Serving = &pair
		}
	}
	return m
}

// parseAll are the certificates in a PEM text that are authorities, without repetitions.
func parseAll(text []byte) (all []*x509.Certificate) {
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return all
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err == nil && c.IsCA && !slices.ContainsFunc(all, c.Equal) {
			all = append(all, c)
		}
	}
}

// data is the opposite of read.
func (m Material) data() (map[string][]byte, error) {
	authorityKey, err := encodeKey(m.AuthorityKey)
	if err != nil {
		return nil, err
	}
	servingKey, err := encodeKey(m.Serving.PrivateKey.(*ecdsa.PrivateKey))
	if err != nil {
		return nil, err
	}
	return map[string][]byte{
		keyAuthorities: m.bundle(), keyAuthorityKey: authorityKey,
		keyServing: encode("CERTIFICATE", m.Serving.Certificate[0]), keyServingKey: servingKey,
	}, nil
}

// bundle is what the API server shall trust.
func (m Material) bundle() []byte {
	var b bytes.Buffer
	for _, a := range m.Authorities {
		b.Write(encode("CERTIFICATE", a.Raw))
	}
	return b.Bytes()
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode a key: %w", err)
	}
	return encode("EC PRIVATE KEY", der), nil
}

// skew is by how much the clocks of two machines may differ.
const skew = 5 * time.Minute

// newAuthority makes one that signs nothing but servers' certificates.
func newAuthority(now time.Time, life time.Duration) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, template, err := begin("etcd-druid webhooks, since "+now.UTC().Format(time.DateOnly), now, now.Add(life))
	if err != nil {
		return nil, nil, err
	}
	template.IsCA, template.BasicConstraintsValid, template.MaxPathLenZero = true, true, true
	template.KeyUsage = x509.KeyUsageCertSign
	return sign(template, template, key, key)
}

// newServing makes a certificate of a server that is reached by these names.
func newServing(by *x509.Certificate, byKey *ecdsa.PrivateKey, names []string, now time.Time, life time.Duration) (*tls.Certificate, error) {
	end := now.Add(life)
	if end.After(by.NotAfter) {
		end = by.NotAfter
	}
	key, template, err := begin(names[0], now, end)
	if err != nil {
		return nil, err
	}
	template.KeyUsage, template.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	leaf, key, err := sign(template, by, key, byKey)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: key, Leaf: leaf}, nil
}

func begin(name string, now, end time.Time) (*ecdsa.PrivateKey, *x509.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make a key: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, nil, fmt.Errorf("make a serial number: %w", err)
	}
	if len(name) > 64 { // the bound of a common name, which nobody compares
		name = name[:64]
	}
	return key, &x509.Certificate{SerialNumber: serial, Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(-skew), NotAfter: end}, nil
}

func sign(template, by *x509.Certificate, key, byKey *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, by, &key.PublicKey, byKey)
	if err != nil {
		return nil, nil, fmt.Errorf("sign the certificate of %s: %w", template.Subject.CommonName, err)
	}
	c, err := x509.ParseCertificate(der)
	return c, key, err
}
