package auth

import (
	"bytes"
	"crypto/x509"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"druid.internal/druid/internal/agentapi/auth/authtest"
)

const (
	tokenA = "AAAAAAAAAAAAAAAAAAAAAAAA"
	tokenB = "BBBBBBBBBBBBBBBBBBBBBBBB"
)

func TestAChangeIsSeenEvenIfSizeAndTimeStayTheSame(t *testing.T) {
	path := authtest.Write(t, filepath.Join(t.TempDir(), "token"), []byte(tokenA))
	f, err := NewTokenFile(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	// In place, with the times of before.
	if err := os.WriteFile(path, []byte(tokenB), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	got, err := f.Current()
	if err != nil || got.Accept(tokenA) || !got.Accept(tokenB) {
		t.Errorf("after the change: first token accepted %t, second %t, error %v", got.Accept(tokenA), got.Accept(tokenB), err)
	}
}

func TestAMountedSecretIsExchangedThroughItsLink(t *testing.T) {
	dir := t.TempDir()
	for name, token := range map[string]string{"1": tokenA, "2": tokenB} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		authtest.Write(t, filepath.Join(dir, name, "token"), []byte(token))
	}
	link := func(to string) {
		if err := os.Symlink(to, filepath.Join(dir, "next")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "next"), filepath.Join(dir, "data")); err != nil {
			t.Fatal(err)
		}
	}
	link("1")
	f, err := NewTokenFile(filepath.Join(dir, "data", "token"), nil)
	if err != nil {
		t.Fatal(err)
	}
	link("2")
	if got, err := f.Current(); err != nil || !got.Accept(tokenB) {
		t.Errorf("the token behind the new link is not accepted: %v", err)
	}
}

func TestATokenThatIsNoLongerInTheFileIsNotAccepted(t *testing.T) {
	for name, change := range map[string]func(path string) error{
		"the file is gone":  os.Remove,
		"the file is empty": func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"the file is unfit": func(path string) error { return os.WriteFile(path, []byte(tokenA+"\nshort\n"), 0o600) },
	} {
		path := authtest.Write(t, filepath.Join(t.TempDir(), "token"), []byte(tokenA))
		f, err := NewTokenFile(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := change(path); err != nil {
			t.Fatal(err)
		}
		got, err := f.Current()
		if err == nil || got.Accept(tokenA) || strings.Contains(err.Error(), tokenA) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: accepted %t, error %v", name, got.Accept(tokenA), err)
		}
		authtest.Write(t, path, []byte(tokenB))
		if got, err := f.Current(); err != nil || !got.Accept(tokenB) {
			t.Errorf("%s, and then comes back: %v", name, err)
		}
	}
}

