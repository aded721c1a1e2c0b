package neighbours

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"druid.internal/druid/internal/agent/memberconf"
	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/etcd/member"
)

// Who has not answered by then is unreachable. An etcd answers at once or not at all: one that
// starts without a majority accepts connections and says nothing, as long as that lasts.
const (
	DefaultTimeout     = 3 * time.Second // for a sidecar
	DefaultEtcdTimeout = time.Second
)

// maxEtcdAnswer limits a message of an etcd, in bytes. It is asked for its status, its members and
// changes of them.
const maxEtcdAnswer = 512 << 10

// Asker asks. Its methods may be called concurrently.
type Asker struct {
	sidecar func(ctx context.Context, base string) (agentapi.Member, error)
	scheme  string
	port    int
	etcd    member.Config
	timeout time.Duration
	quick   time.Duration // for etcd
	outside func() []string

	mu       sync.Mutex
	served   []string                   // where etcds answered last, see askWhereTheyServe
	clusters map[string]*member.Cluster // by endpoint
	patience time.Duration              // of the next change
}

// Options say how the others are reached.
type Options struct {
	// Sidecar calls other sidecars with its options; its own address does not matter. They listen
	// on Port of the host of their member's first client URL.
	Sidecar *agentapi.Client
	TLS     bool // sidecars speak TLS
	Port    int
	// Etcd says how to reach etcd; its Endpoints and DialTimeout do not matter.
	Etcd        member.Config
	Timeout     time.Duration // of a sidecar; 0: DefaultTimeout
	EtcdTimeout time.Duration // of an etcd that is looked at; 0: DefaultEtcdTimeout
	// Outside are the client URLs of a cluster outside; nil: there is none. Its etcds may be far away,
	// and get as long as a sidecar.
	Outside func() []string
}

// New makes an asker. It connects to nobody yet. Close it.
func New(o Options) *Asker {
	a := &Asker{scheme: "http", port: o.Port, etcd: o.Etcd, timeout: o.Timeout, quick: o.EtcdTimeout, clusters: map[string]*member.Cluster{}, patience: firstChange}
	if o.TLS {
		a.scheme = "https"
	}
	if a.timeout <= 0 {
		a.timeout = DefaultTimeout
	}
	if a.quick <= 0 {
		a.quick = DefaultEtcdTimeout
	}
	if a.outside = o.Outside; a.outside == nil {
		a.outside = func() []string { return nil }
	}
	a.etcd.DialTimeout, a.etcd.MaxReceive = changeTimeout, maxEtcdAnswer
	a.sidecar = func(ctx context.Context, base string) (agentapi.Member, error) {
		c, err := o.Sidecar.At(base)
		if err != nil {
			return agentapi.Member{}, err
		}
		return c.Member(ctx)
	}
	return a
}

// Base is where the sidecar of a member listens.
func (a *Asker) Base(p memberconf.Peer) (string, error) {
	if len(p.ClientURLs) == 0 {
		return "", fmt.Errorf("member %s has no client URL, whose host its sidecar would have", p.Name)
	}
	u, err := url.Parse(p.ClientURLs[0])
	if err != nil || u.Hostname() == "" {
		return "", fmt.Errorf("member %s: client URL %q names no host, which its sidecar would have too", p.Name, p.ClientURLs[0])
	}
	return a.scheme + "://" + net.JoinHostPort(u.Hostname(), strconv.Itoa(a.port)), nil
}

// Look asks all wanted members at once: the sidecars of all but self, and every etcd; and the etcds
// outside.
func (a *Asker) Look(ctx context.Context, wanted []memberconf.Peer, self string) View {
	patient, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	quick, cancel := context.WithTimeout(ctx, a.quick)
	defer cancel()
	sidecars := make([]Sidecar, len(wanted))
	etcds := make([]Etcd, len(wanted))
	endpoints := a.outside()
	outside := make([]Etcd, len(endpoints))
	var all sync.WaitGroup
	for i, p := range wanted {
		if p.Name != self {
			all.Go(func() { sidecars[i] = a.askSidecar(patient, p) })
		}
		all.Go(func() { etcds[i] = a.askEtcd(quick, p) })
	}
	for i, e := range endpoints {
		all.Go(func() { outside[i] = a.askEndpoint(patient, "", e) })
	}
	all.Wait()
	a.askWhereTheyServe(ctx, wanted, sidecars, etcds)
	v := View{Sidecars: map[string]Sidecar{}, Etcds: etcds, Outside: outside}
	for i, p := range wanted {
		if p.Name != self {
			v.Sidecars[p.Name] = sidecars[i]
		}
	}
	return v
}

