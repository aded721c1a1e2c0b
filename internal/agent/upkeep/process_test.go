package upkeep

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"testing"

	"go.etcd.io/etcd/server/v3/embed"
)

// memberProcess is what a process that is a member needs to know.
type memberProcess struct{ Name, Dir, Client, Peer, InitialCluster string }

const memberVariable = "UPKEEP_TEST_MEMBER"

// TestMain makes a member of this process if it is asked to: etcd panics if somebody asks a member
// for its status in the second between its removal and its end, which must not end the tests.
func TestMain(m *testing.M) {
	encoded := os.Getenv(memberVariable)
	if encoded == "" {
		os.Exit(m.Run())
	}
	if err := be(encoded); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// be is the member until its standard input ends, which it does with the test at the latest.
func be(encoded string) error {
	var p memberProcess
	if err := json.Unmarshal([]byte(encoded), &p); err != nil {
		return err
	}
	cfg := embed.NewConfig()
	quiet(cfg)
	cfg.Name, cfg.Dir, cfg.InitialCluster = p.Name, p.Dir, p.InitialCluster
	client, err := url.Parse(p.Client)
	if err != nil {
		return err
	}
	peer, err := url.Parse(p.Peer)
	if err != nil {
		return err
	}
	at(cfg, *client, *peer)
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		return err
	}
	defer e.Close()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		io.Copy(io.Discard, os.Stdin)
	}()
	select {
	case <-ended:
	case err = <-e.Err():
	case <-e.Server.StopNotify():
	}
	return err
}

// spawn starts m-i as a process of its own.
func (c *cluster) spawn(i int) {
	c.t.Helper()
	cfg := c.configs[i]
	encoded, err := json.Marshal(memberProcess{cfg.Name, cfg.Dir, cfg.AdvertiseClientUrls[0].String(), cfg.AdvertisePeerUrls[0].String(), cfg.InitialCluster})
	if err != nil {
		c.t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		c.t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), memberVariable+"="+string(encoded))
	stdin, err := cmd.StdinPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		stdin.Close()
		cmd.Wait() // how it ends is not the question
	})
}
