package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"druid.internal/druid/internal/etcd/datadir"
)

// TestBadInputIsOneLineThatSaysWhatAndTheRemedy runs what people mistype.
func TestBadInputIsOneLineThatSaysWhatAndTheRemedy(t *testing.T) {
	empty := t.TempDir()
	local := []string{"--storage-provider=Local", "--store-container=" + empty}
	with := func(verb string, more ...string) []string { return append(append([]string{verb}, local...), more...) }
	for name, c := range map[string]struct {
		args []string
		code int
		want []string // parts of the message
	}{
		"no verb":                           {nil, exitUsage, []string{"no command", "--help"}},
		"a verb that does not exist":        {[]string{"backup"}, exitUsage, []string{`"backup"`}},
		"an unknown flag":                   {[]string{"restore", "--foo"}, exitUsage, []string{"--foo", "restore --help"}},
		"a flag without its value":          {[]string{"restore", "--data-dir"}, exitUsage, []string{"--data-dir"}},
		"a positional argument":             {[]string{"restore", "everything"}, exitUsage, []string{`"everything"`, "only flags"}},
		"no provider":                       {[]string{"list"}, exitUsage, []string{"--storage-provider", "Local"}},
		"a provider that is not":            {[]string{"list", "--storage-provider=FTP"}, exitUsage, []string{"FTP", "S3"}},
		"a provider of a later build":       {[]string{"list", "--storage-provider=OSS", "--store-container=b"}, exitUsage, []string{"OSS"}},
		"a container that is not there":     {[]string{"list", "--storage-provider=Local", "--store-container=" + empty + "/nowhere"}, exitUnreachable, []string{"nowhere"}},
		"two targets":                       {with("restore", "--to-revision=5", "--to-time=2026-01-01T00:00:00Z"), exitUsage, []string{"only one"}},
		"a time without a zone":             {with("restore", "--to-time=2026-01-01T00:00:00"), exitUsage, []string{"--to-time", "2026-11-20T10:00:00Z"}},
		"the time of an unset variable":     {with("restore", "--to-time="), exitUsage, []string{"--to-time"}},
		"the snapshot of an unset variable": {with("restore", "--snapshot="), exitUsage, []string{"--snapshot"}},
		"revision 0":                        {with("restore", "--to-revision=0"), exitUsage, []string{"--to-revision"}},
		"the revision of an unset variable": {with("restore", "--to-revision="), exitUsage, []string{"--to-revision"}},
		"a loss down to revision 0":         {with("compact", "--accept-loss-to=0"), exitUsage, []string{"--accept-loss-to"}},
		"the lineage of an unset variable":  {with("verify", "--lineage="), exitUsage, []string{"--lineage", "unnamed"}},
		"an endpoint of an unset variable":  {with("snapshot", "--endpoints=http://127.0.0.1:1,"), exitUsage, []string{"--endpoints"}},
		"an empty name to exclude":          {with("exclude", ""), exitUsage, []string{"list"}},
		"a time that is none":               {with("restore", "--to-time=yesterday"), exitUsage, []string{"yesterday", "2026-"}},
		"a snapshot name that is none":      {with("restore", "--snapshot=latest"), exitUsage, []string{"--snapshot", "latest"}},
		"a negative revision":               {with("restore", "--to-revision=-1"), exitUsage, []string{"--to-revision"}},
		"a bump that is none":               {with("restore", "--bump-revision=lots"), exitUsage, []string{"--bump-revision", "auto"}},
		"an unmarked bump":                  {with("restore", "--bump-revision=auto", "--mark-compacted=false"), exitUsage, []string{"--mark-compacted=false"}},
		"a known revision for nothing":      {with("restore", "--last-known-revision=5"), exitUsage, []string{"--bump-revision=auto"}},
		"a limit without its policy":        {with("collect", "--max-backups=1"), exitUsage, []string{"LimitBased", "--keep-last"}},
		"a size that is none":               {with("restore", "--memory-limit=much"), exitUsage, []string{"--memory-limit", "128Mi"}},
		"members without a lineage":         {with("restore", "--initial-cluster=a=http://x:1,b=http://y:1", "--name=a"), exitUsage, []string{"--new-lineage", "--initial-cluster-token"}},
		"a name that is no member":          {with("restore", "--name=x"), exitUsage, []string{`no member "x"`}},
		"other peer URLs":                   {with("restore", "--initial-advertise-peer-urls=https://x:1"), exitUsage, []string{"https://x:1", "localhost:2380"}},
		"a cluster without URLs":            {with("restore", "--initial-cluster=default"), exitUsage, []string{"initial cluster"}},
		"several URLs are one member":       {with("restore", "--initial-cluster=default=http://[::1]:1,default=http://127.0.0.1:2", "--initial-advertise-peer-urls=http://127.0.0.1:2,http://[::1]:1", "--data-dir="+filepath.Join(empty, "d")), exitDamaged, []string{"no way"}},
		"a bump beyond all revisions":       {with("restore", "--bump-revision=9223372036854775807"), exitUsage, []string{"too few revisions"}},
		"an empty bucket":                   {with("restore", "--data-dir="+filepath.Join(empty, "d")), exitDamaged, []string{"no"}},
		"a policy that is none":             {with("collect", "--garbage-collection-policy=Random"), exitUsage, []string{"--garbage-collection-policy", "LimitBased"}},
		"copies since a time that is none":  {with("collect", "--copies-from-timestamp=yesterday"), exitUsage, []string{"--copies-from-timestamp", "yesterday"}},
		"copies by a policy":                {with("collect", "--copies-from-timestamp=2026-01-01T00:00:00Z", "--keep-last=1"), exitUsage, []string{"--copies-from-timestamp", "or a policy"}},
		"a prefix of nobody":                {with("collect", "--owner=k8s/shop/main/1"), exitRefused, []string{"nobody has claimed it", "k8s/shop/main/1"}},
		"a bucket without a verb":           {[]string{"bucket"}, exitUsage, []string{"ensure", "inspect", "lock", "delete"}},
		"a bucket of no provider":           {[]string{"bucket", "ensure"}, exitUsage, []string{"--storage-provider", "Local"}},
		"a bucket's default of a directory": {with("bucket", "ensure", "--retention-period=24h", "--retention-mode=compliance"), exitUsage, []string{"retention type object", empty}},
		"a bucket in a missing directory":   {[]string{"bucket", "ensure", "--storage-provider=Local", "--store-container=" + empty + "/a/b"}, exitRefused, []string{"does not exist", empty + "/a/b"}},
		"retention on Swift":                {[]string{"bucket", "ensure", "--storage-provider=Swift", "--store-container=b", "--retention-period=96h"}, exitUsage, []string{"b: Swift has no immutability"}},
		"a period that is no whole days":    {[]string{"bucket", "ensure", "--storage-provider=S3", "--store-container=b", "--retention-period=36h", "--retention-mode=compliance"}, exitUsage, []string{"36h", "ask for 1 day or 2 days"}},
		"a period below Google's minimum":   {[]string{"bucket", "ensure", "--storage-provider=GCS", "--store-container=b", "--retention-period=1h", "--retention-mode=governance"}, exitUsage, []string{"23h0m0s less than the shortest"}},
		"a period that Azure cannot count":  {[]string{"bucket", "ensure", "--storage-provider=ABS", "--store-container=b", "--retention-period=25h", "--retention-mode=governance", "--dry-run"}, exitUsage, []string{"25h0m0s is not a multiple of 1 day"}},
		"a policy of OSS that would lapse":  {[]string{"bucket", "ensure", "--storage-provider=OSS", "--store-container=b", "--retention-period=48h", "--retention-mode=compliance", "--locked=false"}, exitUsage, []string{"ends by itself"}},
		"a bucket without a mode":           {[]string{"bucket", "ensure", "--storage-provider=S3", "--store-container=b", "--retention-period=24h"}, exitUsage, []string{"give --retention-mode=governance", "--retention-mode=compliance"}},
		"a mode of OSS alone":               {[]string{"bucket", "ensure", "--storage-provider=OSS", "--store-container=b", "--retention-period=24h"}, exitUsage, []string{"give --locked"}},
		"a bucket with a mode that is none": {with("bucket", "ensure", "--retention-type=object", "--retention-period=24h", "--retention-mode=strict"), exitUsage, []string{"strict", "governance", "compliance"}},
		"a bucket that is a file":           {[]string{"bucket", "inspect", "--storage-provider=Local", "--store-container=/etc/hostname"}, exitRefused, []string{"no directory", "/etc/hostname"}},
		"nothing of a bucket to lock":       {with("bucket", "lock", "--yes"), exitUsage, []string{"no retention", "a directory locks nothing by itself"}},
		"a directory to lock that is none":  {[]string{"bucket", "lock", "--storage-provider=Local", "--store-container=" + empty + "/a"}, exitUnreachable, []string{empty + "/a", "mounted", "create it"}},
		"a directory to inspect":            {[]string{"bucket", "inspect", "--storage-provider=Local", "--store-container=" + empty + "/a"}, exitUnreachable, []string{empty + "/a", "mounted", "create it"}},
		"a container without management":    {[]string{"bucket", "ensure", "--storage-provider=ABS", "--store-container=abc", "--store-endpoint-override=https://account.blob.core.windows.net"}, exitUsage, []string{"subscriptionID", "resourceGroup"}},
		"no snapshot to exclude":            {with("exclude"), exitUsage, []string{"at least one snapshot", "list"}},
		"a name to exclude that is none":    {with("exclude", "latest"), exitUsage, []string{"latest", "list"}},
		"an unknown snapshot":               {with("include", "Full-00000000-00000001-1.gz"), exitUsage, []string{"Full-00000000-00000001-1.gz", "list --all"}},
		"a time of birth that is none":      {with("extend-snapshot-immutability", "--gc-from-timestamp=yesterday"), exitUsage, []string{"--gc-from-timestamp", "yesterday", "2026-"}},
		"a way to verify that is none":      {with("extend-snapshot-immutability", "--verify=sometimes"), exitUsage, []string{"--verify", "first", "always"}},
		"a period below nothing":            {with("extend-snapshot-immutability", "--retention-period=-1h"), exitUsage, []string{"--retention-period"}},
		"a release for a period":            {with("extend-snapshot-immutability", "--release-holds", "--retention-period=96h"), exitUsage, []string{"--release-holds", "--retention-period"}},
		"a full to keep that is none":       {with("extend-snapshot-immutability", "--keep=Incr-00000001-00000002-3.gz"), exitUsage, []string{"--keep", "full"}},
		"a full to keep and to release":     {with("extend-snapshot-immutability", "--keep=Full-00000000-00000002-3.gz", "--release-holds"), exitUsage, []string{"--keep", "--release-holds"}},
		"a digest of nothing":               {with("extend-snapshot-immutability", "--keep-digest=00"), exitUsage, []string{"--keep-digest", "--keep"}},
		"a digest that is none":             {with("extend-snapshot-immutability", "--keep=Full-00000000-00000002-3.gz", "--keep-digest=00"), exitUsage, []string{"--keep-digest", "SHA-256"}},
		"nothing to extend":                 {with("extend-snapshot-immutability"), exitDamaged, []string{"no way"}},
		"a form of output that is none":     {with("list", "-o", "xml"), exitUsage, []string{"yaml"}},
		"a schedule that is none":           {with("snapshot", "--schedule=often"), exitUsage, []string{"--schedule"}},
		"a format that is none":             {with("snapshot", "--snapshot-format=v3"), exitUsage, []string{"v2-json"}},
		"a compression that is none":        {with("snapshot", "--compression-policy=rar"), exitUsage, []string{"rar", "zstd"}},
		"how to lock without how long":      {with("snapshot", "--object-lock-mode=governance"), exitUsage, []string{"--object-lock-period"}},
		"a way to lock that is none":        {with("snapshot", "--object-lock-period=96h", "--object-lock-mode=forever"), exitUsage, []string{"--object-lock-mode", "forever"}},
		"an etcd that is not there":         {with("snapshot", "--endpoints=http://127.0.0.1:1", "--etcd-connection-timeout=2s", "--backoff-attempt-limit=1"), exitUnreachable, []string{"127.0.0.1:1", "--endpoints"}},
		"half a client certificate":         {with("snapshot", "--cert=x", "--endpoints=https://127.0.0.1:1"), exitUsage, []string{"--key"}},
		"a client CA that is missing":       {with("snapshot", "--cacert="+empty+"/none", "--endpoints=https://127.0.0.1:1"), exitUsage, []string{"--cacert names " + empty + "/none: no such file or directory; create or mount it"}},
		"a missing configuration file":      {[]string{"server", "--config-file=" + empty + "/none"}, exitUsage, []string{"--config-file names " + empty + "/none: no such file or directory; create or mount it"}},
		"a missing token of callers":        {[]string{"server", "--token-file=" + empty + "/none"}, exitUsage, []string{"(--token-file) names " + empty + "/none: no such file or directory; create or mount it"}},
		"a history that is none":            {with("compact", "--auto-compaction-retention=some"), exitUsage, []string{"some"}},
		"store without a verb":              {[]string{"store"}, exitUsage, []string{"probe"}},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := etcdbrctl(t, c.args...)
			if code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			if stdout != "" {
				t.Errorf("standard output: %q", stdout)
			}
			lines := strings.Split(strings.TrimSpace(stderr), "\n")
			last := lines[len(lines)-1]
			if !strings.HasPrefix(last, "Error: ") {
				t.Errorf("no error line in %q", stderr)
			}
			for _, w := range c.want {
				if !strings.Contains(last, w) {
					t.Errorf("%q does not mention %q", last, w)
				}
			}
		})
	}
}

