package agent

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"druid.internal/druid/internal/agent/backup"
	"druid.internal/druid/internal/agent/config"
	"druid.internal/druid/internal/agent/initialize"
	"druid.internal/druid/internal/agent/memberconf"
	"druid.internal/druid/internal/agent/metrics"
	"druid.internal/druid/internal/agent/neighbours"
	"druid.internal/druid/internal/agent/status"
	"druid.internal/druid/internal/agent/upkeep"
	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/agentapi/auth"
	"druid.internal/druid/internal/etcd/member"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/metered"
)

// Options are what a sidecar is given.
type Options struct {
	Config config.Config
	// ConfigFile is where Config was read from. Of it, ExistingCluster is read again when the file
	// changes; empty: nothing is.
	ConfigFile string
	// ParseConfig reads it then; nil: as [config.Parse] does.
	ParseConfig config.Parser
	// Member is the name of this member, as etcd's configuration file at Template has it.
	Member, Template string
	// Guard is what the volume's guard file must hold; empty: it is not guarded.
	Guard string
	// Store and Second are the stores of Config; without an Open there is none.
	Store, Second Source
	Writer        string // program and version, for manifests
	// Report tells somebody outside of what is on the board until its context ends; nil: nobody is
	// told. Its error would end the sidecar.
	Report func(context.Context, *status.Board, *metrics.Catalogue) error
	Log    *slog.Logger
}

// Source is how a store is reached.
type Source = backup.Source

// sidecar is all of it.
type sidecar struct {
	Options
	templates *templates
	followed  *followed
	registry  *prometheus.Registry
	metrics   *metrics.Catalogue
	board     *status.Board
	own       *member.Cluster // through the own etcd alone
	etcd      *connection     // through all members
	calls     *agentapi.Client
	asker     *neighbours.Asker
	wrapper   supervisor
	refusal   *refusal
	pass      *auth.TokenFile // of which etcd is shown a pass; nil: no pass is shown

	data         condemned
	started      startedFile
	machine      *initialize.Machine
	backup       *backup.Leader // nil without a store
	defragmenter *upkeep.Defragmenter
	promoter     *upkeep.Promoter
}

// task works until its context ends.
type task func(context.Context) error

// ConfigError says that a sidecar cannot begin with what it was given: a file, a certificate, a name.
type ConfigError struct{ err error }

func (e *ConfigError) Error() string { return e.err.Error() }
func (e *ConfigError) Unwrap() error { return e.err }

// Run is a sidecar until ctx ends, which is a nil error. A [*ConfigError] is one from before anything
// was begun.
func Run(ctx context.Context, o Options) error {
	s := &sidecar{Options: o, registry: prometheus.NewRegistry()}
	tasks, err := s.setUp()
	if err != nil {
		return &ConfigError{err}
	}
	defer s.close()
	g, ctx := errgroup.WithContext(ctx)
	for _, run := range tasks {
		g.Go(func() error { return run(ctx) })
	}
	return g.Wait()
}

// setUp makes everything, and begins nothing.
func (s *sidecar) setUp() (tasks []task, err error) {
	if s.templates, err = openTemplates(s.Template, s.Log); err != nil {
		return nil, err
	}
	t := s.templates.get()
	if _, wanted := t.Peer(s.Member); !wanted {
		return nil, fmt.Errorf("%s does not name member %s in initial-cluster: check the file, or the name in POD_NAME", s.Template, s.Member)
	}
	s.metrics = metrics.New(s.registry, time.Now)
	if err := s.meter(); err != nil {
		return nil, err
	}
	s.board = status.New(s.Member, time.Now, s.Log)
	s.board.Update(func(m *agentapi.Member) { m.PeerTLSEnabled = t.SecurePeers(s.Member) })
	s.followed = follow(s.ConfigFile, s.Config, s.ParseConfig, s.Log)
	if err := s.connect(t); err != nil {
		return nil, err
	}
	if tasks, err = s.assemble(); err != nil {
		s.close()
	}
	return tasks, err
}

// MetricsNamespace is what the names of a sidecar's metrics begin with.
const MetricsNamespace = "etcdbr"

// meter counts what the stores are asked, and what they answer.
func (s *sidecar) meter() error {
	counts, err := metered.NewMetrics(MetricsNamespace, s.registry)
	if err != nil {
		return err
	}
	for name, source := range map[string]*Source{metrics.Primary: &s.Store, metrics.Secondary: &s.Second} {
		open := source.Open
		if open == nil {
			continue
		}
		source.Open = func(ctx context.Context) (store.Store, error) {
			bare, err := open(ctx)
			if err != nil {
				return nil, err
			}
			return metered.New(bare, name, counts), nil
		}
	}
	return nil
}

