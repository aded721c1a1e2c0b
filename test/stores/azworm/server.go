package azworm

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	azpolicy "github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/storage/armstorage"

	"druid.internal/druid/test/stores"
)

// ServerOptions say where a server runs. The zero value is right for tests.
type ServerOptions struct {
	Host           string // IP address to listen on; empty: 127.0.0.1
	Port           string // empty: a free one
	CA             *stores.CA
	SilentPolicies bool // as in Options
}

// Server is a shim with TLS and an Azurite of its own, which only the shim talks to.
type Server struct {
	Shim *Shim

	Endpoint   string // of the account: https://ADDRESS:PORT/ACCOUNT
	Management string // of the management API: https://ADDRESS:PORT
	Address    string
	Account    string
	Key        string
	Token      string // a bearer token that both services let in
	CA         *stores.CA
	CAFile     string

	azurite *stores.Azurite
	http    *http.Server
	done    chan struct{}
	temp    string
}

// The names of what the management API manages here; it takes any.
const (
	Subscription  = "00000000-0000-0000-0000-000000000000"
	ResourceGroup = "test"
)

// Start starts both and returns when they answer. ctx bounds the start only.
func Start(ctx context.Context, o ServerOptions) (*Server, error) {
	if o.Host == "" {
		o.Host = "127.0.0.1"
	}
	if o.CA == nil {
		var err error
		if o.CA, err = stores.NewCA(); err != nil {
			return nil, err
		}
	}
	azurite, err := stores.StartAzurite(ctx, stores.AzuriteOptions{CA: o.CA, Plain: true})
	if err != nil {
		return nil, err
	}
	s := &Server{Account: stores.AzuriteAccount, Key: stores.AzuriteKey, Token: rand.Text(), CA: o.CA, azurite: azurite, done: make(chan struct{})}
	if err := s.listen(o); err != nil {
		return nil, errors.Join(err, azurite.Stop(), os.RemoveAll(s.temp))
	}
	return s, nil
}

func (s *Server) listen(o ServerOptions) (err error) {
	if s.temp, err = os.MkdirTemp("", "druid-azworm-"); err != nil {
		return err
	}
	s.CAFile = filepath.Join(s.temp, "ca.crt")
	if err := os.WriteFile(s.CAFile, s.CA.PEM, 0o644); err != nil {
		return err
	}
	s.Shim, err = New(Options{
		Backend: s.azurite.Server,
		Account: s.Account, Key: s.Key, Token: s.Token, SilentPolicies: o.SilentPolicies,
	})
	if err != nil {
		return err
	}
	conf, err := s.CA.ServerTLS(o.Host, "127.0.0.1", "localhost")
	if err != nil {
		return err
	}
	port := o.Port
	if port == "" {
		port = "0"
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(o.Host, port))
	if err != nil {
		return fmt.Errorf("listen for Azure: %w", err)
	}
	s.Address = listener.Addr().String()
	s.Management = "https://" + s.Address
	s.Endpoint = s.Management + "/" + s.Account
	s.http = &http.Server{Handler: s.Shim, TLSConfig: conf, ErrorLog: log.New(io.Discard, "", 0)}
	go func() {
		defer close(s.done)
		_ = s.http.ServeTLS(listener, "", "")
	}()
	return nil
}

// Reach is how clients find the server and whom they trust.
func (s *Server) Reach() (endpoint string, ca *stores.CA) { return s.Management, s.CA }

// Ended is closed when Azurite or the shim is gone.
func (s *Server) Ended() <-chan struct{} { return s.azurite.Ended() }

// Stop ends both and waits until they are gone.
func (s *Server) Stop() error {
	err := s.http.Close()
	<-s.done
	s.Shim.client.CloseIdleConnections()
	return errors.Join(err, s.azurite.Stop(), os.RemoveAll(s.temp))
}

// Run starts a server for one test.
func Run(tb testing.TB, o ServerOptions) *Server {
	tb.Helper()
	s, err := Start(tb.Context(), o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Stop(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

// Protection is how a container treats what is written into it.
type Protection struct {
	VersionLevel bool  // versions can be locked one by one
	Days         int32 // of its policy: of the container, or the default of versions; 0: none
	Locked       bool  // that policy
}

// Containers is a client of the management API, for arranging and attacking.
func (s *Server) Containers() (*armstorage.BlobContainersClient, error) {
	return s.ContainersBy(s.Token)
}

// ContainersBy is one of whoever has a token.
func (s *Server) ContainersBy(token string) (*armstorage.BlobContainersClient, error) {
	conf := cloud.ServiceConfiguration{Endpoint: s.Management, Audience: s.Management}
	return armstorage.NewBlobContainersClient(Subscription, Token(token), &arm.ClientOptions{
		ClientOptions: azpolicy.ClientOptions{
			Cloud:     cloud.Configuration{ActiveDirectoryAuthorityHost: s.Management, Services: map[cloud.ServiceName]cloud.ServiceConfiguration{cloud.ResourceManager: conf}},
			Transport: &http.Client{Transport: &http.Transport{TLSClientConfig: s.CA.ClientTLS(), DisableKeepAlives: true}},
			Retry:     azpolicy.RetryOptions{MaxRetries: -1},
		},
		DisableRPRegistration: true,
	})
}

// Create makes a container.
func (s *Server) Create(ctx context.Context, name string, p Protection) error {
	c, err := s.Containers()
	if err != nil {
		return err
	}
	body := armstorage.BlobContainer{ContainerProperties: &armstorage.ContainerProperties{
		ImmutableStorageWithVersioning: &armstorage.ImmutableStorageWithVersioning{Enabled: &p.VersionLevel}}}
	if _, err := c.Create(ctx, ResourceGroup, s.Account, name, body, nil); err != nil {
		return fmt.Errorf("create container %s: %w", name, err)
	}
	if p.Days == 0 {
		return nil
	}
	made, err := c.CreateOrUpdateImmutabilityPolicy(ctx, ResourceGroup, s.Account, name, &armstorage.BlobContainersClientCreateOrUpdateImmutabilityPolicyOptions{
		Parameters: &armstorage.ImmutabilityPolicy{Properties: &armstorage.ImmutabilityPolicyProperty{ImmutabilityPeriodSinceCreationInDays: to.Ptr(p.Days)}},
	})
	if err == nil && p.Locked {
		_, err = c.LockImmutabilityPolicy(ctx, ResourceGroup, s.Account, name, *made.ETag, nil)
	}
	if err != nil {
		return fmt.Errorf("give container %s its policy: %w", name, err)
	}
	return nil
}
