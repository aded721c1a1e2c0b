package members

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"druid.internal/druid/test/sites"
)

// Options say how a cluster runs.
type Options struct {
	Programs Programs
	Members  int    // 0 is 1
	Name     string // of the members, before a hyphen and their ordinal; empty: etcd-main
	Dir      string // keeps everything; empty: a temporary directory, removed by Close

	TLS     TLS
	Network *Network // nil: each member has an address of the loopback device
	Volume  int64    // bytes of a file system for each member; 0: a directory

	Backup sites.Way // where backups lie; zero: nowhere
	Prefix string    // of the cluster in the bucket; empty: that of every test
	Owner  string    // of the prefix; empty: test
	Second sites.Way // a second store that is kept like the first, by the same prefix; zero: there is none

	Etcd    map[string]any                             // added to etcd's configuration
	Sidecar func(member string, config map[string]any) // changes the sidecar's configuration

	Environment []string // added to the sidecars'
}

// DefaultPrefix is a cluster's path in a bucket.
const DefaultPrefix = "test--uid/etcd-main"

// Cluster is a running cluster.
type Cluster struct {
	opts      Options
	dir       string
	temp      string // removed by Close
	base      netip.Addr
	cas       authorities
	own       identity // ours
	tokenFile string

	mu     sync.Mutex
	all    []*Member // by ordinal, those that are not wanted any more included
	wanted int
	mode   TLS
	port   int // of clients; 0: clientPort
}

// New lays out a cluster and starts nothing. Close removes it.
func New(ctx context.Context, o Options) (*Cluster, error) {
	o.Members = max(o.Members, 1)
	for _, d := range []struct {
		value *string
		or    string
	}{{&o.Name, "etcd-main"}, {&o.Prefix, DefaultPrefix}, {&o.Owner, "test"}} {
		if *d.value == "" {
			*d.value = d.or
		}
	}
	c := &Cluster{opts: o, dir: o.Dir, mode: o.TLS}
	var err error
	if o.Dir == "" {
		if c.temp, err = os.MkdirTemp("", "druid-members-"); err != nil {
			return nil, err
		}
		c.dir = c.temp
	}
	if err := c.layOut(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func (c *Cluster) layOut(ctx context.Context) error {
	var err error
	if c.base, err = freeLoopback(); err != nil {
		return err
	}
	if c.cas, err = newAuthorities(); err != nil {
		return err
	}
	if c.own, err = c.identify(filepath.Join(c.dir, "ours"), "localhost"); err != nil {
		return err
	}
	c.tokenFile = filepath.Join(c.dir, "token")
	if err := replaceFile(c.tokenFile, []byte(newToken()+"\n")); err != nil {
		return err
	}
	for _, err := range []error{c.Credentials(c.opts.Backup.Files), writeFiles(c.secondDir(), c.opts.Second.Files)} {
		if err != nil {
			return err
		}
	}
	return c.Want(ctx, c.opts.Members)
}

// Start lays out a cluster and starts its members; they are not waited for.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	c, err := New(ctx, o)
	if err != nil {
		return nil, err
	}
	for _, m := range c.Members() {
		m.Start()
	}
	return c, nil
}

// Run starts a cluster for one test, waits until it is ready, and tells everything about it if the
// test fails.
func Run(tb testing.TB, o Options) *Cluster {
	tb.Helper()
	c := Lay(tb, o)
	for _, m := range c.Members() {
		m.Start()
	}
	if err := c.AwaitReady(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	return c
}

// Lay lays out a cluster for one test, and tells everything about it if the test fails.
func Lay(tb testing.TB, o Options) *Cluster {
	tb.Helper()
	c, err := New(tb.Context(), o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Log(c.Tell(context.Background()))
		}
		c.Close()
	})
	return c
}

// Close kills everything and removes the temporary directory.
func (c *Cluster) Close() {
	for _, m := range c.everybody() {
		m.close()
	}
	os.RemoveAll(c.temp)
}

// Members are the wanted ones, by ordinal.
func (c *Cluster) Members() []*Member {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.all[:c.wanted])
}

// Member is the one of an ordinal.
func (c *Cluster) Member(ordinal int) *Member {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.all[ordinal]
}

func (c *Cluster) everybody() []*Member {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.all)
}

func (c *Cluster) identities() []identity {
	all := []identity{c.own}
	for _, m := range c.everybody() {
		all = append(all, m.id)
	}
	return all
}

func (c *Cluster) tls() TLS {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mode
}

// Want says how many members there should be, in everybody's configuration. New members are laid
// out and not started; superfluous ones go on running.
func (c *Cluster) Want(ctx context.Context, n int) error {
	for i := len(c.everybody()); i < n; i++ {
		m, err := c.newMember(ctx, i)
		if err != nil {
			return err
		}
		c.mu.Lock()
		c.all = append(c.all, m)
		c.mu.Unlock()
	}
	c.mu.Lock()
	c.wanted = n
	c.mu.Unlock()
	return c.configure()
}

// Secure changes who speaks TLS, in everybody's configuration. It is for those that read it anew.
func (c *Cluster) Secure(tls TLS) error {
	c.mu.Lock()
	c.mode = tls
	c.mu.Unlock()
	return c.configure()
}

