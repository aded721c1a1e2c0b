package prober_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/engine/catalog"
	"druid.internal/druid/internal/engine/prober"
	"druid.internal/druid/internal/store/storetest"
)

func TestARequirementIsMetOnlyByWhatIsProven(t *testing.T) {
	for name, c := range map[string]struct {
		profile storetest.Profile
		want    []prober.Requirement // met
	}{
		"a compliance lock": {profile(storetest.S3Like(), immutability.ModeCompliance), []prober.Requirement{"", "versions", "governance", "compliance"}},
		"a governance lock": {profile(storetest.S3Like(), immutability.ModeGovernance), []prober.Requirement{"", "versions", "governance"}},
		"versions, refused": {profile(storetest.S3Like(), ""), []prober.Requirement{"", "versions"}},
		"versions, written": {profile(storetest.CephLike(), ""), []prober.Requirement{"", "versions"}},
		"a lock untold":     {mute(profile(storetest.GCSLike(), immutability.ModeCompliance)), []prober.Requirement{""}},
		"no versions":       {profile(storetest.GCSLike(), ""), []prober.Requirement{""}},
		"nothing":           {profile(storetest.Bare(), ""), []prober.Requirement{""}},
	} {
		t.Run(name, func(t *testing.T) {
			m := storetest.NewMemory(c.profile)
			r := probe(t, m, m, prober.Options{})
			var got []prober.Requirement
			for _, word := range []string{"", "versions", "governance", "compliance"} {
				want, err := prober.ParseRequirement(word)
				if err != nil {
					t.Fatal(err)
				}
				err = r.Meets(want)
				if err == nil {
					got = append(got, want)
				} else if !errors.Is(err, prober.ErrTooWeak) || !strings.Contains(err.Error(), string(r.Protection)) {
					t.Errorf("%s: %v does not say what is proven", want, err)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("what is met (-want +got):\n%s", diff)
			}
		})
	}
	if _, err := prober.ParseRequirement("strong"); err == nil || !strings.Contains(err.Error(), "governance") {
		t.Errorf("a word that is none: %v", err)
	}
}

func TestWhatAProbeLeftIsRecognisedAsThat(t *testing.T) {
	m := storetest.NewMemory(profile(storetest.S3Like(), immutability.ModeCompliance))
	probe(t, m, m, prober.Options{Prefix: "a/etcd-main"})
	c, err := catalog.Read(t.Context(), m, "a/etcd-main", catalog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if f := c.Timeline.Findings; len(f) != 1 || f[0].Code != timeline.ProbeLeft {
		t.Errorf("findings: %v", f)
	}
}