func TestFlagsOfTheOriginalThatNeedNothingHereAreAcceptedWithAWarning(t *testing.T) {
	_, result := restoreFixture(t, "upstream-bucket-none",
		"--max-txn-ops=10240", "--max-request-bytes=10485760", "--max-call-send-message-size=10485760", "--skip-hash-check",
		"--auto-compaction-mode=periodic", "--auto-compaction-retention=30m", "--embedded-etcd-quota-bytes=8589934592", "--max-fetchers=6")
	if result.Revision != 871 {
		t.Errorf("revision %d", result.Revision)
	}
}

func TestADirectoryForTemporaryDataIsMadeAndRemoved(t *testing.T) {
	scratch := filepath.Join(t.TempDir(), "a", "restoration.temp")
	_, result := restoreFixture(t, "upstream-bucket-none", "--restoration-temp-snapshots-dir="+scratch)
	if result.Revision != 871 {
		t.Errorf("revision %d", result.Revision)
	}
	if _, err := os.Stat(scratch); !os.IsNotExist(err) {
		t.Errorf("it is still there: %v", err)
	}
	kept := t.TempDir()
	restoreFixture(t, "upstream-bucket-none", "--restoration-temp-snapshots-dir="+kept)
	if left, err := os.ReadDir(kept); err != nil || len(left) > 0 {
		t.Errorf("of a directory that was there: %v, %v", left, err)
	}
}

