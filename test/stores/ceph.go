package stores

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"druid.internal/druid/test/process"
)

// CephOptions say where a Ceph runs. The zero value is right for tests.
type CephOptions struct {
	Host string // IP address to listen on; empty: 127.0.0.1
	Port string // of the gateway; empty: a free one
	CA   *CA    // issues its certificate; nil: a new one
	// Bytes is how much it holds, in memory, before it takes no more and answers nothing; 0: 4 GiB.
	Bytes int64
}

// Ceph is a running cluster of one monitor, one object store that keeps everything in memory,
// and one object gateway, which speaks S3 and Swift. Its daemons are processes of their own;
// any number of clusters may run at once.
type Ceph struct {
	S3 // Root is an ordinary user: the gateway has nobody above its users' buckets

	// The same gateway as Swift, by version 1 of its authentication.
	SwiftAuthURL  string // https://ADDRESS:PORT/auth/1.0
	SwiftUser     string // USER:SUBUSER
	SwiftKey      string
	SwiftEndpoint string // where the storage URL leads: https://ADDRESS:PORT/swift/v1

	dir     string             // everything it writes, removed by Stop
	daemons []*process.Process // in the order of their start
}

// cephUser owns what Root makes; its subuser is Swift's.
const cephUser = "druid"

// StartCeph starts a cluster and returns when S3 and Swift answer, which takes some fifteen
// seconds. ctx bounds the start only.
func StartCeph(ctx context.Context, opts CephOptions) (*Ceph, error) {
	if _, err := Binary("ceph"); err != nil {
		return nil, err
	}
	if opts.Host == "" {
		opts.Host = "127.0.0.1"
	}
	if opts.CA == nil {
		var err error
		if opts.CA, err = NewCA(); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 2*startTimeout)
	defer cancel()
	for attempt := 1; ; attempt++ {
		c := &Ceph{
			S3:        S3{Region: "us-east-1", CA: opts.CA, Root: newKeys()},
			SwiftUser: cephUser + ":swift", SwiftKey: rand.Text(),
		}
		err := c.start(ctx, opts)
		if err == nil {
			return c, nil
		}
		taken := c.portTaken()
		c.kill()
		if !taken || attempt == startAttempts {
			return nil, err
		}
	}
}

// start makes a cluster from nothing: whatever is in the way of one attempt goes with it.
func (c *Ceph) start(ctx context.Context, opts CephOptions) error {
	var err error
	// Paths of sockets are bounded to 107 bytes, hence not below a test's own directory.
	if c.dir, err = os.MkdirTemp("", "druid-ceph-"); err != nil {
		return err
	}
	ports, err := process.FreePorts(opts.Host, 2)
	if err != nil {
		return err
	}
	c.Address = ports[0]
	if opts.Port != "" {
		c.Address = net.JoinHostPort(opts.Host, opts.Port)
	}
	c.Endpoint = "https://" + c.Address
	c.SwiftAuthURL, c.SwiftEndpoint = c.Endpoint+"/auth/1.0", c.Endpoint+"/swift/v1"
	conf := cephConf{dir: c.dir, host: opts.Host, monitor: ports[1], gateway: c.Address, bytes: opts.Bytes}
	if err := c.CA.IssueFiles(c.dir, conf.cert(), conf.key(), opts.Host, "127.0.0.1", "localhost"); err != nil {
		return err
	}
	c.CAFile = filepath.Join(c.dir, "ca.crt")
	if err := os.WriteFile(c.CAFile, c.CA.PEM, 0o644); err != nil {
		return err
	}
	if err := conf.write(); err != nil {
		return err
	}
	if err := c.startMonitor(ctx, conf); err != nil {
		return err
	}
	if err := c.startStore(ctx, conf); err != nil {
		return err
	}
	return c.startGateway(ctx)
}

func (c *Ceph) startMonitor(ctx context.Context, conf cephConf) error {
	keyring, monmap := filepath.Join(c.dir, "keyring"), filepath.Join(c.dir, "monmap")
	steps := [][]string{
		{"ceph-authtool", "--create-keyring", keyring, "--gen-key", "-n", "mon.", "--cap", "mon", "allow *"},
		{"ceph-authtool", keyring, "--gen-key", "-n", "client.admin", "--cap", "mon", "allow *", "--cap", "osd", "allow *", "--cap", "mgr", "allow *"},
		{"ceph-authtool", keyring, "--gen-key", "-n", "osd.0", "--cap", "mon", "allow profile osd", "--cap", "osd", "allow *", "--cap", "mgr", "allow profile osd"},
		{"ceph-authtool", keyring, "--gen-key", "-n", "client.rgw.a", "--cap", "mon", "allow rw", "--cap", "osd", "allow rwx"},
		{"monmaptool", "--create", "--fsid", conf.id(), "--addv", "a", conf.monitors(), monmap},
		{"ceph-mon", "-i", "a", "--mkfs", "--monmap", monmap, "--keyring", keyring},
	}
	for _, step := range steps {
		if _, err := c.run(ctx, step...); err != nil {
			return err
		}
	}
	return c.launch("ceph-mon", "-i", "a")
}

