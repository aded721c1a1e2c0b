package restoreplan_test

import (
	"flag"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"druid.internal/druid/internal/backup/restoreplan"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/backup/timeline/timelinetest"
)

var update = flag.Bool("update", false, "rewrite testdata with what the code gives")

// TestPlansAreAsTheScenariosTell plays testdata/*.txt. The command is
//
//	plan latest | revision REV | time SECOND|zero | snapshot NAME
//
// followed by lineage=ID accept=REV unusable=NAME[@VERSION] measured=NAME:REV.
func TestPlansAreAsTheScenariosTell(t *testing.T) {
	timelinetest.Run(t, "testdata/*.txt", *update, func(l timeline.Listing, command []string) string {
		target, opts, err := parseCommand(command)
		if err != nil {
			return "bad command: " + err.Error()
		}
		plan, err := restoreplan.Make(timeline.Build(l), target, opts)
		if err != nil {
			return fmt.Sprintf("%s\n%s", strings.TrimPrefix(fmt.Sprintf("%T", err), "*restoreplan."), err)
		}
		return plan.String()
	})
}

func parseCommand(words []string) (target restoreplan.Target, opts restoreplan.Options, err error) {
	rest := words[2:]
	switch words[1] {
	case "latest":
		target = restoreplan.Latest()
	case "revision":
		target, rest = restoreplan.AtRevision(revision(words[2])), words[3:]
	case "time":
		at := time.Time{} // zero
		if words[2] != "zero" {
			at = timelinetest.Second(words[2])
		}
		target, rest = restoreplan.AtTime(at), words[3:]
	case "snapshot":
		n, err := snapshot.ParseName(words[2])
		if err != nil {
			return target, opts, err
		}
		target, rest = restoreplan.Snapshot(n), words[3:]
	default:
		return target, opts, fmt.Errorf("unknown target %q", words[1])
	}
	opts.Unusable = make(map[timeline.Ref]string)
	opts.Measured = make(map[timeline.Ref]snapshot.Revision)
	for _, w := range rest {
		name, value, _ := strings.Cut(w, "=")
		switch name {
		case "lineage":
			id := snapshot.LineageID(value)
			opts.Lineage = &id
		case "accept":
			opts.AcceptLossTo = revision(value)
		case "unusable":
			opts.Unusable[ref(value)] = "it cannot be unpacked"
		case "measured":
			object, last, _ := strings.Cut(value, ":")
			opts.Measured[ref(object)] = revision(last)
		default:
			return target, opts, fmt.Errorf("unknown word %q", w)
		}
	}
	return target, opts, nil
}

func revision(text string) snapshot.Revision {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		panic(err)
	}
	return snapshot.Revision(n)
}

func ref(text string) timeline.Ref {
	name, version, _ := strings.Cut(text, "@")
	n, err := snapshot.ParseName(name)
	if err != nil {
		panic(err)
	}
	return timeline.Ref{Key: snapshot.SnapshotKey(timelinetest.Prefix, n), Version: version}
}
