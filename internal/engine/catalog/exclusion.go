package catalog

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/store"
)

// ExcludeTag with the value "true" marks a snapshot that restores must not use.
const ExcludeTag = "x-etcd-snapshot-exclude"

// Exclusion says whether restores leave a snapshot out, on a store that has no tags: the content
// of a small object beside the snapshot. Of several the one of the highest number counts. Where
// a store has tags it is not believed, because there whoever may write is not whoever may tag.
type Exclusion struct {
	Version  int       `json:"version"` // of the format: 1
	Excluded bool      `json:"excluded"`
	At       time.Time `json:"at"`
	Reason   string    `json:"reason,omitempty"`
}

// exclusionVersion is the version of the format; maxExclusionSize bounds what is taken for one.
const (
	exclusionVersion = 1
	maxExclusionSize = 16 << 10
)

// Encode is the content of the object.
func (x Exclusion) Encode() ([]byte, error) {
	x.Version = exclusionVersion
	b, err := json.Marshal(x)
	if err != nil {
		return nil, fmt.Errorf("write an exclusion record: %w", err)
	}
	if b = append(b, '\n'); len(b) > maxExclusionSize {
		return nil, fmt.Errorf("write an exclusion record: it has %d bytes, at most %d are read; give a shorter reason", len(b), maxExclusionSize)
	}
	return b, nil
}

func parseExclusion(content []byte) (Exclusion, error) {
	var x Exclusion
	if err := json.Unmarshal(content, &x); err != nil {
		return Exclusion{}, err
	}
	if x.Version < exclusionVersion {
		return Exclusion{}, fmt.Errorf("its version is %d, the first is %d", x.Version, exclusionVersion)
	}
	return x, nil
}

// newestRecords are the exclusion records that count: for each snapshot that of the highest
// number, and of its versions the oldest. None where the store has tags.
func (r *reading) newestRecords() map[snapshot.Key]*item {
	if r.store.Capabilities().Tags {
		return nil
	}
	newest := map[snapshot.Key]*item{}
	for _, it := range r.items { // versions come newest first
		if it.key.Object != snapshot.ExclusionObject || it.Marker {
			continue
		}
		of := it.key.Snapshot()
		if last := newest[of]; last == nil || it.key.Number >= last.key.Number {
			newest[of] = it
		}
	}
	return newest
}

// readRecord leaves out a record that cannot be understood, and says so: the snapshot is used.
func (r *reading) readRecord(ctx context.Context, it *item) error {
	b, err := r.content(ctx, it, maxExclusionSize)
	if err != nil {
		return err
	}
	it.content = true
	x, err := parseExclusion(b)
	if err != nil {
		r.note(fmt.Sprintf("%s cannot be understood (%v): %s is used, although it might be excluded", it.Version, err, it.key.Name))
		return nil
	}
	it.excludes = x.Excluded
	return nil
}

// excludable: it is a snapshot, or the manifest of one of which nothing else is there. Whoever may write can write such a manifest.
func (r *reading) excludable(it *item) bool {
	return it.key.Object == snapshot.SnapshotObject || it.key.Object == snapshot.ManifestObject && !r.present[it.key.Snapshot()]
}

// excluded reports whether a restore must leave the version out.
func (r *reading) excluded(it *item) bool {
	if r.opts.IgnoreExclusions || !r.excludable(it) {
		return false
	}
	record := r.records[it.key.Snapshot()]
	return it.Tags[ExcludeTag] == "true" || record != nil && record.excludes
}

// noteUntagged tells of the snapshots whose tags may not be read: they are used.
func (r *reading) noteUntagged() {
	first, n := store.Version{}, 0
	for _, it := range r.items {
		if it.untagged {
			if n++; n == 1 {
				first = it.Version
			}
		}
	}
	others := ""
	if n > 1 {
		others = fmt.Sprintf(" and of %d more", n-1)
	}
	if n > 0 {
		r.note(fmt.Sprintf("the tags of %s%s cannot be read: what might be excluded by the tag %s is used; allow reading tags to be sure", first, others, ExcludeTag))
	}
}

// askNewest asks for the tags of what a restore to the newest revision of each lineage would
// read, and with NewestLocks for its locks. It reports whether some of it turned out to be
// excluded: then something else is newest.
func (r *reading) askNewest(ctx context.Context, t timeline.Timeline) (changed bool, err error) {
	caps := r.store.Capabilities()
	tags := caps.Tags && !caps.InlineTags && r.opts.Tags == TagsOfFulls && !r.opts.IgnoreExclusions
	if !tags && !r.opts.NewestLocks {
		return false, nil
	}
	wanted := map[timeline.Ref]bool{}
	for _, l := range t.Lineages {
		chain, any := l.NewestChain()
		if !any {
			continue
		}
		for _, c := range chain.Base.Candidates() {
			wanted[c.Ref] = true
		}
		for _, d := range chain.Deltas {
			for _, c := range d.Candidates() {
				wanted[c.Ref] = true
			}
		}
	}
	var jobs []func(context.Context) error
	var asked []*item
	for _, it := range r.items {
		if it.Marker || it.stat || !wanted[it.ref()] {
			continue
		}
		if tags && it.Tags == nil || r.opts.NewestLocks && it.Retention == nil {
			asked = append(asked, it)
			jobs = append(jobs, func(ctx context.Context) error { return r.stat(ctx, it) })
		}
	}
	r.progress.add(func(p *Progress) { p.ToRead += len(jobs) })
	if err := r.all(ctx, jobs); err != nil {
		return false, err
	}
	for _, it := range asked {
		changed = changed || r.excluded(it)
	}
	return changed, nil
}
