package members

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"druid.internal/druid/test/stores"
)

// TLS says who speaks it.
type TLS struct {
	Client bool // etcd's clients, which have to show a certificate
	Peer   bool // members among each other
	Backup bool // sidecars and wrappers
}

// Everywhere is TLS on every connection.
var Everywhere = TLS{Client: true, Peer: true, Backup: true}

// authorities sign: nobody's certificate is good elsewhere.
type authorities struct {
	client, peer, backup *stores.CA
}

func newAuthorities() (a authorities, err error) {
	for _, ca := range []**stores.CA{&a.client, &a.peer, &a.backup} {
		if *ca, err = stores.NewCA(); err != nil {
			return a, err
		}
	}
	return a, nil
}

// credentials is a directory as Kubernetes mounts a secret: ca.crt, tls.crt and tls.key are links
// through one link, so that all of them change at the same moment.
type credentials struct {
	dir   string
	ca    *stores.CA
	hosts []string
	turn  int
}

func (c *credentials) file(name string) string { return filepath.Join(c.dir, name) }
func (c *credentials) caFile() string          { return c.file("ca.crt") }
func (c *credentials) certFile() string        { return c.file("tls.crt") }
func (c *credentials) keyFile() string         { return c.file("tls.key") }

// issue makes a new pair and exchanges the old one for it.
func (c *credentials) issue() error {
	c.turn++
	name := ".." + strconv.Itoa(c.turn)
	next := c.file(name)
	if err := c.ca.IssueFiles(next, "tls.crt", "tls.key", c.hosts...); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(next, "ca.crt"), c.ca.PEM, 0o600); err != nil {
		return err
	}
	if err := os.Symlink(name, c.file("..next")); err != nil {
		return err
	}
	if err := os.Rename(c.file("..next"), c.file("..data")); err != nil {
		return err
	}
	if c.turn > 1 {
		return os.RemoveAll(c.file(".." + strconv.Itoa(c.turn-1)))
	}
	for _, f := range []string{"ca.crt", "tls.crt", "tls.key"} {
		if err := os.Symlink(filepath.Join("..data", f), c.file(f)); err != nil {
			return err
		}
	}
	return nil
}

func newCredentials(dir string, ca *stores.CA, hosts ...string) (*credentials, error) {
	c := &credentials{dir: dir, ca: ca, hosts: hosts}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return c, c.issue()
}

// config is a client's that shows the certificate as it is when it connects.
func (c *credentials) config() *tls.Config {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(c.ca.PEM)
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(c.certFile(), c.keyFile())
			return &pair, err
		}}
}

// identity is all certificates of one member.
type identity struct {
	client, peer, backup *credentials
}

func (c *Cluster) identify(dir string, hosts ...string) (id identity, err error) {
	for _, what := range []struct {
		name string
		ca   *stores.CA
		to   **credentials
	}{{"client", c.cas.client, &id.client}, {"peer", c.cas.peer, &id.peer}, {"backup", c.cas.backup, &id.backup}} {
		if *what.to, err = newCredentials(filepath.Join(dir, what.name), what.ca, hosts...); err != nil {
			return id, err
		}
	}
	return id, nil
}

// RotateCertificates gives everybody new certificates and keys of the same authorities; nobody is
// told or started anew.
func (c *Cluster) RotateCertificates() error {
	var errs []error
	for _, id := range c.identities() {
		for _, what := range []*credentials{id.client, id.peer, id.backup} {
			errs = append(errs, what.issue())
		}
	}
	return errors.Join(errs...)
}

// RotateToken exchanges the token in two steps, so that callers and called need not change at the
// same moment: the returned function takes the old token away.
func (c *Cluster) RotateToken() (finish func() error, err error) {
	old := c.Token()
	next := newToken()
	// Callers show the first line.
	if err := replaceFile(c.tokenFile, []byte(next+"\n"+old+"\n")); err != nil {
		return nil, fmt.Errorf("rotate the token: %w", err)
	}
	return func() error { return replaceFile(c.tokenFile, []byte(next+"\n")) }, nil
}
