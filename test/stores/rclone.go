package stores

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"druid.internal/druid/test/process"
)

// Rclone is `rclone serve s3` over a directory: it takes requests for object lock and versions,
// says that all is well, and does neither. What it tells must not be believed.
type Rclone struct {
	S3
	Dir string // each bucket is a directory in it

	proc *process.Process
	temp string
}

// StartRclone starts a server and returns when it answers. ctx bounds the start only.
func StartRclone(ctx context.Context) (*Rclone, error) {
	binary, err := Binary("rclone")
	if err != nil {
		return nil, err
	}
	ca, err := NewCA()
	if err != nil {
		return nil, err
	}
	r := &Rclone{S3: S3{Region: "us-east-1", CA: ca, Root: newKeys()}}
	if r.temp, err = os.MkdirTemp("", "druid-rclone-"); err != nil {
		return nil, err
	}
	if err := r.start(ctx, binary); err != nil {
		os.RemoveAll(r.temp)
		return nil, err
	}
	return r, nil
}

func (r *Rclone) start(ctx context.Context, binary string) error {
	const host = "127.0.0.1"
	if err := r.CA.IssueFiles(r.temp, "server.crt", "server.key", host, "localhost"); err != nil {
		return err
	}
	r.CAFile = filepath.Join(r.temp, "ca.crt")
	if err := os.WriteFile(r.CAFile, r.CA.PEM, 0o644); err != nil {
		return err
	}
	r.Dir = filepath.Join(r.temp, "data")
	if err := os.MkdirAll(r.Dir, 0o700); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for attempt := 1; ; attempt++ {
		ports, err := process.FreePorts(host, 1)
		if err != nil {
			return err
		}
		r.Address = ports[0]
		r.Endpoint = "https://" + r.Address
		r.proc, err = process.Start("rclone", binary, []string{
			"serve", "s3", "--config", os.DevNull, "--addr", r.Address,
			"--cert", filepath.Join(r.temp, "server.crt"), "--key", filepath.Join(r.temp, "server.key"),
			"--auth-key", fmt.Sprintf("%s,%s", r.Root.AccessKeyID, r.Root.SecretAccessKey), r.Dir,
		}, process.BareEnvironment(r.temp))
		if err != nil {
			return err
		}
		err = r.proc.Await(ctx, func(ctx context.Context) error {
			_, err := r.Client(r.Root).ListBuckets(ctx, &s3.ListBucketsInput{})
			return err
		})
		if err == nil {
			return nil
		}
		taken := r.proc.PortTaken()
		r.proc.Kill()
		if !taken || attempt == startAttempts {
			return err
		}
	}
}

// Stop ends the server, waits until it is gone and removes its data.
func (r *Rclone) Stop() error { return errors.Join(r.proc.Stop(), os.RemoveAll(r.temp)) }

// RunRclone starts a server for one test. It fails the test if rclone is not installed.
func RunRclone(tb testing.TB) *Rclone {
	tb.Helper()
	r, err := StartRclone(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := r.Stop(); err != nil {
			tb.Error(err)
		}
	})
	return r
}
