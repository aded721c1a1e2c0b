package timeline_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/backup/timeline/timelinetest"
)

func TestTwoClustersThatWriteToOnePrefixContend(t *testing.T) {
	for name, c := range map[string]struct {
		listing string
		of      snapshot.LineageID
		want    []snapshot.LineageID
	}{
		"a restore, and what was restored ended before": {`
			full 100 at 1000 manifest lineage=A cluster=1
			full 300 at 2000 manifest lineage=B parent=A fork=250 cluster=2`, "B", nil},
		"the cluster that was left still had an upload under way": {`
			full 100 at 1000 manifest lineage=A cluster=1
			full 300 at 2000 manifest lineage=B parent=A fork=250 cluster=2
			delta 101-120 at 2600 manifest lineage=A cluster=1`, "B", nil},
		"the cluster that was restored from goes on": {`
			full 100 at 1000 manifest lineage=A cluster=1
			full 300 at 2000 manifest lineage=B parent=A fork=250 cluster=2
			delta 101-120 at 2601 manifest lineage=A cluster=1`, "B", []snapshot.LineageID{"A"}},
		"the other one's view of it": {`
			full 100 at 1000 manifest lineage=A cluster=1
			full 300 at 2000 manifest lineage=B parent=A fork=250 cluster=2
			delta 101-120 at 2601 manifest lineage=A cluster=1`, "A", []snapshot.LineageID{"B"}},
		"what goes on is excluded": {`
			full 100 at 1000 manifest lineage=A cluster=1
			full 300 at 2000 manifest lineage=B parent=A fork=250 cluster=2
			delta 101-120 at 2601 manifest lineage=A cluster=1 excluded`, "B", nil},
		"what was left is kept locked by copies": {`
			full 100 at 1000 manifest lineage=A cluster=1
			full 300 at 2000 manifest lineage=B parent=A fork=250 cluster=2
			full 100 at 9000 manifest lineage=A cluster=1 copied-from=Full-00000000-00000100-1000.gz`, "B", nil},
		"what was left is there in copies alone": {`
			full 300 at 2000 manifest lineage=B cluster=2
			full 100 at 9000 manifest lineage=A cluster=1 copied-from=Full-00000000-00000100-1000.gz`, "A", []snapshot.LineageID{"B"}},
		"two members of one cluster each began one": {`
			full 100 at 1000 manifest lineage=A cluster=1
			full 300 at 2000 manifest lineage=B cluster=1
			delta 101-120 at 9000 manifest lineage=A cluster=1`, "B", nil},
		"nobody tells the cluster of what goes on": {`
			full 100 at 1000
			full 300 at 2000 manifest lineage=B cluster=2
			delta 101-120 at 9000`, "B", nil},
		"nothing is known of it": {`full 100 at 1000 manifest lineage=A cluster=1`, "B", nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got []snapshot.LineageID
			for _, l := range timeline.Build(timelinetest.MustParse(c.listing)).Contenders(c.of) {
				got = append(got, l.ID)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error("(-want +got)\n" + diff)
			}
		})
	}
}
