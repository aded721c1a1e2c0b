package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"druid.internal/druid/internal/engine/downgrader"
	"druid.internal/druid/test/history"
	"druid.internal/druid/test/members"
	"druid.internal/druid/test/sites"
	"druid.internal/druid/test/stores"
)

// forTheOriginal has sidecars write what the original reads.
func forTheOriginal(_ string, config map[string]any) {
	config["snapshotterConfig"].(map[string]any)["snapshotFormat"] = "v2-json"
	config["compressionConfig"] = map[string]any{"enabled": true, "policy": "gzip"}
}

// handingBackCommands are the commands of the page that run in a member's pod, without what leads there.
func handingBackCommands(t *testing.T) [][]string {
	t.Helper()
	page, err := os.ReadFile("../../docs/operations/handing-back.md")
	if err != nil {
		t.Fatal(err)
	}
	var all [][]string
	for _, line := range regexp.MustCompile(`(?m)^kubectl exec .* -- etcdbrctl (.*)$`).FindAllStringSubmatch(string(page), -1) {
		all = append(all, strings.Fields(line[1]))
	}
	return all
}

type downgradeState struct {
	State   downgrader.State
	Reasons []string
	Members []downgrader.Member
}

// tells runs a command of the page as in the pod of a member.
func (c *crew) tells(m *members.Member, args []string) (downgradeState, outcome) {
	c.t.Helper()
	args = slices.Clone(args)
	for i, a := range args {
		if strings.HasPrefix(a, "--config-file=") {
			if !strings.HasSuffix(a, "/var/etcd/config/backup-restore.conf.yaml") {
				c.t.Errorf("the page says %s, which is not where the operator puts it", a)
			}
			args[i] = "--config-file=" + m.SidecarFile()
		}
	}
	cmd := exec.Command(program(c.t), append(args, "-o=json")...)
	cmd.Env = c.env
	o := finish(c.t, cmd)
	if o.code != 0 {
		return downgradeState{}, o
	}
	return decode[downgradeState](c.t, o.stdout), o
}

// tellsAgain gives a command until it does not end because the members cannot be reached, or lost their leader just
// then, as a person would. All that it said is in the outcome.
func (c *crew) tellsAgain(m *members.Member, args []string) (s downgradeState, o outcome) {
	c.t.Helper()
	said := ""
	c.await("the members carry out "+strings.Join(args, " "), func(context.Context) error {
		s, o = c.tells(m, args)
		said += o.stderr
		if o.code == 5 {
			return errors.New(o.stderr)
		}
		return nil
	})
	o.stderr = said
	return s, o
}

// runs are the versions of etcd that the members run.
func (c *crew) runs(ctx context.Context) (versions []string, err error) {
	for _, m := range c.Members() {
		s, err := m.Etcd(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.Name, err)
		}
		versions = append(versions, s.Version)
	}
	return versions, nil
}

