package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/store/admin"
	"druid.internal/druid/internal/store/open"
	"druid.internal/druid/test/faults"
	"druid.internal/druid/test/sites"
	"druid.internal/druid/test/stores"
)

// bucketReport is what `etcdbrctl bucket ... -o json` tells.
type bucketReport struct {
	Before, After bucketState
	Plan          struct {
		Steps []struct{ Do string }
		Level string
		Notes []string
	}
	Done []struct {
		Do, Said string
		Skipped  bool
	}
	Level  string
	Delete string
	Canary *struct{ Protection string }
}

type bucketState struct {
	Exists, Versioned, ObjectLock, Locked, AbortsUploads bool
	Mode, RetentionPeriod                                string
	Guards, Notes                                        []string
	Extensions                                           int
}

// changed are the steps that changed something; to look at every version is not one of them.
func (r bucketReport) changed() (all []string) {
	for _, d := range r.Done {
		if d.Do != "lengthen-versions" && !d.Skipped {
			all = append(all, d.Do)
		}
	}
	return all
}

// best is the strongest retention of a day that a site can give a bucket.
type best struct {
	wish  []string
	level string   // of what is written without a lock of its own
	proof string   // what a canary proves
	loose []string // a wish that the provider's policy meets without being locked; nil: there is none
}

var bests = map[string]best{
	"MinIO": {[]string{"--retention-period=24h", "--retention-mode=compliance"}, "compliance", "compliance", []string{"--retention-period=24h", "--retention-mode=governance"}},
	"Ceph":  {[]string{"--retention-period=24h", "--retention-mode=compliance"}, "compliance", "compliance", []string{"--retention-period=24h", "--retention-mode=governance"}},
	"GCS":   {[]string{"--retention-period=24h", "--locked"}, "compliance", "compliance", []string{"--retention-period=24h", "--retention-mode=compliance"}},
	"Azure": {[]string{"--retention-period=24h", "--locked"}, "compliance", "compliance", []string{"--retention-period=24h", "--retention-mode=compliance"}},
	"OSS":   {[]string{"--retention-period=24h", "--locked"}, "compliance", "compliance", nil},
	"Local": {[]string{"--retention-type=object", "--retention-period=1h", "--retention-mode=governance"}, "none", "advisory", nil},
	"Swift": {nil, "none", "none", nil},
}

// administered is a bucket of a site in the hands of whoever administers it, reached at the endpoint,
// which is the site's own if it is empty.
func administered(t *testing.T, s sites.Site, endpoint, bucket string, who sites.Who) place {
	t.Helper()
	if endpoint == "" {
		endpoint, _ = s.Reach()
	}
	ask := s.Way
	if a, is := s.(sites.Administrable); is {
		ask = a.AdminWay
	}
	way, err := ask(t.Context(), bucket, endpoint, who)
	if err != nil {
		t.Fatal(err)
	}
	p := told(t, way)
	p.store = slices.DeleteFunc(p.store, func(flag string) bool { return strings.HasPrefix(flag, "--store-prefix=") })
	return p
}

// unmade is the name of a bucket that nobody has made.
func unmade(t *testing.T) string {
	t.Helper()
	return fmt.Sprintf("unmade-%d", buckets.Add(1))
}

func (p place) ensures(args ...string) bucketReport {
	p.t.Helper()
	return decode[bucketReport](p.t, p.succeeds("bucket ensure", slices.Concat(args, []string{"-o=json"})...))
}

func (p place) inspects() bucketReport {
	p.t.Helper()
	return decode[bucketReport](p.t, p.succeeds("bucket inspect", "-o=json"))
}