// What is wrong with the place is said before a store is asked or a plan is printed.
func TestAPlaceThatCannotBeRestoredIntoIsRefusedFirst(t *testing.T) {
	for name, c := range map[string]struct {
		dir  string
		code int
		want []string
	}{
		"below a missing directory": {filepath.Join(t.TempDir(), "a", "b"), exitUsage, []string{"parent must exist"}},
		"a directory of an etcd":    {dirWith(t, "member/snap/db"), exitRefused, []string{"--overwrite", "--data-dir"}},
		"a directory of a person":   {dirWith(t, "docs/thesis.txt"), exitRefused, []string{"docs is in the way", "--data-dir"}},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := etcdbrctl(t, "restore", "--storage-provider=Local", "--store-container=/nowhere", "--data-dir="+c.dir)
			if code != c.code || stdout != "" || strings.Count(stderr, "\n") != 1 {
				t.Errorf("exit code %d, want %d and one line: %s%s", code, c.code, stdout, stderr)
			}
			for _, want := range c.want {
				if !strings.Contains(stderr, want) {
					t.Errorf("%q does not mention %q", stderr, want)
				}
			}
		})
	}
}

func dirWith(t *testing.T, name string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestAProbeFailsOnlyIfLessIsProvenThanRequired(t *testing.T) {
	args := []string{"store", "probe", "--storage-provider=Local", "--store-container=" + t.TempDir()}
	for require, want := range map[string]int{"versions": exitTooWeak, "governance": exitTooWeak, "compliance": exitTooWeak, "all": exitUsage} {
		code, stdout, stderr := etcdbrctl(t, append(args, "--require="+require)...)
		if code != want || (want != exitUsage) != strings.Contains(stdout, "advisory") {
			t.Errorf("--require=%s: exit code %d, want %d: %s%s", require, code, want, stdout, stderr)
		}
	}
}

func TestARefusalNamesTheFlagThatAllowsIt(t *testing.T) {
	source := filepath.Join("..", "..", "testdata", "upstream-bucket-none")
	gap := t.TempDir()
	if err := os.CopyFS(gap, os.DirFS(source)); err != nil {
		t.Fatal(err)
	}
	middle, err := filepath.Glob(filepath.Join(gap, "ns--uid/etcd-main/v2/Incr-00000205*"))
	if err != nil || len(middle) != 1 {
		t.Fatal(middle, err)
	}
	if err := os.Remove(middle[0]); err != nil {
		t.Fatal(err)
	}
	whole, err := filepath.Abs(source)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ container, dir, want string }{
		"a loss":                    {gap, filepath.Join(t.TempDir(), "d"), "--accept-loss-to=204"},
		"a directory that is there": {whole, dirWith(t, "member/snap/db"), "--overwrite"},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := etcdbrctl(t, "restore", "--storage-provider=Local", "--store-container="+c.container, "--store-prefix=ns--uid/etcd-main", "--data-dir="+c.dir)
			if code != exitRefused || !strings.Contains(stderr, c.want) || stdout != "" {
				t.Errorf("exit code %d, want %d and %s: %s", code, exitRefused, c.want, stderr)
			}
		})
	}
	t.Run("a loss is no refusal when verifying, but damage", func(t *testing.T) {
		code, stdout, stderr := etcdbrctl(t, "verify", "--storage-provider=Local", "--store-container="+gap, "--store-prefix=ns--uid/etcd-main")
		if code != exitDamaged || !strings.Contains(stderr, "missing revisions 205-856") || stdout != "" {
			t.Errorf("exit code %d, want %d: %s", code, exitDamaged, stderr)
		}
	})
}

