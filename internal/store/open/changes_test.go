package open

import (
	"os"
	"path/filepath"
	"testing"
)

// Keys are read again by those who use them; what else is in a Secret only when a store is opened.
func TestAChangedFileOfASecretIsNoticedOnce(t *testing.T) {
	for variable, path := range map[string]func(dir string) string{
		"AWS_APPLICATION_CREDENTIALS":      func(dir string) string { return dir },
		"AZURE_APPLICATION_CREDENTIALS":    func(dir string) string { return dir },
		"ALICLOUD_APPLICATION_CREDENTIALS": func(dir string) string { return dir },
		"GOOGLE_APPLICATION_CREDENTIALS":   func(dir string) string { return filepath.Join(dir, "serviceaccount.json") },
	} {
		dir := t.TempDir()
		write := func(name, content string) {
			t.Helper()
			next := filepath.Join(dir, "next")
			if err := os.WriteFile(next, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(next, filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		write("serviceaccount.json", "{}")
		endpoint := "endpoint"
		if variable == googleVariable {
			endpoint = fileGoogleEndpoint
		}
		write(endpoint, "https://one")
		changed := FromEnvironment(func(name string) string {
			if name == variable {
				return path(dir)
			}
			return ""
		}, "").Changes()
		for _, step := range []struct {
			what   string
			change func()
			want   bool
		}{
			{"nothing", func() {}, false},
			{"another content", func() { write(endpoint, "https://two") }, true},
			{"nothing since", func() {}, false},
			{"a directory", func() { _ = os.Mkdir(filepath.Join(dir, "data"), 0o700) }, variable != googleVariable},
			{"something in it", func() { _ = os.WriteFile(filepath.Join(dir, "data", "a"), nil, 0o600) }, false},
			{"one more", func() { write("trustedCaCert", "pem") }, true},
			{"one less", func() { _ = os.Remove(filepath.Join(dir, "trustedCaCert")) }, true},
			{"what nobody reads", func() { write("scratch", "x") }, variable != googleVariable},
			{"all are gone", func() { _ = os.RemoveAll(dir) }, true},
			{"they are still gone", func() {}, false},
		} {
			if step.change(); changed() != step.want {
				t.Errorf("%s, %s: want that it is noticed: %t", variable, step.what, step.want)
			}
		}
	}
}