// TestABucketIsMadeProtectedProvenAndKeptOnEveryStore goes the whole way of a bucket, as far as the store goes.
func TestABucketIsMadeProtectedProvenAndKeptOnEveryStore(t *testing.T) {
	onEveryStore(t, func(t *testing.T, s sites.Site) {
		name, want := unmade(t), bests[s.Name()]
		p := administered(t, s, "", name, sites.Owner)

		p.fails(5, "bucket inspect")
		plan := decode[bucketReport](t, p.succeeds("bucket ensure", slices.Concat(want.wish, []string{"--dry-run", "-o=json"})...))
		if len(plan.Plan.Steps) == 0 || plan.Plan.Steps[0].Do != "create" {
			t.Errorf("the plan is %+v", plan.Plan)
		}
		p.fails(5, "bucket inspect") // a plan makes nothing

		made := p.ensures(want.wish...)
		if made.Level != want.level || !slices.Contains(made.changed(), "create") {
			t.Errorf("level %s, want %s, after %+v", made.Level, want.level, made.Done)
		}
		if again := p.ensures(want.wish...); len(again.changed()) > 0 || again.Level != want.level {
			t.Errorf("the second time it did %v, level %s", again.changed(), again.Level)
		}
		seen := p.inspects()
		if diff := cmp.Diff(made.After, seen.Before); diff != "" || seen.Level != want.level {
			t.Errorf("level %s; what was read back and what is inspected differ (-read back +inspected):\n%s", seen.Level, diff)
		}
		says(t, p.succeeds("bucket inspect"), "LEVEL", want.level)
		says(t, p.succeeds("bucket delete"), "Nothing was done")

		proven := p.ensures(slices.Concat(want.wish, []string{"--canary"})...)
		if proven.Canary == nil || proven.Canary.Protection != want.proof {
			t.Errorf("the canary proved %+v, want %s", proven.Canary, want.proof)
		}
		for _, d := range p.ensures(want.wish...).Done {
			if d.Do == "lengthen-versions" && !strings.HasPrefix(d.Said, "0 versions lengthened") {
				t.Errorf("after the canary, which the bucket has locked: %s", d.Said)
			}
		}
		if want.proof != "none" { // its byte is still there
			says(t, p.fails(3, "bucket delete", "--yes"), "not empty", "druid-probe/", "locks end at")
			if !p.inspects().Before.Exists {
				t.Error("it is gone")
			}
			return
		}
		if deleted := decode[bucketReport](t, p.succeeds("bucket delete", "--yes", "-o=json")); deleted.Delete != "done" {
			t.Errorf("delete: %s", deleted.Delete)
		}
		p.fails(5, "bucket inspect")
		if deleted := decode[bucketReport](t, p.succeeds("bucket delete", "--yes", "-o=json")); deleted.Delete != "nothing to do" {
			t.Errorf("delete again: %s", deleted.Delete)
		}
	})
}

// TestAProtectedBucketThatIsEmptyIsDeleted, locked or not: retention is of what is written.
func TestAProtectedBucketThatIsEmptyIsDeleted(t *testing.T) {
	onEveryStore(t, func(t *testing.T, s sites.Site) {
		p := administered(t, s, "", unmade(t), sites.Owner)
		p.ensures(bests[s.Name()].wish...)
		p.succeeds("bucket delete", "--yes")
		p.fails(5, "bucket inspect")
	})
}

// TestRetentionIsOnlyLengthened: longer and longer again, also for what is there, and never shorter.
func TestRetentionIsOnlyLengthened(t *testing.T) {
	onEveryStore(t, func(t *testing.T, s sites.Site) {
		name, want := unmade(t), bests[s.Name()]
		p := administered(t, s, "", name, sites.Owner)
		p.ensures(want.wish...)
		h := handsOn(t, s, name, sites.Owner)
		h.put("old", []byte("written under the shorter period"))

		period := func(d string) []string {
			args := slices.Clone(want.wish)
			args[slices.IndexFunc(args, func(a string) bool { return strings.HasPrefix(a, "--retention-period=") })] = "--retention-period=" + d
			return args
		}
		longer := p.ensures(period("72h")...)
		if longer.After.RetentionPeriod != "72h" || longer.Level != want.level {
			t.Errorf("after lengthening it is %+v", longer.After)
		}
		until := lockOf(t, s, name, "old")
		if left := time.Until(until); left < 71*time.Hour || left > 73*time.Hour {
			t.Errorf("what was there is locked until %s, want some 72 h from now", until)
		}
		if again := p.ensures(period("72h")...); len(again.changed()) > 0 {
			t.Errorf("the second time it did %v", again.changed())
		}
		says(t, p.fails(3, "bucket ensure", period("48h")...), "3 days, and 2 days would be 1 day less", "3 days or more")
		if now := p.inspects().Before; now.RetentionPeriod != "72h" {
			t.Errorf("after a refusal it is %+v", now)
		}
	}, "Swift", "Local")
}

