package agentapi

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/backup/timeline/timelinetest"
)

func TestATimelineTellsWhatOneCanRestoreTo(t *testing.T) {
	got, err := json.MarshalIndent(NewTimeline(timeline.Build(timelinetest.MustParse(`full 100 at 1000 size=1000
delta 101-150 at 1010 size=50
delta 151-200 at 1020 size=40
delta 221-230 at 1030 size=30
full 100 at 1000 .gz.broken size=7`))), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	const want = `{
 "lineages": [
  {
   "id": "",
   "newest": 230,
   "fulls": 1,
   "deltas": 3,
   "bytes": 1127,
   "restorable": [
    {
     "from": 100,
     "to": 200,
     "fromTime": "1970-01-01T00:16:40.999999999Z",
     "toTime": "1970-01-01T00:17:00.999999999Z",
     "base": "Full-00000000-00000100-1000"
    }
   ],
   "chain": {
    "base": "Full-00000000-00000100-1000",
    "created": "1970-01-01T00:16:40Z",
    "deltas": 2,
    "end": 200,
    "bytes": 1090,
    "gap": "revisions 201-220 after Incr-00000151-00000200-1020 before Incr-00000221-00000230-1030"
   }
  }
 ],
 "findings": [
  {
   "severity": "danger",
   "code": "unknown-suffix",
   "key": "p/v2/Full-00000000-00000100-1000.gz.broken",
   "text": "Full-00000000-00000100-1000.gz.broken is not used: it is packed in a way this program does not know: \".gz.broken\""
  },
  {
   "severity": "danger",
   "code": "gap",
   "key": "p/v2/Incr-00000221-00000230-1030",
   "text": "revisions 201-220 after Incr-00000151-00000200-1020 before Incr-00000221-00000230-1030 are in no delta, and no later full makes up for it"
  },
  {
   "severity": "info",
   "code": "duplicate",
   "key": "p/v2/Full-00000000-00000100-1000.gz.broken",
   "text": "p/v2/Full-00000000-00000100-1000.gz.broken holds the same as p/v2/Full-00000000-00000100-1000"
  }
 ]
}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
}

func TestAnEmptyBucketIsAnEmptyTimeline(t *testing.T) {
	got, err := json.Marshal(NewTimeline(timeline.Timeline{}))
	if want := `{"lineages":[],"findings":[]}`; err != nil || string(got) != want {
		t.Errorf("%s, %v; want %s", got, err, want)
	}
}

func TestABucketFullOfForeignObjectsDoesNotMakeTheAnswerEndless(t *testing.T) {
	var b strings.Builder
	for i := range MaxFindings + 7 {
		fmt.Fprintf(&b, "foreign p/v2/object-%d\n", i)
	}
	b.WriteString("delta 101-150 at 1010")
	got := NewTimeline(timeline.Build(timelinetest.MustParse(b.String())))
	if len(got.Findings) != MaxFindings || got.MoreFindings < 7 || got.Findings[0].Code == timeline.ForeignObject {
		t.Errorf("%d findings and %d more, the first %+v; want %d, at least 7 more, the gravest first", len(got.Findings), got.MoreFindings, got.Findings[0], MaxFindings)
	}
}
