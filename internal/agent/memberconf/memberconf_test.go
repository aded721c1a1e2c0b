package memberconf

import (
	"bytes"
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/etcd/server/v3/embed"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write the golden files anew")

func load(t *testing.T, name string) *Template {
	t.Helper()
	got, err := Load(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestWantedMembersAreOrderedByTheirNumber(t *testing.T) {
	tm := load(t, "three.yaml")
	want := []Peer{
		{"etcd-main-0", []string{"https://etcd-main-0.peer:2380"}, []string{"https://etcd-main-0.peer:2379"}},
		{"etcd-main-2", []string{"https://etcd-main-2.peer:2380"}, []string{"https://etcd-main-2.peer:2379", "https://10.0.0.2:2379"}},
		{"etcd-main-10", []string{"https://10.0.0.10:2380", "https://etcd-main-10.peer:2380"}, []string{"https://etcd-main-10.peer:2379"}},
	}
	if diff := cmp.Diff(want, tm.Wanted()); diff != "" {
		t.Errorf("wanted members (-want +got):\n%s", diff)
	}
	if tm.DataDir() != "/var/etcd/data/new.etcd" || tm.Token() != "etcd-cluster" || tm.QuotaBytes() != 8589934592 {
		t.Errorf("data directory %s, token %s, quota %d", tm.DataDir(), tm.Token(), tm.QuotaBytes())
	}
	if !tm.SecurePeers("etcd-main-2") || load(t, "one.yaml").SecurePeers("etcd-main-0") || tm.SecurePeers("etcd-main-1") {
		t.Error("whether peers are reached by TLS is told wrongly")
	}
}

func TestTheElectionTimeoutIsEtcdsUnlessItIsGiven(t *testing.T) {
	for line, want := range map[string]time.Duration{"": time.Second, "election-timeout: 0": time.Second, "election-timeout: 2500": 2500 * time.Millisecond, "election-timeout: 99999999999999": 50 * time.Second} {
		tm, err := Parse([]byte("data-dir: /d\ninitial-cluster: a=http://a:2380\nadvertise-client-urls: {a: http://a:2379}\n" + line + "\n"))
		if err != nil || tm.ElectionTimeout() != want {
			t.Errorf("%q: %v (%v), want %s", line, tm, err, want)
		}
	}
}

func TestAnOrdinalIsACanonicalNumberAtTheEnd(t *testing.T) {
	for name, want := range map[string]int{"etcd-main-0": 0, "a-12": 12, "etcd": -1, "etcd-01": -1, "etcd--1": 1, "etcd-": -1, "x-9x": -1, "x-99999999999999999999": -1} {
		got, ok := Ordinal(name)
		if !ok {
			got = -1
		}
		if got != want {
			t.Errorf("ordinal of %s is %d, want %d", name, got, want)
		}
	}
	peers := []Peer{{Name: "b"}, {Name: "a"}, {Name: "z-1"}, {Name: "y-1"}, {Name: "q-0"}}
	for i := range peers {
		for j := range peers {
			if x, y := byOrdinal(peers[i], peers[j]), byOrdinal(peers[j], peers[i]); x != -y {
				t.Errorf("%s and %s are ordered both ways: %d, %d", peers[i].Name, peers[j].Name, x, y)
			}
		}
	}
}

func TestEtcdReadsWhatAMemberIsGiven(t *testing.T) {
	for _, c := range []struct {
		golden, template, member string
		start                    func(*Template) Start
	}{
		{"one.new.golden", "one.yaml", "etcd-main-0", func(tm *Template) Start { return Start{State: StateNew, Initial: tm.Wanted()} }},
		{"three.new.golden", "three.yaml", "etcd-main-2", func(tm *Template) Start { return Start{State: StateNew, Initial: tm.Wanted()} }},
		{"three.existing.golden", "three.yaml", "etcd-main-10", func(tm *Template) Start {
			return Start{State: StateExisting, Initial: []Peer{tm.Wanted()[0], tm.Wanted()[2]}}
		}},
	} {
		t.Run(c.golden, func(t *testing.T) {
			tm := load(t, c.template)
			got, err := tm.For(c.member, c.start(tm))
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join("testdata", c.golden)
			if *update {
				if err := os.WriteFile(path, got, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("configuration (-want +got):\n%s", diff)
			}
			cfg, err := embed.ConfigFromFile(path)
			if err != nil {
				t.Fatalf("etcd refuses it: %v", err)
			}
			if cfg.Name != c.member || cfg.QuotaBackendBytes != 8589934592 || cfg.Dir != "/var/etcd/data/new.etcd" {
				t.Errorf("etcd reads name %s, quota %d, directory %s", cfg.Name, cfg.QuotaBackendBytes, cfg.Dir)
			}
			for _, gate := range decidedHere {
				if !strings.Contains(string(got), gate+"=true") {
					t.Errorf("%s is not on", gate)
				}
			}
			if peers, _, err := cfg.PeerURLsMapAndToken("etcd"); err != nil || len(peers) != len(c.start(tm).Initial) {
				t.Errorf("etcd sees the members %v (%v)", peers, err)
			}
		})
	}
}

func TestANewClusterMayHaveAnotherToken(t *testing.T) {
	tm := load(t, "one.yaml")
	got, err := tm.For("etcd-main-0", Start{State: StateNew, Initial: tm.Wanted(), Token: "other"})
	if err != nil || !strings.Contains(string(got), "\ninitial-cluster-token: other\n") {
		t.Errorf("%v:\n%s", err, got)
	}
}

func TestOnlyTheCheckAtTheStartCanBeLeftOut(t *testing.T) {
	tm := load(t, "three.yaml")
	got, err := tm.For("etcd-main-0", Start{State: StateExisting, Initial: tm.Wanted(), Unchecked: true})
	if want := "\nfeature-gates: StopGRPCServiceOnDefrag=true,CompactHashCheck=true,InitialCorruptCheck=false\n"; err != nil || !strings.Contains(string(got), want) {
		t.Errorf("%v: no %q in\n%s", err, want, got)
	}
}

func TestAMemberListensWhereItIsLookedFor(t *testing.T) {
	tm := load(t, "three.yaml")
	for name, c := range map[string]struct {
		member string
		urls   []string
		want   []string
	}{
		"another port":              {"etcd-main-0", []string{"https://etcd-main-0.peer:2390"}, []string{"https://0.0.0.0:2390"}},
		"http":                      {"etcd-main-0", []string{"http://etcd-main-0.peer:2380"}, []string{"http://0.0.0.0:2380"}},
		"another host":              {"etcd-main-0", []string{"https://elsewhere:2390"}, nil},
		"and somebody who forwards": {"etcd-main-0", []string{"https://etcd-main-0.peer:2390", "https://lb:443"}, []string{"https://0.0.0.0:2390"}},
		"nothing that is a URL":     {"etcd-main-0", []string{"http://[::1"}, nil},
	} {
		if got := tm.ListenAt(c.member, c.urls); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	one := load(t, "one.yaml")
	own := one.Wanted()[0]
	if got := one.ListenAt(own.Name, []string{strings.Replace(own.PeerURLs[0], "http://", "https://", 1)}); len(got) != 0 {
		t.Errorf("without a certificate it listens at %q", got)
	}
	at := []string{"https://etcd-main-0.peer:2390"}
	self, _ := tm.Peer("etcd-main-0")
	self.PeerURLs = at
	got, err := tm.For("etcd-main-0", Start{State: StateExisting, Initial: []Peer{self}, At: at, Listen: []string{"https://0.0.0.0:2390"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"initial-advertise-peer-urls: " + at[0], "listen-peer-urls: https://0.0.0.0:2390"} {
		if !strings.Contains(string(got), "\n"+want+"\n") {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

func TestTheConfigurationIsForAMemberOfItsCluster(t *testing.T) {
	tm := load(t, "three.yaml")
	for name, c := range map[string]struct {
		member string
		start  Start
		want   string
	}{
		"of a member that is not wanted":          {"etcd-main-1", Start{State: StateNew, Initial: tm.Wanted()}, "none of the wanted members"},
		"of a member that is not in the cluster":  {"etcd-main-2", Start{State: StateExisting, Initial: tm.Wanted()[:1]}, "not among the members of its cluster"},
		"without a state":                         {"etcd-main-2", Start{Initial: tm.Wanted()}, "no state"},
		"with a nameless member":                  {"etcd-main-2", Start{State: StateExisting, Initial: append(tm.Wanted(), Peer{PeerURLs: []string{"http://x:1"}})}, "cannot be written"},
		"with two members of one name":            {"etcd-main-2", Start{State: StateExisting, Initial: append(tm.Wanted(), tm.Wanted()[0])}, "cannot be written"},
		"with a member that is reached nowhere":   {"etcd-main-2", Start{State: StateExisting, Initial: append(tm.Wanted(), Peer{Name: "x"})}, "cannot be written"},
		"with a name that reads like two members": {"etcd-main-2", Start{State: StateExisting, Initial: append(tm.Wanted(), Peer{Name: "x,y", PeerURLs: []string{"http://x:1"}})}, "cannot be written"},
	} {
		if _, err := tm.For(c.member, c.start); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error with %q", name, err, c.want)
		}
	}
}

func TestTheDigestIsOfTheWantedClusterOnly(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("testdata", "three.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	digest := func(from, to string) string {
		t.Helper()
		text := strings.ReplaceAll(string(b), from, to)
		if from != "" && text == string(b) {
			t.Fatalf("%q is not in the file", from)
		}
		tm, err := Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return tm.Bootstrap()
	}
	was := digest("", "")
	for _, c := range []struct {
		name, from, to string
		same           bool
	}{
		{"another order of the members", "etcd-main-10=https://etcd-main-10.peer:2380,etcd-main-2=https://etcd-main-2.peer:2380,", "etcd-main-2=https://etcd-main-2.peer:2380,etcd-main-10=https://etcd-main-10.peer:2380,", true},
		{"another quota", "8589934592", "4294967296", true},
		{"another client URL", "https://etcd-main-0.peer:2379", "https://elsewhere:2379", true},
		{"another token", "etcd-cluster", "other", false},
		{"another peer URL", "https://etcd-main-2.peer:2380", "http://etcd-main-2.peer:2380", false},
		{"one member fewer", ",etcd-main-2=https://etcd-main-2.peer:2380", "", false},
	} {
		if got := digest(c.from, c.to); (got == was) != c.same {
			t.Errorf("with %s the digest is the same: %t, want %t", c.name, got == was, c.same)
		}
	}
}

func TestAWrongFileIsRefusedWithTheKey(t *testing.T) {
	base := "data-dir: /d\ninitial-cluster: a-0=http://a:2380,a-1=http://b:2380\nadvertise-client-urls: {a-0: http://a:2379, a-1: http://b:2379}\n"
	if _, err := Parse([]byte(base)); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ from, to, want string }{
		"not YAML":                            {"data-dir: /d", "data-dir: [", "not YAML"},
		"a key twice":                         {"data-dir: /d", "data-dir: /d\ndata-dir: /e", "already set"},
		"not a map":                           {base, "- a", "not a map"},
		"empty":                               {base, "", "not a map"},
		"an unknown key":                      {"data-dir", "data_dir", `"data_dir" is no key of etcd's configuration file; did you mean "data-dir"?`},
		"an unknown key below another":        {"data-dir: /d", "data-dir: /d\npeer-transport-security: {cert: x}", `"cert" is no key below "peer-transport-security"`},
		"a log elsewhere":                     {"data-dir: /d", "data-dir: /d\nwal-dir: /w", `"wal-dir" cannot be used`},
		"a new cluster with every start":      {"data-dir: /d", "data-dir: /d\nforce-new-cluster: true", `"force-new-cluster" must be false`},
		"no check of reconfigurations":        {"data-dir: /d", "data-dir: /d\nstrict-reconfig-check: false", `"strict-reconfig-check" must be true`},
		"old and new name of a key":           {"data-dir: /d", "data-dir: /d\nexperimental-corrupt-check-time: 1\ncorrupt-check-time: 1", "mean the same"},
		"no data directory":                   {"data-dir: /d\n", "", `"data-dir" is missing`},
		"a data directory that is a number":   {"data-dir: /d", "data-dir: 5", `"data-dir" is not a text`},
		"no members":                          {"initial-cluster: a-0=http://a:2380,a-1=http://b:2380", "", `"initial-cluster" is missing`},
		"a member without URL":                {"a-1=http://b:2380", "a-1", `"a-1" is not a member and its peer URL`},
		"a member without port":               {"a-1=http://b:2380", "a-1=http://b", "does not name a host and a port"},
		"a member with a strange port":        {"a-1=http://b:2380", "a-1=http://b:http", "URL"},
		"a member with a path":                {"a-1=http://b:2380", "a-1=http://b:2380/x", "more than a host and a port"},
		"a member with a password":            {"a-1=http://b:2380", "a-1=http://u:secret@b:2380", "holds a user name"},
		"a member with another scheme":        {"a-1=http://b:2380", "a-1=ftp://b:2380", "does not begin with http"},
		"two members at one URL":              {"a-1=http://b:2380", "a-1=http://a:2380", "the same peer URL http://a:2380"},
		"a member no client reaches":          {", a-1: http://b:2379", "", `"advertise-client-urls" has no URL for member a-1`},
		"client URLs of nobody in particular": {"{a-0: http://a:2379, a-1: http://b:2379}", "http://a:2379", "does not say whose URLs these are"},
		"peer URLs that disagree":             {"data-dir: /d", "data-dir: /d\ninitial-advertise-peer-urls: {a-1: https://b:2380}", "which is not among its"},
		"an empty list of URLs":               {"a-1: http://b:2379", "a-1: []", "empty"},
		"a listener that is not a URL":        {"data-dir: /d", "data-dir: /d\nlisten-peer-urls: 0.0.0.0:2380", `"listen-peer-urls": URL`},
		"a quota below nothing":               {"data-dir: /d", "data-dir: /d\nquota-backend-bytes: -1", `"quota-backend-bytes" is -1`},
		"a quota that is a text":              {"data-dir: /d", "data-dir: /d\nquota-backend-bytes: 8Gi", `"quota-backend-bytes" is 8Gi, and must be a whole number`},
		"a feature gate without value":        {"data-dir: /d", "data-dir: /d\nfeature-gates: CompactHashCheck", `"feature-gates"`},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(base, c.from, c.to, 1)
			if text == base {
				t.Fatalf("%q is not in the file", c.from)
			}
			_, err := Parse([]byte(text))
			if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("%v, want an error with %q", err, c.want)
			}
			if strings.ContainsAny(err.Error(), "\n") || strings.Contains(err.Error(), "secret") {
				t.Errorf("the error has several lines or tells a password: %q", err)
			}
		})
	}
}

func TestAMissingOrHugeFileIsNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "etcd.conf.yaml")
	if _, err := Load(path); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), path) {
		t.Errorf("of a missing file: %v", err)
	}
	if err := os.WriteFile(path, bytes.Repeat([]byte("#\n"), MaxBytes), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), path) {
		t.Errorf("of a huge file: %v", err)
	}
}

