package members

import (
	"context"
	"errors"
	"fmt"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"druid.internal/druid/test/process"
)

// Plain runs another etcd, a path of a program, on the data of the members, with their addresses and
// certificates, as if they had been run by it before. It returns when fill has, and the etcds have
// come to a clean end. No member may run.
func (c *Cluster) Plain(ctx context.Context, binary string, fill func(context.Context, *clientv3.Client) error) (err error) {
	for _, m := range c.Members() {
		proc, startErr := m.StartPlain(binary)
		if startErr != nil {
			return startErr
		}
		defer func() { err = errors.Join(err, proc.Stop()) }()
	}
	client, err := c.Client()
	if err != nil {
		return err
	}
	defer client.Close()
	if err := c.Await(ctx, "the plain etcd serves", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, askTimeout)
		defer cancel()
		_, err := client.Get(ctx, "/")
		return err
	}); err != nil {
		return err
	}
	if err := fill(ctx, client); err != nil {
		return fmt.Errorf("fill the plain etcd: %w", err)
	}
	return nil
}

// StartPlain starts another etcd, a path of a program, on the data of a member, with its address and
// certificates. The member itself must not run; whoever starts it stops it.
func (m *Member) StartPlain(binary string) (*process.Process, error) {
	tls := m.cluster.tls()
	var initial []string
	for _, o := range m.cluster.Members() {
		initial = append(initial, o.Name+"="+o.PeerURL())
	}
	args := []string{
		"--name=" + m.Name, "--data-dir=" + m.dataDir(), "--log-level=warn",
		"--listen-client-urls=" + m.ClientURL(), "--advertise-client-urls=" + m.ClientURL(),
		"--listen-peer-urls=" + m.PeerURL(), "--initial-advertise-peer-urls=" + m.PeerURL(),
		"--initial-cluster=" + strings.Join(initial, ","), "--initial-cluster-token=etcd-cluster",
	}
	for _, side := range []struct {
		on     bool
		prefix string
		c      *credentials
	}{{tls.Client, "--", m.id.client}, {tls.Peer, "--peer-", m.id.peer}} {
		if side.on {
			args = append(args, side.prefix+"cert-file="+side.c.certFile(), side.prefix+"key-file="+side.c.keyFile(),
				side.prefix+"trusted-ca-file="+side.c.caFile(), side.prefix+"client-cert-auth")
		}
	}
	return m.room.command(process.Command{Name: "the plain etcd of " + m.Name, Path: binary, Args: args, Env: process.BareEnvironment(m.dir)}).Start()
}
