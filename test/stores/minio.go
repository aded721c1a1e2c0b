package stores

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"druid.internal/druid/test/process"
)

// startTimeout bounds how long a server may take to answer on a busy machine.
const startTimeout = 2 * time.Minute

// startAttempts is how often a server is started whose port was taken in between.
const startAttempts = 5

// MinIOOptions say where a MinIO runs. The zero value is right for tests.
type MinIOOptions struct {
	Dir  string // keeps its data here; empty: a temporary directory, removed by Stop
	Host string // IP address to listen on; empty: 127.0.0.1
	Port string // empty: a free one
	// KMS has it encrypt what asks for that, with a key of its own.
	KMS bool
	CA  *CA // issues its certificate; nil: a new one
}

// MinIO is a running server.
type MinIO struct {
	S3

	proc *process.Process
	temp string // removed by Stop
}

// StartMinIO starts a server and returns when it is ready. ctx bounds the start only.
func StartMinIO(ctx context.Context, opts MinIOOptions) (*MinIO, error) {
	binary, err := Binary("minio")
	if err != nil {
		return nil, err
	}
	if opts.Host == "" {
		opts.Host = "127.0.0.1"
	}
	if opts.CA == nil {
		if opts.CA, err = NewCA(); err != nil {
			return nil, err
		}
	}
	m := &MinIO{S3: S3{Region: "us-east-1", CA: opts.CA, Root: newKeys()}}
	if m.temp, err = os.MkdirTemp("", "druid-minio-"); err != nil {
		return nil, err
	}
	if opts.Dir == "" {
		opts.Dir = filepath.Join(m.temp, "data")
	}
	if err := m.start(ctx, binary, opts); err != nil {
		os.RemoveAll(m.temp)
		return nil, err
	}
	return m, nil
}

// start tries again on another port if the chosen one was taken before MinIO listened.
func (m *MinIO) start(ctx context.Context, binary string, opts MinIOOptions) error {
	certs := filepath.Join(m.temp, "certs")
	if err := m.CA.IssueFiles(certs, "public.crt", "private.key", opts.Host, "127.0.0.1", "localhost"); err != nil {
		return err
	}
	m.CAFile = filepath.Join(m.temp, "ca.crt")
	if err := os.WriteFile(m.CAFile, m.CA.PEM, 0o644); err != nil {
		return err
	}
	if err := os.MkdirAll(opts.Dir, 0o700); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for attempt := 1; ; attempt++ {
		m.Address = net.JoinHostPort(opts.Host, opts.Port)
		if opts.Port == "" {
			ports, err := process.FreePorts(opts.Host, 1)
			if err != nil {
				return err
			}
			m.Address = ports[0]
		}
		m.Endpoint = "https://" + m.Address
		var more []string
		if opts.KMS {
			more = append(more, "MINIO_KMS_SECRET_KEY=test-key:"+base64.StdEncoding.EncodeToString([]byte(rand.Text() + rand.Text())[:32]))
		}
		proc, err := process.Start("minio", binary,
			[]string{"server", "--address", m.Address, "--console-address", net.JoinHostPort(opts.Host, "0"), "--certs-dir", certs, "--quiet", "--anonymous", opts.Dir},
			append(append(process.BareEnvironment(m.temp), more...),
				"MINIO_ROOT_USER="+m.Root.AccessKeyID, "MINIO_ROOT_PASSWORD="+m.Root.SecretAccessKey,
				"MINIO_REGION="+m.Region, "MINIO_BROWSER=off", "MINIO_UPDATE=off", "MINIO_CI_CD=1"))
		if err != nil {
			return err
		}
		m.proc = proc
		client := m.CA.client()
		err = proc.Await(ctx, func(ctx context.Context) error {
			if err := answers(ctx, client, m.Endpoint+"/minio/health/ready"); err != nil {
				return err
			}
			// Ready to answer is not ready to serve: S3 requests are refused a little longer.
			_, err := m.Client(m.Root).ListBuckets(ctx, &s3.ListBucketsInput{})
			return err
		})
		if err == nil {
			return nil
		}
		taken := proc.PortTaken()
		proc.Kill()
		if !taken || opts.Port != "" || attempt == startAttempts {
			return err
		}
	}
}

// Stop ends the server, waits until it is gone and removes its temporary files.
func (m *MinIO) Stop() error {
	return errors.Join(m.proc.Stop(), os.RemoveAll(m.temp))
}

// Ended is closed when the server is gone.
func (m *MinIO) Ended() <-chan struct{} { return m.proc.Done() }

// RunMinIO starts a server for one test. It fails the test if MinIO is not installed.
func RunMinIO(tb testing.TB) *MinIO {
	tb.Helper()
	m, err := StartMinIO(tb.Context(), MinIOOptions{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := m.Stop(); err != nil {
			tb.Error(err)
		}
	})
	return m
}

// newKeys are the keys of somebody new.
func newKeys() Keys { return Keys{AccessKeyID: rand.Text()[:16], SecretAccessKey: rand.Text()} }

// answers is nil if a GET of url yields 200.
func answers(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", url, resp.Status)
	}
	return nil
}
