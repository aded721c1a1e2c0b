package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"druid.internal/druid/test/sites"
	"druid.internal/druid/test/stores"
)

// place is where a backup lies, as etcdbrctl is told: by flags and environment.
type place struct {
	t     *testing.T
	store []string // flags
	env   []string // with the credentials
	own   string   // the variable of the environment that names the credentials, with its value; empty: none
}

// inS3 is a bucket of m reached at endpoint with the given keys.
func inS3(t *testing.T, m *stores.MinIO, endpoint, bucket string, keys stores.Keys) place {
	t.Helper()
	return told(t, sites.S3Way(&m.S3, bucket, endpoint, keys))
}

// inDirectory is a directory of this machine.
func inDirectory(t *testing.T, dir string) place {
	t.Helper()
	return told(t, sites.Way{Provider: "Local", Container: dir})
}

// inSite is a bucket of a site reached at endpoint, which is its own if it is empty.
func inSite(t *testing.T, s sites.Site, endpoint, bucket string, who sites.Who) place {
	t.Helper()
	if endpoint == "" {
		endpoint, _ = s.Reach()
	}
	way, err := s.Way(t.Context(), bucket, endpoint, who)
	if err != nil {
		t.Fatal(err)
	}
	return told(t, way)
}

// told writes the credentials where etcdbrctl is told to find them.
func told(t *testing.T, way sites.Way) place {
	t.Helper()
	p := place{t: t, env: os.Environ(), store: []string{"--storage-provider=" + way.Provider, "--store-container=" + way.Container, "--store-prefix=" + prefix}}
	if way.Endpoint != "" {
		p.store = append(p.store, "--store-endpoint-override="+way.Endpoint)
	}
	if way.Variable == "" {
		return p
	}
	dir := t.TempDir()
	for file, content := range way.Files {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p.own = way.Variable + "=" + filepath.Join(dir, way.File)
	p.env = append(p.env, p.own)
	for name, v := range way.More {
		p.env = append(p.env, name+"="+strings.ReplaceAll(v, "$DIR", dir))
	}
	return p
}

// copyFrom adds p as the source of a copy to the destination.
func (p place) copyFrom(source place) place {
	for _, flag := range source.store {
		p.store = append(slices.Clip(p.store), strings.Replace(flag, "--", "--source-", 1))
	}
	if source.own != "" {
		p.env = append(slices.Clip(p.env), "SOURCE_"+source.own)
	}
	return p
}

func (p place) command(verb string, args ...string) *exec.Cmd {
	cmd := exec.Command(program(p.t), slices.Concat(strings.Fields(verb), p.store, args)...)
	cmd.Env = p.env
	return cmd
}

// outcome is what a run of etcdbrctl left.
type outcome struct {
	code           int
	stdout, stderr string
}

func (p place) run(verb string, args ...string) outcome {
	p.t.Helper()
	return finish(p.t, p.command(verb, args...))
}

// finish runs cmd to its end, whatever that is. A killed one has code -1.
func finish(t *testing.T, cmd *exec.Cmd) outcome {
	t.Helper()
	o, err := ending(cmd)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// endAtMost bounds a run: one that meets no store tries for more than a minute.
const endAtMost = 2 * waitAtMost

// ending is finish without a test; err: it could not even be run.
func ending(cmd *exec.Cmd) (outcome, error) {
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		return outcome{}, err
	}
	late := time.AfterFunc(endAtMost, func() { cmd.Process.Kill() })
	err := cmd.Wait()
	if !late.Stop() {
		return outcome{}, fmt.Errorf("it did not end within %s and was killed:\n%s", endAtMost, stderr.String())
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return outcome{}, err
	}
	return outcome{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}, nil
}

// succeeds runs etcdbrctl, which must exit with 0, and returns what it printed.
func (p place) succeeds(verb string, args ...string) string {
	p.t.Helper()
	o := p.run(verb, args...)
	if o.code != 0 {
		p.t.Fatalf("etcdbrctl %s %s: exit code %d\n%s", verb, strings.Join(args, " "), o.code, o.stderr)
	}
	return o.stdout
}

// fails runs etcdbrctl, which must exit with the code, and returns the line that says why.
func (p place) fails(code int, verb string, args ...string) string {
	p.t.Helper()
	o := p.run(verb, args...)
	if o.code != code {
		p.t.Fatalf("etcdbrctl %s %s: exit code %d, want %d\n%s%s", verb, strings.Join(args, " "), o.code, code, o.stdout, o.stderr)
	}
	return o.line(p.t)
}

// line is the one line of a failure.
func (o outcome) line(t *testing.T) string {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(o.stderr), "\n")
	last := lines[len(lines)-1]
	told := 0
	for _, l := range lines {
		if strings.HasPrefix(l, "Error:") {
			told++
		}
	}
	if told != 1 || !strings.HasPrefix(last, "Error: ") {
		t.Errorf("want one line that begins with Error: at the end, got\n%s", o.stderr)
	}
	return last
}

