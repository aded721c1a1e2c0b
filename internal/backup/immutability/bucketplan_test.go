package immutability

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var yes, no = true, false

func rulesOf(t *testing.T, provider string) BucketRules {
	t.Helper()
	r, ok := RulesOf(provider)
	if !ok {
		t.Fatalf("no rules of %s", provider)
	}
	return r
}

// wish is a retention of days for the whole bucket.
func wish(days int, mode Mode) BucketWish {
	return BucketWish{Type: ByBucket, Period: Period(days) * Period(Day), Mode: mode}
}

func lockedWish(days int) BucketWish {
	w := wish(days, ModeCompliance)
	w.Locked = &yes
	return w
}

func (w BucketWish) with(change func(*BucketWish)) BucketWish { change(&w); return w }

// policyBucket is one with a policy of its own.
func policyBucket(days int, locked bool) Bucket {
	b := Bucket{Exists: true, Mode: ModeGovernance, Period: Period(days) * Period(Day), Locked: locked, AbortsUploads: true}
	if locked {
		b.Mode = ModeCompliance
	}
	return b
}

// s3Bucket is one with a default lock.
func s3Bucket(days int, mode Mode) Bucket {
	return Bucket{Exists: true, Versioned: true, ObjectLock: true, Mode: mode, Period: Period(days) * Period(Day), AbortsUploads: true,
		Guards: []Guard{GuardPlainHTTP, GuardOldTLS}}
}

// kinds is a plan in short.
func (p BucketPlan) kinds() string {
	var all []string
	for _, s := range p.Steps {
		word := string(s.Do)
		if s.Period > 0 {
			word += " " + s.Period.String()
		}
		if s.Guard != "" {
			word += " " + string(s.Guard)
		}
		all = append(all, word)
	}
	return strings.Join(all, ", ")
}

