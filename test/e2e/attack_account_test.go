package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"druid.internal/druid/test/sites"
	"druid.internal/druid/test/stores"
)

// attackable are the kinds of bucket that an account can be attacked in, by the names of PROVIDERS; the first is meant unless
// PROVIDER_ATTACK_KIND says another.
var attackable = map[string][]sites.Kind{
	"aws":   {sites.Compliance, sites.Governance},
	"gcp":   {sites.Policy, sites.LoosePolicy, sites.PolicyGenerations},
	"azure": {sites.Container, sites.LooseContainer, sites.LevelLocked, sites.LevelFinal},
}

// roleVariables end the names of the variables that name directories with the credentials of roles.
var roleVariables = map[sites.Who]string{sites.Writer: "WRITER", sites.Extender: "EXTENDER", sites.Excluder: "EXCLUDER", sites.Collector: "COLLECTOR"}

// realSite is an account, with one bucket that locks for a day or more, as attackers see it.
type realSite struct {
	sites.Site // none: nothing but what is below is called

	name   string // as attacks tell what must come of them
	kind   sites.Kind
	bucket string
	ways   map[sites.Who]sites.Way // of those whose credentials are given
	absent []string                // the variables of the others
}

// realSiteOf reads PROVIDER_ATTACK_BUCKET, _KIND, _WRITER, _EXTENDER, _EXCLUDER and _COLLECTOR. What is wrong with them is an error
// that names all of it.
func realSiteOf(getenv func(string) string, provider string, owner account) (*realSite, error) {
	variable := func(what string) string { return strings.ToUpper(provider) + "_ATTACK_" + what }
	kinds, can := attackable[provider]
	if !can {
		return nil, fmt.Errorf("nothing in a store of %s is locked", provider)
	}
	s := &realSite{name: map[string]string{"aws": "AWS", "gcp": "GCS", "azure": "Azure"}[provider], kind: kinds[0], bucket: getenv(variable("BUCKET")), ways: map[sites.Who]sites.Way{}}
	var wrong []error
	if s.bucket == "" {
		wrong = append(wrong, fmt.Errorf("%s names no bucket: one that locks what is written for a day or more, and has nothing below %s", variable("BUCKET"), prefix))
	}
	if name := getenv(variable("KIND")); name != "" {
		i := slices.IndexFunc(kinds, func(k sites.Kind) bool { return k.Name == name })
		if i < 0 {
			wrong = append(wrong, fmt.Errorf("%s: %q is none of the kinds that can be attacked", variable("KIND"), name))
		} else {
			s.kind = kinds[i]
		}
	}
	way := owner.way
	way.Container = s.bucket
	s.ways[sites.Owner] = way
	for _, who := range slices.Sorted(maps.Keys(roleVariables)) {
		dir := getenv(variable(roleVariables[who]))
		if dir == "" {
			s.absent = append(s.absent, named[who]+" ("+variable(roleVariables[who])+")")
			continue
		}
		files, err := filesOf(dir)
		if err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", variable(roleVariables[who]), err))
		}
		theirs := way
		theirs.Files = files
		s.ways[who] = theirs
	}
	if len(s.ways) == 1 {
		wrong = append(wrong, fmt.Errorf("no role has credentials, and the owner's alone prove little: %s", strings.Join(s.absent, ", ")))
	}
	return s, errors.Join(wrong...)
}

func filesOf(dir string) (map[string]string, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err == nil && len(names) == 0 {
		err = fmt.Errorf("there is nothing in %s", dir)
	}
	files := map[string]string{}
	for _, name := range names {
		content, readErr := os.ReadFile(name)
		err = errors.Join(err, readErr)
		files[filepath.Base(name)] = strings.TrimSpace(string(content))
	}
	return files, err
}

func (s *realSite) Name() string { return s.name }

func (s *realSite) Reach() (string, *stores.CA) { return s.ways[sites.Owner].Endpoint, nil }

