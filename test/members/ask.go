package members

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/test/process"
)

// askTimeout is how long a member may take for an answer.
const askTimeout = 3 * time.Second

// Client is a client of the wanted members; whoever asks closes it.
func (c *Cluster) Client() (*clientv3.Client, error) { return c.ClientOf(c.Members()...) }

// ClientOf is a client of these members alone.
func (c *Cluster) ClientOf(members ...*Member) (*clientv3.Client, error) {
	o := clientv3.Config{DialTimeout: 10 * time.Second, MaxCallSendMsgSize: 256 << 20, Logger: zap.NewNop(),
		DialKeepAliveTime: 2 * time.Second, DialKeepAliveTimeout: 2 * time.Second}
	for _, m := range members {
		o.Endpoints = append(o.Endpoints, m.ClientURL())
	}
	if c.tls().Client {
		o.TLS = c.own.client.config()
	}
	return clientv3.New(o)
}

// Etcd is how a member's etcd answers.
func (m *Member) Etcd(ctx context.Context) (*clientv3.StatusResponse, error) {
	client, err := m.cluster.ClientOf(m)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	return client.Status(ctx, m.ClientURL())
}

// State is what the sidecar tells about its member.
func (m *Member) State(ctx context.Context) (agentapi.Member, error) {
	client, err := m.Sidecar()
	if err != nil {
		return agentapi.Member{}, err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	return client.Member(ctx)
}

// Ready is nil if the wrapper says that etcd serves.
func (m *Member) Ready(ctx context.Context) error { return m.probe(ctx, "/readyz") }

// Alive is nil if the wrapper says that it should not be killed.
func (m *Member) Alive(ctx context.Context) error { return m.probe(ctx, "/livez") }

func (m *Member) probe(ctx context.Context, path string) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, m.WrapperURL()+path, nil)
	if err != nil {
		return err
	}
	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: m.cluster.EtcdTLS()}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return err
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", req.URL, resp.Status)
	}
	return nil
}

// HTTPS is the configuration of a client of sidecars that shows our certificate.
func (c *Cluster) HTTPS() *tls.Config { return c.own.backup.config() }

// Leader is the member that leads, or an error if none says so of itself.
func (c *Cluster) Leader(ctx context.Context) (*Member, error) {
	var leader *Member
	var newest uint64
	for _, m := range c.everybody() {
		if !m.EtcdLife().Running {
			continue
		}
		// One that was cut off may believe for a while that it still leads.
		if s, err := m.Etcd(ctx); err == nil && s.Leader != 0 && s.Leader == s.Header.MemberId && s.RaftTerm > newest {
			leader, newest = m, s.RaftTerm
		}
	}
	if leader == nil {
		return nil, errors.New("no member leads")
	}
	return leader, nil
}

// BackupLeader is the member whose sidecar writes the backups, or an error if not exactly one says so.
func (c *Cluster) BackupLeader(ctx context.Context) (*Member, error) {
	var found []*Member
	for _, m := range c.everybody() {
		if !m.SidecarLife().Running {
			continue
		}
		if s, err := m.State(ctx); err == nil && s.BackupLeader {
			found = append(found, m)
		}
	}
	if len(found) != 1 {
		return nil, fmt.Errorf("%d members say that they write the backups", len(found))
	}
	return found[0], nil
}

