package wrappertest

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"druid.internal/druid/internal/hosttest"
)

// Member is a wanted member of a cluster: an address of its own on this machine, with the usual
// ports, and directories.
type Member struct {
	Name string
	Host string
	Dir  string // the volume: the data directory and the exit code file are in it
}

// Members makes n members for one test.
func Members(t testing.TB, n int) []Member {
	t.Helper()
	var ms []Member
	for i := range n {
		ms = append(ms, Member{Name: fmt.Sprintf("etcd-main-%d", i), Host: hosttest.Own(), Dir: t.TempDir()})
	}
	return ms
}

// DataDir is etcd's.
func (m Member) DataDir() string { return filepath.Join(m.Dir, "new.etcd") }

// ExitCodeFile is where the wrapper keeps how etcd ended.
func (m Member) ExitCodeFile() string { return filepath.Join(m.Dir, "exit_code") }

// ConfigFile is where the wrapper puts etcd's configuration.
func (m Member) ConfigFile() string { return filepath.Join(m.Dir, "etcd.conf.yaml") }

// PeerURL is for the other members.
func (m Member) PeerURL() string { return "http://" + m.Host + ":2380" }

// Endpoint is for clients.
func (m Member) Endpoint() string { return "http://" + m.Host + ":2379" }

// Config is etcd's configuration of the member in a new cluster of all, with further lines. Its
// log goes to a file on the volume.
func (m Member) Config(all []Member, further ...string) string {
	var cluster []string
	for _, o := range all {
		cluster = append(cluster, o.Name+"="+o.PeerURL())
	}
	// One who is alone is elected soon; among several nobody is to lose the lead because the machine is busy.
	heartbeat, election := 20, 200
	if len(all) > 1 {
		heartbeat, election = 100, 1000
	}
	return strings.Join(append([]string{
		"name: " + m.Name,
		"data-dir: " + m.DataDir(),
		"initial-cluster: " + strings.Join(cluster, ","),
		"initial-cluster-token: test",
		"initial-cluster-state: new",
		"initial-advertise-peer-urls: " + m.PeerURL(),
		"advertise-client-urls: " + m.Endpoint(),
		"listen-peer-urls: " + m.PeerURL(),
		"listen-client-urls: " + m.Endpoint(),
		fmt.Sprintf("heartbeat-interval: %d", heartbeat),
		fmt.Sprintf("election-timeout: %d", election),
		"unsafe-no-fsync: true",
		"log-level: info",
		"log-outputs: [" + filepath.Join(m.Dir, "etcd.log") + "]",
	}, further...), "\n") + "\n"
}

// Client is a client of the member.
func (m Member) Client(t testing.TB) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{m.Endpoint()}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}