// TestAClusterGoesBackToEtcd35WhileItServes has the members of a cluster replaced by those of etcd 3.5, one
// at a time, as the original does it after the page's commands. Clients work all the while.
func TestAClusterGoesBackToEtcd35WhileItServes(t *testing.T) {
	t.Parallel()
	binary, err := stores.Binary("etcd-3.5")
	if err != nil {
		t.Fatal(err)
	}
	commands := handingBackCommands(t)
	if len(commands) != 3 {
		t.Fatalf("the page has the commands %q", commands)
	}
	const restored = "a restored cluster"
	for _, with := range everyOther(t, append(slices.Clone(beginnings), restored)) {
		t.Run("from "+with, func(t *testing.T) {
			t.Parallel()
			c := enlist(t, members.Options{Members: 3, TLS: members.Everywhere, Backup: sites.Way{Provider: "Local", Container: t.TempDir()}}, "")
			c.begin(with)
			from := int64(2)
			if with == restored {
				c.work(500).wait()
				_, rev := c.holds(from)
				c.upload(rev)
				for _, m := range c.Members() {
					c.must(m.LoseVolume())
				}
				for _, m := range c.Members() {
					m.Start()
				}
				c.ready()
				_, now, err := history.Read(t.Context(), c.client, 0)
				c.must(err)
				from = now + 1
			}
			if _, o := c.tellsAgain(c.Member(0), commands[1]); o.code != 3 || !strings.Contains(o.stderr, "snapshotFormat") {
				t.Errorf("with backups that the original cannot read it ends with %d: %s", o.code, o.stderr)
			}
			c.must(c.Reconfigure(forTheOriginal))
			for _, m := range c.Members() {
				c.must(m.StopSidecar())
				m.StartSidecar()
			}
			c.ready()
			working := c.work(0)

			c.await("all members count as 3.6, which those with data of 3.5 do a moment later", func(context.Context) error {
				s, o := c.tells(c.Member(0), commands[0])
				for _, m := range s.Members {
					if m.Storage != "3.6.0" {
						return fmt.Errorf("%+v, %s", s, o.stderr)
					}
				}
				return nil
			})
			if s, o := c.tellsAgain(c.Member(0), commands[0]); s.State != downgrader.Due {
				t.Fatalf("before it began: %+v, %s", s, o.stderr)
			}
			s, o := c.tellsAgain(c.Member(0), commands[1])
			if s.State != downgrader.Ready {
				t.Fatalf("%+v, exit code %d: %s", s, o.code, o.stderr)
			}
			for _, m := range s.Members {
				if m.Version == "" || m.Storage != "3.5.0" || m.Allowed != "3.5.0" {
					t.Errorf("a member is ready as %+v", m)
				}
			}
			says(t, o.stderr, "a full is in the bucket")
			if !slices.ContainsFunc(c.list().all("Full"), func(s listed) bool {
				return strings.HasSuffix(s.Name, ".gz") && strings.Contains(o.stderr, s.Name)
			}) {
				t.Errorf("the full is not in the bucket: %s", o.stderr)
			}
			// A machine may be restarted meanwhile: our member goes on with data of the form before.
			first := c.follower()
			c.must(first.Stop())
			first.Start()
			c.ready()
			if s, _ := c.tellsAgain(first, commands[1]); s.State != downgrader.Ready {
				t.Errorf("given again it says %+v", s)
			}

			leader := c.leader()
			for _, m := range append(c.Others(leader), leader) {
				c.must(m.Stop())
				plain, err := m.StartPlain(binary)
				c.must(err)
				t.Cleanup(func() { plain.Kill() })
				for _, m := range c.Members() {
					c.await(m.Name+" serves", func(ctx context.Context) error {
						client, err := c.ClientOf(m)
						if err != nil {
							return err
						}
						defer client.Close()
						ctx, cancel := context.WithTimeout(ctx, time.Second)
						defer cancel()
						_, err = client.Get(ctx, "/")
						return err
					})
				}
			}
			var versions []string
			c.await("all members tell their versions", func(ctx context.Context) (err error) {
				versions, err = c.runs(ctx)
				return err
			})
			if strings.Join(versions, " ") != strings.Repeat(stores.Etcd35Version[1:]+" ", 2)+stores.Etcd35Version[1:] {
				t.Errorf("the members run %q", versions)
			}
			if s, o := c.tellsAgain(c.Member(0), commands[0]); s.State != downgrader.Done {
				t.Errorf("at the end: %+v, %s", s, o.stderr)
			}
			working.end()
			c.holds(from)
		})
	}
}

