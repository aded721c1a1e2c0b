package members

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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
	client, peer, backup *authority
}

// authority is who signs, who will after a rotation, and what ca.crt of everybody holds. We ourselves
// trust both at all times, so that who was connected before a rotation stays so.
type authority struct {
	ca, next *stores.CA
	trusted  []byte
	both     *x509.CertPool
}

func newAuthorities() (a authorities, err error) {
	for _, to := range []**authority{&a.client, &a.peer, &a.backup} {
		n := &authority{both: x509.NewCertPool()}
		for _, ca := range []**stores.CA{&n.ca, &n.next} {
			if *ca, err = stores.NewCA(); err != nil {
				return a, err
			}
			n.both.AppendCertsFromPEM((*ca).PEM)
		}
		n.trusted = n.ca.PEM
		*to = n
	}
	return a, nil
}

// credentials is a directory as Kubernetes mounts a secret: ca.crt, tls.crt and tls.key are links
// through one link, so that all of them change at the same moment.
type credentials struct {
	dir   string
	by    *authority
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
	if err := c.by.ca.IssueFiles(next, "tls.crt", "tls.key", c.hosts...); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(next, "ca.crt"), c.by.trusted, 0o600); err != nil {
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

func newCredentials(dir string, by *authority, hosts ...string) (*credentials, error) {
	c := &credentials{dir: dir, by: by, hosts: hosts}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return c, c.issue()
}

// config is a client's that shows the certificate as it is when it connects.
func (c *credentials) config() *tls.Config {
	return &tls.Config{RootCAs: c.by.both, MinVersion: tls.VersionTLS12,
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
		by   *authority
		to   **credentials
	}{{"client", c.cas.client, &id.client}, {"peer", c.cas.peer, &id.peer}, {"backup", c.cas.backup, &id.backup}} {
		if *what.to, err = newCredentials(filepath.Join(dir, what.name), what.by, hosts...); err != nil {
			return id, err
		}
	}
	return id, nil
}

// RotateCertificates gives everybody new certificates and keys of the authorities as they are; nobody is
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

// RotateAuthorities exchanges all authorities in three steps; nobody is told. With the first everybody
// may trust the old ones and the new ones; sign gives everybody certificates of the new ones, and
// finish has nobody trust the old ones any more.
func (c *Cluster) RotateAuthorities() (sign, finish func() error, err error) {
	step := func(change func(*authority)) error {
		for _, a := range []*authority{c.cas.client, c.cas.peer, c.cas.backup} {
			change(a)
		}
		return c.RotateCertificates()
	}
	sign = func() error { return step(func(a *authority) { a.ca, a.next = a.next, a.ca }) }
	finish = func() error { return step(func(a *authority) { a.trusted = a.ca.PEM }) }
	return sign, finish, step(func(a *authority) { a.trusted = slices.Concat(a.ca.PEM, a.next.PEM) })
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