// Consistent is nil if the cluster consists of exactly the wanted members, all of them vote, and each
// serves linearizable reads.
func (c *Cluster) Consistent(ctx context.Context) error {
	wanted := c.Members()
	client, err := c.Client()
	if err != nil {
		return err
	}
	defer client.Close()
	ask, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	list, err := client.MemberList(ask)
	if err != nil {
		return fmt.Errorf("list the members: %w", err)
	}
	var names []string
	for _, m := range list.Members {
		if m.IsLearner {
			return fmt.Errorf("%s is a learner", m.Name)
		}
		names = append(names, m.Name)
	}
	var want []string
	for _, m := range wanted {
		want = append(want, m.Name)
	}
	slices.Sort(names)
	slices.Sort(want)
	if !slices.Equal(names, want) {
		return fmt.Errorf("the members are %s, want %s", strings.Join(names, ", "), strings.Join(want, ", "))
	}
	errs := make([]error, len(wanted))
	var looks sync.WaitGroup
	for i, m := range wanted {
		looks.Go(func() {
			if err := m.Ready(ctx); err != nil {
				errs[i] = fmt.Errorf("%s is not ready: %w", m.Name, err)
			}
		})
	}
	looks.Wait()
	return errors.Join(errs...)
}

// AwaitReady waits until the cluster is Consistent.
func (c *Cluster) AwaitReady(ctx context.Context) error {
	return c.Await(ctx, "the cluster is ready", c.Consistent)
}

// Await asks again and again until is says nil. When ctx ends, or after [waitAtMost], the error tells
// what it said last.
func (c *Cluster) Await(ctx context.Context, what string, is func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, waitAtMost)
	defer cancel()
	if err := process.Poll(ctx, nil, is); err != nil {
		return fmt.Errorf("waited in vain until %s: %w", what, err)
	}
	return nil
}

// waitAtMost is longer than anything takes that is waited for.
const waitAtMost = 5 * time.Minute

// Tell says everything about everybody, for whoever has to find out why a test failed.
func (c *Cluster) Tell(ctx context.Context) string {
	const lines = 60
	var b strings.Builder
	for _, m := range c.everybody() {
		etcd, sidecar := m.EtcdLife(), m.SidecarLife()
		fmt.Fprintf(&b, "===== %s at %s: etcd started %d times, sidecar %d times\n", m.Name, m.Address, etcd.Starts, sidecar.Starts)
		fmt.Fprintf(&b, "----- %s\n", m.Line(ctx))
		fmt.Fprintf(&b, "----- sidecar's log\n%s\n----- etcd's log\n%s\n", last(m.SidecarLog(), lines), last(m.EtcdLog(), lines))
	}
	return b.String()
}

// Line is a member's state in one line.
func (m *Member) Line(ctx context.Context) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:", m.Name)
	if s, err := m.State(ctx); err != nil {
		fmt.Fprintf(&b, " sidecar: %v;", err)
	} else {
		if n := len(s.Transitions); n > 0 {
			t := s.Transitions[n-1]
			fmt.Fprintf(&b, " %s/%s since %s (%s)", t.State, t.SubState, t.Time.Format(time.TimeOnly), t.Reason)
		}
		fmt.Fprintf(&b, " data %s", s.Data.State)
		if s.Waiting != "" {
			fmt.Fprintf(&b, ", waiting: %s", s.Waiting)
		}
		if s.BackupLeader {
			b.WriteString(", writes the backups")
		}
		b.WriteString(";")
	}
	if s, err := m.Etcd(ctx); err != nil {
		fmt.Fprintf(&b, " etcd: %v", err)
	} else {
		fmt.Fprintf(&b, " etcd %s id %x leader %x learner %t revision %d", s.Version, s.Header.MemberId, s.Leader, s.IsLearner, s.Header.Revision)
	}
	return b.String()
}

func last(text string, n int) string {
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(all[max(0, len(all)-n):], "\n")
}

// Metric is a metric of the sidecar without labels, or with these exactly as they are printed:
// NAME{label="value"}.
func (m *Member) Metric(ctx context.Context, name string) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, m.SidecarURL()+agentapi.Metrics, nil)
	if err != nil {
		return 0, err
	}
	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: m.cluster.HTTPS()}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, fmt.Errorf("%s has no metric %s", m.Name, name)
}

// EtcdTLS is the configuration of a client of etcd that shows our certificate.
func (c *Cluster) EtcdTLS() *tls.Config { return c.own.client.config() }