func TestABucketIsMadeWhatItShallBe(t *testing.T) {
	for phrase, c := range map[string]struct {
		provider string
		bucket   Bucket
		wish     BucketWish
		want     string
		level    Mode
		says     string // one of the notes
	}{
		"S3, from nothing": {"S3", Bucket{}, wish(4, ModeCompliance),
			"create, set-policy 4 days, abort-uploads, add-guard plain-http, add-guard old-tls", ModeCompliance, ""},
		"S3, as it is already": {"S3", s3Bucket(4, ModeCompliance), wish(4, ModeCompliance), "lengthen-versions 4 days", ModeCompliance, ""},
		"S3, longer":           {"S3", s3Bucket(4, ModeCompliance), wish(9, ModeCompliance), "set-policy 9 days, lengthen-versions 9 days", ModeCompliance, ""},
		"S3, stronger":         {"S3", s3Bucket(4, ModeGovernance), wish(4, ModeCompliance), "set-policy 4 days, lengthen-versions 4 days", ModeCompliance, ""},
		"S3, a bucket without anything": {"S3", Bucket{Exists: true, AbortsUploads: true}, wish(4, ModeGovernance),
			"keep-versions, allow-locks, set-policy 4 days, lengthen-versions 4 days, add-guard plain-http, add-guard old-tls", ModeGovernance, "BypassGovernanceRetention"},
		"S3, locked": {"S3", s3Bucket(4, ModeCompliance), lockedWish(4), "lengthen-versions 4 days, add-guard settings", ModeCompliance, "cannot lock a bucket's configuration"},
		"S3, locked and longer": {"S3", func() Bucket { b := s3Bucket(4, ModeCompliance); b.Guards = Guards(); return b }(), lockedWish(5),
			"lift-guard settings, set-policy 5 days, lengthen-versions 5 days, add-guard settings", ModeCompliance, ""},
		"S3, longer, and its settings are denied": {"S3", func() Bucket { b := s3Bucket(4, ModeCompliance); b.Guards = Guards(); return b }(), wish(5, ModeCompliance),
			"lift-guard settings, set-policy 5 days, lengthen-versions 5 days, add-guard settings", ModeCompliance, ""},
		"S3, a server without old TLS": {"S3", func() Bucket {
			b := s3Bucket(4, ModeCompliance)
			b.Guards, b.NoGuards = nil, map[Guard]string{GuardOldTLS: "it does not know it"}
			return b
		}(),
			wish(4, ModeCompliance), "lengthen-versions 4 days, add-guard plain-http", ModeCompliance, "it does not know it"},
		"S3, by object": {"S3", Bucket{}, wish(4, ModeCompliance).with(func(w *BucketWish) { w.Type = ByObject }),
			"create, abort-uploads, add-guard plain-http, add-guard old-tls", ModeNone, "whoever writes locks each object for 4 days (compliance)"},
		"ECS is S3":                     {"ECS", s3Bucket(4, ModeCompliance), wish(4, ModeCompliance), "lengthen-versions 4 days", ModeCompliance, ""},
		"GCS, from nothing":             {"GCS", Bucket{}, wish(4, ModeCompliance), "create 4 days", ModeGovernance, "governance until it is locked"},
		"GCS, from nothing, locked":     {"GCS", Bucket{}, lockedWish(4), "create 4 days, lock-policy 4 days", ModeCompliance, ""},
		"GCS, an existing bucket":       {"GCS", Bucket{Exists: true}, wish(4, ModeGovernance), "set-policy 4 days", ModeGovernance, ""},
		"GCS, a locked one longer":      {"GCS", policyBucket(4, true), wish(5, ModeCompliance), "extend-policy 5 days", ModeCompliance, ""},
		"GCS, locked already":           {"GCS", policyBucket(4, true), lockedWish(4), "", ModeCompliance, ""},
		"GCS, a period that is no day":  {"GCS", Bucket{Exists: true}, wish(0, ModeGovernance).with(func(w *BucketWish) { w.Period = Period(36 * time.Hour) }), "set-policy 36h0m0s", ModeGovernance, ""},
		"ABS, longer and then locked":   {"ABS", policyBucket(4, false), lockedWish(9), "set-policy 9 days, lock-policy 9 days", ModeCompliance, ""},
		"ABS, a locked one longer":      {"ABS", policyBucket(10, true), wish(11, ModeCompliance), "extend-policy 11 days", ModeCompliance, ""},
		"OSS, from nothing":             {"OSS", Bucket{}, lockedWish(4), "create, set-policy 4 days, lock-policy 4 days, abort-uploads", ModeCompliance, ""},
		"OSS, begun and shorter":        {"OSS", policyBucket(4, false), lockedWish(9), "lock-policy 4 days, extend-policy 9 days", ModeCompliance, ""},
		"OSS, locked, asked without":    {"OSS", policyBucket(4, true), wish(4, ModeCompliance), "", ModeCompliance, ""},
		"Swift, without retention":      {"Swift", Bucket{}, BucketWish{}, "create", ModeNone, "Swift has no immutability"},
		"Local, by object":              {"Local", Bucket{}, wish(4, ModeCompliance).with(func(w *BucketWish) { w.Type = ByObject }), "create", ModeAdvisory, "advisory"},
		"without retention":             {"GCS", Bucket{}, BucketWish{}, "create", ModeNone, "whoever may delete"},
		"governance that can be lifted": {"S3", s3Bucket(4, ModeGovernance), wish(4, ModeGovernance), "lengthen-versions 4 days", ModeGovernance, "privileged identities can lift a lock"},
		"governance that settings deny to lift": {"S3", func() Bucket { b := s3Bucket(4, ModeGovernance); b.Guards = append(b.Guards, GuardSettings); return b }(), wish(4, ModeGovernance), "lengthen-versions 4 days", ModeGovernance,
			`a lock of mode governance can be lifted by whoever may take the statement "settings"`},
		"without retention, no locks":   {"S3", Bucket{Exists: true, AbortsUploads: true}, BucketWish{}, "add-guard plain-http, add-guard old-tls", ModeNone, ""},
		"without retention, it has one": {"GCS", policyBucket(4, true), BucketWish{}, "", ModeCompliance, "4 days stays as it is"},
		"markers":                       {"S3", s3Bucket(4, ModeCompliance), wish(4, ModeCompliance).with(func(w *BucketWish) { w.Guards = []Guard{GuardMarkers} }), "lengthen-versions 4 days, add-guard markers", ModeCompliance, ""},
	} {
		t.Run(phrase, func(t *testing.T) {
			p, err := PlanBucket(c.bucket, c.wish, rulesOf(t, c.provider))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, p.kinds()); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
			if p.Level != c.level {
				t.Errorf("level %s, want %s", p.Level, c.level)
			}
			if !strings.Contains(strings.Join(p.Notes, "\n"), c.says) {
				t.Errorf("notes %q, want %q", p.Notes, c.says)
			}
		})
	}
}

