package wrapper

import (
	"strings"
	"testing"

	"druid.internal/druid/internal/wrapper/wrappertest"
)

func someConfig(further ...string) string {
	m := wrappertest.Member{Name: "etcd-main-0", Host: "127.0.0.1", Dir: "/var/etcd/data"}
	return m.Config([]wrappertest.Member{m}, further...)
}

func TestWhatIsNoConfigurationOfAMemberIsNotGivenToEtcd(t *testing.T) {
	good := someConfig()
	if err := checkConfig([]byte(good)); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ content, want string }{
		"nothing":                  {"", "no name"},
		"a page of a proxy":        {"<html><body>\n<h1>502: Bad Gateway</h1></body></html>", "not YAML"},
		"a list":                   {"[1, 2]", "not YAML"},
		"no data directory":        {without(good, "data-dir"), "no data-dir"},
		"no cluster":               {without(good, "initial-cluster"), "no initial-cluster"},
		"no state":                 {without(good, "initial-cluster-state"), "no initial-cluster-state"},
		"a relative directory":     {strings.Replace(good, "/var/etcd/data/new.etcd", "new.etcd", 1), "not an absolute path"},
		"a member of another name": {strings.Replace(good, "name: etcd-main-0", "name: etcd-main-1", 1), "no member"},
		"a bad URL":                {strings.Replace(good, "listen-peer-urls: http://127.0.0.1:2380", "listen-peer-urls: 127.0.0.1", 1), "listen-peer-urls"},
		"a bad URL of metrics":     {good + "listen-metrics-urls: nowhere\n", "listen-metrics-urls"},
		"a bad cluster":            {strings.Replace(good, "initial-cluster: etcd-main-0=http://127.0.0.1:2380", "initial-cluster: etcd-main-0=here", 1), "initial-cluster"},
		"maps of all members":      {strings.Replace(good, "advertise-client-urls: http://127.0.0.1:2379", "advertise-client-urls: {a: [b]}", 1), "no advertise-client-urls"},
	} {
		t.Run(name, func(t *testing.T) {
			err := checkConfig([]byte(c.content))
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v, want one line with %q", err, c.want)
			}
		})
	}
}

// without leaves a key out.
func without(config, key string) string {
	var kept []string
	for _, line := range strings.Split(config, "\n") {
		if !strings.HasPrefix(line, key+":") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "\n")
}

func FuzzCheckConfig(f *testing.F) {
	f.Add([]byte(someConfig()))
	f.Add([]byte(someConfig("listen-metrics-urls: http://127.0.0.1:1")))
	f.Add([]byte("a: [b"))
	f.Fuzz(func(t *testing.T, content []byte) {
		err := checkConfig(content)
		if err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("more than one line: %q", err)
		}
	})
}