func (s *realSite) Way(_ context.Context, _, _ string, who sites.Who) (sites.Way, error) {
	return s.ways[who], nil
}

func (s *realSite) server(who sites.Who) (*stores.S3, stores.Keys) {
	f := s.ways[who].Files
	return &stores.S3{Endpoint: s.ways[who].Endpoint, Region: f["region"]}, stores.Keys{AccessKeyID: f["accessKeyID"], SecretAccessKey: f["secretAccessKey"], SessionToken: f["sessionToken"]}
}

func (s *realSite) container(who sites.Who) stores.AzureContainer {
	f := s.ways[who].Files
	name := s.ways[sites.Owner].Files["storageAccount"]
	return stores.AzureContainer{Endpoint: "https://" + name + ".blob.core.windows.net", Account: name, Key: f["storageKey"], SAS: strings.TrimPrefix(f["sasToken"], "?"), Name: s.bucket}
}

func (s *realSite) Raw(ctx context.Context, bucket string, who sites.Who) (stores.Raw, error) {
	switch s.name {
	case "AWS":
		server, keys := s.server(who)
		return server.Raw(keys, bucket), nil
	case "Azure":
		return s.container(who).Raw()
	}
	return stores.RealGCS(ctx, []byte(s.ways[who].Files["serviceaccount.json"]), bucket)
}

// Unlock implements sites.Unlocker. On Azure nobody can even ask for it with a key or a SAS.
func (s *realSite) Unlock(ctx context.Context, bucket string, who sites.Who) error {
	switch s.name {
	case "AWS":
		server, keys := s.server(who)
		return server.Unlock(ctx, keys, bucket)
	case "Azure":
		return errors.New("this takes the management API, to which keys and SAS are nothing")
	}
	return stores.UnlockRealGCS(ctx, []byte(s.ways[who].Files["serviceaccount.json"]), bucket)
}

// Remove implements sites.Remover.
func (s *realSite) Remove(ctx context.Context, _ string, who sites.Who) error {
	return s.container(who).Remove(ctx)
}

// attackAccounts makes the attacks on the accounts that the environment gives: each role's by its own credentials. Those that have
// none are skipped by name.
func (w *world) attackAccounts(t *testing.T, last int64) {
	of, steps, err := askedFor(os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	origin := w.place
	for _, provider := range slices.Sorted(maps.Keys(of)) {
		t.Run(provider, func(t *testing.T) {
			if !slices.Contains(steps, "test") {
				t.Skipf("STEPS does not ask for it: %s", strings.Join(steps, ", "))
			}
			if attackable[provider] == nil {
				t.Skipf("nothing in a store of %s is locked", provider)
			}
			s, err := realSiteOf(os.Getenv, provider, of[provider])
			if err != nil {
				t.Fatal(err)
			}
			for _, who := range s.absent {
				t.Run("not tried as "+who, func(t *testing.T) { t.Skip("its credentials are not given") })
			}
			if found := handsOn(t, s, s.bucket, sites.Owner).versions(""); slices.ContainsFunc(found, func(v stores.RawVersion) bool { return strings.HasPrefix(v.Key, "ns--uid/") }) {
				t.Fatalf("%s has something below ns--uid/ already: attacks need a bucket for each run, or one where all locks of the last run have ended and what was locked is gone", s.bucket)
			}
			on := *w
			on.t = t
			on.place = inSite(t, s, "", s.bucket, sites.Owner)
			on.attackedByAll(origin, s, s.bucket, s.kind, last)
		})
	}
}

// TestWhatIsMissingForAttacksOnARealAccountIsNamed: a role without credentials is named, and none at all is an error.
func TestWhatIsMissingForAttacksOnARealAccountIsNamed(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "accessKeyID"), []byte("a\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for phrase, c := range map[string]struct {
		env    map[string]string
		says   []string
		absent int
	}{
		"everything":         {nil, []string{"AWS_ATTACK_BUCKET names no bucket", "no role has credentials", "the writer (AWS_ATTACK_WRITER)", "the collector (AWS_ATTACK_COLLECTOR)"}, 4},
		"all but one role":   {map[string]string{"AWS_ATTACK_BUCKET": "b", "AWS_ATTACK_WRITER": dir}, nil, 3},
		"nothing in a place": {map[string]string{"AWS_ATTACK_BUCKET": "b", "AWS_ATTACK_WRITER": dir, "AWS_ATTACK_COLLECTOR": "/nowhere"}, []string{"AWS_ATTACK_COLLECTOR: there is nothing in /nowhere"}, 2},
		"a kind of others'":  {map[string]string{"AWS_ATTACK_BUCKET": "b", "AWS_ATTACK_WRITER": dir, "AWS_ATTACK_KIND": "policy"}, []string{`AWS_ATTACK_KIND: "policy"`}, 3},
	} {
		t.Run(phrase, func(t *testing.T) {
			s, err := realSiteOf(func(name string) string { return c.env[name] }, "aws", account{})
			if (err == nil) != (len(c.says) == 0) || len(s.absent) != c.absent {
				t.Errorf("%v, absent %q", err, s.absent)
			}
			for _, want := range c.says {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%v, want %q", err, want)
				}
			}
		})
	}
}

