package dial

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"

	"druid.internal/druid/internal/store"
)

func TestWhatBreaksOnTheWayIsToldWithARemedy(t *testing.T) {
	way := Way{To: "https://store.example", Endpoint: "the endpoint", Name: "the endpoint and the region", CA: "the field trustedCaCert"}
	asked := func(err error) error { return &url.Error{Op: "Get", URL: "https://store.example", Err: err} }
	dialed := func(err error) error { return asked(&net.OpError{Op: "dial", Err: err}) }
	for name, c := range map[string]struct {
		err  error
		want string // empty: nothing broke on the way
	}{
		"nobody vouches for it":   {asked(x509.UnknownAuthorityError{}), "is not trusted: x509: certificate signed by unknown authority; give the CA's certificate in the field trustedCaCert"},
		"plain http":              {asked(http.ErrSchemeMismatch), "https://store.example speaks plain http, not https; correct the scheme of the endpoint"},
		"another protocol":        {asked(tls.RecordHeaderError{Msg: "no TLS"}), "no connection to https://store.example: tls: no TLS; check the endpoint and the network"},
		"no such name":            {dialed(&net.DNSError{Name: "store.example", Err: "no such host"}), "the name \"store.example\" cannot be resolved: no such host; check the endpoint and the region"},
		"nobody listens":          {dialed(os.NewSyscallError("connect", syscall.ECONNREFUSED)), "connection refused by https://store.example; check the endpoint and that the server runs"},
		"no way there":            {dialed(os.NewSyscallError("connect", syscall.ENETUNREACH)), "no connection to https://store.example: network is unreachable"},
		"nothing moves":           {asked(os.ErrDeadlineExceeded), "did not answer in time: i/o timeout; check the network and the endpoint"},
		"the time is up":          {asked(context.DeadlineExceeded), "did not answer in time"},
		"it ends early":           {fmt.Errorf("read: %w", io.ErrUnexpectedEOF), "the connection to https://store.example broke: unexpected EOF; try again"},
		"it is reset":             {asked(os.NewSyscallError("read", syscall.ECONNRESET)), "broke: connection reset by peer"},
		"it was idle":             {asked(errors.New("http: server closed idle connection")), "broke: http: server closed idle connection"},
		"a proxy is to blame":     {asked(&ProxyError{Proxy: "http://proxy.example", Target: "store.example:443", Status: 407}), "the proxy http://proxy.example gives no connection to store.example:443: HTTP 407 Proxy Authentication Required; " + CheckProxy},
		"the server has answered": {errors.New("AccessDenied"), ""},
	} {
		f := way.Broken(c.err)
		switch {
		case c.want == "" && f != nil:
			t.Errorf("%s: %v, want that nothing broke", name, f)
		case c.want == "":
		case f == nil:
			t.Errorf("%s is not recognised", name)
		case !errors.Is(f, store.ErrUnreachable) || !errors.Is(f, c.err) || !strings.Contains(f.Error(), c.want) || strings.Contains(f.Error(), "\n"):
			t.Errorf("%s: %v, want %q", name, f, c.want)
		}
	}
}