func (c *Cluster) clients() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return cmp.Or(c.port, clientPort)
}

// ServeAt changes the port of clients in everybody's configuration. It is for etcds that are started from now on.
func (c *Cluster) ServeAt(port int) error {
	c.mu.Lock()
	c.port = port
	c.mu.Unlock()
	return c.configure()
}

// Reconfigure changes the sidecars' configuration further. They read it when they are started.
func (c *Cluster) Reconfigure(change func(member string, config map[string]any)) error {
	before := c.opts.Sidecar
	c.opts.Sidecar = func(member string, config map[string]any) {
		if before != nil {
			before(member, config)
		}
		change(member, config)
	}
	return c.configure()
}

// configure writes everybody's configuration.
func (c *Cluster) configure() error {
	wanted, tls := c.Members(), c.tls()
	for _, m := range c.everybody() {
		if err := m.writeConfig(wanted, tls); err != nil {
			return fmt.Errorf("configure %s: %w", m.Name, err)
		}
	}
	return nil
}

// Scale brings the cluster to n members and waits until it has them: new ones are started and take
// part; others leave, and are stopped with their data when the cluster no longer lists them.
func (c *Cluster) Scale(ctx context.Context, n int) error {
	before := c.Members()
	if err := c.Want(ctx, n); err != nil {
		return err
	}
	for _, m := range c.Members() {
		m.Start()
	}
	if err := c.AwaitReady(ctx); err != nil {
		return fmt.Errorf("scale from %d to %d members: %w", len(before), n, err)
	}
	if n < len(before) {
		return c.Retire()
	}
	return nil
}

// Retire stops the members that are not wanted and removes their data.
func (c *Cluster) Retire() error {
	var errs []error
	for _, m := range c.everybody()[len(c.Members()):] {
		errs = append(errs, m.Stop(), m.wipe())
	}
	return errors.Join(errs...)
}

// Token is what callers of sidecars and wrappers show.
func (c *Cluster) Token() string {
	b, err := os.ReadFile(c.tokenFile)
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(string(b), "\n")
	return first
}

func newToken() string { return rand.Text() }

// Credentials writes what sidecars show the store, whole or not at all: they notice it.
func (c *Cluster) Credentials(files map[string]string) error {
	return writeFiles(c.credentialsDir(), files)
}

func writeFiles(dir string, files map[string]string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for name, content := range files {
		if err := replaceFile(filepath.Join(dir, name), []byte(content)); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) credentialsDir() string { return filepath.Join(c.dir, "store") }
func (c *Cluster) secondDir() string      { return filepath.Join(c.dir, "second-store") }

// credentialsEnv tells sidecars where the credentials of both stores are.
func (c *Cluster) credentialsEnv() []string {
	var env []string
	if way := c.opts.Backup; way.Variable != "" {
		env = append(env, way.Variable+"="+filepath.Join(c.credentialsDir(), way.File))
	}
	if way := c.opts.Second; way.Variable != "" {
		env = append(env, "SECONDARY_"+way.Variable+"="+filepath.Join(c.secondDir(), way.File))
	}
	return env
}

// Partition cuts the network between the groups, in both directions; within a group nothing changes.
func (c *Cluster) Partition(ctx context.Context, groups ...[]*Member) error {
	for i, group := range groups {
		for _, from := range group {
			for j, others := range groups {
				if i == j {
					continue
				}
				for _, to := range others {
					if err := c.opts.Network.Lose(ctx, from.addr(), to.addr()); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

// Others are the wanted members but these.
func (c *Cluster) Others(but ...*Member) []*Member {
	return slices.DeleteFunc(c.Members(), func(m *Member) bool { return slices.Contains(but, m) })
}

// CutStore cuts members off from our second address, where stores are.
func (c *Cluster) CutStore(ctx context.Context, members ...*Member) error {
	for _, m := range members {
		if err := c.opts.Network.Lose(ctx, m.addr(), c.opts.Network.Stores()); err != nil {
			return err
		}
	}
	return nil
}

// Heal joins the network again.
func (c *Cluster) Heal(ctx context.Context) error { return c.opts.Network.Heal(ctx) }

// freeLoopback finds addresses of the loopback device that nobody uses: 127.x.y.0.
func freeLoopback() (netip.Addr, error) {
	for range 100 {
		base := netip.AddrFrom4([4]byte{127, byte(16 + mathrand.IntN(200)), byte(mathrand.IntN(256)), 0})
		l, err := net.Listen("tcp", net.JoinHostPort(loopbackOf(base, 0).String(), strconv.Itoa(clientPort)))
		if err != nil {
			continue
		}
		l.Close()
		return base, nil
	}
	return netip.Addr{}, errors.New("no free address of the loopback device was found")
}

func (c *Cluster) loopback(ordinal int) netip.Addr { return loopbackOf(c.base, ordinal) }

func loopbackOf(base netip.Addr, ordinal int) netip.Addr {
	a := base.As4()
	a[3] = byte(10 + ordinal)
	return netip.AddrFrom4(a)
}
