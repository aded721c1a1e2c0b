package e2e

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/test/members"
)

// TestMembersWithEachOthersDataRefuseUntilTheDataAreExchangedBack gives two of three members the data
// of each other. An etcd that ran on them would speak as the other one.
func TestMembersWithEachOthersDataRefuseUntilTheDataAreExchangedBack(t *testing.T) {
	t.Parallel()
	c := enlist(t, members.Options{Members: 3}, "")
	c.start()
	c.work(2000).wait()
	_, rev := c.holds(2)
	c.upload(rev)
	a, b := c.Members()[0], c.Members()[1]
	for _, m := range []*members.Member{a, b} {
		c.must(m.Stop())
	}
	c.must(a.ExchangeData(b))
	before := map[string]map[string]string{a.Name: digests(t, a.DataDir()), b.Name: digests(t, b.DataDir())}
	a.Start()
	b.Start()
	for _, swapped := range []struct{ is, has *members.Member }{{a, b}, {b, a}} {
		m := swapped.is
		state := c.reports(m, agentapi.VolumeMismatch)
		says(t, state.Waiting, "the data are those of member "+swapped.has.Name, "this is "+m.Name, "give each member its own volume")
		if strings.Contains(state.Waiting, "\n") {
			t.Errorf("%s says it in several lines: %q", m.Name, state.Waiting)
		}
		if s, err := m.Etcd(t.Context()); err == nil {
			t.Errorf("%s serves at revision %d", m.Name, s.Header.Revision)
		}
	}
	for _, m := range []*members.Member{a, b} {
		c.must(m.Stop())
		if got := digests(t, m.DataDir()); !maps.Equal(got, before[m.Name]) {
			t.Errorf("the data of %s were touched: they are %v, they were %v", m.Name, got, before[m.Name])
		}
	}
	c.must(a.ExchangeData(b))
	a.Start()
	b.Start()
	c.ready()
	c.work(1000).wait()
	c.proves()
	for _, m := range c.Members() {
		if s := c.state(m); came(s, agentapi.JoinedAsLearner) {
			t.Errorf("%s joined anew: %+v", m.Name, s.Transitions)
		}
	}
}

// TestDataOfAnotherClusterAreRefusedAndLeftAlone gives a member the data of a member of its name of
// another cluster: somebody may look for them. Its own cluster goes on without it, and takes it back
// when the remedy is followed.
func TestDataOfAnotherClusterAreRefusedAndLeftAlone(t *testing.T) {
	t.Parallel()
	other := enlist(t, members.Options{Members: 1}, "")
	other.start()
	other.work(500).wait()
	stranger := other.Members()[0]
	other.must(stranger.Stop())

	c := enlist(t, members.Options{Members: 3}, "")
	c.start()
	victim := c.Members()[0]
	if victim.Name != stranger.Name {
		t.Fatalf("the members are called %s and %s, want the same: else that is what is refused", victim.Name, stranger.Name)
	}
	s := c.work(0, c.Others(victim)...)
	c.await("the clients are at work", worked(s, 500))
	c.must(victim.LoseData())
	c.must(os.CopyFS(victim.DataDir(), os.DirFS(stranger.DataDir())))
	before := digests(t, victim.DataDir())
	c.await("the others have a leader", worked(s, 100))
	victim.Start()
	state := c.reports(victim, agentapi.OtherLineage)
	says(t, state.Waiting, "nothing of another cluster is replaced", "remove the data directory to join the cluster that answers")
	c.await("the clients go on", worked(s, 500))
	if s, err := victim.Etcd(t.Context()); err == nil {
		t.Errorf("it serves at revision %d", s.Header.Revision)
	}
	c.must(victim.Stop())
	if got := digests(t, victim.DataDir()); !maps.Equal(got, before) {
		t.Errorf("the data of the other cluster were touched: they are %v, they were %v", got, before)
	}
	if aside, err := filepath.Glob(victim.DataDir() + ".*"); err != nil || len(aside) > 0 {
		t.Errorf("%q lie beside them, %v", aside, err)
	}
	c.must(os.RemoveAll(victim.DataDir()))
	victim.Start()
	c.ready()
	s.end()
	c.proves()
}

// digests are those of everything in a directory.
func digests(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	if err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		all[strings.TrimPrefix(path, dir)] = fmt.Sprintf("%d bytes %.4x", len(content), sha256.Sum256(content))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return all
}
