package auth

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// KeyPair is a certificate with its key, in PEM files.
type KeyPair struct {
	files *source[*tls.Certificate]
}

// NewKeyPair reads the files. Later changes are told to log, which may be nil.
func NewKeyPair(certFile, keyFile string, log *slog.Logger) (*KeyPair, error) {
	if certFile == "" || keyFile == "" {
		return nil, fmt.Errorf("a certificate and its key belong together: certificate %q, key %q; give both", certFile, keyFile)
	}
	parse := func(contents [][]byte) (*tls.Certificate, error) {
		pair, err := tls.X509KeyPair(contents[0], contents[1])
		if err != nil {
			return nil, fmt.Errorf("%s with the key %s: %w", certFile, keyFile, err)
		}
		return &pair, nil
	}
	files, err := newSource("a certificate", []string{certFile, keyFile}, parse, log)
	if err != nil {
		return nil, err
	}
	return &KeyPair{files}, nil
}

// Current is the certificate in the files, or the last one that could be used.
func (k *KeyPair) Current() *tls.Certificate {
	pair, _, _ := k.files.get()
	return pair
}

// ServerConfig is the configuration of a server with this certificate. Clients are asked for
// theirs, and any is let through the handshake: whether it is good for something is judged at each
// call, by a [Guard], so that whoever is refused is told why and open calls need none.
func (k *KeyPair) ServerConfig() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"http/1.1"},
		ClientAuth:     tls.RequestClientCert,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return k.Current(), nil },
	}
}

// Authorities are those who may sign certificates, in a PEM file.
type Authorities struct {
	file *source[*x509.CertPool]
}

// NewAuthorities reads the file. Later changes are told to log, which may be nil.
func NewAuthorities(file string, log *slog.Logger) (*Authorities, error) {
	parse := func(contents [][]byte) (*x509.CertPool, error) {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(contents[0]) {
			return nil, fmt.Errorf("%s holds no certificate in PEM form", file)
		}
		return pool, nil
	}
	s, err := newSource("a bundle of authorities", []string{file}, parse, log)
	if err != nil {
		return nil, err
	}
	return &Authorities{s}, nil
}

// Pool are the authorities in the file, or those it held when it could be used last.
func (a *Authorities) Pool() *x509.CertPool {
	pool, _, _ := a.file.get()
	return pool
}

// errNoCertificate says that a client showed none.
var errNoCertificate = errors.New("no client certificate")

// VerifyClient says why the certificate of a connection's client is not one that these authorities
// signed for clients and that is valid at the time; nil: it is.
func (a *Authorities) VerifyClient(shown []*x509.Certificate, now time.Time) error {
	if len(shown) == 0 {
		return errNoCertificate
	}
	between := x509.NewCertPool()
	for _, c := range shown[1:] {
		between.AddCert(c)
	}
	_, err := shown[0].Verify(x509.VerifyOptions{
		Roots:         a.Pool(),
		Intermediates: between,
		CurrentTime:   now,
		KeyUsages:     []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	return err
}
