package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"druid.internal/druid/test/history"
	"druid.internal/druid/test/ledger"
	"druid.internal/druid/test/members"
	"druid.internal/druid/test/sites"
	"druid.internal/druid/test/stores"
	"druid.internal/druid/test/writers"
)

const (
	bucket      = "backups"
	storePrefix = "demo--1f6c/etcd-main"
)

type demo struct {
	ctx      context.Context
	dir      string
	out      io.Writer
	programs members.Programs

	minio   *stores.MinIO
	ca      *stores.CA
	way     sites.Way
	env     []string // of etcdbrctl as a person runs it
	cluster *members.Cluster
	client  *clientv3.Client
	writers writers.Writers

	compared int64 // the acknowledged writes up to this revision were found in the live cluster
}

// step is one line of the demonstration. What it returns is what was seen.
type step struct {
	title string
	do    func() (string, error)
}

func (d *demo) run() error {
	steps := []step{{"an S3 store (MinIO, TLS), a locked bucket", d.store},
		{"three members from nothing, TLS everywhere", d.bootstrap},
		{"clients write, sidecars upload", d.load}}
	for range 4 {
		steps = append(steps, step{"the leader is killed with -9", d.killLeader})
	}
	steps = append(steps,
		step{"a leader and its sidecar are killed", d.crashLeader},
		step{"a member's data directory is deleted", d.heal(1, (*members.Member).LoseData)},
		step{"a member's write-ahead log is truncated", d.heal(2, (*members.Member).TruncateWAL)},
		step{"a bit of a member's database flips", d.heal(0, (*members.Member).FlipDB)},
		step{"scale from 3 to 5 members", d.scale(5, "")},
		step{"scale from 5 to 3 members", d.scale(3, "; superfluous members are left alone for 30s first")},
		step{"the store goes away for some seconds", d.outage},
		step{"every acknowledged write is looked for", d.compare},
		step{"all volumes are lost, under load", d.loseAll},
		step{"the cluster comes back from the bucket", d.comeBack},
		step{"clients write on", d.goOn},
		step{"the bucket is restored once more, offline", d.restore},
	)
	for i, s := range steps {
		fmt.Fprintf(d.out, "%2d/%d  %-44s", i+1, len(steps), s.title)
		began := time.Now()
		seen, err := s.do()
		if err == nil {
			err = d.ctx.Err()
		}
		if err != nil {
			fmt.Fprintln(d.out, "failed")
			return fmt.Errorf("step %d, %s: %w", i+1, s.title, err)
		}
		fmt.Fprintf(d.out, "%6.1fs  %s\n", time.Since(began).Seconds(), seen)
	}
	return nil
}

// tell prints what the members say after a failure.
func (d *demo) tell() {
	if d.cluster == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(d.ctx), tellWithin)
	defer cancel()
	fmt.Fprintf(os.Stderr, "\n%s\n", d.cluster.Tell(ctx))
}

func (d *demo) close() {
	d.writers.Stop()
	if d.client != nil {
		d.client.Close()
	}
	if d.cluster != nil {
		d.cluster.Close()
	}
	if d.minio != nil {
		d.minio.Stop()
	}
}

// etcdbrctl runs a verb on the bucket, as a person would, and returns what it prints.
func (d *demo) etcdbrctl(args ...string) ([]byte, error) {
	args = append(args, "--storage-provider=S3", "--store-container="+bucket, "--store-prefix="+storePrefix, "--store-endpoint-override="+d.minio.Endpoint)
	cmd := exec.CommandContext(d.ctx, d.programs.Etcdbrctl, args...)
	cmd.Env = d.env
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 20 * time.Second
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("etcdbrctl %s: %w: %s", args[0], err, strings.TrimSpace(stderr.String()))
	}
	return out, nil
}

// credentials are those of a person who may read and write the bucket.
func (d *demo) credentials() error {
	dir := filepath.Join(d.dir, "credentials")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for name, content := range d.way.Files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			return err
		}
	}
	d.env = append(os.Environ(), d.way.Variable+"="+dir)
	return nil
}

// listing is what is read of `etcdbrctl list -o json`.
type listing struct {
	Lineages []struct {
		ID     string `json:"id"`
		Newest int64  `json:"newest"`
	} `json:"lineages"`
	Findings []struct {
		Code string `json:"code"`
		Text string `json:"text"`
	} `json:"findings"`
}

func (d *demo) list() (l listing, err error) {
	out, err := d.etcdbrctl("list", "-o", "json")
	if err != nil {
		return l, err
	}
	if err := json.Unmarshal(out, &l); err != nil {
		return l, fmt.Errorf("etcdbrctl list -o json: %w", err)
	}
	if len(l.Lineages) == 0 {
		return l, errors.New("the bucket holds no snapshot")
	}
	return l, nil
}

// gapless lists the bucket; a gap in it is an error.
func (d *demo) gapless() (listing, error) {
	l, err := d.list()
	if err != nil {
		return l, err
	}
	for _, f := range l.Findings {
		if f.Code == "gap" {
			return l, fmt.Errorf("the chain has a gap: %s", f.Text)
		}
	}
	return l, nil
}

// awaitUploaded waits until everything up to a revision is in the bucket.
func (d *demo) awaitUploaded(rev int64) (l listing, err error) {
	err = d.cluster.Await(d.ctx, fmt.Sprintf("revision %d is in the bucket", rev), func(context.Context) error {
		if l, err = d.list(); err != nil {
			return err
		}
		if l.Lineages[0].Newest < rev {
			return fmt.Errorf("the bucket reaches revision %d", l.Lineages[0].Newest)
		}
		return nil
	})
	return l, err
}

// compareKeys looks for what was acknowledged in the key space of the live cluster.
func (d *demo) compareKeys() (keys int, err error) {
	kvs, _, err := history.Read(d.ctx, d.client, 0)
	if err != nil {
		return 0, err
	}
	return len(kvs), found(d.writers.Ledger.AgainstKeys(kvs, 0))
}

// compareHistory looks for what was acknowledged in the history that the live cluster tells.
func (d *demo) compareHistory(from int64) (events int, to int64, err error) {
	r, err := d.client.Get(d.ctx, "\x00")
	if err != nil {
		return 0, 0, err
	}
	to = r.Header.Revision
	var told []ledger.Event
	if err := d.cluster.Await(d.ctx, "the history can be watched", func(ctx context.Context) (err error) { // a member may lose its leader once more
		told, err = ledger.Watched(ctx, d.client, from, to)
		return err
	}); err != nil {
		return 0, 0, err
	}
	return len(told), to, found(d.writers.Ledger.AgainstEvents(told, from, to))
}

func found(wrong []string) error {
	if len(wrong) > 0 {
		return fmt.Errorf("not all acknowledged writes are there:\n  %s", strings.Join(wrong, "\n  "))
	}
	return nil
}
