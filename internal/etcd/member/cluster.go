package member

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
)

// Cluster knows the endpoints of a cluster and chooses the member to work with.
type Cluster struct {
	cfg Config

	mu    sync.Mutex
	conns []*Member // per endpoint, nil until first used
	good  int       // the endpoint that answered last
}

// New checks cfg. It does not connect.
func New(cfg Config) (*Cluster, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Cluster{cfg: cfg, conns: make([]*Member, len(cfg.Endpoints))}, nil
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
		m, err := c.at(at)
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

// Close ends every connection.
func (c *Cluster) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for i, m := range c.conns {
		if m != nil {
			errs = append(errs, m.client.Close())
			c.conns[i] = nil
		}
	}
	return errors.Join(errs...)
}

func (c *Cluster) at(i int) (*Member, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conns[i] == nil {
		m, err := dial(c.cfg, c.cfg.Endpoints[i])
		if err != nil {
			return nil, err
		}
		c.conns[i] = m
	}
	return c.conns[i], nil
}

// dial prepares the connection to one endpoint. With a user it has to log in, and does so
// within the timeout.
func dial(cfg Config, endpoint string) (*Member, error) {
	options := []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
		Backoff:           backoff.Config{BaseDelay: 200 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 5 * time.Second},
		MinConnectTimeout: 5 * time.Second,
	}), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(cfg.maxReceive()), grpc.MaxCallSendMsgSize(cfg.maxSend()))}
	secure, err := cfg.secure(endpoint)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if secure {
		if _, err := cfg.tlsConfig(); err != nil {
			return nil, fmt.Errorf("connect to etcd at %s: %w", endpoint, err)
		}
		options = append(options, grpc.WithTransportCredentials(reloading{cfg}))
		if !strings.Contains(endpoint, "://") {
			endpoint = "https://" + endpoint
		}
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints:            []string{endpoint},
		DialTimeout:          cfg.timeout(),
		DialKeepAliveTime:    30 * time.Second,
		DialKeepAliveTimeout: 20 * time.Second,
		MaxCallRecvMsgSize:   cfg.maxReceive(),
		MaxCallSendMsgSize:   cfg.maxSend(),
		Username:             cfg.Username,
		Password:             cfg.Password,
		DialOptions:          options,
		Logger:               zap.NewNop(),
	})
	if err != nil {
		return nil, explain("connect to etcd", endpoint, err)
	}
	return &Member{client: client, endpoint: endpoint, timeout: cfg.timeout()}, nil
}
