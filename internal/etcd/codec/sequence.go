package codec

import "druid.internal/druid/internal/backup/snapshot"

// sequence follows the revisions of a delta. With an unfiltered watch they are contiguous, and
// all events of one revision are together.
type sequence struct {
	first, last snapshot.Revision
	sub         int64 // of the last event
	events      int64
}

// next takes the revision of the next event and says its position within that revision.
func (s *sequence) next(main snapshot.Revision) (sub int64, err error) {
	switch {
	case s.first == 0:
		s.first, s.last, s.sub = main, main, 0
	case main == s.last:
		s.sub++
	case main == s.last+1:
		s.last, s.sub = main, 0
	case main < s.last:
		return 0, &OrderError{After: s.last, Next: main}
	default:
		return 0, &GapError{After: s.last, Next: main}
	}
	s.events++
	return s.sub, nil
}

// following is the revision after the last one, 0 if there is none yet.
func (s *sequence) following() int64 {
	if s.first == 0 {
		return 0
	}
	return int64(s.last) + 1
}
