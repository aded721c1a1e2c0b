package timeline

import (
	"cmp"
	"fmt"
	"slices"

	"druid.internal/druid/internal/backup/snapshot"
)

// readManifests decides for every snapshot which manifest counts: the oldest that can be
// read and fits its key. A marker hides none of them.
func (b *builder) readManifests(list []StoredManifest) {
	versions := make(map[snapshot.Key][]StoredManifest)
	for _, m := range list {
		if m.Key.Object == snapshot.ManifestObject {
			versions[m.Key] = append(versions[m.Key], m)
		}
	}
	for key, stored := range versions {
		slices.SortStableFunc(stored, func(a, b StoredManifest) int {
			return cmp.Or(a.Modified.Compare(b.Modified), cmp.Compare(a.Version, b.Version))
		})
		stored = slices.CompactFunc(stored, func(a, b StoredManifest) bool {
			return a.Version == b.Version && a.Modified.Equal(b.Modified) && a.Marker == b.Marker
		})
		b.readManifest(key, stored)
	}
}

func (b *builder) readManifest(key snapshot.Key, stored []StoredManifest) {
	name := key.Name
	var contents, markers int
	var chosen *StoredManifest
	type bad struct {
		ref Ref
		why string
	}
	var unusable []bad
	for i, m := range stored {
		ref := Ref{Key: key, Version: m.Version}
		if m.Marker {
			markers++
			continue
		}
		contents++
		if why := unfit(m, name); why != "" {
			unusable = append(unusable, bad{ref, why})
		} else if chosen == nil {
			chosen = &stored[i]
		}
	}
	var id snapshot.LineageID
	if chosen != nil {
		id = chosen.Manifest.Lineage.ID
		b.manifests[key.Snapshot()] = chosen.Manifest
		b.excluded[key.Snapshot()] = chosen.Excluded
	}
	for _, u := range unusable {
		b.find(BadManifest, Warning, id, u.ref, "the manifest of %s is not used: %s", name, u.why)
	}
	if contents > 1 {
		which := "none can be used"
		if chosen != nil {
			which = "version " + orNone(chosen.Version) + " counts, the oldest that can be read"
		}
		b.find(ManyManifests, Warning, id, Ref{Key: key}, "the manifest of %s has %d versions; %s", name, contents, which)
	}
	switch {
	case len(stored) > 0 && stored[0].Hidden:
		b.find(Hidden, Warning, id, Ref{Key: key}, "the manifest of %s was deleted by its name, which hides nothing here: its versions are there", name)
	case markers > 0 && contents > 0:
		b.find(Marker, Warning, id, Ref{Key: key}, "the manifest of %s has a delete marker, which hides nothing here", name)
	case markers > 0:
		b.find(Gone, Warning, id, Ref{Key: key}, "the manifest of %s is gone: only delete markers are left of it", name)
	}
}

// unfit tells why a manifest cannot be used for the snapshot called n; empty: it can. The
// caller's parser has checked most of this; a manifest built otherwise must not mislead us.
func unfit(m StoredManifest, n snapshot.Name) string {
	switch {
	case m.Err != nil:
		return m.Err.Error()
	case m.Manifest == nil:
		return "it was not read"
	case m.Manifest.Snapshot != n.String():
		return fmt.Sprintf("it describes %q", m.Manifest.Snapshot)
	case m.Manifest.Digest.IsZero():
		return "it tells no digest"
	case m.Manifest.LastRevision < n.Last, n.Kind == snapshot.Delta && m.Manifest.LastRevision != n.Last:
		return fmt.Sprintf("its last revision %d does not fit the name", m.Manifest.LastRevision)
	}
	return ""
}