// connect prepares how others are asked. Nobody is asked yet.
func (s *sidecar) connect(t *memberconf.Template) (err error) {
	c := s.Config
	if file := c.Server.TokenFile; file != "" {
		if s.pass, err = auth.NewTokenFile(file, s.Log); err != nil {
			return err
		}
	}
	if s.own, err = member.New(s.endpoints(c.Etcd.Endpoints)); err != nil {
		return err
	}
	credentials := s.credentials()
	scheme := "http"
	if c.Server.CertFile != "" {
		scheme = "https"
	}
	if s.calls, err = agentapi.NewClient(scheme+"://127.0.0.1:"+strconv.Itoa(c.Server.Port), agentapi.ClientOptions{Credentials: credentials, Log: s.Log}); err != nil {
		return err
	}
	s.asker = neighbours.New(neighbours.Options{Sidecar: s.calls, TLS: c.Server.CertFile != "", Port: c.Server.Port, Etcd: s.endpoints(nil), Outside: s.followed.endpoints})
	s.etcd = &connection{config: s.endpoints, local: c.Etcd.Endpoints[0], more: c.Etcd.ServiceEndpoints, outside: s.followed, served: s.asker.Served}
	if err := s.etcd.follow(t); err != nil {
		return err
	}
	if c.Wrapper.CAFile != "" {
		credentials.CAFile = c.Wrapper.CAFile
	}
	client, err := auth.NewClient(credentials, s.Log)
	if err != nil {
		return err
	}
	if s.wrapper, err = newSupervisor(c, client); err != nil {
		return err
	}
	s.refusal = newRefusal(s.wrapper, s.pass != nil, time.Now, s.Log)
	return nil
}

func (s *sidecar) close() {
	s.asker.Close()
	s.calls.Close()
	_ = s.etcd.close() // nothing is lost with a connection
	_ = s.own.Close()
}

// credentials are what this sidecar shows to others, and whom it trusts.
func (s *sidecar) credentials() auth.Credentials { return Credentials(s.Config) }

// Credentials are what a sidecar with this configuration shows to others, and whom it trusts.
func Credentials(c config.Config) auth.Credentials {
	out := auth.Credentials{CAFile: c.Server.CAFile, CertFile: c.Server.ClientCertFile, KeyFile: c.Server.ClientKeyFile, TokenFile: c.Server.TokenFile}
	if out.CAFile == "" {
		out.CAFile = c.Etcd.CAFile
	}
	if out.CertFile == "" {
		out.CertFile, out.KeyFile = c.Etcd.CertFile, c.Etcd.KeyFile
	}
	return out
}

// endpoints is how etcds are reached, also while they refuse clients.
func (s *sidecar) endpoints(endpoints []string) member.Config {
	c := Etcds(s.Config, endpoints)
	if s.pass != nil {
		c.Pass = func() map[string]string { return map[string]string{auth.PassKey: s.pass.Pass()} }
	}
	return c
}

// Etcds is how a sidecar with this configuration reaches the etcds at these endpoints.
func Etcds(c config.Config, endpoints []string) member.Config {
	e := c.Etcd
	return member.Config{
		Endpoints: endpoints, CertFile: e.CertFile, KeyFile: e.KeyFile, CAFile: e.CAFile, InsecureTransport: e.InsecureTransport,
		InsecureSkipVerify: e.InsecureSkipVerify, Username: e.Username, Password: e.Password, UsernameFile: e.UsernameFile, PasswordFile: e.PasswordFile,
		DialTimeout: e.ConnectionTimeout.D(),
	}
}

// status is what the own etcd says about itself.
func (s *sidecar) status(ctx context.Context) (member.Status, error) {
	m, err := s.own.At(s.Config.Etcd.Endpoints[0])
	if err != nil {
		return member.Status{}, err
	}
	return m.Status(ctx)
}

// list are the members of the cluster as far as the own etcd knows. It needs no majority.
func (s *sidecar) list(ctx context.Context) (member.Membership, error) {
	m, err := s.own.At(s.Config.Etcd.Endpoints[0])
	if err != nil {
		return member.Membership{}, err
	}
	return m.Members(ctx)
}