func TestOneMemberNeedsNoMaps(t *testing.T) {
	tm, err := Parse([]byte("data-dir: /d\ninitial-cluster: etcd=http://a:2380\ninitial-advertise-peer-urls: http://a:2380\nadvertise-client-urls: ['http://a:2379', 'http://b:2379']\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := []Peer{{"etcd", []string{"http://a:2380"}, []string{"http://a:2379", "http://b:2379"}}}
	if diff := cmp.Diff(want, tm.Wanted()); diff != "" {
		t.Errorf("wanted members (-want +got):\n%s", diff)
	}
}

func FuzzParse(f *testing.F) {
	for _, name := range []string{"one.yaml", "three.yaml"} {
		b, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte("data-dir: /d\ninitial-cluster: a=http://a:1\nadvertise-client-urls: http://a:2"))
	f.Fuzz(func(t *testing.T, b []byte) {
		tm, err := Parse(b)
		if err != nil {
			if !errors.Is(err, ErrInvalid) {
				t.Fatalf("unclassified error %v", err)
			}
			return
		}
		for _, p := range tm.Wanted() {
			first, err := tm.For(p.Name, Start{State: StateNew, Initial: tm.Wanted()})
			if err != nil {
				t.Fatalf("what was read cannot be written: %v", err)
			}
			if len(tm.Wanted()) > 1 {
				continue
			}
			// What one member is given can be read again and says the same.
			again, err := Parse(first)
			if err != nil {
				t.Fatalf("%v in\n%s", err, first)
			}
			if again.Bootstrap() != tm.Bootstrap() || again.DataDir() != tm.DataDir() || again.QuotaBytes() != tm.QuotaBytes() {
				t.Fatalf("read again it says something else:\n%s", first)
			}
			second, err := again.For(p.Name, Start{State: StateNew, Initial: again.Wanted()})
			if err != nil || !bytes.Equal(first, second) {
				t.Fatalf("written again it differs (%v):\n%s\n%s", err, first, second)
			}
		}
	})
}

// What etcd ends at, the template refuses with a sentence, and nothing else.
func TestValuesAreOfTheKindThatEtcdReads(t *testing.T) {
	const rest = "data-dir: /d\ninitial-cluster: a=http://a:2380\nadvertise-client-urls: {a: http://a:2379}\n"
	for _, key := range known {
		if knownIn[key] != nil || slices.Contains([]string{"initial-cluster", "advertise-client-urls", "data-dir", "log-outputs", "cipher-suites", "cors", "host-whitelist"}, key) {
			continue
		}
		for _, value := range []string{"1s", "true", "7", "1.5"} {
			etcds := yaml.Unmarshal([]byte(key+": "+value+"\n"), &embed.Config{})
			unreadable := etcds != nil && strings.Contains(etcds.Error(), "cannot unmarshal")
			text := !slices.Contains(switches, key) && !slices.Contains(numbers, key) && !slices.Contains(times, key)
			_, err := Parse([]byte(rest + key + ": " + value + "\n"))
			told := err != nil && strings.Contains(err.Error(), " must be a whole number") || err != nil && strings.Contains(err.Error(), "must be true or false")
			if unreadable && !text && !told {
				t.Errorf("%s: %s: %v; etcd says %v", key, value, err, etcds)
			}
			if told && !unreadable {
				t.Errorf("%s: %s is refused (%v), and etcd reads it", key, value, err)
			}
			if unreadable && text && value == "1s" {
				t.Errorf("%s is not text for etcd: %v", key, etcds)
			}
		}
	}
}
