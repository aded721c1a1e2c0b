package stores

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"druid.internal/druid/test/process"
)

// EtcdOptions say how an etcd runs. The zero value is one member without TLS in a temporary
// directory.
type EtcdOptions struct {
	Server  string // the pin; empty: etcd, the version that is backed up
	Members int    // 0 is 1
	Dir     string // member i keeps its data in Dir/Name(i); empty: a temporary directory, removed by Close
	DataDir string // the data directory itself, for one member that boots existing data
	Host    string // IP address that members listen on; empty: 127.0.0.1
	Name    string // of the members, a number is appended if there are several; empty: default
	TLS     bool   // clients must show a certificate of the CA

	QuotaBytes              int64  // --quota-backend-bytes; 0: etcd's default
	AutoCompactionMode      string // periodic or revision; empty: off
	AutoCompactionRetention string
	SnapshotCount           int  // --snapshot-count; 0: etcd's default
	CatchUpEntries          int  // --experimental-snapshot-catchup-entries; 0: etcd's default
	Durable                 bool // fsync; without it tests are faster and a crash of the machine loses data, a kill does not

	Flags []string // further flags, last, so that they win

	// Prepare, if set, is called when names, ports and directories are chosen and nothing runs
	// yet, for those who put data there; again if other ports have to be chosen.
	Prepare func([]*Member) error
}

// Etcd is a running cluster of processes.
type Etcd struct {
	Members []*Member

	// With TLS: the files a client needs, and the same as a configuration.
	CAFile, CertFile, KeyFile string
	ClientTLS                 *tls.Config

	opts EtcdOptions
	ca   *CA
	temp string
}

// Member is one process of a cluster.
type Member struct {
	Name     string
	Endpoint string // where clients connect, a URL
	PeerURL  string
	DataDir  string

	cluster *Etcd
	args    []string
	proc    *process.Process // nil while it does not run
}

// StartEtcd starts the members and returns when each of them answers and has a leader. ctx
// bounds the start only.
func StartEtcd(ctx context.Context, opts EtcdOptions) (*Etcd, error) {
	if opts.Members == 0 {
		opts.Members = 1
	}
	if opts.Name == "" {
		opts.Name = "default"
	}
	if opts.DataDir != "" && opts.Members > 1 {
		return nil, errors.New("DataDir is for one member, use Dir")
	}
	e := &Etcd{opts: opts}
	var err error
	if e.temp, err = os.MkdirTemp("", "druid-etcd-"); err != nil {
		return nil, err
	}
	if opts.Dir == "" {
		e.opts.Dir = e.temp
	}
	if err := e.start(ctx); err != nil {
		e.Close()
		return nil, err
	}
	return e, nil
}

// start picks ports and starts, with others if one of them was taken before etcd listened.
func (e *Etcd) start(ctx context.Context) error {
	if e.opts.TLS {
		if err := e.issue(); err != nil {
			return err
		}
	}
	for attempt := 1; ; attempt++ {
		if err := e.layOut(); err != nil {
			return err
		}
		if e.opts.Prepare != nil {
			if err := e.opts.Prepare(e.Members); err != nil {
				return err
			}
		}
		err := e.boot(ctx)
		if err == nil {
			return nil
		}
		taken := false
		for _, m := range e.Members {
			taken = taken || m.proc != nil && m.proc.PortTaken()
			m.Kill()
		}
		if !taken || attempt == startAttempts {
			return err
		}
	}
}

// issue makes one certificate for servers, peers and the client: it is only a test's.
func (e *Etcd) issue() error {
	var err error
	if e.ca, err = NewCA(); err != nil {
		return err
	}
	e.CAFile = filepath.Join(e.temp, "ca.crt")
	e.CertFile, e.KeyFile = filepath.Join(e.temp, "etcd.crt"), filepath.Join(e.temp, "etcd.key")
	if err := os.WriteFile(e.CAFile, e.ca.PEM, 0o600); err != nil {
		return err
	}
	if err := e.ca.IssueFiles(e.temp, "etcd.crt", "etcd.key", cmp.Or(e.opts.Host, "127.0.0.1"), "127.0.0.1", "localhost"); err != nil {
		return err
	}
	pair, err := tls.LoadX509KeyPair(e.CertFile, e.KeyFile)
	if err != nil {
		return err
	}
	e.ClientTLS = e.ca.ClientTLS()
	e.ClientTLS.Certificates = []tls.Certificate{pair}
	return nil
}

// layOut decides names, ports and flags.
func (e *Etcd) layOut() error {
	addrs, err := process.FreePorts(cmp.Or(e.opts.Host, "127.0.0.1"), 2*e.opts.Members)
	if err != nil {
		return err
	}
	scheme := "http://"
	if e.opts.TLS {
		scheme = "https://"
	}
	e.Members = nil
	var cluster []string
	for i := range e.opts.Members {
		name := e.opts.Name
		if e.opts.Members > 1 {
			name += "-" + strconv.Itoa(i)
		}
		dir := e.opts.DataDir
		if dir == "" {
			dir = filepath.Join(e.opts.Dir, name)
		}
		m := &Member{Name: name, Endpoint: scheme + addrs[2*i], PeerURL: scheme + addrs[2*i+1], DataDir: dir, cluster: e}
		e.Members = append(e.Members, m)
		cluster = append(cluster, name+"="+m.PeerURL)
	}
	for _, m := range e.Members {
		m.args = append([]string{
			"--name=" + m.Name, "--data-dir=" + m.DataDir,
			"--listen-client-urls=" + m.Endpoint, "--advertise-client-urls=" + m.Endpoint,
			"--listen-peer-urls=" + m.PeerURL, "--initial-advertise-peer-urls=" + m.PeerURL,
			"--initial-cluster=" + strings.Join(cluster, ","), "--initial-cluster-state=new",
			"--logger=zap", "--log-level=warn",
		}, e.flags()...)
	}
	return nil
}

