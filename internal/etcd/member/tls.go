package member

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"

	"google.golang.org/grpc/credentials"
)

// tlsConfig reads the files of c, if it has any. It is called for every handshake.
func (c Config) tlsConfig() (*tls.Config, error) {
	if c.TLS != nil {
		return c.TLS, nil // which credentials.NewTLS copies
	}
	t := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.ServerName, InsecureSkipVerify: c.InsecureSkipVerify}
	if c.CAFile != "" {
		pem, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, fmt.Errorf("%w: read the CA bundle (--cacert): %w", ErrConfig, err)
		}
		t.RootCAs = x509.NewCertPool()
		if !t.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%w: the CA bundle %s (--cacert) holds no PEM certificate", ErrConfig, c.CAFile)
		}
	}
	if c.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("%w: read the client certificate (--cert, --key): %w", ErrConfig, err)
		}
		t.Certificates = []tls.Certificate{pair}
	}
	return t, nil
}

// reloading are transport credentials that read their files for every handshake, so that
// renewed certificates and authorities take effect with the next connection.
type reloading struct{ cfg Config }

func (r reloading) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	t, err := r.cfg.tlsConfig()
	if err != nil {
		return nil, nil, err
	}
	if t.ServerName != "" {
		authority = t.ServerName // gRPC goes by the authority alone, which is the host of the endpoint
	}
	return credentials.NewTLS(t).ClientHandshake(ctx, authority, conn)
}

func (r reloading) ServerHandshake(net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, fmt.Errorf("these credentials are for clients only")
}

func (r reloading) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "tls"}
}

func (r reloading) Clone() credentials.TransportCredentials { return r }

// OverrideServerName is part of the interface; the name is fixed by the configuration.
func (r reloading) OverrideServerName(string) error { return nil }
