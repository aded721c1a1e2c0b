package gcs_test

import (
	"strings"
	"testing"

	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/engine/catalog"
	"druid.internal/druid/internal/engine/enginetest"
	"druid.internal/druid/test/stores"
)

// Google has no delete markers: what was deleted by its name just has no live generation.
func TestWhatWasDeletedByItsNameIsFoundAndNamed(t *testing.T) {
	s := open(t, options(newBucket(t, stores.GCSBucket{Versioned: true})))
	asTheOriginal(t, s)
	wantRestorable(t, s)
	const victim = "Full-00000000-00000204-1795164950.gz"
	hide(t, s, enginetest.Prefix+"/v2/"+victim)
	c, err := catalog.Read(t.Context(), s, enginetest.Prefix, catalog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var named []timeline.Finding
	for _, f := range c.Timeline.Findings {
		if f.Severity != timeline.Info {
			named = append(named, f)
		}
	}
	if len(named) != 1 || named[0].Code != timeline.Hidden || !strings.Contains(named[0].Text, victim) {
		t.Errorf("the findings are %v, want one that the full is hidden", named)
	}
	if ends := c.Timeline.Lineages; len(ends) != 1 || ends[0].Newest != 871 {
		t.Errorf("the lineages are %+v, want one to revision 871", ends)
	}
}
