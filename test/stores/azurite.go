package stores

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"druid.internal/druid/test/process"
)

// The account that Azurite has from the beginning, with its published key.
const (
	AzuriteAccount = "devstoreaccount1"
	AzuriteKey     = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)

// AzuriteOptions say where an Azurite runs. The zero value is right for tests.
type AzuriteOptions struct {
	Dir  string // keeps its data here; empty: in memory
	Host string // IP address to listen on; empty: 127.0.0.1
	Port string // empty: a free one
	CA   *CA    // issues its certificate; nil: a new one
	// Plain: without TLS, for who stands before it. With a certificate that it did not sign
	// itself, it cannot fetch the source of a block that is to be copied.
	Plain bool
}

// Azurite is a running emulator of Azure Blob Storage. It knows neither versions nor
// immutability: see package azworm.
type Azurite struct {
	Server   string // https://ADDRESS:PORT
	Endpoint string // of the account: https://ADDRESS:PORT/ACCOUNT
	Address  string // ADDRESS:PORT
	CA       *CA
	CAFile   string // the CA's certificate, for programs

	proc *process.Process
	temp string // removed by Stop
}

// StartAzurite starts a server and returns when it answers. ctx bounds the start only.
func StartAzurite(ctx context.Context, opts AzuriteOptions) (*Azurite, error) {
	binary, err := Binary("azurite")
	if err != nil {
		return nil, err
	}
	if opts.Host == "" {
		opts.Host = "127.0.0.1"
	}
	if opts.CA == nil {
		if opts.CA, err = NewCA(); err != nil {
			return nil, err
		}
	}
	a := &Azurite{CA: opts.CA}
	if a.temp, err = os.MkdirTemp("", "druid-azurite-"); err != nil {
		return nil, err
	}
	if err := a.start(ctx, binary, opts); err != nil {
		os.RemoveAll(a.temp)
		return nil, err
	}
	return a, nil
}

// start tries again on another port if the chosen one was taken before Azurite listened.
func (a *Azurite) start(ctx context.Context, binary string, opts AzuriteOptions) error {
	if err := a.CA.IssueFiles(a.temp, "tls.crt", "tls.key", opts.Host, "127.0.0.1", "localhost"); err != nil {
		return err
	}
	a.CAFile = filepath.Join(a.temp, "ca.crt")
	if err := os.WriteFile(a.CAFile, a.CA.PEM, 0o644); err != nil {
		return err
	}
	persistence := []string{"--inMemoryPersistence"}
	if opts.Dir != "" {
		persistence = []string{"--location", opts.Dir}
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for attempt := 1; ; attempt++ {
		host, port := opts.Host, opts.Port
		if port == "" {
			ports, err := process.FreePorts(host, 1)
			if err != nil {
				return err
			}
			_, port, _ = net.SplitHostPort(ports[0])
		}
		a.Address = net.JoinHostPort(host, port)
		a.Server = "http://" + a.Address
		args := append(persistence, "--blobHost", host, "--blobPort", port, "--silent", "--disableTelemetry")
		if !opts.Plain {
			a.Server = "https://" + a.Address
			args = append(args, "--oauth", "basic", "--cert", filepath.Join(a.temp, "tls.crt"), "--key", filepath.Join(a.temp, "tls.key"))
		}
		a.Endpoint = a.Server + "/" + AzuriteAccount
		proc, err := process.Start("azurite", binary, args, process.BareEnvironment(a.temp))
		if err != nil {
			return err
		}
		a.proc = proc
		client := a.CA.client()
		if err = proc.Await(ctx, func(ctx context.Context) error { return serves(ctx, client, a.Endpoint) }); err == nil {
			return nil
		}
		taken := proc.PortTaken()
		proc.Kill()
		if !taken || opts.Port != "" || attempt == startAttempts {
			return err
		}
	}
}

// serves is nil if a GET of url is answered at all, be it by a refusal.
func serves(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"?comp=list", nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	resp.Body.Close()
	if resp.StatusCode >= http.StatusInternalServerError {
		return fmt.Errorf("GET %s: %s", url, resp.Status)
	}
	return nil
}

// Reach is how clients find the server and whom they trust.
func (a *Azurite) Reach() (endpoint string, ca *CA) { return a.Server, a.CA }

// ClientTLS is the configuration of a client of the server.
func (a *Azurite) ClientTLS() *tls.Config { return a.CA.ClientTLS() }

// Stop ends the server, waits until it is gone and removes its temporary files.
func (a *Azurite) Stop() error {
	return errors.Join(a.proc.Stop(), os.RemoveAll(a.temp))
}

// Ended is closed when the server is gone.
func (a *Azurite) Ended() <-chan struct{} { return a.proc.Done() }

// RunAzurite starts a server for one test. It fails the test if Azurite is not installed.
func RunAzurite(tb testing.TB) *Azurite {
	tb.Helper()
	a, err := StartAzurite(tb.Context(), AzuriteOptions{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := a.Stop(); err != nil {
			tb.Error(err)
		}
	})
	return a
}
