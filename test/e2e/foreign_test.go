package e2e

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"druid.internal/druid/test/faults"
	"druid.internal/druid/test/sites"
	"druid.internal/druid/test/stores"
)

// foreign is a server that refuses, how the store is configured, and what each verb must say. A
// verb that is not in the table must succeed.
type foreign struct {
	server   faults.Foreign
	settings map[string]string // fields of the credentials
	says     map[string]string // by verb
}

// saysAll says the same for several verbs.
func saysAll(says string, verbs ...string) map[string]string {
	all := map[string]string{}
	for _, v := range verbs {
		all[v] = says
	}
	return all
}

// The verbs by what they do at a store.
var (
	readingVerbs = []string{"list", "verify", "restore", "copy from", "collect"}
	writingVerbs = []string{"compact", "copy to", "snapshot", "store probe"}
)

func foreigners() map[string]foreign {
	every := slices.Concat(readingVerbs, writingVerbs, []string{"exclude", "include", "extend", "store probe --rights"})
	const checksums = "set requestChecksumCalculation to when_required"
	return map[string]foreign{
		"old checksums":            {server: faults.OldChecksums, says: saysAll(checksums, every...)},
		"old checksums, set":       {server: faults.OldChecksums, settings: map[string]string{"requestChecksumCalculation": "when_required"}},
		"needs encryption":         {server: faults.NeedsSSE, says: saysAll("set serverSideEncryption", append(slices.Clone(writingVerbs), "store probe --rights")...)},
		"needs encryption, set":    {server: faults.NeedsSSE, settings: map[string]string{"serverSideEncryption": "AES256"}},
		"no conditions":            {server: faults.NoIfNoneMatch, says: saysAll("set conditionalPut to false", writingVerbs...)},
		"no conditions, set":       {server: faults.NoIfNoneMatch, settings: map[string]string{"conditionalPut": "false"}},
		"no versions":              {server: faults.NoVersions, says: saysAll("cannot list versions", slices.DeleteFunc(slices.Clone(every), func(v string) bool { return v == "store probe" })...)},
		"the policy of upstream":   {server: faults.MinimalPolicy, says: saysAll("s3:ListBucketVersions", slices.DeleteFunc(slices.Clone(every), func(v string) bool { return v == "store probe" })...)},
		"late":                     {server: faults.Late},
		"a proxy for small bodies": {server: faults.SmallBodies, says: saysAll("client_max_body_size", "compact", "copy to", "snapshot")},
		"a slow line":              {server: faults.Slow},
	}
}

// verbsAt are all verbs of etcdbrctl that use a store, tried at p. from is the same bucket without the
// refusals, and origin another store with the same backups.
func verbsAt(t *testing.T, w *world, p, origin place) map[string]func() outcome {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "copy"), 0o700); err != nil {
		t.Fatal(err)
	}
	of := w.list().Lineages[0].Snapshots
	name := of[len(of)-1].Name
	return map[string]func() outcome{
		"list":                 func() outcome { return p.run("list") },
		"verify":               func() outcome { return p.run("verify", "--all") },
		"restore":              func() outcome { return p.run("restore", "--data-dir="+filepath.Join(dir, "restored")) },
		"collect":              func() outcome { return p.run("collect", "--yes", "--keep-last=1") },
		"copy from":            func() outcome { return inDirectory(t, filepath.Join(dir, "copy")).copyFrom(p).run("copy") },
		"extend":               func() outcome { return p.run("extend-snapshot-immutability", "--retention-period=48h") },
		"exclude":              func() outcome { return p.run("exclude", "--yes-leave-nothing", "--reason=test", name) },
		"include":              func() outcome { return p.run("include", name) },
		"compact":              func() outcome { return p.run("compact") },
		"store probe":          func() outcome { return p.run("store probe") },
		"store probe --rights": func() outcome { return p.run("store probe", "--rights") },
		"copy to": func() outcome {
			to := p
			to.store = slices.Clone(p.store)
			for i, flag := range to.store {
				if strings.HasPrefix(flag, "--store-prefix=") {
					to.store[i] = "--store-prefix=another/one"
				}
			}
			return to.copyFrom(origin).run("copy")
		},
	}
}