// TestADowngradeThatNobodyFollowedIsEnded takes back what the page's command began.
func TestADowngradeThatNobodyFollowedIsEnded(t *testing.T) {
	t.Parallel()
	commands := handingBackCommands(t)
	c := enlist(t, members.Options{Members: 3, Sidecar: forTheOriginal, Backup: sites.Way{Provider: "Local", Container: t.TempDir()}}, "")
	c.start()
	c.work(200).wait()
	if s, o := c.tellsAgain(c.Member(0), commands[1]); s.State != downgrader.Ready {
		t.Fatalf("%+v: %s", s, o.stderr)
	}
	c.tellsAgain(c.Member(1), commands[2])
	c.await("the data have the form of etcd 3.6", func(context.Context) error {
		s, o := c.tells(c.Member(0), commands[0])
		for _, m := range s.Members {
			if m.Allowed != "" || m.Storage != "3.6.0" {
				return fmt.Errorf("%+v %s", m, o.stderr)
			}
		}
		if s.State != downgrader.Due {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
	c.must(c.Member(0).Stop())
	c.Member(0).Start()
	c.ready()
	c.work(200).wait()
	c.proves()
}

// TestTheOriginalsEtcdGoesOnFromTheBucket restores the bucket of a cluster with nothing of ours: a reader that
// knows the format alone, the tool of etcd 3.5, and etcd 3.5. The deltas are put one revision after the
// other, as the original does it.
func TestTheOriginalsEtcdGoesOnFromTheBucket(t *testing.T) {
	t.Parallel()
	tool, err := stores.Binary("etcdutl-3.5")
	if err != nil {
		t.Fatal(err)
	}
	container := t.TempDir()
	c := enlist(t, members.Options{Members: 3, Sidecar: forTheOriginal, Backup: sites.Way{Provider: "Local", Container: container}}, "")
	c.start()
	c.work(200).wait()
	_, rev := c.holds(2)
	c.upload(rev) // so that there is a full before what the deltas shall have
	c.work(2000).wait()
	_, rev = c.holds(2)
	c.upload(rev)

	full, deltas := originalsChain(t, filepath.Join(container, prefix, "v2"))
	file := filepath.Join(t.TempDir(), "full")
	c.must(os.WriteFile(file, gunzip(t, full.content), 0o600))
	e := stores.RunEtcd(t, stores.EtcdOptions{Server: "etcd-3.5", Prepare: func(all []*stores.Member) error {
		m := all[0]
		if err := os.RemoveAll(m.DataDir); err != nil {
			return err
		}
		out, err := exec.Command(tool, "snapshot", "restore", file, "--data-dir="+m.DataDir, "--name="+m.Name,
			"--initial-cluster="+m.Name+"="+m.PeerURL, "--initial-advertise-peer-urls="+m.PeerURL).CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
		return err
	}})
	client := connect(t, e)
	_, at, err := history.Read(t.Context(), client, 0) // a full may hold more than its name says
	c.must(err)
	if at < full.last {
		t.Errorf("%s has revision %d", full.name, at)
	}
	for _, d := range deltas {
		at = replayed(t, client, d, at)
	}
	kvs, last, err := history.Read(t.Context(), client, 0)
	c.must(err)
	if last != rev {
		t.Errorf("the etcd of the original is at revision %d, want %d", last, rev)
	}
	if wrong := c.told.AgainstKeys(kvs, 0); len(wrong) > 0 {
		t.Errorf("of %d acknowledged writes:\n  %s", c.told.Acknowledged(), strings.Join(wrong, "\n  "))
	}
}

// originalsObject is an object of the bucket as the original finds it.
type originalsObject struct {
	kind, name  string
	start, last int64
	content     []byte
}

// originalsObjects are those whose names the original can parse, in the order of their revisions.
func originalsObjects(t *testing.T, dir string) (objects []originalsObject) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		parts := originalName.FindStringSubmatch(e.Name())
		if parts == nil {
			if !regexp.MustCompile(`^(Manifest|Owner)-`).MatchString(e.Name()) {
				t.Errorf("what is %s?", e.Name())
			}
			continue // its name does not parse for the original either
		}
		content, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		o := originalsObject{kind: parts[1], name: e.Name(), content: content}
		o.start, _ = strconv.ParseInt(parts[2], 10, 64)
		o.last, _ = strconv.ParseInt(parts[3], 10, 64)
		objects = append(objects, o)
	}
	slices.SortFunc(objects, func(a, b originalsObject) int { return int(a.last - b.last) })
	return objects
}

// originalsChain is what the original restores: the oldest full here, so that there is much to replay, and all
// deltas behind it.
func originalsChain(t *testing.T, dir string) (full originalsObject, deltas []originalsObject) {
	t.Helper()
	for _, o := range originalsObjects(t, dir) {
		switch {
		case o.kind == "Full" && full.content == nil:
			full = o
		case o.kind == "Incr" && o.last > full.last:
			deltas = append(deltas, o)
		}
	}
	if full.content == nil || len(deltas) == 0 {
		t.Fatalf("%d deltas after the full %q", len(deltas), full.name)
	}
	return full, deltas
}

// replayed puts the events of a delta behind revision at, each revision in one transaction.
func replayed(t *testing.T, client *clientv3.Client, d originalsObject, at int64) int64 {
	t.Helper()
	events, _ := originalDelta(t, d.content)
	for len(events) > 0 {
		rev := events[0].Kv.ModRevision
		n := slices.IndexFunc(events, func(e *mvccpb.Event) bool { return e.Kv.ModRevision != rev })
		if n < 0 {
			n = len(events)
		}
		var ops []clientv3.Op
		for _, e := range events[:n] {
			if e.Type == mvccpb.DELETE {
				ops = append(ops, clientv3.OpDelete(string(e.Kv.Key)))
			} else {
				ops = append(ops, clientv3.OpPut(string(e.Kv.Key), string(e.Kv.Value)))
			}
		}
		events = events[n:]
		if rev <= at {
			continue // the full holds it
		}
		r, err := client.Txn(t.Context()).Then(ops...).Commit()
		if err != nil {
			t.Fatal(err)
		}
		if r.Header.Revision != rev {
			t.Fatalf("%s: what had revision %d has %d in the etcd of the original", d.name, rev, r.Header.Revision)
		}
		at = rev
	}
	return at
}