func TestAFullDiskIsNamedWithItsRemedy(t *testing.T) {
	full := fmt.Errorf("%w: unpack Full-1: write /data.part/base: %w", datadir.ErrNoRoom, syscall.ENOSPC)
	got := withRemedy(full)
	for _, want := range []string{"no space left on device", "room for the database twice", "--restoration-temp-snapshots-dir"} {
		if !strings.Contains(got.Error(), want) {
			t.Errorf("%v, want %q", got, want)
		}
	}
	if !errors.Is(got, datadir.ErrNoRoom) || exitCode(got) != exitCode(full) {
		t.Errorf("%v has exit code %d, want it to stay %d", got, exitCode(got), exitCode(full))
	}
}

func TestADryRunSaysThatTheDirectoryIsInTheWayAndTouchesNothing(t *testing.T) {
	container, err := filepath.Abs(filepath.Join("..", "..", "testdata", "upstream-bucket-none"))
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "data")
	if err := os.MkdirAll(filepath.Join(dir, "member", "snap"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "member", "snap", "db"), []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"restore", "--dry-run", "--storage-provider=Local", "--store-container=" + container, "--store-prefix=ns--uid/etcd-main", "--data-dir=" + dir,
		"--restoration-temp-snapshots-dir=" + filepath.Join(filepath.Dir(dir), "scratch")}
	for _, c := range []struct {
		more []string
		want string
	}{{nil, "will be refused"}, {[]string{"--overwrite"}, "replaces and removes " + dir + ": 1 files, 3 bytes"}, {[]string{"--data-dir=" + dir + "2"}, ""}} {
		code, stdout, stderr := etcdbrctl(t, append(args, c.more...)...)
		if code != exitOK || strings.Contains(stdout, "--overwrite") != (c.want != "") || !strings.Contains(stdout, c.want) {
			t.Errorf("%q: exit code %d: %s%s", c.more, code, stdout, stderr)
		}
	}
	if left, err := os.ReadDir(filepath.Dir(dir)); err != nil || len(left) != 1 {
		t.Errorf("it made %v, %v", left, err)
	}
}

