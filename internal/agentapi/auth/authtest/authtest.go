// Package authtest makes authorities and certificates for tests.
package authtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// CA is an authority.
type CA struct {
	PEM []byte // its certificate

	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// Leaf says what a certificate is for. The zero value is a client's, valid for an hour around now.
type Leaf struct {
	Name  string
	Hosts []string      // names and addresses; with any it is a server's certificate too
	Until time.Duration // from now; negative: it has expired; 0: an hour
	// Server leaves the use as a client out.
	Server bool
}

// NewCA makes an authority.
func NewCA(t testing.TB, name string) *CA {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber:          serial(t),
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             time.Now().Add(-24 * time.Hour),
		NotAfter:              time.Now().Add(24 * time.Hour),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	check(t, err)
	cert, err := x509.ParseCertificate(der)
	check(t, err)
	return &CA{PEM: encode("CERTIFICATE", der), cert: cert, key: key}
}

// Issue signs a certificate and returns it with its key, both as PEM.
func (ca *CA) Issue(t testing.TB, l Leaf) (cert, key []byte) {
	t.Helper()
	if l.Until == 0 {
		l.Until = time.Hour
	}
	template := &x509.Certificate{
		SerialNumber: serial(t),
		Subject:      pkix.Name{CommonName: l.Name},
		NotBefore:    time.Now().Add(-12 * time.Hour),
		NotAfter:     time.Now().Add(l.Until),
		KeyUsage:     x509.KeyUsageDigitalSignature,
	}
	if !l.Server {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageClientAuth)
	}
	if len(l.Hosts) > 0 {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	for _, host := range l.Hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	k := newKey(t)
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, &k.PublicKey, ca.key)
	check(t, err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(k)
	check(t, err)
	return encode("CERTIFICATE", der), encode("PRIVATE KEY", keyDER)
}

// Files issues into dir, as NAME.crt and NAME.key, replacing what is there.
func (ca *CA) Files(t testing.TB, dir, name string, l Leaf) (certFile, keyFile string) {
	t.Helper()
	if l.Name == "" {
		l.Name = name
	}
	cert, key := ca.Issue(t, l)
	return Write(t, filepath.Join(dir, name+".crt"), cert), Write(t, filepath.Join(dir, name+".key"), key)
}

// Write replaces the content of a file at once, and returns its path.
func Write(t testing.TB, path string, content []byte) string {
	t.Helper()
	check(t, os.WriteFile(path+".new", content, 0o600))
	check(t, os.Rename(path+".new", path))
	return path
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	return key
}

func serial(t testing.TB) *big.Int {
	t.Helper()
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	check(t, err)
	return n
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