// lockOf is until when the only version of a key is locked, as `list` does not tell of foreign objects.
func lockOf(t *testing.T, s sites.Site, bucket, key string) time.Time {
	t.Helper()
	until, err := sites.LockedUntil(t.Context(), s, bucket, key)
	if err != nil {
		t.Fatal(err)
	}
	return until
}

// TestLockingIsAStepOfItsOwnThatNobodyTakesBack on the stores whose buckets have a policy that need not be locked.
func TestLockingIsAStepOfItsOwnThatNobodyTakesBack(t *testing.T) {
	onEveryStore(t, func(t *testing.T, s sites.Site) {
		want := bests[s.Name()]
		p := administered(t, s, "", unmade(t), sites.Owner)
		p.ensures()
		p.fails(3, "bucket lock", "--yes") // there is nothing to lock
		name := unmade(t)
		p = administered(t, s, "", name, sites.Owner)
		loose := p.ensures(want.loose...)
		if loose.Level != "governance" || loose.After.Locked {
			t.Fatalf("it is %+v", loose)
		}
		ofS3 := loose.After.ObjectLock
		if ofS3 {
			says(t, p.fails(3, "bucket lock", "--yes"), "governance", "--retention-mode=compliance")
			h := handsOn(t, s, name, sites.Owner)
			h.put("old", []byte("written under locks that can be lifted"))
			p.ensures(want.wish...)
			for _, v := range h.versions("old") {
				if err := h.raw.(stores.Shortener).Shorten(t.Context(), v); err == nil {
					t.Errorf("the lock of %+v could be lifted still", v)
				}
			}
		}
		says(t, p.succeeds("bucket lock"), "Nothing was done", "Give --yes to lock it")
		if now := p.inspects().Before; now.Locked || slices.Contains(now.Guards, "settings") {
			t.Errorf("a plan locked it: %+v", now)
		}
		p.succeeds("bucket lock", "--yes")
		p.succeeds("bucket lock", "--yes")
		now := p.inspects()
		if now.Level != "compliance" || now.Before.Locked == ofS3 || slices.Contains(now.Before.Guards, "settings") != ofS3 {
			t.Errorf("locked, it is %+v", now)
		}
		says(t, p.fails(3, "bucket ensure", "--retention-period=24h", "--retention-mode=compliance", "--locked=false"), "what is locked stays so")
		if table := p.succeeds("bucket inspect"); ofS3 {
			says(t, table, "by a statement of its policy", "s3:PutBucketPolicy")
		} else if strings.Contains(table, "statement") {
			t.Errorf("inspect: %s", table)
		}
		says(t, p.fails(3, "bucket ensure", "--retention-period=24h", "--retention-mode=governance"), "weaker")
		// What is locked can still become longer, and stays locked.
		longer := p.ensures("--retention-period=48h", "--locked")
		if longer.After.RetentionPeriod != "48h" || longer.Level != "compliance" || slices.Contains(longer.After.Guards, "settings") != ofS3 {
			t.Errorf("longer, it is %+v", longer.After)
		}
	}, "Swift", "Local", "OSS")
}

// TestWhatNoBucketCanBeIsRefusedAndNothingIsMade: periods that a provider does not know, and kinds of
// protection that it does not have.
func TestWhatNoBucketCanBeIsRefusedAndNothingIsMade(t *testing.T) {
	onEveryStore(t, func(t *testing.T, s sites.Site) {
		p := administered(t, s, "", unmade(t), sites.Owner)
		type refusal struct {
			args []string
			says string
		}
		mode := "--retention-mode=compliance"
		all := []refusal{
			{[]string{"--retention-period=24h"}, "give --retention-mode=governance"},
			{[]string{mode}, "without a period"},
			{[]string{"--retention-period=96000h", mode}, "3650 days"},
			{[]string{"--retention-period=-1h", mode}, "less than nothing"},
			{[]string{"--retention-type=all", "--retention-period=24h", mode}, "--retention-type"},
			{[]string{"--deny=everything"}, "--deny"},
		}
		short := refusal{[]string{"--retention-period=12h", mode}, "12h0m0s less than the shortest"}
		broken := refusal{[]string{"--retention-period=36h", mode}, "not a multiple of 1 day"}
		elsewhere := refusal{[]string{"--deny=markers"}, "cannot be had"}
		switch s.Name() {
		case "MinIO":
			all = append(all, short, broken, refusal{[]string{"--retention-period=24h", "--retention-mode=governance", "--locked"}, "compliance and not governance"},
				refusal{[]string{"--deny=markers"}, "nothing could be collected"})
		case "Ceph":
			all = append(all, short, broken)
		case "GCS":
			all = append(all, short, elsewhere)
		case "Azure":
			all = append(all, short, broken, elsewhere)
		case "OSS":
			all[0].says = "give --locked"
			all = append(all, short, broken, elsewhere, refusal{[]string{"--retention-period=24h", mode}, "24h0m0s"},
				refusal{[]string{"--retention-type=object", "--retention-period=24h", mode}, "whole buckets only"})
		case "Swift":
			all = []refusal{{[]string{"--retention-period=24h", mode}, "Swift has no immutability"}}
		case "Local":
			all = append(all[3:], refusal{[]string{"--retention-period=24h", mode}, "retention type object"})
		}
		for _, r := range all {
			says(t, p.fails(2, "bucket ensure", r.args...), r.says)
		}
		p.fails(5, "bucket inspect")
	})
}