func TestWhatWouldWeakenOrCannotBeIsRefusedWithTheArithmetic(t *testing.T) {
	for phrase, c := range map[string]struct {
		provider   string
		bucket     Bucket
		wish       BucketWish
		impossible bool
		says       []string
	}{
		"shorter than the minimum":     {"S3", Bucket{}, wish(0, ModeCompliance).with(func(w *BucketWish) { w.Period = Period(20 * time.Hour) }), true, []string{"20h0m0s is 4h0m0s less than the shortest of S3, 1 day", "1 day or more"}},
		"no whole days":                {"ABS", Bucket{}, wish(0, ModeGovernance).with(func(w *BucketWish) { w.Period = Period(36 * time.Hour) }), true, []string{"36h0m0s is not a multiple of 1 day", "ask for 1 day or 2 days"}},
		"eleven years":                 {"S3", Bucket{}, wish(11*365, ModeCompliance), true, []string{"4015 days is more than 3650 days"}},
		"no period":                    {"S3", Bucket{}, BucketWish{Mode: ModeCompliance}, true, []string{"without a period"}},
		"no mode":                      {"S3", Bucket{}, wish(4, ""), true, []string{"governance", "compliance"}},
		"no days and no mode":          {"S3", Bucket{}, wish(0, "").with(func(w *BucketWish) { w.Period = Period(36 * time.Hour) }), true, []string{"36h0m0s is not a multiple of 1 day"}},
		"too short and no mode":        {"GCS", Bucket{}, wish(0, "").with(func(w *BucketWish) { w.Period = Period(time.Hour) }), true, []string{"less than the shortest"}},
		"locked governance":            {"GCS", Bucket{}, lockedWish(4).with(func(w *BucketWish) { w.Mode = ModeGovernance }), true, []string{"compliance and not governance"}},
		"locked objects":               {"S3", Bucket{}, lockedWish(4).with(func(w *BucketWish) { w.Type = ByObject }), true, []string{"only the policy of a bucket is locked"}},
		"Swift":                        {"Swift", Bucket{}, wish(4, ModeCompliance), true, []string{"Swift has no immutability", "another store"}},
		"a directory's default":        {"Local", Bucket{}, wish(4, ModeCompliance), true, []string{"retention type object"}},
		"OSS without locked":           {"OSS", Bucket{}, wish(4, ModeCompliance), true, []string{"24h0m0s", "give --locked"}},
		"OSS without mode and locked":  {"OSS", Bucket{}, wish(4, ""), true, []string{"24h0m0s", "give --locked"}},
		"OSS, begun, without locked":   {"OSS", policyBucket(4, false), wish(4, ModeCompliance), true, []string{"24h0m0s"}},
		"OSS, explicitly not":          {"OSS", policyBucket(4, true), wish(4, ModeCompliance).with(func(w *BucketWish) { w.Locked = &no }), true, []string{"24h0m0s"}},
		"OSS by object":                {"OSS", Bucket{}, wish(4, ModeCompliance).with(func(w *BucketWish) { w.Type = ByObject }), true, []string{"whole buckets only"}},
		"a statement Google lacks":     {"GCS", Bucket{}, BucketWish{Guards: []Guard{GuardMarkers}}, true, []string{`"markers"`, "GCS"}},
		"a statement the server lacks": {"S3", Bucket{NoGuards: map[Guard]string{GuardMarkers: "it would stop collection"}}, BucketWish{Guards: []Guard{GuardMarkers}}, true, []string{"it would stop collection"}},
		"markers without versions":     {"S3", Bucket{Exists: true}, BucketWish{Guards: []Guard{GuardMarkers}}, false, []string{"stop every deletion"}},
		"somebody else's":              {"S3", Bucket{Exists: true, Owner: "mallory"}, wish(4, ModeCompliance), false, []string{"belongs to mallory"}},
		"shorter":                      {"S3", s3Bucket(30, ModeGovernance), wish(4, ModeGovernance), false, []string{"for 30 days, and 4 days would be 26 days less", "ask for 30 days or more"}},
		"shorter, though not locked":   {"GCS", policyBucket(30, false), wish(29, ModeGovernance), false, []string{"1 day less"}},
		"weaker":                       {"S3", s3Bucket(4, ModeCompliance), wish(9, ModeGovernance), false, []string{"mode compliance, and governance would be weaker"}},
		"unlocking":                    {"GCS", policyBucket(4, true), wish(4, ModeCompliance).with(func(w *BucketWish) { w.Locked = &no }), false, []string{"locked stays so"}},
		"unlocking what a statement locks": {"S3", func() Bucket { b := s3Bucket(4, ModeCompliance); b.Guards = append(b.Guards, GuardSettings); return b }(), wish(4, ModeCompliance).with(func(w *BucketWish) { w.Locked = &no }), false,
			[]string{"locked by a statement of its policy", "locked stays so"}},
		"unlocking by mode":               {"ABS", policyBucket(4, true), wish(4, ModeGovernance), false, []string{"weaker"}},
		"objects in an old bucket of GCS": {"GCS", Bucket{Exists: true}, wish(4, ModeCompliance).with(func(w *BucketWish) { w.Type = ByObject }), false, []string{"without locks of single objects", "etcdbrctl copy"}},
		"a sixth extension":               {"ABS", func() Bucket { b := policyBucket(30, true); b.Extensions = 5; return b }(), wish(60, ModeCompliance), false, []string{"raised 5 of 5 times", "new bucket"}},
		"an extension for little": {"ABS", func() Bucket { b := policyBucket(30, true); b.Extensions = 3; return b }(), wish(31, ModeCompliance), false,
			[]string{"30 days to 31 days gains 3.3 %", "one of 2 extensions that are left of 5", "33 days or more"}},
	} {
		t.Run(phrase, func(t *testing.T) {
			p, err := PlanBucket(c.bucket, c.wish, rulesOf(t, c.provider))
			var refusal *BucketRefusal
			if !errors.As(err, &refusal) {
				t.Fatalf("it is planned: %s (%v)", p.kinds(), err)
			}
			if refusal.Impossible != c.impossible {
				t.Errorf("impossible: %v, want %v: %v", refusal.Impossible, c.impossible, err)
			}
			for _, want := range c.says {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q, want %q", err, want)
				}
			}
		})
	}
}