// A flag that was given never means the same as one that was left out.
func TestEmptyValueOfFlagIsUsageError(t *testing.T) {
	var visit func(c *cobra.Command, path []string)
	visit = func(c *cobra.Command, path []string) {
		for _, sub := range c.Commands() {
			visit(sub, append(slices.Clone(path), sub.Name()))
		}
		if !c.Runnable() {
			return
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if len(f.Annotations[noEffect])+len(f.Annotations[mayBeEmpty]) > 0 {
				return
			}
			t.Run(strings.Join(path, " ")+" --"+f.Name, func(t *testing.T) {
				code, _, stderr := etcdbrctl(t, append(slices.Clone(path), "--"+f.Name+"=")...)
				if code != exitUsage || !strings.Contains(stderr, "--"+f.Name) {
					t.Errorf("exit code %d, want %d and the flag: %s", code, exitUsage, stderr)
				}
			})
		})
	}
	visit(newRoot(system{out: io.Discard, err: io.Discard, getenv: os.Getenv}), nil)
}

func TestRestoreBeyondBackupIsRefusedUntilAccepted(t *testing.T) {
	container, err := filepath.Abs(filepath.Join("..", "..", "testdata", "upstream-bucket-none"))
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "data")
	args := []string{"restore", "--storage-provider=Local", "--store-container=" + container, "--store-prefix=ns--uid/etcd-main", "--data-dir=" + dir,
		"--to-time=2026-11-20T09:56:57Z"} // an hour after the last snapshot
	code, stdout, stderr := etcdbrctl(t, args...)
	if code != exitDamaged || stdout != "" || !strings.Contains(stderr, "2026-11-20T08:56:57Z") || !strings.Contains(stderr, "--accept-loss-to=871") {
		t.Errorf("exit code %d, want %d, the end of the backup and the flag that accepts it: %s%s", code, exitDamaged, stdout, stderr)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("data directory after the refusal: %v", err)
	}
	code, stdout, stderr = etcdbrctl(t, append(args, "--accept-loss-to=871")...)
	if code != exitOK || !strings.Contains(stdout, "revision 871, received") || !strings.Contains(stdout, "2026-11-20T09:56:57Z") {
		t.Errorf("exit code %d, want the moment that was reached and the target: %s%s", code, stdout, stderr)
	}
}