// TestWhoMayNotIsToldSoAndNothingIsMade: credentials that can do nothing, or are nobody's.
func TestWhoMayNotIsToldSoAndNothingIsMade(t *testing.T) {
	onEveryStore(t, func(t *testing.T, s sites.Site) {
		for _, who := range []sites.Who{sites.Writer, sites.Impostor, sites.Nobody} {
			if who == sites.Writer && slices.Contains([]string{"Ceph", "Swift", "OSS"}, s.Name()) {
				continue // whoever is known there may make buckets of his own
			}
			name := unmade(t)
			p := administered(t, s, "", name, who)
			line := p.fails(5, "bucket ensure", bests[s.Name()].wish...)
			if !strings.Contains(line, name) {
				t.Errorf("%s does not name the bucket", line)
			}
			administered(t, s, "", name, sites.Owner).fails(5, "bucket inspect")
		}
	}, "Local")
}

// TestABucketIsMadeWhereverItIsKilled kills etcdbrctl before and after every request that changes something, and
// runs it again: in the end there is the same bucket, and what was locked at any moment stays so.
func TestABucketIsMadeWhereverItIsKilled(t *testing.T) {
	onEveryStore(t, func(t *testing.T, s sites.Site) {
		gate := gateTo(t, s)
		want := bests[s.Name()]
		wish := slices.Clone(want.wish)
		if s.Name() == "Ceph" {
			wish = append(wish, "--deny=markers,settings")
		}
		whole := administered(t, s, "", unmade(t), sites.Owner).ensures(wish...).After
		for nth := 1; ; nth++ {
			struck := false
			for _, after := range []bool{false, true} {
				p := administered(t, s, gate.Endpoint, unmade(t), sites.Owner)
				if killedAt(t, gate, p, wish, nth, after) {
					struck = true
				}
				made := p.ensures(wish...)
				if diff := cmp.Diff(whole, made.After); diff != "" {
					t.Errorf("killed at change %d (after it: %v), the bucket is another (-undisturbed +killed):\n%s", nth, after, diff)
				}
			}
			if !struck {
				if nth < 2 {
					t.Error("nothing was changed, so nobody was killed")
				}
				return
			}
		}
	}, "Local")
}

// killedAt runs ensure and kills it at its nth request that changes something; false: it made fewer.
func killedAt(t *testing.T, gate *faults.Gate, p place, wish []string, nth int, after bool) bool {
	t.Helper()
	cmd := p.command("bucket ensure", wish...)
	var seen, struck atomic.Int64
	gate.Inject(faults.Fault{
		Match: func(r *http.Request) bool {
			changes := r.Method != http.MethodGet && r.Method != http.MethodHead && !strings.Contains(r.URL.Path, "oken")
			return struck.Load() > 0 || changes && seen.Add(1) == int64(nth)
		},
		Status: map[bool]int{false: http.StatusServiceUnavailable}[after],
		Lose:   after,
		Then: func() {
			if struck.CompareAndSwap(0, 1) {
				_ = cmd.Process.Kill()
			}
		},
	})
	defer gate.Heal()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	ctx, cancel := context.WithTimeout(t.Context(), endAtMost)
	defer cancel()
	select {
	case <-done:
	case <-ctx.Done():
		_ = cmd.Process.Kill()
		t.Fatal("it did not end")
	}
	return struck.Load() > 0
}