func TestAnExtensionForLittleIsSpentWhenAskedFor(t *testing.T) {
	b := policyBucket(30, true)
	b.Extensions = 4
	p, err := PlanBucket(b, wish(31, ModeCompliance).with(func(w *BucketWish) { w.SpendExtension = true }), rulesOf(t, "ABS"))
	if err != nil || p.kinds() != "extend-policy 31 days" || !strings.Contains(p.Steps[0].Text, "0 of 5 extensions are left") {
		t.Errorf("%s %+v, %v", p.kinds(), p.Steps, err)
	}
}

// carryOut is what a faithful provider makes of a step.
func carryOut(b Bucket, s BucketStep, r BucketRules) Bucket {
	switch s.Do {
	case BucketCreate:
		b.Exists, b.ObjectLock, b.Versioned = true, s.ObjectLock, s.ObjectLock && r.StampsMode
		b.Mode, b.Period = s.Mode, s.Period
	case BucketVersions:
		b.Versioned = true
	case BucketObjectLock:
		b.ObjectLock = true
	case BucketPolicy:
		b.Mode, b.Period = s.Mode, s.Period
	case BucketExtend:
		b.Period, b.Extensions = s.Period, b.Extensions+1
	case BucketLock:
		b.Locked, b.Mode = true, ModeCompliance
	case BucketUploads:
		b.AbortsUploads = true
	case BucketLift:
		b.Guards = slices.DeleteFunc(slices.Clone(b.Guards), func(g Guard) bool { return g == s.Guard })
	case BucketGuard:
		b.Guards = append(slices.Clone(b.Guards), s.Guard)
	}
	return b
}

