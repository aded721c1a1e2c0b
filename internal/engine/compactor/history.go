package compactor

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"druid.internal/druid/internal/backup/restoreplan"
	"druid.internal/druid/internal/backup/snapshot"
)

// History says how much of the past stays readable in a compacted full, in the words of etcd's
// auto-compaction. The zero value keeps none.
type History struct {
	Period    time.Duration     // keep what was received within this time before the newest revision
	Revisions snapshot.Revision // keep so many revisions before the newest
}

// ParseHistory reads etcd's --auto-compaction-mode and --auto-compaction-retention: a duration or a number of
// hours in mode periodic, a number of revisions in mode revision, 0 for nothing.
func ParseHistory(mode, retention string) (History, error) {
	number, err := strconv.ParseInt(retention, 10, 64)
	isNumber := err == nil
	switch strings.ToLower(mode) {
	case "periodic":
		if isNumber {
			if number < 0 || number > int64(1<<63-1)/int64(time.Hour) {
				return History{}, fmt.Errorf("auto-compaction retention %q is out of range", retention)
			}
			return History{Period: time.Duration(number) * time.Hour}, nil
		}
		d, err := time.ParseDuration(retention)
		if err != nil || d < 0 {
			return History{}, fmt.Errorf("auto-compaction retention %q is neither a duration like 30m nor a number of hours", retention)
		}
		return History{Period: d}, nil
	case "revision":
		if !isNumber || number < 0 {
			return History{}, fmt.Errorf("auto-compaction retention %q is not a number of revisions", retention)
		}
		return History{Revisions: snapshot.Revision(number)}, nil
	}
	return History{}, fmt.Errorf("auto-compaction mode %q is neither periodic nor revision", mode)
}

// compactAt is the revision to compact p at, 0 meaning its last one. Where only the time of a whole delta is
// known more is kept than asked for, never less.
func (h History) compactAt(p restoreplan.Plan) snapshot.Revision {
	switch {
	case h.Revisions > 0:
		return max(p.End-h.Revisions, 1)
	case h.Period > 0 && len(p.Deltas) > 0:
		cutoff := p.Deltas[len(p.Deltas)-1].NotAfter().Add(-h.Period)
		at := snapshot.Revision(1)
		if ended := p.Base.Latest(); !ended.IsZero() && !ended.After(cutoff) {
			at = p.Base.Last
		}
		for _, d := range p.Deltas {
			if !d.NotAfter().After(cutoff) {
				at = max(at, d.To)
			}
		}
		return at
	}
	return 0
}

// counted reports how much of the new full is stored.
type counted struct {
	io.Reader
	done, total int64
	report      func(stage string, done, total int64)
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.done += int64(n)
	c.report("storing the new full", c.done, c.total)
	return n, err
}