// TestWhatOthersHaveConfiguredStays: lifecycle rules and statements of the policy are added to, not replaced.
func TestWhatOthersHaveConfiguredStays(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"MinIO", "Ceph"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := fleet.Get(t, name)
			bucket := unmade(t)
			p := administered(t, s, "", bucket, sites.Owner)
			p.ensures() // without retention
			client := sites.S3Of(s)
			c := client.Client(client.Root)
			rule := types.LifecycleRule{ID: aws.String("theirs"), Status: types.ExpirationStatusEnabled, Filter: &types.LifecycleRuleFilter{Prefix: aws.String("logs/")},
				Expiration: &types.LifecycleExpiration{Days: aws.Int32(9)}}
			if _, err := c.PutBucketLifecycleConfiguration(t.Context(), &s3.PutBucketLifecycleConfigurationInput{Bucket: &bucket,
				LifecycleConfiguration: &types.BucketLifecycleConfiguration{Rules: []types.LifecycleRule{rule}}}); err != nil {
				t.Fatal(err)
			}
			statement := `{"Version":"2012-10-17","Statement":[{"Sid":"Theirs","Effect":"Deny","Principal":{"AWS":["*"]},"Action":["s3:GetObject"],"Resource":["arn:aws:s3:::` + bucket + `/secret/*"]}]}`
			if _, err := c.PutBucketPolicy(t.Context(), &s3.PutBucketPolicyInput{Bucket: &bucket, Policy: &statement}); err != nil {
				t.Fatal(err)
			}
			made := p.ensures("--deny=settings")
			if !slices.Equal(made.After.Guards, map[string][]string{"MinIO": {"plain-http", "settings"}, "Ceph": {"plain-http", "old-tls", "settings"}}[name]) {
				t.Errorf("the policy has %v", made.After.Guards)
			}
			if again := p.ensures("--deny=settings"); len(again.changed()) > 0 {
				t.Errorf("the second time it did %v", again.changed())
			}
			says(t, strings.Join(made.After.Notes, "\n"), `lifecycle rule "theirs" expires objects`)
			rules, err := c.GetBucketLifecycleConfiguration(t.Context(), &s3.GetBucketLifecycleConfigurationInput{Bucket: &bucket})
			if err != nil {
				t.Fatal(err)
			}
			var ids []string
			for _, r := range rules.Rules {
				ids = append(ids, *r.ID)
			}
			slices.Sort(ids)
			if !slices.Equal(ids, map[string][]string{"MinIO": {"theirs"}, "Ceph": {"druid-abort-incomplete-uploads", "theirs"}}[name]) {
				t.Errorf("the lifecycle has %v", ids)
			}
			policy, err := c.GetBucketPolicy(t.Context(), &s3.GetBucketPolicyInput{Bucket: &bucket})
			if err != nil {
				t.Fatal(err)
			}
			says(t, *policy.Policy, `"Theirs"`, "/secret/*", "DruidDenyPlainHTTP", "DruidDenySettings")
		})
	}
}

// TestABucketThatWasMadeWithoutLocksIsRefusedWhereTheServerCannotAddThem: both servers cannot.
func TestABucketThatWasMadeWithoutLocksIsRefusedWhereTheServerCannotAddThem(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"MinIO", "Ceph"} {
		p := administered(t, fleet.Get(t, name), "", unmade(t), sites.Owner)
		before := p.ensures().After
		says(t, p.fails(3, "bucket ensure", bests[name].wish...), "created with them", "etcdbrctl copy")
		// A plain bucket that kept versions from then on would never let go of anything.
		if diff := cmp.Diff(before, p.inspects().Before, cmpopts.IgnoreFields(bucketState{}, "Notes")); diff != "" || before.Versioned {
			t.Errorf("%s: refused, it is another (-before +now):\n%s", name, diff)
		}
	}
}

// TestANameThatNoBucketCanHaveIsToldAsThat: MinIO is asked, and of others this program knows it.
func TestANameThatNoBucketCanHaveIsToldAsThat(t *testing.T) {
	t.Parallel()
	p := administered(t, fleet.Get(t, "MinIO"), "", "a..b", sites.Owner)
	says(t, p.fails(2, "bucket ensure"), "is not allowed")
}

