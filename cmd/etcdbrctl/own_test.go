package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// owners are who the files below a directory belong to, by their paths in it.
func owners(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		user, group, known := ownerOf(info)
		if !known {
			t.Fatal("files here have no owners")
		}
		name, _ := filepath.Rel(dir, path)
		all[name] = strconv.Itoa(user) + ":" + strconv.Itoa(group)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestADirectoryIsGivenToAUserWithAllThatIsInIt(t *testing.T) {
	// Only root may give files away; anybody may give them to himself.
	user, group := os.Getuid(), os.Getgid()
	if user == 0 {
		user, group = 65532, 65533
	}
	parent := t.TempDir()
	dir, outside := filepath.Join(parent, "store"), filepath.Join(parent, "outside")
	for _, d := range []string{filepath.Join(dir, "v2", "deep"), outside} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{filepath.Join(dir, "v2", "Full-1"), filepath.Join(outside, "secret")} {
		if err := os.WriteFile(f, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"out": outside, "secret": filepath.Join(outside, "secret"), "gone": "nowhere"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	before := owners(t, outside)
	give := []string{"own", "--user=" + strconv.Itoa(user), "--group=" + strconv.Itoa(group), dir}
	if code, _, stderr := etcdbrctl(t, give...); code != exitOK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	want := strconv.Itoa(user) + ":" + strconv.Itoa(group)
	all := owners(t, dir)
	if len(all) != 7 {
		t.Errorf("%d files, want 7: %v", len(all), all)
	}
	for name, got := range all {
		if got != want {
			t.Errorf("%s belongs to %s, want %s", name, got, want)
		}
	}
	for name, got := range owners(t, outside) {
		if got != before[name] {
			t.Errorf("%s, which a link points to, belongs to %s, and to %s before", name, got, before[name])
		}
	}
	if code, _, stderr := etcdbrctl(t, give...); code != exitOK || !strings.Contains(stderr, "changed=0") {
		t.Errorf("the second time: exit code %d, %s", code, stderr)
	}
}

func TestOnlyADirectoryIsGivenAndToSomebody(t *testing.T) {
	dir := t.TempDir()
	for phrase, c := range map[string]struct {
		args []string
		want string
	}{
		"no directory":          {[]string{"--user=1", "--group=1"}, "exactly one directory"},
		"two directories":       {[]string{"--user=1", "--group=1", dir, dir}, "exactly one directory"},
		"no user":               {[]string{"--group=1", dir}, "--user and --group"},
		"no group":              {[]string{"--user=1", dir}, "--user and --group"},
		"a name":                {[]string{"--user=nobody", "--group=1", dir}, "--user"},
		"the root":              {[]string{"--user=1", "--group=1", "/tmp/.."}, "root of the file system"},
		"one that is not there": {[]string{"--user=1", "--group=1", filepath.Join(dir, "none")}, "no such file"},
	} {
		code, _, stderr := etcdbrctl(t, append([]string{"own"}, c.args...)...)
		if code == exitOK || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: exit code %d, %s, want %q", phrase, code, stderr, c.want)
		}
	}
}
