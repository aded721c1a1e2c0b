package members

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"druid.internal/druid/test/process"
	"druid.internal/druid/test/stores"
)

// until waits for a fact.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := (&Cluster{}).Await(ctx, what, func(context.Context) error {
		if !is() {
			return errors.New("not yet")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestAProcessIsStartedAgainUnlessItIsHeld(t *testing.T) {
	marks := filepath.Join(t.TempDir(), "marks")
	c := newContainer("a process", func() process.Command {
		return process.Command{Name: "a process", Path: "/bin/sh", Args: []string{"-c", "trap 'exit 0' TERM; echo started >> " + marks + "; while :; do sleep 0.05; done"}, Env: os.Environ()}
	})
	defer c.close()
	starts := func() int {
		b, _ := os.ReadFile(marks)
		return strings.Count(string(b), "started")
	}
	if l := c.life(); l.Running || l.Starts != 0 {
		t.Fatalf("it runs before it was told to: %+v", l)
	}
	c.up()
	until(t, "it runs", func() bool { return starts() == 1 })
	if !c.kill9() {
		t.Error("there was nothing to kill")
	}
	until(t, "it runs again", func() bool { return starts() == 2 })
	if err := c.down(); err != nil {
		t.Error(err)
	}
	l := c.life()
	if l.Running || l.Starts != 2 || len(l.Exits) != 2 || l.Exits[0] != "signal: killed" || l.Exits[1] != "exit code 0" {
		t.Errorf("%+v, want two starts, one end by SIGKILL and one clean", l)
	}
	if c.kill9() {
		t.Error("it was killed though it did not run")
	}
	c.up()
	until(t, "it runs once more", func() bool { return starts() == 3 })
	c.crash()
	if l := c.life(); l.Running || l.Starts != 3 {
		t.Errorf("%+v after a crash", l)
	}
}

func TestAProgramThatIsNotThereIsSaidAndNotTriedForEver(t *testing.T) {
	c := newContainer("nothing", func() process.Command { return process.Command{Name: "nothing", Path: "/does/not/exist"} })
	defer c.close()
	c.up()
	until(t, "the failure is noted", func() bool { return len(c.life().Exits) == 1 })
	if err := c.down(); err != nil {
		t.Error(err)
	}
}

// plugged are rooms on one network, each with an etcd, which form a cluster.
func plugged(t *testing.T, n *Network, size int) (clients []*clientv3.Client, addrs []netip.Addr) {
	t.Helper()
	binary, err := stores.Binary("etcd")
	if err != nil {
		t.Fatal(err)
	}
	var rooms []*room
	var initial []string
	for i := range size {
		r, err := newRoom(t.Context(), fmt.Sprint("member ", i), true, false)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(r.close)
		addr, err := n.plug(t.Context(), r, byte(10+i))
		if err != nil {
			t.Fatal(err)
		}
		rooms, addrs = append(rooms, r), append(addrs, addr)
		initial = append(initial, fmt.Sprintf("m%d=http://%s:2380", i, addr))
	}
	for i, r := range rooms {
		c, p := fmt.Sprintf("http://%s:2379", addrs[i]), fmt.Sprintf("http://%s:2380", addrs[i])
		proc, err := r.command(process.Command{Name: fmt.Sprint("etcd ", i), Path: binary, Env: process.BareEnvironment(t.TempDir()), Args: []string{
			fmt.Sprintf("--name=m%d", i), "--data-dir=" + filepath.Join(t.TempDir(), "data"), "--unsafe-no-fsync", "--log-level=error",
			"--listen-client-urls=" + c, "--advertise-client-urls=" + c, "--listen-peer-urls=" + p, "--initial-advertise-peer-urls=" + p,
			"--initial-cluster=" + strings.Join(initial, ",")}}).Start()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(proc.Kill)
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{c}, DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { client.Close() })
		clients = append(clients, client)
	}
	return clients, addrs
}

