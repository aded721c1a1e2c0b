package members

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"syscall"

	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/agentapi/auth"
)

// Member is one etcd with its sidecar.
type Member struct {
	Name    string
	Address string // IP

	cluster       *Cluster
	dir           string
	id            identity
	room          *room   // nil: that of this machine
	volume        *volume // nil: a directory
	etcd, sidecar *container
}

// newMember lays out everything and starts nothing.
func (c *Cluster) newMember(ctx context.Context, ordinal int) (*Member, error) {
	m := &Member{Name: fmt.Sprintf("%s-%d", c.opts.Name, ordinal), cluster: c}
	m.dir = filepath.Join(c.dir, m.Name)
	for _, d := range []string{"config", "data", "home", "tmp"} {
		if err := os.MkdirAll(filepath.Join(m.dir, d), 0o700); err != nil {
			return nil, err
		}
	}
	if err := m.settle(ctx, ordinal); err != nil {
		m.room.close()
		return nil, fmt.Errorf("lay out member %s: %w", m.Name, err)
	}
	m.etcd = newContainer(m.Name+"'s etcd", m.wrapperCommand)
	m.sidecar = newContainer(m.Name+"'s sidecar", m.sidecarCommand)
	return m, nil
}

// settle gives the member its place: address, namespaces, volume, certificates.
func (m *Member) settle(ctx context.Context, ordinal int) error {
	o := m.cluster.opts
	var err error
	if o.Network != nil || o.Volume > 0 {
		if m.room, err = newRoom(ctx, m.Name, o.Network != nil, o.Volume > 0); err != nil {
			return err
		}
	}
	if o.Network != nil {
		addr, err := o.Network.plug(ctx, m.room, byte(10+ordinal))
		if err != nil {
			return err
		}
		m.Address = addr.String()
	} else {
		m.Address = m.cluster.loopback(ordinal).String()
	}
	if o.Volume > 0 {
		if m.volume, err = newVolume(ctx, m.room, filepath.Join(m.dir, "volume"), m.volumeDir(), o.Volume); err != nil {
			return err
		}
	}
	// On the loopback device everybody calls from its first address.
	m.id, err = m.cluster.identify(filepath.Join(m.dir, "tls"), m.Address, "127.0.0.1", "localhost")
	return err
}

// Start starts both processes, and again whenever they end. They are not waited for.
func (m *Member) Start() {
	m.sidecar.up()
	m.etcd.up()
}

// Stop asks both processes to end and waits; they stay away until Start.
func (m *Member) Stop() error {
	// etcd first: a kubelet asks both at once, and the sidecar has more to do afterwards.
	return errors.Join(m.etcd.down(), m.sidecar.down())
}

// Crash kills both processes, which stay away until Start.
func (m *Member) Crash() {
	m.etcd.crash()
	m.sidecar.crash()
}

// KillEtcd kills etcd with SIGKILL; it is started again. false: it does not run.
func (m *Member) KillEtcd() bool { return m.etcd.kill9() }

// KillSidecar kills the sidecar with SIGKILL; it is started again. false: it does not run.
func (m *Member) KillSidecar() bool { return m.sidecar.kill9() }

// StopEtcd and StartEtcd are Stop and Start of etcd alone.
func (m *Member) StopEtcd() error { return m.etcd.down() }

// StartEtcd starts etcd.
func (m *Member) StartEtcd() { m.etcd.up() }

// StopSidecar and StartSidecar are Stop and Start of the sidecar alone.
func (m *Member) StopSidecar() error { return m.sidecar.down() }

// StartSidecar starts the sidecar.
func (m *Member) StartSidecar() { m.sidecar.up() }

// FreezeEtcd stops etcd in the middle of whatever it does until Thaw.
func (m *Member) FreezeEtcd() bool { return m.etcd.send(syscall.SIGSTOP) }

// FreezeSidecar stops the sidecar in the middle of whatever it does until Thaw.
func (m *Member) FreezeSidecar() bool { return m.sidecar.send(syscall.SIGSTOP) }

// Thaw lets frozen processes go on.
func (m *Member) Thaw() {
	m.etcd.send(syscall.SIGCONT)
	m.sidecar.send(syscall.SIGCONT)
}

// EtcdLife is what was seen of etcd's process.
func (m *Member) EtcdLife() Life { return m.etcd.life() }

// SidecarLife is what was seen of the sidecar's process.
func (m *Member) SidecarLife() Life { return m.sidecar.life() }

// EtcdLog is the end of what etcd and its wrapper printed, over all their lives.
func (m *Member) EtcdLog() string { return m.etcd.log.String() }

// SidecarLog is the end of what the sidecar printed, over all its lives.
func (m *Member) SidecarLog() string { return m.sidecar.log.String() }

// DataDir is etcd's data directory as we see it.
func (m *Member) DataDir() string { return m.room.path(m.dataDir()) }

// VolumeDir holds the data directory and what lies beside it, as we see it.
func (m *Member) VolumeDir() string { return m.room.path(m.volumeDir()) }

// Sidecar calls the sidecar's interface with everything that is needed for it.
func (m *Member) Sidecar() (*agentapi.Client, error) {
	o := agentapi.ClientOptions{}
	o.Credentials = auth.Credentials{TokenFile: m.cluster.tokenFile}
	if m.cluster.tls().Backup {
		own := m.cluster.own.backup
		o.CAFile, o.CertFile, o.KeyFile = own.caFile(), own.certFile(), own.keyFile()
	}
	return agentapi.NewClient(m.SidecarURL(), o)
}

// close ends everything of the member.
func (m *Member) close() {
	m.Thaw()
	m.etcd.close()
	m.sidecar.close()
	if m.cluster.opts.Network != nil {
		m.cluster.opts.Network.unplug(m.addr())
	}
	m.room.close()
}

func (m *Member) addr() netip.Addr { return netip.MustParseAddr(m.Address) }
