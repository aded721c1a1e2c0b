package timeline_test

import (
	"testing"

	"druid.internal/druid/internal/backup/timeline"
)

func TestAClusterThatWentBackIsFound(t *testing.T) {
	for name, c := range map[string]struct {
		listing string
		want    string // name of the snapshot that the finding is about; empty: there is none
	}{
		"older volumes": {`
			full 900 at 1000 manifest lineage=A cluster=1
			full 500 at 2000 manifest lineage=B parent=A cluster=1`, "Full-00000000-00000500-2000"},
		"a restore of an older revision": {`
			full 900 at 1000 manifest lineage=A cluster=1
			full 500 at 2000 manifest lineage=B parent=A fork=400 cluster=2`, ""},
		"what it had before is excluded": {`
			full 900 at 1000 manifest lineage=A cluster=1 excluded
			full 500 at 2000 manifest lineage=B parent=A cluster=1`, ""},
		"the content differs, and not the end": {`
			full 500 at 1000 manifest lineage=A cluster=1
			full 500 at 2000 manifest lineage=B parent=A cluster=1`, ""},
		"the former one went on later alone": {`
			full 500 at 1000 manifest lineage=A cluster=1
			full 500 at 2000 manifest lineage=B parent=A cluster=1
			full 900 at 3000 manifest lineage=A cluster=1`, ""},
		"nobody tells the cluster": {`
			full 900 at 1000 manifest lineage=A
			full 500 at 2000 manifest lineage=B parent=A`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := about(c.listing, timeline.RolledBack)
			if got != c.want {
				t.Errorf("about %q, want it about %q", got, c.want)
			}
		})
	}
}