func TestAHalfDoneExchangeOfACertificateLeavesTheFormerInUse(t *testing.T) {
	dir, ca := t.TempDir(), authtest.NewCA(t, "ours")
	certFile, keyFile := ca.Files(t, dir, "server", authtest.Leaf{Hosts: []string{"127.0.0.1"}})
	var log bytes.Buffer
	k, err := NewKeyPair(certFile, keyFile, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	former := k.Current()
	cert, key := ca.Issue(t, authtest.Leaf{Hosts: []string{"127.0.0.1"}})
	authtest.Write(t, certFile, cert)
	for range 3 {
		if k.Current() != former {
			t.Fatal("a certificate is in use whose key is not there yet")
		}
	}
	if got := strings.Count(log.String(), "cannot be used"); got != 1 {
		t.Errorf("told %d times that the files do not fit, want once:\n%s", got, &log)
	}
	authtest.Write(t, keyFile, key)
	if got := k.Current(); bytes.Equal(got.Certificate[0], former.Certificate[0]) {
		t.Error("the new certificate is not in use although its key is there")
	}
	if got := strings.Count(log.String(), "are in use"); got != 1 {
		t.Errorf("told %d times that the files changed, want once:\n%s", got, &log)
	}
	if strings.Contains(log.String(), "PRIVATE") {
		t.Error("the log shows a key")
	}
}

func TestAMissingFileIsToldOnce(t *testing.T) {
	path := authtest.Write(t, filepath.Join(t.TempDir(), "token"), []byte(tokenA))
	var log bytes.Buffer
	f, err := NewTokenFile(path, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := f.Current(); err == nil {
			t.Error("no error although the file is gone")
		}
	}
	if got := strings.Count(log.String(), "cannot be used"); got != 1 {
		t.Errorf("told %d times, want once:\n%s", got, &log)
	}
}

func TestABrokenBundleOfAuthoritiesLeavesTheFormerInUse(t *testing.T) {
	one, two := authtest.NewCA(t, "one"), authtest.NewCA(t, "two")
	path := authtest.Write(t, filepath.Join(t.TempDir(), "ca.crt"), one.PEM)
	a, err := NewAuthorities(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	trusts := func(ca *authtest.CA) bool {
		cert, key := ca.Issue(t, authtest.Leaf{})
		return a.VerifyClient(certificates(t, cert, key), time.Now()) == nil
	}
	for _, step := range []struct {
		content          []byte
		wantOne, wantTwo bool
	}{
		{one.PEM, true, false},
		{[]byte("half a bun"), true, false},
		{append(bytes.Clone(one.PEM), two.PEM...), true, true},
		{nil, true, true},
		{two.PEM, false, true},
	} {
		authtest.Write(t, path, step.content)
		if gotOne, gotTwo := trusts(one), trusts(two); gotOne != step.wantOne || gotTwo != step.wantTwo {
			t.Errorf("with %.20q: the first is trusted: %t, the second: %t; want %t, %t", step.content, gotOne, gotTwo, step.wantOne, step.wantTwo)
		}
	}
}

func TestFilesThatCannotBeUsedAtTheStartAreNamed(t *testing.T) {
	dir, ca := t.TempDir(), authtest.NewCA(t, "ours")
	certFile, _ := ca.Files(t, dir, "a", authtest.Leaf{})
	_, otherKey := ca.Files(t, dir, "b", authtest.Leaf{})
	empty := authtest.Write(t, filepath.Join(dir, "empty"), nil)
	large := authtest.Write(t, filepath.Join(dir, "large"), make([]byte, maxFile+1))
	missing := filepath.Join(dir, "missing")
	pair := func(cert, key string) error { _, err := NewKeyPair(cert, key, nil); return err }
	bundle := func(path string) error { _, err := NewAuthorities(path, nil); return err }
	tokens := func(path string) error { _, err := NewTokenFile(path, nil); return err }
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"a certificate without a key":      {pair(certFile, ""), "belong together"},
		"a key without a certificate":      {pair("", otherKey), "belong together"},
		"a key of another certificate":     {pair(certFile, otherKey), certFile + " with the key " + otherKey},
		"a missing certificate":            {pair(missing, otherKey), missing},
		"a bundle without certificates":    {bundle(empty), empty + " holds no certificate"},
		"a missing bundle":                 {bundle(missing), missing},
		"a bundle larger than any":         {bundle(large), large + " is larger than"},
		"a token file without a token":     {tokens(empty), empty + ": no token"},
		"a missing token file":             {tokens(missing), missing},
		"a token file that is a directory": {tokens(dir), dir},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) || strings.Contains(c.err.Error(), "\n") {
			t.Errorf("%s: %v, want one line with %q", name, c.err, c.want)
		}
	}
}

// certificates are what a connection shows of a certificate in PEM form.
func certificates(t *testing.T, cert, key []byte) []*x509.Certificate {
	t.Helper()
	dir := t.TempDir()
	k, err := NewKeyPair(authtest.Write(t, filepath.Join(dir, "c"), cert), authtest.Write(t, filepath.Join(dir, "k"), key), nil)
	if err != nil {
		t.Fatal(err)
	}
	return []*x509.Certificate{k.Current().Leaf}
}