func TestRestoreOverwritesOnlyDataOfEtcd(t *testing.T) {
	home := dirWith(t, "docs/thesis.txt")
	container, err := filepath.Abs(filepath.Join("..", "..", "testdata", "upstream-bucket-none"))
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"restore", "--overwrite", "--storage-provider=Local", "--store-container=" + container, "--store-prefix=ns--uid/etcd-main"}
	code, stdout, stderr := etcdbrctl(t, append(args, "--data-dir="+home)...)
	if code != exitRefused || stdout != "" || !strings.Contains(stderr, filepath.Join(home, "docs")) {
		t.Errorf("exit code %d, want %d and what is in the way: %s%s", code, exitRefused, stdout, stderr)
	}
	if _, err := os.Stat(filepath.Join(home, "docs", "thesis.txt")); err != nil {
		t.Error(err)
	}
	for form, want := range map[string]string{"table": "replaced", "json": `"replaced"`} {
		old := dirWith(t, "member/snap/db")
		code, stdout, stderr := etcdbrctl(t, append(args, "--data-dir="+old, "-o", form)...)
		if code != exitOK || !strings.Contains(stdout, want) || !strings.Contains(stdout, old) {
			t.Errorf("%s: exit code %d, want what was replaced: %s%s", form, code, stdout, stderr)
		}
	}
}

