package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"druid.internal/druid/test/process"
	"druid.internal/druid/test/stores"
)

// plain is a cluster of etcds without us, with the same version and limits.
type plain struct {
	binary, home string
	members      []*plainMember
}

type plainMember struct {
	name, dir, client, peer string
	proc                    *process.Process
}

// newPlain lays out n members with data directories in dir.
func newPlain(dir string, n int) (*plain, error) {
	binary, err := stores.Binary("etcd")
	if err != nil {
		return nil, err
	}
	ports, err := process.FreePorts("127.0.0.1", 2*n)
	if err != nil {
		return nil, err
	}
	p := &plain{binary: binary, home: dir}
	for i := range n {
		name := fmt.Sprintf("plain-%d", i)
		p.members = append(p.members, &plainMember{name: name, dir: filepath.Join(dir, name), client: "http://" + ports[2*i], peer: "http://" + ports[2*i+1]})
	}
	return p, os.MkdirAll(dir, 0o700)
}

// start starts a member; state is new or existing.
func (p *plain) start(m *plainMember, state string) (err error) {
	var initial []string
	for _, o := range p.members {
		initial = append(initial, o.name+"="+o.peer)
	}
	m.proc, err = process.Start(m.name, p.binary, []string{
		"--name=" + m.name, "--data-dir=" + m.dir, "--listen-client-urls=" + m.client, "--advertise-client-urls=" + m.client,
		"--listen-peer-urls=" + m.peer, "--initial-advertise-peer-urls=" + m.peer, "--initial-cluster=" + strings.Join(initial, ","),
		"--initial-cluster-state=" + state, "--initial-cluster-token=plain", "--log-level=warn",
		fmt.Sprintf("--quota-backend-bytes=%d", memberQuota), "--snapshot-count=10000",
		"--auto-compaction-mode=periodic", "--auto-compaction-retention=30m",
	}, process.BareEnvironment(p.home))
	return err
}

func (p *plain) startAll() (err error) {
	for _, m := range p.members {
		err = errors.Join(err, p.start(m, "new"))
	}
	return err
}

func (p *plain) close() {
	for _, m := range p.members {
		if m.proc != nil {
			m.proc.Kill()
		}
	}
}

// dial is a client of some endpoints.
func dial(endpoints ...string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: endpoints, DialTimeout: 10 * time.Second, Logger: zap.NewNop(),
		DialKeepAliveTime: 2 * time.Second, DialKeepAliveTimeout: 2 * time.Second})
}

func (p *plain) dial() (*clientv3.Client, error) {
	var all []string
	for _, m := range p.members {
		all = append(all, m.client)
	}
	return dial(all...)
}

// serving waits until every member answers linearizable reads.
func (p *plain) serving(ctx context.Context) error {
	errs := make([]error, len(p.members))
	var all sync.WaitGroup
	for i, m := range p.members {
		all.Go(func() { errs[i] = m.serving(ctx) })
	}
	all.Wait()
	return errors.Join(errs...)
}

func (m *plainMember) serving(ctx context.Context) error {
	c, err := dial(m.client)
	if err != nil {
		return err
	}
	defer c.Close()
	return again(ctx, m.name+" serves", func(ctx context.Context) error {
		_, err := c.Get(ctx, "/")
		return err
	})
}

// leader is the member that leads.
func (p *plain) leader(ctx context.Context) (found *plainMember, err error) {
	err = again(ctx, "somebody leads", func(ctx context.Context) error {
		for _, m := range p.members {
			c, err := dial(m.client)
			if err != nil {
				return err
			}
			s, err := c.Status(ctx, m.client)
			c.Close()
			if err == nil && s.Leader != 0 && s.Leader == s.Header.MemberId {
				found = m
				return nil
			}
		}
		return errors.New("nobody does")
	})
	return found, err
}

// rejoin gives a member whose data are lost back to its cluster, as fast as etcd can.
func (p *plain) rejoin(ctx context.Context, m *plainMember) error {
	c, err := p.dial()
	if err != nil {
		return err
	}
	defer c.Close()
	// What the members refuse while they are not sure of each other is tried again.
	list, err := c.MemberList(ctx)
	if err != nil {
		return err
	}
	for _, l := range list.Members {
		if l.Name == m.name {
			if err := again(ctx, m.name+" is removed", func(ctx context.Context) error {
				_, err := c.MemberRemove(ctx, l.ID)
				return err
			}); err != nil {
				return err
			}
		}
	}
	var learner uint64
	if err := again(ctx, m.name+" is added", func(ctx context.Context) error {
		added, err := c.MemberAddAsLearner(ctx, []string{m.peer})
		if err == nil {
			learner = added.Member.ID
		}
		return err
	}); err != nil {
		return err
	}
	if err := p.start(m, "existing"); err != nil {
		return err
	}
	if err := again(ctx, m.name+" is promoted", func(ctx context.Context) error {
		_, err := c.MemberPromote(ctx, learner)
		return err
	}); err != nil {
		return err
	}
	return m.serving(ctx)
}

// again asks until there is no error, for two minutes at the most.
func again(ctx context.Context, what string, is func(context.Context) error) error {
	const most, every, one = 2 * time.Minute, 50 * time.Millisecond, 3 * time.Second
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		try, stop := context.WithTimeout(ctx, one)
		err := is(try)
		stop()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waited in vain until %s: %w", what, err)
		case <-tick.C:
		}
	}
}
