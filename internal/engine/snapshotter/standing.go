package snapshotter

import "druid.internal/druid/internal/backup/snapshot"

// Standing is how far a snapshotter is. The zero Standing is of one that has not begun.
type Standing struct {
	// Active: a session works. What follows then is of it; the prefix is known to be ours.
	Active  bool
	Lineage snapshot.LineageID
	// LastFull and LastDelta are the newest in the bucket, of the lineage; nil: there is none.
	LastFull, LastDelta *Taken
	Deltas              int   // since the newest full
	DeltaBytes          int64 // of content, in them
	// Taking: a full is being taken, so that etcd's database is read.
	Taking bool
	// Trouble is why the last upload failed; nil: it succeeded, or there was none. It is tried again.
	Trouble error
	// Err is why the last session ended or could not begin, also after Run returned for that reason; nil: none did.
	Err error
}

// Uploaded is the last revision that is in the bucket; 0: none.
func (s Standing) Uploaded() snapshot.Revision {
	var last snapshot.Revision
	for _, t := range []*Taken{s.LastFull, s.LastDelta} {
		if t != nil {
			last = max(last, t.Manifest.LastRevision)
		}
	}
	return last
}

// Standing tells how far the snapshotter is.
func (s *Snapshotter) Standing() Standing {
	s.mu.Lock()
	n, err := s.current, s.lastErr
	s.mu.Unlock()
	if n == nil {
		return Standing{Err: err}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return Standing{
		Active: true, Lineage: n.lineage.ID, LastFull: n.lastFull, LastDelta: n.lastDelta,
		Deltas: n.deltas, DeltaBytes: n.deltaBytes, Taking: len(n.slot) > 0, Trouble: n.trouble, Err: err,
	}
}

// note remembers how the last upload went.
func (n *session) note(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.trouble = err
}

// contentBytes is the size of a snapshot before packing where that is known, else as stored.
func contentBytes(t *Taken) int64 {
	if t.Manifest.ContentSize > 0 {
		return t.Manifest.ContentSize
	}
	return t.Manifest.Size
}
