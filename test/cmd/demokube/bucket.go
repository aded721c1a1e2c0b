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
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"druid.internal/druid/examples/policies"
	"druid.internal/druid/test/sites"
	"druid.internal/druid/test/stores"
)

// store starts the store where pods reach it.
func (d *demo) store() (string, error) {
	var err error
	if d.minio, err = stores.StartMinIO(d.ctx, stores.MinIOOptions{Dir: filepath.Join(d.dir, "minio"), Host: d.kube.Host}); err != nil {
		return "", err
	}
	if err := d.minio.CreateBucket(d.ctx, bucket, stores.Compliance, 1); err != nil {
		return "", err
	}
	keys, err := d.minio.Assume(d.ctx, policies.S3(policies.Writer, bucket, storePrefix))
	if err != nil {
		return "", err
	}
	d.way = sites.S3Way(&d.minio.S3, bucket, d.minio.Endpoint, keys)
	dir := filepath.Join(d.dir, "credentials")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	for file, content := range d.way.Files {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600); err != nil {
			return "", err
		}
	}
	d.env = append(os.Environ(), d.way.Variable+"="+dir)
	return d.minio.Endpoint + ", objects locked for a day; the members may delete nothing", nil
}

// listing is what is read of `etcdbrctl list -o json`.
type listing struct {
	Lineages []lineage `json:"lineages"` // newest first
	Findings []struct {
		Code string `json:"code"`
		Text string `json:"text"`
	} `json:"findings"`
}

type lineage struct {
	ID     string `json:"id"`
	Newest int64  `json:"newest"`
}

// list reads the bucket as a person would. A gap in it is an error.
func (d *demo) list(ctx context.Context) (l listing, err error) {
	cmd := exec.CommandContext(ctx, d.etcdbrctl, "list", "-o", "json",
		"--storage-provider=S3", "--store-container="+bucket, "--store-prefix="+storePrefix, "--store-endpoint-override="+d.minio.Endpoint)
	cmd.Env = d.env
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 20 * time.Second
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return l, fmt.Errorf("etcdbrctl list: %w: %s", err, strings.TrimSpace(stderr.String()))
	}
	if err := json.Unmarshal(out, &l); err != nil {
		return l, fmt.Errorf("etcdbrctl list -o json: %w", err)
	}
	if len(l.Lineages) == 0 {
		return l, errors.New("the bucket holds no snapshot")
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
	err = d.await(fmt.Sprintf("revision %d is in the bucket", rev), func(ctx context.Context) error {
		if l, err = d.list(ctx); err != nil {
			return err
		}
		if l.Lineages[0].Newest < rev {
			return fmt.Errorf("the bucket reaches revision %d", l.Lineages[0].Newest)
		}
		return nil
	})
	return l, err
}

// steal tries to delete every version in the bucket as whoever may do everything.
func (d *demo) steal() (string, error) {
	c := d.minio.Client(d.minio.Root)
	in := bucket
	out, err := c.ListObjectVersions(d.ctx, &s3.ListObjectVersionsInput{Bucket: &in})
	if err != nil {
		return "", fmt.Errorf("list the versions in the bucket: %w", err)
	}
	refused := 0
	for _, v := range out.Versions {
		if _, err := c.DeleteObject(d.ctx, &s3.DeleteObjectInput{Bucket: &in, Key: v.Key, VersionId: v.VersionId}); err == nil {
			return "", fmt.Errorf("%s was deleted", *v.Key)
		} else if !strings.Contains(err.Error(), "WORM") {
			return "", fmt.Errorf("delete %s: %w", *v.Key, err)
		}
		refused++
	}
	if refused == 0 {
		return "", errors.New("there is nothing in the bucket")
	}
	return fmt.Sprintf("the store refused to delete any of %d objects", refused), nil
}
