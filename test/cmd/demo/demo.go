package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"druid.internal/druid/examples/policies"
	"druid.internal/druid/test/history"
	"druid.internal/druid/test/stores"
)

const (
	bucket = "backups"
	prefix = "demo--1f6c/etcd-main"
)

type demo struct {
	ctx       context.Context
	etcdbrctl string
	began     time.Time

	dir   string
	minio *stores.MinIO
	etcd  *stores.Etcd
	env   []string

	client  *clientv3.Client
	history *history.History
	load    *history.Load
	writes  atomic.Int64

	snapshotter *exec.Cmd
	snapshotLog string
}

func (d *demo) run() error {
	steps := []struct {
		title string
		do    func() error
	}{
		{"A real S3 (MinIO, TLS) with an object-locked bucket, and a real etcd", d.start},
		{"What does the bucket really protect?", d.probe},
		{"Back it up while it is being written to", d.backup},
		{"A moment worth remembering, and then a disaster", d.disaster},
		{"Now somebody with the storage root's credentials attacks the backup", d.attack},
		{"The data directory is lost", d.lose},
		{"Restore to the chosen moment", d.restore},
		{"Proof", d.prove},
	}
	for i, s := range steps {
		fmt.Printf("\n\x1b[1m%d/%d  %s\x1b[0m\n\n", i+1, len(steps), s.title)
		if err := s.do(); err != nil {
			return fmt.Errorf("step %d: %w", i+1, err)
		}
	}
	return nil
}

func say(format string, args ...any) { fmt.Printf("  "+format+"\n", args...) }

func (d *demo) start() (err error) {
	if d.dir, err = os.MkdirTemp("", "druid-demo-"); err != nil {
		return err
	}
	if d.minio, err = stores.StartMinIO(d.ctx, stores.MinIOOptions{Dir: filepath.Join(d.dir, "minio")}); err != nil {
		return err
	}
	if err := d.minio.CreateBucket(d.ctx, bucket, stores.Compliance, 1); err != nil {
		return err
	}
	say("MinIO at %s, bucket %q: object lock, COMPLIANCE, one day for every object", d.minio.Endpoint, bucket)
	if d.etcd, err = stores.StartEtcd(d.ctx, stores.EtcdOptions{Dir: filepath.Join(d.dir, "etcd")}); err != nil {
		return err
	}
	say("etcd %s at %s", stores.EtcdVersion, d.etcd.Endpoint())

	keys, err := d.minio.Assume(d.ctx, policies.S3(policies.Writer, bucket, prefix))
	if err != nil {
		return err
	}
	say("the backup program gets credentials that can write and read below %s, and delete nothing", prefix)
	if d.env, err = d.credentials("writer", keys); err != nil {
		return err
	}
	if d.client, err = clientv3.New(clientv3.Config{Endpoints: d.etcd.Endpoints(), DialTimeout: 10 * time.Second}); err != nil {
		return err
	}
	d.history = history.Record(d.client)
	d.load = history.NewLoad(d.client, 20, 400)
	return d.write(300)
}

// credentials writes one file per field, as the original takes them, and returns the environment.
func (d *demo) credentials(name string, keys stores.Keys) ([]string, error) {
	dir := filepath.Join(d.dir, "credentials-"+name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	for file, content := range map[string]string{
		"accessKeyID": keys.AccessKeyID, "secretAccessKey": keys.SecretAccessKey, "sessionToken": keys.SessionToken,
		"region": d.minio.Region, "trustedCaCert": string(d.minio.CA.PEM), "s3ForcePathStyle": "true",
	} {
		if content == "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600); err != nil {
			return nil, err
		}
	}
	return append(os.Environ(), "AWS_APPLICATION_CREDENTIALS="+dir), nil
}

// write makes n random changes.
func (d *demo) write(n int) error {
	for range n {
		if _, err := d.load.Step(d.ctx); err != nil {
			return err
		}
		d.writes.Add(1)
	}
	return nil
}

func (d *demo) store() []string {
	return []string{"--storage-provider=S3", "--store-container=" + bucket, "--store-prefix=" + prefix, "--store-endpoint-override=" + d.minio.Endpoint}
}

func (d *demo) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(d.ctx, d.etcdbrctl, args...)
	cmd.Env = d.env
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 20 * time.Second
	return cmd
}

