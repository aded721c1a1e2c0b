package agent

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestWhatEtcdWasStartedWithIsRemembered(t *testing.T) {
	f := startedFile(filepath.Join(t.TempDir(), "started.json"))
	if urls := f.read(); urls != nil {
		t.Errorf("before any start: %q", urls)
	}
	config := []byte("name: etcd-main-0\ninitial-advertise-peer-urls: https://a:2380,https://b:2380\n")
	want, err := advertised(config)
	if err != nil || !slices.Equal(want, []string{"https://a:2380", "https://b:2380"}) {
		t.Fatalf("%q, %v", want, err)
	}
	if err := f.write(want); err != nil {
		t.Fatal(err)
	}
	if got := f.read(); !slices.Equal(got, want) {
		t.Errorf("remembered %q, want %q", got, want)
	}
	if err := os.WriteFile(string(f), []byte("{cut"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := f.read(); got != nil {
		t.Errorf("of a cut file: %q", got)
	}
}
