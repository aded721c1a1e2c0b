package s3_test

import (
	"strings"
	"testing"
	"time"

	"druid.internal/druid/examples/policies"
	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/engine/prober"
	"druid.internal/druid/internal/store/s3"
	"druid.internal/druid/test/stores"
)

func TestTheProbeTellsWhatBucketsReallyGive(t *testing.T) {
	root := func(t *testing.T, bucket string) *s3.Store { return open(t, minioServer.options(bucket)) }
	cases := map[string]struct {
		protection stores.Protection
		who        func(t *testing.T, bucket string) *s3.Store
		want       immutability.Mode
		deletion   prober.Outcome
		plan       string
	}{
		"compliance":               {stores.Compliance, root, immutability.ModeCompliance, prober.Refused, "stay for 1 day"},
		"governance":               {stores.Governance, root, immutability.ModeGovernance, prober.Refused, "stay for 1 day"},
		"lockable, nothing locked": {stores.Lockable, root, immutability.ModeNone, prober.Allowed, "one byte"},
		"versions only":            {stores.Versioned, root, immutability.ModeNone, prober.Allowed, "one byte"},
		"no versions":              {stores.Unversioned, root, immutability.ModeNone, prober.Allowed, "one byte"},
		"compliance, as a collector": {stores.Compliance, func(t *testing.T, bucket string) *s3.Store {
			return as(t, bucket, strings.Replace(policies.S3(policies.Collector, bucket, "a/"), `"s3:DeleteObject"`, `"s3:DeleteObject","s3:PutObject"`, 1))
		}, immutability.ModeCompliance, prober.Refused, "stay for 1 day"},
		"compliance, as the writer": {stores.Compliance, func(t *testing.T, bucket string) *s3.Store {
			return as(t, bucket, policies.S3(policies.Writer, bucket, "a/"))
		}, immutability.ModeUnknown, prober.NotProven, "stay for 1 day"},
		"compliance, as one who may not see locks": {stores.Compliance, func(t *testing.T, bucket string) *s3.Store {
			return as(t, bucket, stores.BlindWriterPolicy(bucket, "a/"))
		}, immutability.ModeUnknown, prober.NotProven, "stay for 1 day"},
		"versions only, as the writer": {stores.Versioned, func(t *testing.T, bucket string) *s3.Store {
			return as(t, bucket, policies.S3(policies.Writer, bucket, "a/"))
		}, immutability.ModeUnknown, prober.NotProven, "one byte"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := c.who(t, onMinIO(t).newBucket(t, c.protection))
			p, err := prober.New(s, s, prober.Options{Prefix: "a"})
			if err != nil {
				t.Fatal(err)
			}
			plan, err := p.Plan(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if text := strings.Join(plan.Notices, "\n"); !strings.Contains(text, c.plan) {
				t.Errorf("the plan says\n%s\nwant %q", text, c.plan)
			}
			r, err := p.Run(t.Context(), plan, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			if r.Protection != c.want || r.Deletion.Outcome != c.deletion || r.Overwrite.Outcome != prober.Refused {
				t.Errorf("protection %s, deletion %+v, overwrite %+v; want %s and %s", r.Protection, r.Deletion, r.Overwrite, c.want, c.deletion)
			}
			t.Log(strings.Join(r.Conclusions, "\n"))
		})
	}
}

// What a bucket on Ceph protects is proven as on any other server, by a refusal; what it does
// not do is refuse an overwrite, and the probe says so.
func TestTheProbeTellsWhatBucketsOnCephReallyGive(t *testing.T) {
	cases := map[string]struct {
		protection stores.Protection
		want       immutability.Mode
		deletion   prober.Outcome
		over       prober.Outcome
		says       string
	}{
		"compliance":               {stores.Compliance, immutability.ModeCompliance, prober.Refused, prober.FurtherVersion, "the store does not refuse an overwrite"},
		"governance":               {stores.Governance, immutability.ModeGovernance, prober.Refused, prober.FurtherVersion, "privileged identities can lift it"},
		"lockable, nothing locked": {stores.Lockable, immutability.ModeNone, prober.Allowed, prober.FurtherVersion, "not protected"},
		"versions only":            {stores.Versioned, immutability.ModeNone, prober.Allowed, prober.FurtherVersion, "manifest's digest"},
		"no versions":              {stores.Unversioned, immutability.ModeNone, prober.Allowed, prober.NotProven, "looked first"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			ceph := onCeph(t)
			s := open(t, ceph.options(ceph.newBucket(t, c.protection)))
			p, err := prober.New(s, s, prober.Options{})
			if err != nil {
				t.Fatal(err)
			}
			plan, err := p.Plan(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			r, err := p.Run(t.Context(), plan, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			text := strings.Join(r.Conclusions, "\n")
			if r.Protection != c.want || r.Deletion.Outcome != c.deletion || r.Overwrite.Outcome != c.over || !strings.Contains(text, c.says) {
				t.Errorf("protection %s, deletion %+v, overwrite %+v, and\n%s\nwant %s, %s, %s and %q", r.Protection, r.Deletion, r.Overwrite, text, c.want, c.deletion, c.over, c.says)
			}
			// One byte stays for each version that is locked, and nothing else.
			if got := listed(t, s); len(got) != len(r.Remains) {
				t.Errorf("%+v stay, the report says %v", got, r.Remains)
			}
		})
	}
}
