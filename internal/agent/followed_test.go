package agent

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"druid.internal/druid/internal/agent/config"
	"druid.internal/druid/internal/etcd/member"
)

func TestTheClusterOutsideIsFollowedInTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sidecar.yaml")
	write := func(content string) {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const named = "existingCluster: {members: [{name: old-0, peerUrls: ['http://old:2380']}], endpoints: ['http://old:2379']}\n"
	write(named)
	c, err := config.Load(path, config.Parse)
	if err != nil {
		t.Fatal(err)
	}
	o := follow(path, c, nil, slog.New(slog.DiscardHandler))
	for _, step := range []struct {
		what, content string
		changed, some bool
	}{
		{"as it was", named, false, true},
		{"something else changed", named + "owner: x\n", false, true},
		{"a file that cannot be read", "existingCluster: 7\n", false, true},
		{"one that names no endpoint", "existingCluster: {members: [{name: old-0, peerUrls: ['http://old:2380']}]}\n", false, true},
		{"it is named no more", "owner: x\n", true, false},
		{"still not", "owner: y\n", false, false},
	} {
		write(step.content + "restorationConfig: {atLeastRevision: 9, lastKnownRevision: 7}\n")
		if o.look(); o.another() != step.changed {
			t.Errorf("%s: changed is %t", step.what, !step.changed)
		}
		if got := o.facts() != nil; got != step.some || o.has(member.Peer{Name: "old-0"}) != step.some || (len(o.endpoints()) > 0) != step.some {
			t.Errorf("%s: there is one is %t", step.what, got)
		}
	}
	if least, known := o.least(), o.lastKnown(); least != 9 || known != 7 {
		t.Errorf("the backups must reach revision %d, and a restore goes beyond %d", least, known)
	}
	write("restorationConfig: {}\n")
	if o.least() != 0 || o.another() {
		t.Errorf("the backups must still reach revision %d, or another cluster is told of", o.least())
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if o.look(); o.another() {
		t.Error("a file that is gone for a moment changed something")
	}
}

// The operator is replaced before the pods are, and may write keys that their sidecars do not know.
func TestAKeyOfANewerOperatorDoesNotKeepWhatIsFollowedBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sidecar.yaml")
	var told []string
	for name, c := range map[string]struct {
		parse config.Parser
		leave bool
	}{
		"a person's file":    {nil, false},
		"an operator's file": {config.Lenient(func(what string) { told = append(told, what) }), true},
	} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		o := follow(path, config.Defaults(), c.parse, slog.New(slog.DiscardHandler))
		if err := os.WriteFile(path, []byte("restorationConfig: {othersLeave: true, brandNew: 1}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := o.othersLeave(); got != c.leave {
			t.Errorf("%s: othersLeave is %t", name, got)
		}
	}
	if len(told) != 1 || !strings.Contains(told[0], `unknown key "brandNew"`) {
		t.Errorf("told of %q", told)
	}
}

func TestMembersOutsideAreKnownByNameOrURL(t *testing.T) {
	o := follow("", config.Config{ExistingCluster: config.ExistingCluster{Members: []config.ExistingMember{{Name: "old-0", PeerURLs: []string{"http://old:2380"}}}, Endpoints: []string{"http://old:2379"}}}, nil, nil)
	for name, c := range map[string]struct {
		peer member.Peer
		want bool
	}{
		"by name":              {member.Peer{Name: "old-0", PeerURLs: []string{"http://elsewhere:2380"}}, true},
		"by URL":               {member.Peer{Name: "renamed", PeerURLs: []string{"http://x:2380", "http://old:2380"}}, true},
		"by URL, not started":  {member.Peer{PeerURLs: []string{"http://old:2380"}}, true},
		"neither":              {member.Peer{Name: "etcd-main-0", PeerURLs: []string{"http://etcd-main-0:2380"}}, false},
		"neither, not started": {member.Peer{PeerURLs: []string{"http://etcd-main-0:2380"}}, false},
	} {
		if got := o.has(c.peer); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}
