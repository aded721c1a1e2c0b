package dial

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"

	"druid.internal/druid/internal/store"
)

// Way is the way to a server, in the words that a provider has for what leads there.
type Way struct {
	To       string // the server
	Endpoint string // what says where it is: "the endpoint"
	Name     string // what its name is made of: "the endpoint and the region"
	CA       string // where its authority is given: "the field trustedCaCert"
}

// Broken is what failed on the way; nil if err is something else.
func (w Way) Broken(err error) *store.Failure {
	if p := OfProxy(err); p != nil {
		return w.failure(err, p.Error(), CheckProxy)
	}
	var (
		dns    *net.DNSError
		op     *net.OpError
		record tls.RecordHeaderError
	)
	trust := Untrusted(err)
	switch {
	case trust != nil:
		return w.failure(err, fmt.Sprintf("the certificate of %s is not trusted: %v", w.To, trust), "give the CA's certificate in "+w.CA)
	case errors.Is(err, http.ErrSchemeMismatch):
		return w.failure(err, w.To+" speaks plain http, not https", "correct the scheme of "+w.Endpoint)
	case errors.As(err, &dns):
		return w.failure(err, fmt.Sprintf("the name %q cannot be resolved: %s", dns.Name, dns.Err), "check "+w.Name)
	case errors.Is(err, syscall.ECONNREFUSED):
		return w.failure(err, "connection refused by "+w.To, "check "+w.Endpoint+" and that the server runs")
	case TimedOut(err):
		return w.failure(err, w.To+" did not answer in time: "+Innermost(err), "check the network and "+w.Endpoint)
	case Interrupted(err):
		return w.failure(err, "the connection to "+w.To+" broke: "+Innermost(err), "try again")
	case errors.As(err, &op), errors.As(err, &record):
		return w.Missing(err)
	}
	return nil
}

// Missing is the failure to get a connection at all, for errors that only a provider recognises.
func (w Way) Missing(err error) *store.Failure {
	return w.failure(err, "no connection to "+w.To+": "+Innermost(err), "check "+w.Endpoint+" and the network")
}

func (w Way) failure(err error, said, remedy string) *store.Failure {
	return &store.Failure{Kind: store.ErrUnreachable, Said: said, Remedy: remedy, Cause: err}
}

// TimedOut reports whether nothing came for too long.
func TimedOut(err error) bool {
	var timeout net.Error
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}

// Interrupted reports whether a connection ended that was there.
func Interrupted(err error) bool {
	for _, e := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE, net.ErrClosed} {
		if errors.Is(err, e) {
			return true
		}
	}
	// net/http has no values for these.
	said := err.Error()
	return strings.Contains(said, "server closed idle connection") || strings.Contains(said, "client connection lost")
}

// Innermost is what the error says that all others wrap, in one line.
func Innermost(err error) string {
	for next := errors.Unwrap(err); next != nil; next = errors.Unwrap(err) {
		err = next
	}
	return strings.Join(strings.Fields(err.Error()), " ")
}