func TestStrayLinkStopsNoVerb(t *testing.T) {
	container := t.TempDir()
	if err := os.CopyFS(container, os.DirFS(filepath.Join("..", "..", "testdata", "upstream-bucket-none"))); err != nil {
		t.Fatal(err)
	}
	for _, stray := range []string{"current", "v2/latest"} {
		if err := os.Symlink("/etc", filepath.Join(container, "ns--uid/etcd-main", stray)); err != nil {
			t.Fatal(err)
		}
	}
	local := []string{"--storage-provider=Local", "--store-container=" + container, "--store-prefix=ns--uid/etcd-main"}
	for _, verb := range [][]string{
		{"list"}, {"verify"}, {"restore", "--data-dir=" + filepath.Join(t.TempDir(), "data")}, {"compact"},
		{"exclude", "--yes-leave-nothing", "Full-00000000-00000204-1795165002"}, {"include", "Full-00000000-00000204-1795165002"},
		{"copy", "--source-storage-provider=Local", "--source-store-container=" + container, "--source-store-prefix=ns--uid/etcd-main", "--store-prefix=other/etcd-main"},
		{"collect", "--keep-last=1", "--yes"},
	} {
		code, stdout, stderr := etcdbrctl(t, append(slices.Clone(verb), local...)...)
		if verb[0] == "copy" {
			code, stdout, stderr = etcdbrctl(t, append(slices.Clone(verb), local[:2]...)...)
		}
		if code != exitOK {
			t.Errorf("%s: exit code %d: %s%s", verb[0], code, stdout, stderr)
		}
		if verb[0] == "list" && (!strings.Contains(stdout, "current is left alone") || !strings.Contains(stdout, "symbolic link")) {
			t.Errorf("list does not name the link: %s", stdout)
		}
	}
}

// onText calls a function when what is written contains a text.
type onText struct {
	text string
	call func()
	all  strings.Builder
}

func (o *onText) Write(p []byte) (int, error) {
	if strings.Contains(string(p), o.text) {
		o.call()
	}
	return o.all.Write(p)
}

func TestSnapshotStoppedWithoutBackupFails(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	log := &onText{text: "trying again", call: func() { cancel(&interrupted{syscall.SIGTERM}) }}
	args := []string{"snapshot", "--storage-provider=Local", "--store-container=" + t.TempDir(), "--endpoints=http://127.0.0.1:1", "--etcd-connection-timeout=1s"}
	code := run(ctx, args, system{out: io.Discard, err: log, getenv: os.Getenv})
	if code != exitUnreachable || !strings.Contains(log.all.String(), "stopped without a backup") {
		t.Errorf("exit code %d, want %d and that there is no backup: %s", code, exitUnreachable, log.all.String())
	}
}

func TestTheReferencePageIsUpToDate(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "reference", "etcdbrctl.md")
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if want := referencePage(newRoot(system{out: os.Stdout, err: os.Stderr, getenv: os.Getenv})); string(got) != want {
		t.Error("docs/reference/etcdbrctl.md is not what the commands say; run make generate")
	}
}
