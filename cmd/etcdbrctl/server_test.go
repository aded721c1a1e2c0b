package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWhatASidecarCannotBeginWithIsAMistakeOfTheCaller(t *testing.T) {
	const good = `
data-dir: /nowhere/new.etcd
initial-cluster: m-0=http://127.0.0.1:1
initial-advertise-peer-urls: {m-0: [http://127.0.0.1:1]}
advertise-client-urls: {m-0: [http://127.0.0.1:2]}
listen-peer-urls: http://127.0.0.1:1
listen-client-urls: http://127.0.0.1:2
`
	for name, c := range map[string]struct {
		member, file, tokens string
		want                 string
	}{
		"no file of etcd":         {"m-0", "", "secret", "none"},
		"no YAML":                 {"m-0", "data-dir: [", "secret", "line 1"},
		"an unknown key of etcd":  {"m-0", good + "data-dri: /x\n", "secret", "data-dri"},
		"another member's name":   {"m-1", good, "secret", "does not name member m-1"},
		"an empty file of tokens": {"m-0", good, "\n", "token"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "none")
			if c.file != "" {
				path = write(t, dir, "etcd.conf.yaml", c.file)
			}
			env := map[string]string{memberVariable: c.member, templateVariable: path}
			var stderr bytes.Buffer
			code := run(t.Context(), []string{"server", "--token-file=" + write(t, dir, "token", c.tokens)},
				system{out: new(bytes.Buffer), err: &stderr, getenv: func(k string) string { return env[k] }})
			lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
			if last := lines[len(lines)-1]; code != exitUsage || !strings.HasPrefix(last, "Error: ") || !strings.Contains(last, c.want) {
				t.Errorf("exit code %d, want %d; %q, want %q in it", code, exitUsage, last, c.want)
			}
		})
	}
}

func write(t *testing.T, dir, name, content string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
