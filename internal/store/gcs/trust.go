package gcs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
)

// notTrusted returns the complaint about the server's certificate, if that is what err is.
func notTrusted(err error) error {
	var (
		verification *tls.CertificateVerificationError
		authority    x509.UnknownAuthorityError
		host         x509.HostnameError
		invalid      x509.CertificateInvalidError
	)
	switch {
	case errors.As(err, &verification):
		return verification.Err
	case errors.As(err, &authority):
		return authority
	case errors.As(err, &host):
		return host
	case errors.As(err, &invalid):
		return invalid
	}
	return nil
}