// TestAMemberThatIsCutOffDoesNotServeAndTheOthersDo is three real etcds, of which the leader is cut
// off from the others in silence, and comes back.
func TestAMemberThatIsCutOffDoesNotServeAndTheOthersDo(t *testing.T) {
	n, err := NewNetwork(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	clients, addrs := plugged(t, n, 3)
	leads := func(i int) bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		s, err := clients[i].Status(ctx, clients[i].Endpoints()[0])
		return err == nil && s.Leader == s.Header.MemberId
	}
	writes := func(i int) bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := clients[i].Put(ctx, "k", "v")
		return err == nil
	}
	leader := -1
	until(t, "one leads", func() bool {
		for i := range clients {
			if leads(i) {
				leader = i
			}
		}
		return leader >= 0
	})
	until(t, "all write", func() bool { return writes(0) && writes(1) && writes(2) })
	others := []int{(leader + 1) % 3, (leader + 2) % 3}
	for _, o := range others {
		if err := errors.Join(n.Lose(t.Context(), addrs[leader], addrs[o]), n.Lose(t.Context(), addrs[o], addrs[leader])); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "another one leads", func() bool { return leads(others[0]) || leads(others[1]) })
	until(t, "the others write", func() bool { return writes(others[0]) && writes(others[1]) })
	until(t, "the one that is cut off, which we still reach, has no leader", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		s, err := clients[leader].Status(ctx, clients[leader].Endpoints()[0])
		return err == nil && s.Leader == 0
	})
	if writes(leader) {
		t.Error("the one that is cut off writes")
	}
	if err := n.Heal(t.Context()); err != nil {
		t.Fatal(err)
	}
	until(t, "all write again", func() bool { return writes(0) && writes(1) && writes(2) })
}

func TestAVolumeFailsIsMendedAndFillsUp(t *testing.T) {
	dir := t.TempDir()
	r, err := newRoom(t.Context(), "a volume", false, true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.close)
	v, err := newVolume(t.Context(), r, filepath.Join(dir, "image"), filepath.Join(dir, "mount"), 16<<20)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(r.path(v.at), "file")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("before"); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "mount", "file")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the volume is mounted for everybody: %v", err)
	}
	if err := v.fail(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("after"); err == nil {
		err = f.Sync()
		if err == nil {
			t.Error("an open file can be written on a volume that failed")
		}
	}
	f.Close()
	if err := os.WriteFile(name+"2", nil, 0o600); !errors.Is(err, syscall.EROFS) {
		t.Errorf("a new file on a volume that failed: %v, want %v", err, syscall.EROFS)
	}
	if err := v.mend(t.Context()); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(name); err != nil || string(b) != "before" {
		t.Errorf("after mending: %q, %v", b, err)
	}
	empty, err := v.fill()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, make([]byte, 8192), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a write to a full volume: %v, want %v", err, syscall.ENOSPC)
	}
	if err := empty(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, make([]byte, 8192), 0o600); err != nil {
		t.Errorf("a write after there is room again: %v", err)
	}
}

func TestCertificatesChangeAtOneMoment(t *testing.T) {
	a, err := newAuthorities()
	if err != nil {
		t.Fatal(err)
	}
	c, err := newCredentials(filepath.Join(t.TempDir(), "secret"), a.client, "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for range 5 {
		pair, err := c.config().GetClientCertificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		seen[string(pair.Certificate[0])] = true
		if err := c.issue(); err != nil {
			t.Fatal(err)
		}
	}
	if len(seen) != 5 {
		t.Errorf("%d certificates in 5 turns", len(seen))
	}
}

