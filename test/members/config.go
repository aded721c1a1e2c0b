package members

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"druid.internal/druid/test/process"
)

// The ports of every member; that of clients until another is wanted.
const (
	clientPort  = 2379
	peerPort    = 2380
	sidecarPort = 8080
	wrapperPort = 9095
)

const namespace = "test"

// SidecarFile is the configuration file of the member's sidecar.
func (m *Member) SidecarFile() string { return filepath.Join(m.dir, "config", "sidecar.yaml") }

func scheme(tls bool) string {
	if tls {
		return "https"
	}
	return "http"
}

func (m *Member) url(tls bool, port int) string {
	return fmt.Sprintf("%s://%s:%d", scheme(tls), m.Address, port)
}

// ClientURL is where etcd's clients connect.
func (m *Member) ClientURL() string { return m.url(m.cluster.tls().Client, m.cluster.clients()) }

// PeerURL is where the other members connect.
func (m *Member) PeerURL() string { return m.url(m.cluster.tls().Peer, peerPort) }

// SidecarURL is the sidecar's interface.
func (m *Member) SidecarURL() string { return m.url(m.cluster.tls().Backup, sidecarPort) }

// WrapperURL is the wrapper's interface, with the certificate of etcd's clients, as the operator has it.
func (m *Member) WrapperURL() string { return m.url(m.cluster.tls().Client, wrapperPort) }

// The files of a member.
func (m *Member) templateFile() string { return filepath.Join(m.dir, "config", "etcd.conf.yaml") }
func (m *Member) volumeDir() string    { return filepath.Join(m.dir, "data") }
func (m *Member) exitCodeFile() string { return filepath.Join(m.volumeDir(), "exit_code") }
func (m *Member) dataDir() string      { return filepath.Join(m.volumeDir(), "new.etcd") }

// template is etcd's configuration as all members share it, but for the addresses to listen on,
// which are all addresses of a pod in Kubernetes and one of many on this machine.
func (m *Member) template(wanted []*Member, tls TLS) map[string]any {
	var initial []string
	peers, clients := map[string][]string{}, map[string][]string{}
	for _, w := range wanted {
		initial = append(initial, w.Name+"="+w.url(tls.Peer, peerPort))
		peers[w.Name] = []string{w.url(tls.Peer, peerPort)}
		clients[w.Name] = []string{w.url(tls.Client, m.cluster.clients())}
	}
	t := map[string]any{
		"name":                        "etcd-config",
		"data-dir":                    m.dataDir(),
		"metrics":                     "basic",
		"snapshot-count":              10000,
		"enable-grpc-gateway":         false,
		"quota-backend-bytes":         int64(2 << 30),
		"initial-cluster-token":       "etcd-cluster",
		"initial-cluster-state":       "new",
		"initial-cluster":             strings.Join(initial, ","),
		"auto-compaction-mode":        "periodic",
		"auto-compaction-retention":   "30m",
		"listen-peer-urls":            m.url(tls.Peer, peerPort),
		"listen-client-urls":          m.url(tls.Client, m.cluster.clients()),
		"initial-advertise-peer-urls": peers,
		"advertise-client-urls":       clients,
	}
	if tls.Client {
		t["client-transport-security"] = security(m.id.client)
	}
	if tls.Peer {
		t["peer-transport-security"] = security(m.id.peer)
	}
	maps.Copy(t, m.cluster.opts.Etcd)
	return t
}

func security(c *credentials) map[string]any {
	return map[string]any{"cert-file": c.certFile(), "key-file": c.keyFile(), "trusted-ca-file": c.caFile(), "client-cert-auth": true, "auto-tls": false}
}

