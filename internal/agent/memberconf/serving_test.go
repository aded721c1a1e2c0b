package memberconf

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// A pod has the certificates, and its sidecar the endpoints, with which it was made: etcd is restarted in it with no others.
func TestClientsAreServedAsBeforeUntilThePodIsMadeAnew(t *testing.T) {
	const former = `
data-dir: /data
initial-cluster: m-0=https://m-0:2380,m-1=https://m-1:2380
listen-peer-urls: https://0.0.0.0:2380
listen-client-urls: https://0.0.0.0:2379
initial-advertise-peer-urls: {m-0: [https://m-0:2380], m-1: [https://m-1:2380]}
advertise-client-urls: {m-0: [https://m-0:2379], m-1: [https://m-1:2379]}
client-transport-security: {cert-file: /tls.crt, key-file: /tls.key}
quota-backend-bytes: 1000000000
`
	first, err := Parse([]byte(former))
	if err != nil {
		t.Fatal(err)
	}
	plain := strings.NewReplacer("https:", "http:", ":2379", ":2479", "client-transport-security: {cert-file: /tls.crt, key-file: /tls.key}\n", "", "1000000000", "2000000000").Replace(former)
	for phrase, c := range map[string]struct{ was, is *Template }{
		"TLS goes":  {first, parsed(t, plain)},
		"TLS comes": {parsed(t, plain), first},
	} {
		out := c.is.ServingAs(c.was, "m-1")
		var got, want map[string]any
		for into, tm := range map[*map[string]any]*Template{&got: out, &want: c.was} {
			b, err := tm.For("m-1", Start{State: StateNew, Initial: tm.Wanted()})
			if err != nil {
				t.Fatal(err)
			}
			if err := yaml.Unmarshal(b, into); err != nil {
				t.Fatal(err)
			}
		}
		for _, key := range []string{"listen-client-urls", "advertise-client-urls", "client-transport-security"} {
			if a, b := got[key], want[key]; !same(a, b) {
				t.Errorf("%s: %s is %v, want %v", phrase, key, a, b)
			}
		}
		if same(got["listen-peer-urls"], want["listen-peer-urls"]) || same(got["quota-backend-bytes"], want["quota-backend-bytes"]) {
			t.Errorf("%s: what is not of clients stayed: %v", phrase, got)
		}
		if other, _ := out.Peer("m-0"); same(other.ClientURLs, c.was.wanted[0].ClientURLs) {
			t.Errorf("%s: the others are asked as before: %v", phrase, other.ClientURLs)
		}
		if _, is := c.is.values["client-transport-security"]; is != (phrase == "TLS comes") {
			t.Errorf("%s: the file itself was changed", phrase)
		}
	}
}

func same(a, b any) bool {
	x, _ := yaml.Marshal(a)
	y, _ := yaml.Marshal(b)
	return string(x) == string(y)
}

func parsed(t *testing.T, text string) *Template {
	t.Helper()
	tm, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return tm
}
