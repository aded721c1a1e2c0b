package timeline_test

import (
	"path"
	"testing"

	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/backup/timeline/timelinetest"
)

func TestTheNewestLineageIsAStrangerIfItDescendsFromNoneOfAnotherCluster(t *testing.T) {
	for name, c := range map[string]struct {
		listing string
		want    string // name of the snapshot that the finding is about; empty: there is none
	}{
		"another cluster's full": {`
			full 100 at 1000 manifest lineage=A cluster=1
			full 300 at 2000 manifest lineage=B cluster=2`, "Full-00000000-00000300-2000"},
		"it is excluded": {`
			full 100 at 1000 manifest lineage=A cluster=1
			full 300 at 2000 manifest lineage=B cluster=2 excluded`, ""},
		"what was here before is excluded": {`
			full 100 at 1000 manifest lineage=A cluster=1 excluded
			full 300 at 2000 manifest lineage=B cluster=2`, ""},
		"a restore": {`
			full 100 at 1000 manifest lineage=A cluster=1
			full 300 at 2000 manifest lineage=B parent=A fork=100 cluster=2`, ""},
		"two restores of what is gone": {`
			full 100 at 1000 manifest lineage=B parent=A fork=90 cluster=1
			full 300 at 2000 manifest lineage=C parent=A fork=90 cluster=2`, ""},
		"two restores of what has no name": {`
			full 100 at 1000 manifest lineage=B fork=90 cluster=1
			full 300 at 2000 manifest lineage=C fork=80 cluster=2`, ""},
		"the stranger is older": {`
			full 300 at 900 manifest lineage=B cluster=2
			full 100 at 1000 manifest lineage=A cluster=1`, "Full-00000000-00000100-1000"},
		"the same cluster began anew": {`
			full 100 at 1000 manifest lineage=A cluster=1
			full 300 at 2000 manifest lineage=B cluster=1`, ""},
		"nobody tells the cluster": {`
			full 100 at 1000 manifest lineage=A
			full 300 at 2000 manifest lineage=B cluster=2`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := about(c.listing, timeline.Stranger)
			if got != c.want {
				t.Errorf("about %q, want it about %q", got, c.want)
			}
		})
	}
}

// about is the name of the snapshot that a finding of a listing is about; empty: there is none.
func about(listing string, code timeline.Code) (name string) {
	for _, f := range timeline.Build(timelinetest.MustParse(listing)).Findings {
		if f.Code == code {
			name = path.Base(f.Key)
		}
	}
	return name
}