// TestTheAttacksAreMadeOnTheAccountThatTheEnvironmentNames runs this program again with a server of this machine as somebody's account:
// with credentials of three roles, and with the owner's in the place of a role's, which the table notices.
func TestTheAttacksAreMadeOnTheAccountThatTheEnvironmentNames(t *testing.T) {
	t.Parallel()
	if os.Getenv("PROVIDERS") != "" {
		t.Skip("there is a real one")
	}
	s := fleet.Get(t, "MinIO")
	server := sites.S3Of(s)
	attack := func(given map[sites.Who]sites.Who) string {
		t.Helper()
		bucket := fleet.Bucket(t, s, sites.Compliance)
		env := append(os.Environ(), "PROVIDERS=aws", "TEST_ID=this-machine", "STEPS=test", "AWS_ATTACK_BUCKET="+bucket, "SSL_CERT_FILE="+server.CAFile,
			"AWS_ACCESS_KEY_ID="+server.Root.AccessKeyID, "AWS_SECRET_ACCESS_KEY="+server.Root.SecretAccessKey, "AWS_REGION="+server.Region, "AWS_ENDPOINT_URL_S3="+server.Endpoint)
		for role, who := range given {
			way, err := s.Way(t.Context(), bucket, server.Endpoint, who)
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			for name, content := range way.Files {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			env = append(env, "AWS_ATTACK_"+roleVariables[role]+"="+dir)
		}
		cmd := exec.Command(os.Args[0], "-test.run=^TestAttacksOnALockedBackupFailOrChangeNothingThatARestoreReads$", "-test.v", "-test.count=1")
		cmd.Env = env
		out, _ := cmd.CombinedOutput() // says how it ended
		return string(out)
	}
	same := map[sites.Who]sites.Who{sites.Writer: sites.Writer, sites.Extender: sites.Extender, sites.Excluder: sites.Excluder}
	out := attack(same)
	for _, want := range []string{
		"--- PASS: TestAttacksOnALockedBackupFailOrChangeNothingThatARestoreReads/aws ",
		"--- SKIP: TestAttacksOnALockedBackupFailOrChangeNothingThatARestoreReads/aws/not_tried_as_the_collector_(AWS_ATTACK_COLLECTOR)", "\nPASS\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("it does not say %q:\n%s", want, out)
		}
	}
	same[sites.Excluder] = sites.Owner
	if out := attack(same); !strings.Contains(out, "the excluder tries to delete by name") || !strings.Contains(out, "--- FAIL: TestAttacksOnALockedBackupFailOrChangeNothingThatARestoreReads/aws ") {
		t.Errorf("an excluder who may do everything is not noticed:\n%s", out)
	}
}