// TestDamageIsDone to the data directory of a real etcd.
func TestDamageIsDone(t *testing.T) {
	e := stores.RunEtcd(t, stores.EtcdOptions{})
	client, err := clientv3.New(clientv3.Config{Endpoints: e.Endpoints(), DialTimeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for i := range 500 {
		if _, err := client.Put(t.Context(), fmt.Sprintf("/key/%04d", i), strings.Repeat("v", 200)); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Stop(); err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		do         func(*Member) error
		sound      bool // the database
		same, less bool // values in it; bytes of the log
	}{
		"a truncated log":  {do: (*Member).TruncateWAL, sound: true, same: true, less: true},
		"a flipped bit":    {do: (*Member).FlipDB},
		"a flipped value":  {do: func(m *Member) error { return m.FlipValue("/key/0123") }, sound: true},
		"nothing":          {do: func(*Member) error { return nil }, sound: true, same: true},
		"a lost directory": {do: (*Member).LoseData},
	} {
		t.Run(what, func(t *testing.T) {
			m := &Member{Name: "m", dir: t.TempDir(), etcd: newContainer("", nil), sidecar: newContainer("", nil)}
			defer m.etcd.close()
			defer m.sidecar.close()
			if err := os.CopyFS(m.DataDir(), os.DirFS(e.DataDir())); err != nil {
				t.Fatal(err)
			}
			before := walBytes(t, m)
			if err := c.do(m); err != nil {
				t.Fatal(err)
			}
			sound, same := examine(m.database())
			if sound != c.sound || same != c.same {
				t.Errorf("the database is sound: %t, with all values: %t, want %t, %t", sound, same, c.sound, c.same)
			}
			if c.sound && (walBytes(t, m) < before) != c.less {
				t.Errorf("the log has %d bytes, it had %d", walBytes(t, m), before)
			}
		})
	}
}

func walBytes(t *testing.T, m *Member) int64 {
	files, err := filepath.Glob(filepath.Join(m.DataDir(), "member", "wal", "*.wal"))
	if err != nil {
		t.Fatal(err)
	}
	total := int64(0)
	for _, f := range files {
		info, err := os.Stat(f)
		if err != nil {
			t.Fatal(err)
		}
		total += info.Size()
	}
	return total
}

// examine tells whether the structure of a database is sound, and its values are all alike.
func examine(path string) (sound, same bool) {
	defer func() {
		if recover() != nil {
			sound, same = false, false
		}
	}()
	if _, err := os.Stat(path); err != nil {
		return false, false
	}
	db, err := bolt.Open(path, 0o600, &bolt.Options{Timeout: time.Second})
	if err != nil {
		return false, false
	}
	defer db.Close()
	sound, same = true, true
	if err := db.View(func(tx *bolt.Tx) error {
		for range tx.Check() {
			sound = false
		}
		return tx.Bucket([]byte("key")).ForEach(func(_, v []byte) error {
			same = same && strings.Contains(string(v), strings.Repeat("v", 200))
			return nil
		})
	}); err != nil {
		return false, false
	}
	return sound, same
}

// starter makes this program start a network and a process in it, say so, and wait for its death.
const starter = "DRUID_TEST_MEMBERS_STARTER"

func TestMain(m *testing.M) {
	if os.Getenv(starter) == "" {
		os.Exit(m.Run())
	}
	n, err := NewNetwork(context.Background())
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	r, err := newRoom(context.Background(), "m", true, true)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	if _, err := n.plug(context.Background(), r, 10); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	c := newContainer("sleeper", func() process.Command {
		return r.command(process.Command{Name: "sleeper", Path: "/bin/sleep", Args: []string{"3600"}, Env: os.Environ()})
	})
	c.up()
	for c.life().PID == 0 {
		<-c.changed()
	}
	fmt.Println(n.Us(), n.bridge.holder.PID(), r.holder.PID(), c.life().PID)
	select {}
}

func TestEverythingEndsWithWhoStartedItHoweverThatEnds(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), starter+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	words := strings.Fields(line)
	if len(words) != 4 {
		t.Fatalf("the starter says %q", line)
	}
	ours := func() bool {
		b, err := exec.Command("ip", "-o", "addr").Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(string(b), words[0]+"/24")
	}
	if !ours() {
		t.Fatalf("there is no address %s", words[0])
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	until(t, "its processes are gone", func() bool {
		for _, w := range words[1:] {
			pid, err := strconv.Atoi(w)
			if err != nil {
				t.Fatal(err)
			}
			if syscall.Kill(pid, 0) == nil {
				return false
			}
		}
		return true
	})
	until(t, "its network is gone", func() bool { return !ours() })
}

// TestAPlainEtcdRunsWhereTheMembersWill has no program of the members: two etcds of the old version
// with certificates, one after the other on the same data.
func TestAPlainEtcdRunsWhereTheMembersWill(t *testing.T) {
	binary, err := stores.Binary("etcd-3.5")
	if err != nil {
		t.Fatal(err)
	}
	c := Lay(t, Options{Members: 3, TLS: Everywhere})
	for _, want := range []int64{0, 1} {
		if err := c.Plain(t.Context(), binary, func(ctx context.Context, client *clientv3.Client) error {
			got, err := client.Get(ctx, "/k")
			if err != nil || got.Count != want {
				return fmt.Errorf("%v with %v, want %d keys", err, got, want)
			}
			_, err = client.Put(ctx, "/k", "v")
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range c.Members() {
		if sound, _ := examine(m.database()); !sound {
			t.Errorf("the database of %s is not sound", m.Name)
		}
	}
}
