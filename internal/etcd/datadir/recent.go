package datadir

import (
	"unsafe"

	"druid.internal/druid/internal/backup/snapshot"
)

// recentRevisions remembers a digest of each of the last revisions taken from deltas, to compare
// them with the same revisions in an overlapping delta.
type recentRevisions struct {
	raw   []byte
	slots []revisionDigest
	// The repeated revision that is being read.
	main   snapshot.Revision
	digest uint64
}

type revisionDigest struct {
	main   snapshot.Revision
	digest uint64
}

// recentCount is how many revisions are remembered, a power of two: 16 MiB, touched only as far
// as it is used. An overlap that reaches further back is skipped without comparing.
const recentCount = 1 << 20

func (r *recentRevisions) close() {
	unmapMemory(r.raw)
	r.raw, r.slots = nil, nil
}

// mix is a polynomial over the records' hashes: it depends on their order.
func mix(digest, content uint64) uint64 { return digest*0x9e3779b97f4a7c15 + content }

// note adds a record that was taken.
func (r *recentRevisions) note(main snapshot.Revision, sub int64, content uint64) error {
	if r.slots == nil {
		raw, err := mapMemory(recentCount * int(unsafe.Sizeof(revisionDigest{})))
		if err != nil {
			return err
		}
		r.raw, r.slots = raw, unsafe.Slice((*revisionDigest)(unsafe.Pointer(unsafe.SliceData(raw))), recentCount)
	}
	s := &r.slots[main%recentCount]
	if sub == 0 {
		*s = revisionDigest{main: main}
	}
	s.digest = mix(s.digest, content)
	return nil
}

// repeat adds a record of a revision that was noted before. When a revision is complete, it is
// compared.
func (r *recentRevisions) repeat(source string, main snapshot.Revision, sub int64, content uint64) error {
	if main != r.main {
		if err := r.endRepeated(source); err != nil {
			return err
		}
		r.main = main
	}
	r.digest = mix(r.digest, content)
	return nil
}

// endRepeated compares the last repeated revision, if there is one.
func (r *recentRevisions) endRepeated(source string) error {
	main, digest := r.main, r.digest
	r.main, r.digest = 0, 0
	if main == 0 || r.slots == nil {
		return nil
	}
	if s := r.slots[main%recentCount]; s.main == main && s.digest != digest {
		return &OverlapError{Revision: main, Source: source, Reason: "an earlier delta has other changes there"}
	}
	return nil
}
