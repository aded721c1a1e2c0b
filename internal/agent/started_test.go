package agent

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"druid.internal/druid/internal/agentapi/auth/authtest"
)

func TestWhatEtcdWasStartedWithIsRemembered(t *testing.T) {
	f := startedFile(filepath.Join(t.TempDir(), "started.json"))
	if got := f.read(); got.PeerURLs != nil {
		t.Errorf("before any start: %q", got.PeerURLs)
	}
	dir := t.TempDir()
	client := authtest.Write(t, filepath.Join(dir, "client"), authtest.NewCA(t, "clients").PEM)
	peer := authtest.Write(t, filepath.Join(dir, "peer"), authtest.NewCA(t, "peers").PEM)
	config := fmt.Appendf(nil, "name: etcd-main-0\ninitial-advertise-peer-urls: https://a:2380,https://b:2380\n"+
		"client-transport-security: {trusted-ca-file: %s, client-cert-auth: true}\npeer-transport-security: {trusted-ca-file: %s}\n", client, peer)
	want := started{PeerURLs: []string{"https://a:2380", "https://b:2380"}, AuthorityFiles: []string{client, peer}, Authorities: digest([]string{client, peer})}
	got, err := startedWith(config)
	if diff := cmp.Diff(want, got); diff != "" || err != nil || len(got.Authorities) != 64 {
		t.Fatalf("%v (-want +got):\n%s", err, diff)
	}
	if err := f.write(want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, f.read()); diff != "" {
		t.Errorf("remembered (-want +got):\n%s", diff)
	}
	for name, c := range map[string]struct {
		content string
		want    started
	}{
		"of a cut file":        {"{cut", started{}},
		"of a file as it was":  {`{"peerURLs":["http://a:2380"]}`, started{PeerURLs: []string{"http://a:2380"}}},
		"of an etcd without":   {`{"peerURLs":["http://a:2380"],"authorities":""}`, started{PeerURLs: []string{"http://a:2380"}}},
		"of a file from later": {`{"peerURLs":["http://a:2380"],"more":1}`, started{PeerURLs: []string{"http://a:2380"}}},
	} {
		if err := os.WriteFile(string(f), []byte(c.content), 0o600); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, f.read()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestAnEtcdWithoutTLSHasNoAuthorities(t *testing.T) {
	for _, more := range []string{"", "client-transport-security: {auto-tls: true}\n", "peer-transport-security: {}\n"} {
		got, err := startedWith([]byte("initial-advertise-peer-urls: http://a:2380\n" + more))
		if diff := cmp.Diff(started{PeerURLs: []string{"http://a:2380"}}, got); diff != "" || err != nil {
			t.Errorf("with %q: %v (-want +got):\n%s", more, err, diff)
		}
	}
}

func TestTheDigestTellsAuthoritiesApartThatEtcdCouldWorkWith(t *testing.T) {
	dir := t.TempDir()
	a, b := authtest.NewCA(t, "a").PEM, authtest.NewCA(t, "b").PEM
	one, two := filepath.Join(dir, "one"), filepath.Join(dir, "two")
	seen := map[string]string{}
	for name, c := range map[string][2][]byte{
		"the old ones":         {a, a},
		"clients have both":    {bytes.Join([][]byte{a, b}, nil), a},
		"peers have both":      {a, bytes.Join([][]byte{a, b}, nil)},
		"the other way around": {bytes.Join([][]byte{b, a}, nil), a},
		"the same in a row":    {a, bytes.Join([][]byte{b, a}, nil)},
		"clients the new ones": {b, a},
		"peers the new ones":   {a, b},
		"the new ones":         {b, b},
	} {
		authtest.Write(t, one, c[0])
		authtest.Write(t, two, c[1])
		d := digest([]string{one, two})
		if other, same := seen[d]; same || d == "" {
			t.Errorf("%s: the digest is %q, as of %q", name, d, other)
		}
		seen[d] = name
		if again := digest([]string{one, two}); again != d {
			t.Errorf("%s: another digest of the same", name)
		}
	}
	for name, content := range map[string][]byte{
		"an empty file":         nil,
		"half a bundle":         a[:len(a)/2],
		"no bundle":             []byte("to be filled in"),
		"one that etcd refuses": bytes.Join([][]byte{a, []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")}, nil),
	} {
		authtest.Write(t, two, content)
		if d := digest([]string{one, two}); d != "" {
			t.Errorf("%s: the digest is %q, want none", name, d)
		}
	}
	if d := digest([]string{one, filepath.Join(dir, "three")}); d != "" {
		t.Errorf("a missing file: the digest is %q, want none", d)
	}
}