// TestABucketOfSomebodyElseIsRefusedByName, whether one may look at it or not.
func TestABucketOfSomebodyElseIsRefusedByName(t *testing.T) {
	t.Parallel()
	for phrase, who := range map[string]sites.Who{"may not look": sites.Stranger, "may look": sites.Reader} {
		t.Run("Ceph, who "+phrase, func(t *testing.T) {
			s := fleet.Get(t, "Ceph")
			bucket := fleet.Bucket(t, s, sites.Compliance)
			p := administered(t, s, "", bucket, who)
			for _, verb := range []string{"bucket ensure", "bucket inspect", "bucket delete", "bucket lock"} {
				line := p.fails(3, verb)
				if !strings.Contains(line, bucket) || !strings.Contains(line, "belongs to") {
					t.Errorf("%s: %s", verb, line)
				}
			}
		})
	}
}

// TestABucketOfAnotherProjectIsRefusedByName on Google, whose names are of everybody.
func TestABucketOfAnotherProjectIsRefusedByName(t *testing.T) {
	t.Parallel()
	s := fleet.Get(t, "GCS")
	bucket := unmade(t)
	if err := sites.MakeForeign(t.Context(), s, bucket); err != nil {
		t.Fatal(err)
	}
	p := administered(t, s, "", bucket, sites.Owner)
	for _, verb := range []string{"bucket ensure", "bucket inspect", "bucket delete", "bucket lock"} {
		line := p.fails(3, verb)
		if !strings.Contains(line, bucket) || !strings.Contains(line, "project") {
			t.Errorf("%s: %s", verb, line)
		}
	}
	// The same with a project whose buckets may not be listed: the name is found to be taken.
	p = administered(t, s, "", bucket, sites.Owner)
	says(t, p.fails(3, "bucket ensure", "--project=yet-another"), bucket, "project yet-another")
}

// TestTheFiveExtensionsOfAContainerAreCountedAndGuarded on Azure, which gives a locked policy five in its life.
func TestTheFiveExtensionsOfAContainerAreCountedAndGuarded(t *testing.T) {
	t.Parallel()
	p := administered(t, fleet.Get(t, "Azure"), "", unmade(t), sites.Owner)
	locked := func(days int) []string { return []string{fmt.Sprintf("--retention-period=%dh", 24*days), "--locked"} }
	p.ensures(locked(20)...)
	says(t, p.fails(3, "bucket ensure", locked(21)...), "20 days to 21 days gains 5.0 %", "one of 5 extensions that are left of 5", "22 days or more", "--spend-extension")
	for n, days := range []int{22, 30, 40, 50} {
		if r := p.ensures(locked(days)...); r.After.Extensions != n+1 {
			t.Errorf("after %d days there were %d extensions, want %d", days, r.After.Extensions, n+1)
		}
		p.ensures(locked(days)...) // takes none
	}
	says(t, p.succeeds("bucket ensure", append(locked(51), "--spend-extension", "--dry-run")...), "0 of 5 extensions are left")
	p.ensures(append(locked(51), "--spend-extension")...)
	says(t, p.fails(3, "bucket ensure", locked(100)...), "raised 5 of 5 times", "etcdbrctl copy")
	says(t, p.succeeds("bucket inspect"), "can be raised 0 more times")
}

// TestWhatOthersHaveOfOSSIsLeftAlone: buckets of another account, and lifecycle rules.
func TestWhatOthersHaveOfOSSIsLeftAlone(t *testing.T) {
	t.Parallel()
	s := fleet.Get(t, "OSS")
	fake := sites.OSSOf(s)
	bucket := unmade(t)
	p := administered(t, s, "", bucket, sites.Owner)
	p.ensures(bests["OSS"].wish...)
	for _, verb := range []string{"bucket ensure", "bucket inspect", "bucket delete", "bucket lock"} {
		line := administered(t, s, "", bucket, sites.Stranger).fails(3, verb)
		if !strings.Contains(line, bucket) || !strings.Contains(line, "belongs to somebody else") {
			t.Errorf("%s: %s", verb, line)
		}
	}
	theirs := "<LifecycleConfiguration><Rule><ID>theirs</ID><Prefix>logs/</Prefix><Status>Enabled</Status><Novelty>kept</Novelty><Expiration><Days>9</Days></Expiration></Rule></LifecycleConfiguration>"
	fake.SetLifecycle(bucket, theirs)
	if made := p.ensures(bests["OSS"].wish...); !slices.Equal(made.changed(), []string{"abort-uploads"}) || !made.After.AbortsUploads {
		t.Errorf("it did %v", made.changed())
	}
	says(t, fake.Lifecycle(bucket), strings.TrimSuffix(theirs, "</LifecycleConfiguration>"), "<ID>druid-abort-incomplete-uploads</ID>")
	if again := p.ensures(bests["OSS"].wish...); len(again.changed()) > 0 {
		t.Errorf("the second time it did %v", again.changed())
	}
}