// askWhereTheyServe asks the etcds that do not answer at the configured client URLs, which may have changed since they were started, at
// those that their sidecars tell. Host and scheme stay: a sidecar tells of nobody else, and who wants certificates is not to go without.
func (a *Asker) askWhereTheyServe(ctx context.Context, wanted []memberconf.Peer, sidecars []Sidecar, etcds []Etcd) {
	quick, cancel := context.WithTimeout(ctx, a.quick)
	defer cancel()
	var all sync.WaitGroup
	for i, p := range wanted {
		if m := sidecars[i].Member; etcds[i].Err != nil && sidecars[i].Err == nil && m.Etcd != nil {
			p.ClientURLs = serving(p, m)
			if len(p.ClientURLs) > 0 {
				all.Go(func() {
					if e := a.askEtcd(quick, p); e.Err == nil {
						etcds[i] = e
					}
				})
			}
		}
	}
	all.Wait()
	var served []string
	for i := range wanted {
		if e := etcds[i]; e.Err == nil && !slices.Contains(wanted[i].ClientURLs, e.Endpoint) {
			served = append(served, e.Endpoint)
		}
	}
	a.mu.Lock()
	a.served = served
	a.mu.Unlock()
}

// Served are the client URLs, other than the configured ones, at which etcds of wanted members answered when it was looked last.
func (a *Asker) Served() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.served
}

// serving are the client URLs, other than the configured ones, with which the etcd of a member was started.
func serving(p memberconf.Peer, m agentapi.Member) (urls []string) {
	i := slices.IndexFunc(m.Etcd.Members, func(l agentapi.Listed) bool { return l.ID != "" && l.ID == m.ID })
	if i < 0 {
		return nil
	}
	for _, told := range m.Etcd.Members[i].ClientURLs {
		u, err := url.Parse(told)
		ours := func(configured string) bool {
			c, err := url.Parse(configured)
			return err == nil && c.Hostname() == u.Hostname() && c.Scheme == u.Scheme
		}
		if err == nil && !slices.Contains(p.ClientURLs, told) && slices.ContainsFunc(p.ClientURLs, ours) {
			urls = append(urls, told)
		}
	}
	return urls
}

func (a *Asker) askSidecar(ctx context.Context, p memberconf.Peer) Sidecar {
	base, err := a.Base(p)
	if err != nil {
		return Sidecar{Err: err}
	}
	m, err := a.sidecar(ctx, base)
	switch {
	case err != nil:
		return Sidecar{Err: fmt.Errorf("the sidecar of %s: %w", p.Name, err)}
	case m.Name != p.Name:
		// Whatever it has, it is not what that member has.
		return Sidecar{Err: fmt.Errorf("the sidecar of %s: at %s answers that of %q; check the client URLs in etcd's configuration", p.Name, base, m.Name)}
	}
	return Sidecar{Member: m}
}

// askEtcd asks the client URLs of a member at once, and takes the first in their order that
// answers.
func (a *Asker) askEtcd(ctx context.Context, p memberconf.Peer) Etcd {
	if len(p.ClientURLs) == 0 {
		return Etcd{Name: p.Name, Err: fmt.Errorf("member %s has no client URL", p.Name)}
	}
	answers := make([]Etcd, len(p.ClientURLs))
	var all sync.WaitGroup
	for i, endpoint := range p.ClientURLs {
		all.Go(func() { answers[i] = a.askEndpoint(ctx, p.Name, endpoint) })
	}
	all.Wait()
	var errs []error
	for _, e := range answers {
		if e.Err == nil {
			return e
		}
		errs = append(errs, e.Err)
	}
	return Etcd{Name: p.Name, Err: errors.Join(errs...)}
}

func (a *Asker) askEndpoint(ctx context.Context, name, endpoint string) Etcd {
	e := Etcd{Name: name, Endpoint: endpoint}
	c, err := a.Cluster(endpoint)
	if err != nil {
		e.Err = err
		return e
	}
	m, err := c.At(endpoint)
	if err != nil {
		e.Err = err
		return e
	}
	if e.Status, e.Err = m.Status(ctx); e.Err != nil {
		a.forget(endpoint, c)
		return e
	}
	members, err := c.Members(ctx)
	if err != nil {
		e.Silence = err
		return e
	}
	e.Members = &members
	return e
}

// Cluster is a connection through that endpoint alone. It is the asker's: it is closed with it.
func (a *Asker) Cluster(endpoint string) (*member.Cluster, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c := a.clusters[endpoint]; c != nil {
		return c, nil
	}
	cfg := a.etcd
	cfg.Endpoints = []string{endpoint}
	c, err := member.New(cfg)
	if err != nil {
		return nil, err
	}
	a.clusters[endpoint] = c
	return c, nil
}

// forget drops the connection through an endpoint that does not answer: it would wait longer and
// longer before it tries again, and etcd may be about to start there.
func (a *Asker) forget(endpoint string, c *member.Cluster) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.clusters[endpoint] == c {
		delete(a.clusters, endpoint)
		c.Close()
	}
}

// Close ends every connection. The asker may be used again.
func (a *Asker) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	var errs []error
	for endpoint, c := range a.clusters {
		errs = append(errs, c.Close())
		delete(a.clusters, endpoint)
	}
	return errors.Join(errs...)
}