// sidecarConfig is the configuration of a member's sidecar.
func (m *Member) sidecarConfig(tls TLS) map[string]any {
	o := m.cluster.opts
	etcd := map[string]any{
		"endpoints":         []string{m.url(tls.Client, m.cluster.clients())},
		"connectionTimeout": "5s", "snapshotTimeout": "5m", "defragTimeout": "2m",
	}
	if tls.Client {
		maps.Copy(etcd, map[string]any{"caFile": m.id.client.caFile(), "certFile": m.id.client.certFile(), "keyFile": m.id.client.keyFile()})
	}
	server := map[string]any{"address": m.Address, "port": sidecarPort, "token-file": m.cluster.tokenFile}
	if b := m.id.backup; tls.Backup {
		maps.Copy(server, map[string]any{"server-cert": b.certFile(), "server-key": b.keyFile(), "client-ca": b.caFile(),
			"ca": b.caFile(), "client-cert": b.certFile(), "client-key": b.keyFile()})
	}
	wrapper := map[string]any{"address": m.Address, "port": wrapperPort}
	if tls.Client && tls.Backup {
		wrapper["ca"] = m.id.client.caFile()
	}
	c := map[string]any{
		"etcdConnectionConfig": etcd,
		"serverConfig":         server,
		"etcdWrapperConfig":    wrapper,
		"snapshotterConfig": map[string]any{"schedule": "0 */24 * * *", "deltaSnapshotPeriod": "1s", "deltaSnapshotMemoryLimit": 10 << 20,
			"garbageCollectionPeriod": "12h", "garbageCollectionPolicy": "Exponential"},
		"restorationConfig":        map[string]any{"tempSnapshotsDir": filepath.Join(m.dir, "tmp")},
		"leaderElectionConfig":     map[string]any{"reelectionPeriod": "500ms", "etcdConnectionTimeout": "5s"},
		"exponentialBackoffConfig": map[string]any{"multiplier": 2, "attemptLimit": 6, "thresholdTime": "5s"},
		"defragmentationSchedule":  "0 0 */3 * *",
		"useEtcdWrapper":           true,
		"owner":                    o.Owner,
	}
	if o.Backup.Provider != "" {
		c["snapstoreConfig"] = map[string]any{"provider": o.Backup.Provider, "container": o.Backup.Container, "prefix": o.Prefix,
			"endpointOverride": o.Backup.Endpoint, "tempDir": filepath.Join(m.dir, "tmp")}
	}
	if o.Second.Provider != "" {
		c["secondarySnapstoreConfig"] = map[string]any{"backupSyncEnabled": true, "syncPeriod": "1s",
			"storeConfig": map[string]any{"provider": o.Second.Provider, "container": o.Second.Container, "prefix": o.Prefix,
				"endpointOverride": o.Second.Endpoint, "tempDir": filepath.Join(m.dir, "tmp")}}
	}
	if o.Sidecar != nil {
		o.Sidecar(m.Name, c)
	}
	return c
}

// sidecarCommand starts the sidecar.
func (m *Member) sidecarCommand() process.Command {
	env := append(process.BareEnvironment(filepath.Join(m.dir, "home")),
		"POD_NAME="+m.Name, "POD_NAMESPACE="+namespace, "ETCD_CONF="+m.templateFile())
	return m.room.command(process.Command{Name: m.Name + "'s sidecar", Path: m.cluster.opts.Programs.Etcdbrctl,
		Args: []string{"server", "--config-file=" + m.SidecarFile()}, Env: slices.Concat(env, m.cluster.credentialsEnv(), m.cluster.opts.Environment)})
}

// wrapperCommand starts etcd.
func (m *Member) wrapperCommand() process.Command {
	tls := m.cluster.tls()
	args := []string{"start-etcd",
		"--etcd-wrapper-address=" + m.Address, fmt.Sprintf("--etcd-wrapper-port=%d", wrapperPort), "--etcd-wrapper-token-path=" + m.cluster.tokenFile,
		fmt.Sprintf("--backup-restore-host-port=%s:%d", m.Address, sidecarPort), "--backup-restore-token-path=" + m.cluster.tokenFile,
		"--exit-code-path=" + m.exitCodeFile(),
	}
	if c := m.id.client; tls.Client {
		args = append(args, "--etcd-wrapper-cert-path="+c.certFile(), "--etcd-wrapper-key-path="+c.keyFile())
	}
	if b := m.id.backup; tls.Backup {
		args = append(args, "--backup-restore-tls-enabled", "--backup-restore-ca-cert-bundle-path="+b.caFile(),
			"--backup-restore-client-cert-path="+b.certFile(), "--backup-restore-client-key-path="+b.keyFile())
	}
	return m.room.command(process.Command{Name: m.Name + "'s etcd", Path: m.cluster.opts.Programs.Wrapper, Args: args,
		Env: process.BareEnvironment(filepath.Join(m.dir, "home"))})
}

// writeConfig writes the files of a member. YAML is a superset of JSON.
func (m *Member) writeConfig(wanted []*Member, tls TLS) error {
	for file, content := range map[string]map[string]any{m.templateFile(): m.template(wanted, tls), m.SidecarFile(): m.sidecarConfig(tls)} {
		b, err := json.MarshalIndent(content, "", "  ")
		if err != nil {
			return err
		}
		if err := replaceFile(file, b); err != nil {
			return err
		}
	}
	return nil
}

// replaceFile gives a file new content whole or not at all.
func replaceFile(path string, content []byte) error {
	next := path + ".next"
	if err := os.WriteFile(next, content, 0o600); err != nil {
		return err
	}
	return os.Rename(next, path)
}
