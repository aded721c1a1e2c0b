package backup

import (
	"time"

	"druid.internal/druid/internal/backup/snapshot"
)

// exposure remembers since when the oldest change that is not in the bucket exists. Etcd is asked
// for its revision at each look, so the answer is early by at most the time between two looks:
//
//	looks      10:00  10:01  10:02  10:03
//	revision     7      7      9     12        uploaded up to 9: exposed since 10:02
//
// Its memory is bounded; where it has to forget, the answer gets earlier, never later.
type exposure struct {
	marks []mark // ascending; the first is the oldest that is not in the bucket
	last  time.Time
	known snapshot.Revision
}

// mark says that revisions up to rev came after a moment.
type mark struct {
	rev   snapshot.Revision
	after time.Time
}

// maxMarks bounds the memory; at one look a second it is reached after eight minutes in which
// something is written each second and nothing is uploaded.
const maxMarks = 512

// look notes etcd's revision at now (0: it was not told) and how far the bucket is.
func (e *exposure) look(now time.Time, rev, uploaded snapshot.Revision) {
	if rev > 0 && rev < e.known {
		*e = exposure{} // another history
	}
	if rev > e.known && rev > uploaded {
		after := e.last
		if e.last.IsZero() || e.known == 0 {
			after = now
		}
		e.marks = append(e.marks, mark{rev, after})
	}
	if rev > 0 {
		e.known, e.last = rev, now
	}
	done := 0
	for done < len(e.marks) && e.marks[done].rev <= uploaded {
		done++
	}
	e.marks = append(e.marks[:0], e.marks[done:]...)
	if len(e.marks) > maxMarks {
		kept := e.marks[:0]
		for i := 0; i < len(e.marks); i += 2 { // of each two, the time of the first and the revision of the second
			m := e.marks[i]
			if i+1 < len(e.marks) {
				m.rev = e.marks[i+1].rev
			}
			kept = append(kept, m)
		}
		e.marks = kept
	}
}

// since is the answer; zero: everything is in the bucket.
func (e *exposure) since() time.Time {
	if len(e.marks) == 0 {
		return time.Time{}
	}
	return e.marks[0].after
}