// TestAPolicyThatLapsesIsLocked: one of OSS that somebody has begun ends after a day, and is locked before it is lengthened.
func TestAPolicyThatLapsesIsLocked(t *testing.T) {
	t.Parallel()
	s := fleet.Get(t, "OSS")
	bucket := unmade(t)
	if err := sites.OSSOf(s).CreateBucket(bucket, "begun", 1); err != nil {
		t.Fatal(err)
	}
	p := administered(t, s, "", bucket, sites.Owner)
	seen := p.succeeds("bucket inspect")
	says(t, seen, "lapses", "LEVEL", "governance")
	says(t, p.fails(2, "bucket ensure", "--retention-period=24h", "--retention-mode=compliance"), "ends by itself after 24h0m0s")
	made := p.ensures("--retention-period=72h", "--locked")
	if !slices.Equal(made.changed(), []string{"lock-policy", "extend-policy", "abort-uploads"}) || made.Level != "compliance" || made.After.RetentionPeriod != "72h" {
		t.Errorf("it did %v, and is %+v", made.changed(), made.After)
	}
}

// TestAStepOfAnOldPlanWeakensNothing: what was planned before somebody lengthened the retention is refused.
func TestAStepOfAnOldPlanWeakensNothing(t *testing.T) {
	for _, name := range []string{"MinIO", "Ceph", "GCS", "Azure", "OSS"} {
		t.Run(name, func(t *testing.T) {
			s := fleet.Get(t, name)
			bucket := unmade(t)
			p := administered(t, s, "", bucket, sites.Owner)
			wish := slices.Clone(bests[name].wish)
			wish[0] = "--retention-period=72h"
			p.ensures(wish...)
			a := adminOf(t, p)
			before, err := a.Read(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			kinds := []immutability.BucketStepKind{immutability.BucketPolicy, immutability.BucketExtend, immutability.BucketLock}
			if a.Rules().StampsMode {
				kinds = kinds[:1]
			}
			for _, kind := range kinds {
				_, err := a.Do(t.Context(), immutability.BucketStep{Do: kind, Mode: immutability.ModeCompliance, Period: immutability.Period(48 * time.Hour)})
				if kind != immutability.BucketLock && !errors.Is(err, admin.ErrWeaker) {
					t.Errorf("%s of 48 h = %v, want %v", kind, err, admin.ErrWeaker)
				}
			}
			if after, err := a.Read(t.Context()); err != nil || after.Period != before.Period || after.Mode != before.Mode || after.Locked != before.Locked {
				t.Errorf("it became %+v, %v", after, err)
			}
		})
	}
}

// adminOf is the bucket as the program administers it, for what it would not do by itself. The test must not be
// parallel: Azure's ambient identity looks into the environment.
func adminOf(t *testing.T, p place) admin.Bucket {
	t.Helper()
	env := map[string]string{}
	for _, v := range p.env {
		name, value, _ := strings.Cut(v, "=")
		env[name] = value
		if strings.HasPrefix(name, "AZURE_") {
			t.Setenv(name, value)
		}
	}
	conf := open.Config{Environment: open.FromEnvironment(func(name string) string { return env[name] }, "")}
	for _, flag := range p.store {
		name, value, _ := strings.Cut(flag, "=")
		*map[string]*string{"--storage-provider": &conf.Provider, "--store-container": &conf.Container, "--store-endpoint-override": &conf.EndpointOverride}[name] = value
	}
	a, err := open.Admin(t.Context(), conf, admin.Creation{})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestNoProviderDeletesABucketThatHoldsSomething, though nothing protects it, and nobody has looked before.
func TestNoProviderDeletesABucketThatHoldsSomething(t *testing.T) {
	for _, name := range sites.Names() {
		t.Run(name, func(t *testing.T) {
			s := fleet.Get(t, name)
			bucket := unmade(t)
			p := administered(t, s, "", bucket, sites.Owner)
			p.ensures()
			h := handsOn(t, s, bucket, sites.Owner)
			h.put("a", []byte("precious"))
			a := adminOf(t, p)
			if err := a.Delete(t.Context()); !errors.Is(err, admin.ErrNotEmpty) {
				t.Errorf("Delete = %v, want %v", err, admin.ErrNotEmpty)
			}
			if got := string(h.get("a")); got != "precious" {
				t.Errorf("it is %q now", got)
			}
			h.destroy("a", true)
			for range 2 {
				if err := a.Delete(t.Context()); err != nil {
					t.Errorf("Delete of an empty one: %v", err)
				}
			}
		})
	}
}

// TestABucketLetsWritersLockEachObject with the retention type object, on the stores that have such locks.
func TestABucketLetsWritersLockEachObject(t *testing.T) {
	onEveryStore(t, func(t *testing.T, s sites.Site) {
		p := administered(t, s, "", unmade(t), sites.Owner)
		wish := []string{"--retention-type=object", "--retention-period=24h", "--retention-mode=compliance"}
		made := p.ensures(append(wish, "--canary")...)
		if !made.After.ObjectLock || made.Level != "none" || made.Canary == nil || made.Canary.Protection != "compliance" {
			t.Errorf("it is %+v, level %s, the canary proved %+v", made.After, made.Level, made.Canary)
		}
		if again := p.ensures(wish...); len(again.changed()) > 0 {
			t.Errorf("the second time it did %v", again.changed())
		}
		says(t, p.fails(2, "bucket ensure", append(wish, "--locked")...), "only the policy of a bucket is locked")
		if s.Name() == "GCS" || s.Name() == "Azure" { // which cannot allow it later
			p := administered(t, s, "", unmade(t), sites.Owner)
			p.ensures()
			says(t, p.fails(3, "bucket ensure", wish...), "created without locks of single objects")
		}
	}, "OSS", "Swift", "Local")
}

// TestDeniedIsDeniedToEverybody: what the statements of a bucket's policy refuse, on Ceph, whose policies bind
// even the owner of a bucket. The same is done to a bucket without them.
func TestDeniedIsDeniedToEverybody(t *testing.T) {
	t.Parallel()
	s := fleet.Get(t, "Ceph")
	client := sites.S3Of(s)
	c := client.Client(client.Root)
	for _, guarded := range []bool{true, false} {
		bucket := unmade(t)
		p := administered(t, s, "", bucket, sites.Owner)
		deny := []string{}
		if guarded {
			deny = append(deny, "--deny=markers,settings")
		}
		wish := []string{"--retention-type=object", "--retention-period=24h", "--retention-mode=governance"}
		p.ensures(append(wish, deny...)...)
		h := handsOn(t, s, bucket, sites.Owner)
		h.put("a", []byte("1"))
		v := h.versions("a")[0]
		for what, do := range map[string]func() error{
			"a marker": func() error { return h.raw.Hide(t.Context(), "a") },
			"suspended versions": func() error {
				_, err := c.PutBucketVersioning(t.Context(), &s3.PutBucketVersioningInput{Bucket: &bucket, VersioningConfiguration: &types.VersioningConfiguration{Status: types.BucketVersioningStatusEnabled}})
				return err
			},
			"another default": func() error {
				_, err := c.PutObjectLockConfiguration(t.Context(), &s3.PutObjectLockConfigurationInput{Bucket: &bucket, ObjectLockConfiguration: &types.ObjectLockConfiguration{ObjectLockEnabled: types.ObjectLockEnabledEnabled}})
				return err
			},
			"another lifecycle": func() error {
				_, err := c.PutBucketLifecycleConfiguration(t.Context(), &s3.PutBucketLifecycleConfigurationInput{Bucket: &bucket, LifecycleConfiguration: &types.BucketLifecycleConfiguration{Rules: []types.LifecycleRule{
					{ID: aws.String("x"), Status: types.ExpirationStatusEnabled, Filter: &types.LifecycleRuleFilter{Prefix: aws.String("")}, Expiration: &types.LifecycleExpiration{Days: aws.Int32(1)}}}}})
				return err
			},
		} {
			if err := do(); (err != nil) != guarded {
				t.Errorf("%s, denied: %v: %v", what, guarded, err)
			}
		}
		// A version that is not locked can be collected all the same.
		h.must(h.raw.Delete(t.Context(), v))
	}
}
