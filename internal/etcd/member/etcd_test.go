package member

import (
	"net/url"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
)

// startEtcd runs a real etcd of one member on free ports of 127.0.0.1.
func startEtcd(t *testing.T, change func(*embed.Config)) *embed.Etcd {
	t.Helper()
	cfg := embed.NewConfig()
	cfg.Dir = t.TempDir()
	cfg.LogLevel = "error"
	cfg.LogOutputs = []string{"/dev/null"}
	cfg.UnsafeNoFsync = true
	local := url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{local}, []url.URL{local}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{local}, []url.URL{local}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	if change != nil {
		change(cfg)
	}
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		select {
		case <-e.Server.StopNotify(): // the test closed it
		default:
			e.Close()
		}
	})
	select {
	case <-e.Server.ReadyNotify():
	case err := <-e.Err():
		t.Fatal(err)
	case <-time.After(time.Minute):
		t.Fatal("etcd is not ready after a minute")
	}
	return e
}

func address(e *embed.Etcd) string { return e.Clients[0].Addr().String() }

// connect returns the member under test and a client to write with.
func connect(t *testing.T, e *embed.Etcd) (*Member, *clientv3.Client) {
	t.Helper()
	c, err := New(Config{Endpoints: []string{"http://" + address(e)}, InsecureTransport: true, DialTimeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	m, err := c.Member(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return m, m.client
}
