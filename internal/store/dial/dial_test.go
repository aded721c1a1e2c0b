package dial

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func pipe(timeout time.Duration) (ours *idleConn, theirs net.Conn) {
	a, b := net.Pipe()
	return &idleConn{Conn: a, timeout: timeout}, b
}

func TestAConnectionOnWhichNothingMovesEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := pipe(time.Minute)
		defer theirs.Close()
		began := time.Now()
		if _, err := ours.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("Read = %v, want that it gave up", err)
		}
		if took := time.Since(began); took != time.Minute {
			t.Errorf("it gave up after %s, want a minute", took)
		}
	})
}

func TestASlowConnectionThatMovesGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := pipe(time.Minute)
		body := make([]byte, 10*64<<10)
		done := make(chan struct{})
		go func() { // takes a piece just in time
			defer close(done)
			for {
				time.Sleep(50 * time.Second)
				if _, err := io.CopyN(io.Discard, theirs, 64<<10); err != nil {
					return
				}
			}
		}()
		// Nothing arrives meanwhile, which must not end the connection.
		read := make(chan error, 1)
		go func() { _, err := ours.Read(make([]byte, 1)); read <- err }()
		if n, err := ours.Write(body); n != len(body) || err != nil {
			t.Errorf("Write = %d, %v", n, err)
		}
		select {
		case err := <-read:
			t.Errorf("the read ended with %v while a body was sent", err)
		default:
		}
		ours.Close()
		<-read
		<-done
	})
}

func TestOnlyWhoIsVouchedForIsTrusted(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	for name, c := range map[string]struct {
		o       Options
		trusted bool
	}{
		"nobody vouches":    {Options{}, false},
		"it is named":       {Options{TrustedCAs: certificate}, true},
		"nobody is to care": {Options{InsecureSkipVerify: true}, true},
	} {
		client, err := Client(c.o)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Get(server.URL)
		if err == nil {
			resp.Body.Close()
		}
		client.CloseIdleConnections()
		if (err == nil) != c.trusted || !c.trusted && Untrusted(err) == nil {
			t.Errorf("%s: %v, Untrusted says %v", name, err, Untrusted(err))
		}
	}
	if err := Untrusted(errors.New("connection refused")); err != nil {
		t.Errorf("Untrusted of something else = %v", err)
	}
	if err := Untrusted(x509.HostnameError{Host: "x", Certificate: server.Certificate()}); err == nil {
		t.Error("a certificate for another host is trusted")
	}
	if _, err := Client(Options{TrustedCAs: []byte("-----BEGIN NONSENSE-----")}); err == nil || !strings.Contains(err.Error(), "trustedCaCert") {
		t.Errorf("without a certificate: %v, want an error that names the field", err)
	}
}

func TestNoRedirectIsFollowed(t *testing.T) {
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	}))
	defer server.Close()
	client, err := Client(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	resp, err := client.Post(server.URL, "text/plain", strings.NewReader("secret"))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusTemporaryRedirect || asked != 1 {
		t.Errorf("status %d after %d requests, want the redirect itself", resp.StatusCode, asked)
	}
}