// TestAPlanThatIsBrokenOffAnywhereIsTakenUpAndNeverWeakens carries out random plans to a random
// step, plans anew from what is there, and holds each step against what was before.
func TestAPlanThatIsBrokenOffAnywhereIsTakenUpAndNeverWeakens(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 1))
	pick := func(n int) int { return r.IntN(n) }
	planned := 0
	for range rounds {
		rules := bucketRules[pick(len(bucketRules))]
		b := Bucket{}
		if pick(3) > 0 {
			b = Bucket{Exists: true, Versioned: pick(2) > 0, Extensions: pick(7)}
			b.ObjectLock = b.Versioned && pick(2) > 0
			b.AbortsUploads = pick(2) > 0
			if days := pick(5); days > 0 && rules.None == "" && !rules.Advisory && (b.ObjectLock || !rules.StampsMode) {
				b.Period, b.Mode = Period(days)*Period(Day), ModeGovernance
				if rules.StampsMode && pick(2) > 0 {
					b.Mode = ModeCompliance
				}
				if !rules.StampsMode && pick(2) > 0 {
					b.Mode, b.Locked = ModeCompliance, true
				}
			}
			for _, g := range rules.Guards {
				if pick(2) > 0 {
					b.Guards = append(b.Guards, g)
				}
			}
		}
		w := BucketWish{}
		if pick(5) > 0 {
			w = BucketWish{Type: []RetentionType{ByBucket, ByBucket, ByBucket, ByObject}[pick(4)], Period: Period(1+pick(6)) * Period(Day),
				Mode: []Mode{ModeGovernance, ModeCompliance}[pick(2)], Locked: []*bool{nil, nil, &yes, &no}[pick(4)], SpendExtension: pick(2) > 0}
		}
		for _, g := range rules.Guards {
			if pick(4) == 0 {
				w.Guards = append(w.Guards, g)
			}
		}
		for attempt := range 4 {
			p, err := PlanBucket(b, w, rules)
			if err != nil {
				if attempt > 0 {
					t.Fatalf("%s: planned before, and refused after a part: %v\n%+v\n%+v", rules.Provider, err, b, w)
				}
				break
			}
			planned++
			if attempt == 3 {
				if !p.Done() || p.Level != b.Level() && !rules.Advisory {
					t.Fatalf("%s: after all is done there is %s, level %s of %s\n%+v\n%+v", rules.Provider, p.kinds(), b.Level(), p.Level, b, w)
				}
				break
			}
			steps := p.Steps
			if attempt < 2 && len(steps) > 0 {
				steps = steps[:pick(len(steps)+1)] // killed here
			}
			for _, s := range steps {
				after := carryOut(b, s, rules)
				if after.Period < b.Period || b.Period > 0 && Compare(after.Mode, b.Mode) < 0 || b.Locked && !after.Locked || s.Do == BucketLock && s.Period != b.Period ||
					s.Do == BucketExtend && (!b.Locked || rules.MaxExtensions > 0 && after.Extensions > rules.MaxExtensions) || s.Do == BucketPolicy && b.Locked {
					t.Fatalf("%s: %s makes of %+v %+v", rules.Provider, s.Do, b, after)
				}
				b = after
			}
		}
	}
	if planned < rounds/2 {
		t.Errorf("only %d plans of %d rounds: the property was hardly tried", planned, rounds)
	}
}

func TestAPeriodIsTextThatIsReadBack(t *testing.T) {
	for d, want := range map[time.Duration]string{96 * time.Hour: "96h", 90 * time.Minute: "1h30m0s", 0: "0h"} {
		text, err := Period(d).MarshalText()
		var back Period
		if err != nil || string(text) != want || back.UnmarshalText(text) != nil || back != Period(d) {
			t.Errorf("%s: %q, read back as %s, %v", d, text, back, err)
		}
	}
}