func (e *Etcd) flags() []string {
	var flags []string
	o := e.opts
	if o.TLS {
		flags = append(flags,
			"--cert-file="+e.CertFile, "--key-file="+e.KeyFile, "--trusted-ca-file="+e.CAFile, "--client-cert-auth",
			"--peer-cert-file="+e.CertFile, "--peer-key-file="+e.KeyFile, "--peer-trusted-ca-file="+e.CAFile, "--peer-client-cert-auth")
	}
	if o.QuotaBytes != 0 {
		flags = append(flags, fmt.Sprintf("--quota-backend-bytes=%d", o.QuotaBytes))
	}
	if o.AutoCompactionMode != "" {
		flags = append(flags, "--auto-compaction-mode="+o.AutoCompactionMode, "--auto-compaction-retention="+o.AutoCompactionRetention)
	}
	if o.SnapshotCount != 0 {
		flags = append(flags, fmt.Sprintf("--snapshot-count=%d", o.SnapshotCount))
	}
	if o.CatchUpEntries != 0 {
		flags = append(flags, fmt.Sprintf("--experimental-snapshot-catchup-entries=%d", o.CatchUpEntries))
	}
	if !o.Durable {
		flags = append(flags, "--unsafe-no-fsync")
	}
	return append(flags, o.Flags...)
}

// boot starts all members, then waits for all: none is ready before most are there.
func (e *Etcd) boot(ctx context.Context) error {
	for _, m := range e.Members {
		if err := m.launch(); err != nil {
			return err
		}
	}
	for _, m := range e.Members {
		if err := m.await(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Endpoints are those of all members.
func (e *Etcd) Endpoints() []string {
	var urls []string
	for _, m := range e.Members {
		urls = append(urls, m.Endpoint)
	}
	return urls
}

// Endpoint is the first member's.
func (e *Etcd) Endpoint() string { return e.Members[0].Endpoint }

// DataDir is the first member's.
func (e *Etcd) DataDir() string { return e.Members[0].DataDir }

// Stop ends all members in order; their data stays.
func (e *Etcd) Stop() error {
	var errs []error
	for _, m := range e.Members {
		errs = append(errs, m.Stop())
	}
	return errors.Join(errs...)
}

// Kill ends all members as a crash would; their data stays.
func (e *Etcd) Kill() {
	for _, m := range e.Members {
		m.Kill()
	}
}

// Ended is closed when the first member is gone.
func (e *Etcd) Ended() <-chan struct{} { return e.Members[0].proc.Done() }

// Close kills what runs and removes the temporary directory.
func (e *Etcd) Close() {
	e.Kill()
	os.RemoveAll(e.temp)
}

// Start starts a member that does not run, with its ports and data, and waits until it answers.
func (m *Member) Start(ctx context.Context) error {
	if m.proc != nil {
		return fmt.Errorf("etcd %s runs already", m.Name)
	}
	if err := m.launch(); err != nil {
		return err
	}
	if err := m.await(ctx); err != nil {
		m.Kill()
		return err
	}
	return nil
}

func (m *Member) launch() error {
	binary, err := Binary(cmp.Or(m.cluster.opts.Server, "etcd"))
	if err != nil {
		return err
	}
	m.proc, err = process.Start("etcd "+m.Name, binary, m.args, process.BareEnvironment(m.cluster.temp))
	return err
}

// await waits until the member serves linearizable reads, which is what /health asks.
func (m *Member) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	client := &http.Client{Timeout: 2 * time.Second}
	if m.cluster.opts.TLS {
		client = m.cluster.ca.client(m.cluster.ClientTLS.Certificates...)
	}
	defer client.CloseIdleConnections()
	return m.proc.Await(ctx, func(ctx context.Context) error { return answers(ctx, client, m.Endpoint+"/health") })
}

// Stop asks the member to end and waits. A member that does not run is left alone.
func (m *Member) Stop() error {
	if m.proc == nil {
		return nil
	}
	err := m.proc.Stop()
	m.proc = nil
	return err
}

// Kill ends the member by SIGKILL, as a crash would, and waits until it is gone.
func (m *Member) Kill() {
	if m.proc == nil {
		return
	}
	m.proc.Kill()
	m.proc = nil
}

// Log is the end of what the running member printed.
func (m *Member) Log() string {
	if m.proc == nil {
		return ""
	}
	return m.proc.Log().String()
}

// RunEtcd starts a cluster for one test. It fails the test if etcd is not installed.
func RunEtcd(tb testing.TB, opts EtcdOptions) *Etcd {
	tb.Helper()
	e, err := StartEtcd(tb.Context(), opts)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(e.Close)
	return e
}