// says fails the test unless text contains all parts.
func says(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("want %q in\n%s", part, text)
		}
	}
}

// decode parses what `-o json` printed.
func decode[T any](t *testing.T, text string) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return v
}

// list is what `etcdbrctl list -o json` tells.
type list struct {
	Lineages []lineage
	Findings []finding
}

type lineage struct {
	ID, Parent string
	Fork       int64
	Newest     int64
	Restorable []struct{ From, To int64 }
	Snapshots  []listed
}

type listed struct {
	Name, Key, Version string
	Kind               string
	From, To           int64
	Size               int64
	Problem            string
	Protection         *struct {
		Mode  string
		Until time.Time
	}
}

type finding struct{ Severity, Code, Lineage, Key, Version, Text string }

// end is the last revision that can be restored of the newest lineage, 0 if there is none.
func (l list) end() int64 {
	if len(l.Lineages) == 0 || len(l.Lineages[0].Restorable) == 0 {
		return 0
	}
	r := l.Lineages[0].Restorable
	return r[len(r)-1].To
}

// all are the snapshots of one kind of all lineages, oldest first within each.
func (l list) all(kind string) []listed {
	var found []listed
	for _, lin := range l.Lineages {
		for _, s := range lin.Snapshots {
			if s.Kind == kind {
				found = append(found, s)
			}
		}
	}
	return found
}

// found reports whether there is a finding with the code (any if it is empty) about a key that
// contains part.
func (l list) found(code, part string) bool {
	return slices.ContainsFunc(l.Findings, func(f finding) bool { return (code == "" || f.Code == code) && strings.Contains(f.Key, part) })
}

func (p place) list() list {
	p.t.Helper()
	return decode[list](p.t, p.succeeds("list", "-o", "json"))
}

// alone are flags of a cluster of one.
var alone = []string{"--initial-cluster=default=http://127.0.0.1:2380", "--initial-advertise-peer-urls=http://127.0.0.1:2380"}

// restore restores into a new directory and returns it.
func (p place) restore(args ...string) (dir string, err error) {
	p.t.Helper()
	dir = filepath.Join(p.t.TempDir(), "restored")
	if o := p.run("restore", slices.Concat([]string{"--data-dir=" + dir}, alone, args)...); o.code != 0 {
		return dir, fmt.Errorf("restore %s: exit code %d\n%s", strings.Join(args, " "), o.code, o.stderr)
	}
	return dir, nil
}

// restored is what `etcdbrctl restore -o json` tells.
type restored struct {
	DataDir, Base              string
	Revision, CompactRevision  int64
	Keys, SpilledBytes         int64
	HashKV                     struct{ Hash uint32 }
	LeasesRestored, LeasesMade []string
	AlarmsCleared, AlarmsKept  []string
	AuthEnabled                bool
	Lineage                    struct{ ID, Parent string }
	Damaged                    []struct{ Object, Reason string }
	Plan                       struct {
		Base            string
		BumpBy          int64
		Notes, Warnings []string
	}
}

// mustRestore restores into a new directory and returns it with the report.
func (p place) mustRestore(args ...string) (string, restored) {
	p.t.Helper()
	dir := filepath.Join(p.t.TempDir(), "restored")
	out := p.succeeds("restore", slices.Concat([]string{"--data-dir=" + dir, "-o=json"}, alone, args)...)
	return dir, decode[restored](p.t, out)
}
