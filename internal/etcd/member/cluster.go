package member

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
)

// Cluster knows the endpoints of a cluster and chooses the member to work with.
type Cluster struct {
	cfg Config

	login *login

	mu    sync.Mutex
	conns map[string]*Member // by endpoint, as first used
	good  int                // the configured endpoint that answered last
}

// New checks cfg. It does not connect.
func New(cfg Config) (*Cluster, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	c := &Cluster{cfg: cfg, conns: map[string]*Member{}}
	c.login = newLogin(cfg, c.known)
	return c, nil
}

// Member returns the first member that answers and can be backed up from: it votes and sees
// a leader. It begins with the one that answered last. The error names what is wrong with
// each endpoint. The member is the cluster's: it is closed with it.
func (c *Cluster) Member(ctx context.Context) (*Member, error) {
	c.mu.Lock()
	first := c.good
	c.mu.Unlock()
	var failures []error
	for i := range c.cfg.Endpoints {
		at := (first + i) % len(c.cfg.Endpoints)
		m, err := c.At(c.cfg.Endpoints[at])
		if err != nil {
			failures = append(failures, err)
			continue
		}
		st, err := m.Status(ctx)
		switch {
		case ctx.Err() != nil:
			return nil, fmt.Errorf("choose a member: %w", ctx.Err())
		case err != nil:
			failures = append(failures, err)
		case st.Learner:
			failures = append(failures, fmt.Errorf("%s is a learner; backups are taken from voting members", m.endpoint))
		case st.Leader == 0:
			failures = append(failures, fmt.Errorf("status at %s: %w", m.endpoint, ErrNoLeader))
		default:
			c.mu.Lock()
			c.good = at
			c.mu.Unlock()
			return m, nil
		}
	}
	return nil, errors.Join(failures...)
}

// At is the member at one endpoint, whatever it is: a learner, or one without a leader. The
// endpoint need not be among the configured ones, but agrees with them on TLS. At does not
// connect; [Member.Status] is the cheap way to ask. The member is the cluster's: it is closed
// with it. Errors: ErrConfig, also when certificates cannot be read; ErrUnreachable.
func (c *Cluster) At(endpoint string) (*Member, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.conns[endpoint]; m != nil {
		return m, nil
	}
	if err := c.cfg.agrees(endpoint); err != nil {
		return nil, err
	}
	m, err := dial(c.cfg, endpoint, c.login)
	if err != nil {
		return nil, err
	}
	c.conns[endpoint] = m
	return m, nil
}

// known are the members that were asked for so far, and those at the configured endpoints.
func (c *Cluster) known() []*Member {
	for _, endpoint := range c.cfg.Endpoints {
		_, _ = c.At(endpoint) // one that cannot even be prepared is of no help
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Values(c.conns))
}

// Close ends every connection.
func (c *Cluster) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for _, m := range c.conns {
		errs = append(errs, m.close())
	}
	clear(c.conns)
	return errors.Join(errs...)
}

// dial prepares the connections to one endpoint.
func dial(cfg Config, endpoint string, l *login) (*Member, error) {
	secure, err := cfg.secure(endpoint)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	creds := insecure.NewCredentials()
	if secure {
		if _, err := cfg.tlsConfig(); err != nil {
			return nil, fmt.Errorf("connect to etcd at %s: %w", endpoint, err)
		}
		creds = reloading{cfg}
		if !strings.Contains(endpoint, "://") {
			endpoint = "https://" + endpoint
		}
	}
	options := []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
		Backoff:           backoff.Config{BaseDelay: 200 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
		MinConnectTimeout: 5 * time.Second,
	}), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(cfg.maxReceive()), grpc.MaxCallSendMsgSize(cfg.maxSend()))}
	options = append(options, l.options()...)
	if cfg.Pass != nil {
		options = append(options, grpc.WithPerRPCCredentials(pass(cfg.Pass)))
	}
	client := func(more ...grpc.DialOption) (*clientv3.Client, error) {
		c, err := clientv3.New(clientv3.Config{
			Endpoints:            []string{endpoint},
			DialTimeout:          cfg.timeout(),
			DialKeepAliveTime:    30 * time.Second,
			DialKeepAliveTimeout: 20 * time.Second,
			MaxCallRecvMsgSize:   cfg.maxReceive(),
			MaxCallSendMsgSize:   cfg.maxSend(),
			DialOptions:          append(slices.Clone(options), more...),
			Logger:               zap.NewNop(),
		})
		return c, explain("connect to etcd", endpoint, err)
	}
	m := &Member{endpoint: endpoint, timeout: cfg.timeout()}
	m.dialWatch = func() (*clientv3.Client, error) {
		return client(grpc.WithTransportCredentials(gathering{creds}),
			grpc.WithInitialWindowSize(watchWindow), grpc.WithInitialConnWindowSize(watchWindow))
	}
	m.client, err = client(grpc.WithTransportCredentials(creds))
	if err != nil {
		return nil, err
	}
	return m, nil
}
