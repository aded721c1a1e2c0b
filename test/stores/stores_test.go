package stores_test

import (
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	clientv3 "go.etcd.io/etcd/client/v3"

	"druid.internal/druid/test/stores"
)

func TestAMissingServerIsNamedWithTheCommandThatInstallsIt(t *testing.T) {
	t.Setenv("DRUID_TEST_CACHE", t.TempDir())
	_, err := stores.StartMinIO(t.Context(), stores.MinIOOptions{})
	want := "go run ./cmd/stores install minio"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want it to contain %q", err, want)
	}
}

func TestMinIOAnswersOnlyToClientsThatTrustItsCA(t *testing.T) {
	m := stores.RunMinIO(t)
	if err := m.CreateBucket(t.Context(), "bucket", stores.Compliance, 1); err != nil {
		t.Errorf("with the CA: %v", err)
	}
	if resp, err := http.Get(m.Endpoint); err == nil {
		resp.Body.Close()
		t.Error("a client without the CA connected")
	}
}

func TestEtcdComesBackAfterAKillWithPortsAndDataKept(t *testing.T) {
	e := stores.RunEtcd(t, stores.EtcdOptions{})
	endpoint := e.Endpoint()
	m := e.Members[0]
	m.Kill()
	if resp, err := http.Get(endpoint + "/health"); err == nil {
		resp.Body.Close()
		t.Fatal("it answers although it was killed")
	}
	if err := m.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(m.DataDir + "/member/snap/db"); err != nil {
		t.Error(err)
	}
	if err := e.Stop(); err != nil {
		t.Error(err)
	}
}

func TestTheOldEtcdIsTheOldOne(t *testing.T) {
	e := stores.RunEtcd(t, stores.EtcdOptions{Server: "etcd-3.5"})
	c, err := clientv3.New(clientv3.Config{Endpoints: e.Endpoints(), DialTimeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s, err := c.Status(t.Context(), e.Endpoint())
	if err != nil || "v"+s.Version != stores.Etcd35Version {
		t.Errorf("it is %v (%v), want %s", s, err, stores.Etcd35Version)
	}
}

func TestThreeMembersWithTLSServe(t *testing.T) {
	e := stores.RunEtcd(t, stores.EtcdOptions{Members: 3, TLS: true, QuotaBytes: 64 << 20, SnapshotCount: 100, CatchUpEntries: 50, AutoCompactionMode: "revision", AutoCompactionRetention: "10"})
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: e.ClientTLS, DisableKeepAlives: true}}
	for _, m := range e.Members {
		resp, err := client.Get(m.Endpoint + "/health")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", m.Name, resp.Status)
		}
	}
}

func TestTwoClustersOfCephServeSideBySide(t *testing.T) {
	one, other := stores.RunCeph(t), stores.RunCeph(t)
	if err := one.CreateBucket(t.Context(), "bucket", stores.Compliance, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Client(other.Root).HeadBucket(t.Context(), &s3.HeadBucketInput{Bucket: aws.String("bucket")}); err == nil {
		t.Error("the bucket of one is in the other")
	}
	if resp, err := http.Get(one.Endpoint); err == nil {
		resp.Body.Close()
		t.Error("a client without the CA connected")
	}
	if err := other.CreateBucket(t.Context(), "bucket", stores.Versioned, 0); err != nil {
		t.Error(err)
	}
}

func TestRcloneAcceptsObjectLockAndForgetsIt(t *testing.T) {
	r := stores.RunRclone(t)
	client := r.Client(r.Root)
	if _, err := client.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: aws.String("bucket"), ObjectLockEnabledForBucket: aws.Bool(true)}); err != nil {
		t.Fatalf("the server this is about accepts the flag: %v", err)
	}
	v, err := client.GetBucketVersioning(t.Context(), &s3.GetBucketVersioningInput{Bucket: aws.String("bucket")})
	if err != nil || v.Status != "" {
		t.Errorf("versioning is %q, %v; want none", v.Status, err)
	}
}
