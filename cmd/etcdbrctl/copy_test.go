package main

import (
	"strings"
	"testing"
)

func TestACopyOfAPrefixWithoutABackupIsNoSuccess(t *testing.T) {
	source, target := t.TempDir(), t.TempDir()
	args := []string{"copy", "--source-storage-provider=Local", "--source-store-container=" + source, "--source-store-prefix=typo",
		"--storage-provider=Local", "--store-container=" + target, "--store-prefix=typo"}
	for title, more := range map[string][]string{
		"copied":                        nil,
		"planned only":                  {"--dry-run"},
		"no final full came, and still": {"--wait-for-final-snapshot", "--wait-for-final-snapshot-timeout=1ns"},
	} {
		code, stdout, stderr := etcdbrctl(t, append(args, more...)...)
		if code != exitDamaged || stdout != "" {
			t.Errorf("%s: exit code %d, want %d: %s%s", title, code, exitDamaged, stdout, stderr)
		}
		for _, want := range []string{"no snapshots", source, "typo", "check the container and the prefix"} {
			if !strings.Contains(stderr, want) {
				t.Errorf("%s: %q, want %q in it", title, stderr, want)
			}
		}
	}
}
