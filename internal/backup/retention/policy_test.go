package retention

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
	"github.com/google/go-cmp/cmp"
)

func TestAPolicyThatMakesNoSenseIsRefusedWithEveryReason(t *testing.T) {
	for name, c := range map[string]struct {
		policy Policy
		want   []string // parts of the message; none: the policy is fine
	}{
		"the zero policy":            {Policy{}, nil},
		"exponential":                {Policy{Method: Exponential}, nil},
		"unused number of backups":   {Policy{Method: Exponential, MaxBackups: 7}, nil},
		"everything at once":         {Policy{Method: LimitBased, MaxBackups: 1, Keep: Counts{Last: 1}, DeltaRetention: 1, MaxAge: 1, MaxSize: 1}, nil},
		"no backups to keep":         {Policy{Method: LimitBased}, []string{"at least 1, not 0"}},
		"another program's method":   {Policy{Method: "Random"}, []string{`"Random"`, "Exponential or LimitBased"}},
		"negative numbers":           {Policy{Keep: Counts{Hourly: -1, Monthly: -2}, MaxSize: -3}, []string{"-1 hourly", "-2 monthly", "-3"}},
		"negative times":             {Policy{DeltaRetention: -time.Second, MaxAge: -time.Hour}, []string{"delta retention period -1s", "maximum age -1h"}},
		"negative number of backups": {Policy{MaxBackups: -1}, []string{"-1 is no number"}},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.policy.Validate()
			if (err != nil) != (len(c.want) > 0) {
				t.Fatalf("Validate() = %v", err)
			}
			for _, part := range c.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not say %q", err, part)
				}
			}
			if _, decided := Decide(Bucket{}, c.policy, time.Now(), 0); (decided != nil) != (err != nil) {
				t.Errorf("Decide says %v, Validate %v", decided, err)
			}
		})
	}
}

func TestEveryFieldMakesAPolicy(t *testing.T) {
	for name, p := range map[string]Policy{
		"method":          {Method: Exponential},
		"counts":          {Keep: Counts{Weekly: 1}},
		"delta retention": {DeltaRetention: 1},
		"age":             {MaxAge: 1},
		"size":            {MaxSize: 1},
	} {
		if p.IsZero() || p.String() == (Policy{}).String() {
			t.Errorf("%s: IsZero %t, %s", name, p.IsZero(), p)
		}
	}
	if !(Policy{}).IsZero() {
		t.Error("the zero policy is none")
	}
}

func FuzzParseMethod(f *testing.F) {
	for _, s := range []string{"", "LimitBased", "Exponential", "limitbased"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		m, err := ParseMethod(s)
		if err == nil && string(m) != s || err != nil && m != NoMethod {
			t.Errorf("ParseMethod(%q) = %q, %v", s, m, err)
		}
	})
}

func TestAPlanReadsTheSameAsJSON(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	key := snapshot.SnapshotKey("ns/main", snapshot.Name{Kind: snapshot.Full, Last: 7, Created: now.Add(-time.Hour).Unix()})
	next := snapshot.SnapshotKey("ns/main", snapshot.Name{Kind: snapshot.Full, Last: 9, Created: now.Add(-time.Minute).Unix()})
	l := timeline.Listing{Objects: []timeline.Object{
		{Ref: timeline.Ref{Key: key, Version: "x"}, Size: 5, Modified: now.Add(-time.Hour)},
		{Ref: timeline.Ref{Key: next, Version: "y"}, Size: 6, Modified: now.Add(-time.Minute)},
	}}
	b := Bucket{Listing: l, Timeline: timeline.Build(l), Proofs: proveAll(timeline.Build(l)), Locks: map[timeline.Ref]*immutability.Retention{
		l.Objects[0].Ref: {Mode: immutability.ModeGovernance, Until: now.Add(time.Hour)},
	}}
	plan, err := Decide(b, Policy{Method: LimitBased, MaxBackups: 1}, now, 0)
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.MarshalIndent(plan, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	const want = `{
 "policy": {
  "method": "LimitBased",
  "maxBackups": 1
 },
 "now": "2026-03-01T12:00:00Z",
 "proven": [
  {
   "lineage": "",
   "base": "Full-00000000-00000009-1772366340",
   "deltas": 0,
   "end": 9,
   "readAt": "2026-03-01T00:00:00Z"
  }
 ],
 "decisions": [
  {
   "key": "ns/main/v2/Full-00000000-00000007-1772362800",
   "version": "x",
   "kind": "full",
   "snapshot": "ns/main/v2/Full-00000000-00000007-1772362800",
   "created": "2026-03-01T11:00:00Z",
   "size": 5,
   "action": "blocked",
   "reasons": [
    "over-max-backups",
    "locked"
   ],
   "until": "2026-03-01T13:00:00Z"
  },
  {
   "key": "ns/main/v2/Full-00000000-00000009-1772366340",
   "version": "y",
   "kind": "full",
   "snapshot": "ns/main/v2/Full-00000000-00000009-1772366340",
   "created": "2026-03-01T11:59:00Z",
   "size": 6,
   "action": "keep",
   "reasons": [
    "within-max-backups",
    "newest-chain"
   ]
  }
 ]
}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