// show runs etcdbrctl before the reader's eyes.
func (d *demo) show(verb []string, args ...string) error {
	shown := strings.Join(append(verb, args...), " ")
	fmt.Printf("  \x1b[36m$ etcdbrctl %s\x1b[0m  (and where the store is)\n", shown)
	cmd := d.command(append(append(verb, d.store()...), args...)...)
	out, err := cmd.CombinedOutput()
	for _, line := range strings.Split(strings.TrimRight(string(out), "\n"), "\n") {
		say("  %s", line)
	}
	if err != nil {
		return fmt.Errorf("etcdbrctl %s: %w", shown, err)
	}
	return nil
}

// probe asks as the one who may delete: for the writer, who may not, a refusal proves nothing.
func (d *demo) probe() error {
	say("tried with the storage root's credentials: of somebody who may not delete anything, a refusal would prove nothing")
	root, err := d.credentials("root", d.minio.Root)
	if err != nil {
		return err
	}
	writer := d.env
	d.env = root
	defer func() { d.env = writer }()
	return d.show([]string{"store", "probe"})
}

func (d *demo) backup() error {
	d.snapshotLog = filepath.Join(d.dir, "snapshot.log")
	log, err := os.Create(d.snapshotLog)
	if err != nil {
		return err
	}
	defer log.Close()
	args := append([]string{"snapshot"}, d.store()...)
	args = append(args, "--endpoints="+d.etcd.Endpoint(), "--data-dir="+d.etcd.DataDir(), "--delta-snapshot-period=1s", "--schedule=0 */1 * * *")
	d.snapshotter = d.command(args...)
	d.snapshotter.Stdout, d.snapshotter.Stderr = log, log
	fmt.Printf("  \x1b[36m$ etcdbrctl snapshot --endpoints=%s --delta-snapshot-period=1s &\x1b[0m\n", d.etcd.Endpoint())
	if err := d.snapshotter.Start(); err != nil {
		return err
	}
	for range 4 {
		if err := d.write(400); err != nil {
			return err
		}
		if err := d.uploaded(); err != nil {
			return err
		}
		say("%d requests written, revision %d is in the bucket", d.writes.Load(), d.history.Last())
	}
	return nil
}

// uploaded waits until everything written so far is in the bucket.
func (d *demo) uploaded() error {
	r, err := d.client.Get(d.ctx, "\x00")
	if err != nil {
		return err
	}
	if err := d.history.Reach(r.Header.Revision); err != nil {
		return err
	}
	deadline := time.After(2 * time.Minute)
	for {
		newest, err := d.newest()
		if err != nil {
			return err
		}
		if newest >= r.Header.Revision {
			return nil
		}
		select {
		case <-d.ctx.Done():
			return d.ctx.Err()
		case <-deadline:
			log, _ := os.ReadFile(d.snapshotLog)
			return fmt.Errorf("revision %d is not in the bucket after two minutes, only %d; the log of snapshot:\n%s", r.Header.Revision, newest, log)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func (d *demo) newest() (int64, error) {
	cmd := d.command(append([]string{"list", "-o", "json"}, d.store()...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("etcdbrctl list: %w: %s", err, stderr.Bytes())
	}
	var list struct {
		Lineages []struct {
			Newest int64 `json:"newest"`
		} `json:"lineages"`
	}
	if err := json.Unmarshal(out, &list); err != nil {
		return 0, fmt.Errorf("etcdbrctl list -o json: %w", err)
	}
	if len(list.Lineages) == 0 {
		return 0, nil
	}
	return list.Lineages[0].Newest, nil
}

func (d *demo) close(keep bool) {
	if d.snapshotter != nil && d.snapshotter.ProcessState == nil && d.snapshotter.Process != nil {
		d.snapshotter.Process.Kill()
		d.snapshotter.Wait()
	}
	if d.history != nil {
		d.history.Stop()
	}
	if d.client != nil {
		d.client.Close()
	}
	if d.etcd != nil {
		d.etcd.Close()
	}
	if d.minio != nil {
		d.minio.Stop()
	}
	if keep {
		fmt.Printf("\nkept: %s\n", d.dir)
	} else if d.dir != "" {
		os.RemoveAll(d.dir)
	}
}

func (d *demo) s3() *s3.Client { return d.minio.Client(d.minio.Root) }

// keyValues is what a listing of an etcd returns.
type keyValues = []*mvccpb.KeyValue

var errNotRefused = errors.New("the store did not refuse")

func str(s string) *string { return aws.String(s) }