// startStore makes a place for the objects. The monitor takes a moment to answer, and ceph
// waits for it.
func (c *Ceph) startStore(ctx context.Context, conf cephConf) error {
	if _, err := c.run(ctx, "ceph", "osd", "new", conf.id(), "0"); err != nil {
		return err
	}
	if _, err := c.run(ctx, "ceph-osd", "-i", "0", "--mkfs", "--osd-uuid", conf.id()); err != nil {
		return err
	}
	return c.launch("ceph-osd", "-i", "0")
}

// startGateway waits until the gateway serves its user by both protocols.
func (c *Ceph) startGateway(ctx context.Context) error {
	if _, err := c.run(ctx, "radosgw-admin", "user", "create", "--uid="+cephUser, "--display-name=tests",
		"--access-key="+c.Root.AccessKeyID, "--secret-key="+c.Root.SecretAccessKey); err != nil {
		return err
	}
	if _, err := c.run(ctx, "radosgw-admin", "subuser", "create", "--uid="+cephUser, "--subuser="+c.SwiftUser,
		"--access=full", "--key-type=swift", "--secret-key="+c.SwiftKey); err != nil {
		return err
	}
	if err := c.launch("radosgw", "-n", "client.rgw.a"); err != nil {
		return err
	}
	gateway := c.daemons[len(c.daemons)-1]
	return gateway.Await(ctx, func(ctx context.Context) error {
		if _, err := c.Client(c.Root).ListBuckets(ctx, &s3.ListBucketsInput{}); err != nil {
			return err
		}
		return c.swiftAnswers(ctx)
	})
}

// swiftAnswers is nil if the subuser is given a token.
func (c *Ceph) swiftAnswers(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.SwiftAuthURL, nil)
	if err != nil {
		return err
	}
	req.Header.Set("X-Auth-User", c.SwiftUser)
	req.Header.Set("X-Auth-Key", c.SwiftKey)
	resp, err := c.CA.client().Do(req)
	if err != nil {
		return err
	}
	resp.Body.Close()
	if resp.Header.Get("X-Auth-Token") == "" {
		return fmt.Errorf("Swift's authentication answers %s", resp.Status)
	}
	return nil
}

// NewUser makes a user who owns nothing yet: with a bucket's policy, one of few rights.
func (c *Ceph) NewUser(ctx context.Context, name string) (Keys, error) {
	keys := newKeys()
	_, err := c.run(ctx, "radosgw-admin", "user", "create", "--uid="+name, "--display-name="+name,
		"--access-key="+keys.AccessKeyID, "--secret-key="+keys.SecretAccessKey)
	return keys, err
}

// run executes one of Ceph's tools against this cluster.
func (c *Ceph) run(ctx context.Context, command ...string) (string, error) {
	name := command[0]
	cmd := exec.CommandContext(ctx, name, c.withConf(command)...)
	cmd.Env = process.BareEnvironment(c.dir)
	out, err := cmd.CombinedOutput()
	if err == nil {
		return string(out), nil
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	var logs strings.Builder
	for _, d := range c.daemons {
		fmt.Fprintf(&logs, "\n%s: %s", d.Name(), d.Log())
	}
	return "", fmt.Errorf("%s: %w\n%s%s", strings.Join(command, " "), err, out, logs.String())
}

// withConf are the arguments of a command, with the configuration where it is known.
func (c *Ceph) withConf(command []string) []string {
	if command[0] == "ceph-authtool" || command[0] == "monmaptool" {
		return command[1:]
	}
	return append([]string{"-c", filepath.Join(c.dir, cephConfName)}, command[1:]...)
}

// launch starts a daemon.
func (c *Ceph) launch(command ...string) error {
	path, err := exec.LookPath(command[0])
	if err != nil {
		return err
	}
	p, err := process.Start(command[0], path, append(c.withConf(command), "-f"), process.BareEnvironment(c.dir))
	if err != nil {
		return err
	}
	c.daemons = append(c.daemons, p)
	return nil
}

func (c *Ceph) portTaken() bool {
	for _, d := range c.daemons {
		if d.PortTaken() {
			return true
		}
	}
	return false
}

// Stop ends the daemons, the gateway first, waits until they are gone and removes what they
// wrote. All of it was in memory or in a directory of the test, so nothing is lost by killing
// them, and their own way of ending would write it all down first.
func (c *Ceph) Stop() error {
	var errs []error
	for _, d := range c.daemons {
		if d.Ended() {
			errs = append(errs, fmt.Errorf("%s had ended by itself: %v\n%s", d.Name(), d.Err(), d.Log()))
		}
	}
	return errors.Join(append(errs, c.kill())...)
}

func (c *Ceph) kill() error {
	for i := len(c.daemons) - 1; i >= 0; i-- {
		c.daemons[i].Kill()
	}
	return os.RemoveAll(c.dir)
}

// Ended is closed when the gateway is gone.
func (c *Ceph) Ended() <-chan struct{} { return c.daemons[len(c.daemons)-1].Done() }

// RunCeph starts a cluster for one test. It fails the test if Ceph is not installed.
func RunCeph(tb testing.TB) *Ceph {
	tb.Helper()
	c, err := StartCeph(tb.Context(), CephOptions{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := c.Stop(); err != nil {
			tb.Error(err)
		}
	})
	return c
}