// TestEveryVerbNamesTheRemedyAtForeignServers tries every verb at servers that refuse
// what ours take. Each refusal names its remedy, and with the remedy everything works.
func TestEveryVerbNamesTheRemedyAtForeignServers(t *testing.T) {
	w := newWorld(t, 71, 40)
	w.useLocal(t.TempDir())
	w.backup(40)
	origin := w.place
	server, err := stores.StartMinIO(t.Context(), stores.MinIOOptions{KMS: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	var mu sync.Mutex
	table := &strings.Builder{}
	t.Run("servers", func(t *testing.T) {
		for _, name := range slices.Sorted(maps.Keys(foreigners())) {
			c := foreigners()[name]
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				bucket := newBucket(t, server, stores.Governance)
				on := *w
				on.t = t
				on.useS3(server, server.Endpoint, bucket)
				on.copyFrom(origin).succeeds("copy")
				gate := faults.NewGate(t, server)
				gate.Become(c.server)
				way := sites.S3Way(&server.S3, bucket, gate.Endpoint, server.Root)
				maps.Copy(way.Files, c.settings)
				verbs := verbsAt(t, &on, told(t, way), origin)
				verbs["snapshot"] = func() outcome { return snapshotOnce(t, w, way) }
				for _, verb := range slices.Sorted(maps.Keys(verbs)) {
					got := verbs[verb]()
					t.Logf("%s: exit code %d: %s", verb, got.code, oneLine(got))
					want, refused := c.says[verb]
					mu.Lock()
					fmt.Fprintf(table, "| %s | %s | %d | %s |\n", name, verb, got.code, oneLine(got))
					mu.Unlock()
					switch {
					case refused && !strings.Contains(got.stderr+got.stdout, want):
						t.Errorf("%s: exit code %d, want %q in\n%s%s", verb, got.code, want, got.stdout, got.stderr)
					case !refused && got.code != 0:
						t.Errorf("%s: exit code %d\n%s%s", verb, got.code, got.stdout, got.stderr)
					}
				}
			})
		}
	})
	if path := os.Getenv("DRUID_REFUSALS"); path != "" {
		if err := os.WriteFile(path, []byte(table.String()), 0o644); err != nil {
			t.Error(err)
		}
	}
}

// oneLine is the last line that a verb printed about its end.
func oneLine(o outcome) string {
	lines := strings.Split(strings.TrimSpace(o.stderr), "\n")
	if o.code == 0 {
		return "works"
	}
	return strings.ReplaceAll(lines[len(lines)-1], "|", "\\|")
}

// snapshotOnce backs up into a prefix of its own until a full is there, or it fails.
func snapshotOnce(t *testing.T, w *world, way sites.Way) outcome {
	p := told(t, way)
	for i, flag := range p.store {
		if strings.HasPrefix(flag, "--store-prefix=") {
			p.store[i] = "--store-prefix=a/snapshot"
		}
	}
	r := start(t, p.command("snapshot", "--endpoints="+w.etcd.Endpoint(), "--schedule=", "--backoff-attempt-limit=1"))
	uploaded := func() bool { return strings.Contains(r.log.String(), "full snapshot uploaded") }
	refused := func() bool {
		return strings.Contains(r.log.String(), "(HTTP 4") || strings.Contains(r.log.String(), "(HTTP 5")
	}
	eventually(t, "a full is uploaded, or refused", nil, r.log.String, func() bool {
		select {
		case <-r.ended:
			return true
		default:
			return uploaded() || refused()
		}
	})
	select {
	case <-r.ended:
		return outcome{r.cmd.ProcessState.ExitCode(), "", r.log.String()}
	default:
		r.kill() // it would go on, and try again what was refused
		if !uploaded() {
			return outcome{1, "", r.log.String()}
		}
		return outcome{0, "", r.log.String()}
	}
}
