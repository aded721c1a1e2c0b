package timeline

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"druid.internal/druid/internal/backup/snapshot"
)

// inspect records what is remarkable about a lineage as a whole.
func (b *builder) inspect(l *Lineage) {
	b.ancestry(l)
	b.coverage(l)
	b.orphans(l)
	b.doubled(l)
	b.previous(l)
}

// ancestry looks at where the lineage comes from.
func (b *builder) ancestry(l *Lineage) {
	if l.ID == "" {
		return
	}
	for _, s := range l.Snapshots {
		if s.Last < l.Fork || !s.Full() && s.Name().Start <= l.Fork {
			b.find(BeforeFork, Warning, l.ID, s.Ref, "%s begins before revision %d, where %s left %s", s.Name(), l.Fork, Title(l.ID), Title(l.Parent))
		}
	}
	if l.Parent == "" {
		return
	}
	parent := b.lineages[l.Parent]
	if parent == nil {
		b.find(UnknownParent, Info, l.ID, Ref{}, "%s left %s at revision %d, of which nothing is here", Title(l.ID), Title(l.Parent), l.Fork)
		return
	}
	born := l.born()
	var later []Snapshot
	var left snapshot.Revision // where the parent ended then
	for _, s := range parent.Snapshots {
		switch {
		case s.Excluded:
		case s.Name().Created > born:
			later = append(later, s)
		default:
			left = max(left, s.Last)
		}
	}
	if first, begins := l.firstFull(); begins && l.Fork == 0 && first.Last < left && l.Cluster() != 0 && l.Cluster() == parent.Cluster() {
		b.find(RolledBack, Warning, l.ID, first.Ref, "the cluster went back: it had backed up %s to revision %d, and began %s at revision %d, as from older volumes; the rest is in the bucket alone: restore it with --lineage=%s, or leave it to the collection",
			Title(parent.ID), left, Title(l.ID), first.Last, parent.ID)
	}
	if n := len(later); n > 0 {
		b.find(StaleWriter, Warning, parent.ID, later[n-1].Ref, "snapshots of %s that were written after %s had left it: %d, the last is %s",
			Title(parent.ID), Title(l.ID), n, later[n-1].Name())
	}
}

// firstFull is the first full of the lineage that is not excluded.
func (l Lineage) firstFull() (Snapshot, bool) {
	for _, s := range l.Snapshots {
		if s.Full() && !s.Excluded {
			return s, true
		}
	}
	return Snapshot{}, false
}

// coverage sweeps over what is usable from the first full on and names what is missing.
func (b *builder) coverage(l *Lineage) {
	bases := l.bases()
	if len(bases) == 0 {
		return
	}
	first, last := bases[0], bases[len(bases)-1]
	var useless []Snapshot // deltas that are there and cannot be used
	for _, s := range l.Snapshots {
		if !s.Usable() && !s.Full() {
			useless = append(useless, s)
		}
	}
	holder := first // of the highest revision so far
	for _, s := range l.Links().all {
		if !s.Full() && s.Last <= first.Last {
			continue
		}
		if holder.Last < math.MaxInt64 && s.start() > holder.Last+1 {
			m := Missing{From: holder.Last + 1, To: s.start() - 1, After: holder.Name().String(), Before: s.Name().String()}
			b.gap(l, m, holder, s, last, useless)
		}
		if s.Last > holder.Last || s.Last == holder.Last && s.Full() {
			holder = s
		}
	}
}

// gap judges a missing range between two usable snapshots.
func (b *builder) gap(l *Lineage, m Missing, after, before, lastFull Snapshot, useless []Snapshot) {
	hint := ""
	for _, s := range useless {
		if s.Name().Start <= m.To && s.Last >= m.From {
			hint = fmt.Sprintf("; %s would help, but %s", s.Name(), unusable(s))
			break
		}
	}
	switch {
	case before.Full() && after.Full():
		// Deltas between fulls are collected in the course of time, or were never wanted.
	case before.Full():
		b.find(Hole, Info, l.ID, before.Ref, "%s can be restored only as part of the latter%s", m, hint)
	case before.Name().Start > lastFull.Last:
		b.find(Gap, Danger, l.ID, before.Ref, "%s are in no delta, and no later full makes up for it%s", m, hint)
	case after.Full():
		b.find(Gap, Info, l.ID, before.Ref, "%s are in no delta, as when older deltas have been collected%s", m, hint)
	default:
		b.find(Gap, Warning, l.ID, before.Ref, "%s are in no delta; a later full makes up for it%s", m, hint)
	}
}

func unusable(s Snapshot) string {
	if s.Problem != "" {
		return s.Problem
	}
	return "it is excluded"
}

// orphans names the deltas that end before the first full, in one finding.
func (b *builder) orphans(l *Lineage) {
	limit, severity, text := snapshot.Revision(math.MaxInt64), Danger, "there is no usable full in"
	if bases := l.bases(); len(bases) > 0 {
		limit, severity, text = bases[0].Last, Info, "they end before the first usable full of"
	}
	var orphans []Snapshot
	from := snapshot.Revision(math.MaxInt64)
	for _, s := range l.Snapshots {
		if s.Usable() && !s.Full() && s.Last <= limit {
			orphans = append(orphans, s)
			from = min(from, s.Name().Start)
		}
	}
	if n := len(orphans); n > 0 {
		end := orphans[n-1]
		b.find(Orphan, severity, l.ID, orphans[0].Ref, "deltas without a base: %d with revisions from %d to %d, from %s to %s; %s %s",
			n, from, end.Last, orphans[0].Name(), end.Name(), text, Title(l.ID))
	}
}

// doubled names overlaps and duplicates.
func (b *builder) doubled(l *Lineage) {
	type content struct {
		kind        snapshot.Kind
		start, last snapshot.Revision
		created     int64 // of fulls: several at one revision are usual, at one second they are copies
	}
	seen := make(map[content]int32, len(l.Snapshots)) // where in l.Snapshots
	deltas := make([]int32, 0, len(l.Snapshots))
	for i := range l.Snapshots {
		s := &l.Snapshots[i]
		if s.Excluded {
			continue
		}
		c := content{s.Name().Kind, s.Name().Start, s.Name().Last, 0}
		if s.Full() {
			c.created = s.Name().Created
		}
		if twin, is := seen[c]; is {
			b.find(Duplicate, Info, l.ID, s.Ref, "%s holds the same as %s", s.Key, l.Snapshots[twin].Key)
			continue
		}
		seen[c] = int32(i)
		if !s.Full() {
			deltas = append(deltas, int32(i))
		}
	}
	slices.SortStableFunc(deltas, func(x, y int32) int {
		return cmp.Compare(l.Snapshots[x].Key.Name.Start, l.Snapshots[y].Key.Name.Start)
	})
	for i, holder := 1, 0; i < len(deltas); i++ {
		d, h := &l.Snapshots[deltas[i]], &l.Snapshots[deltas[holder]]
		if d.Name().Start <= h.Last {
			b.find(Overlap, Info, l.ID, d.Ref, "%s shares revisions %d-%d with %s, as two leaders write them",
				d.Name(), d.Name().Start, min(d.Last, h.Last), h.Name())
		}
		if d.Last > h.Last {
			holder = i
		}
	}
}

// previous checks the digests by which deltas name the snapshot they continue.
func (b *builder) previous(l *Lineage) {
	continues := func(s *Snapshot) bool { return !s.Full() && s.Manifest != nil && !s.Manifest.Previous.IsZero() }
	ending := make(map[snapshot.Revision][]int32) // by the last revision of the name: where in l.Snapshots
	for i := range l.Snapshots {
		if continues(&l.Snapshots[i]) {
			ending[l.Snapshots[i].Key.Name.Start-1] = nil
		}
	}
	for i := range l.Snapshots {
		last := l.Snapshots[i].Key.Name.Last
		if list, asked := ending[last]; asked {
			ending[last] = append(list, int32(i))
		}
	}
	for i := range l.Snapshots {
		s := &l.Snapshots[i]
		if !continues(s) {
			continue
		}
		var unlike *Snapshot
		like := false
		for _, i := range ending[s.Name().Start-1] {
			p := &l.Snapshots[i]
			switch d := p.digest(); {
			case d.IsZero(), d == s.Manifest.Previous:
				like = true
			case unlike == nil && !cameLater(*p, *s):
				unlike = p
			}
		}
		if unlike != nil && !like {
			b.find(BrokenLink, Warning, l.ID, s.Ref, "%s continues a snapshot with digest %.8s, but %s has another", s.Name(), s.Manifest.Previous, unlike.Name())
		}
	}
}

// cameLater reports whether a full cannot be what the delta was written after: it was made in its
// place, of what was before, by a compaction, or taken again at the same revision meanwhile. What it
// stands for may have been collected since.
func cameLater(full, delta Snapshot) bool {
	return full.Full() && (full.Name().Created > delta.Name().Created || full.Manifest != nil && full.Manifest.CompactedFrom != "")
}

// digest is what is known of the stored bytes: measured, or told by the manifest.
func (s Snapshot) digest() snapshot.Digest {
	if s.Digest.IsZero() && s.Manifest != nil {
		return s.Manifest.Digest
	}
	return s.Digest
}

// unattributed names the snapshots without metadata that were created after the first that
// has some.
func (b *builder) unattributed() {
	unnamed := b.lineages[""]
	if unnamed == nil {
		return
	}
	var first *Snapshot
	after := func(s, first *Snapshot) bool { // names have whole seconds: within one, the revision tells
		return cmp.Or(cmp.Compare(s.Name().Created, first.Name().Created), cmp.Compare(s.Last, first.Last)) > 0
	}
	for _, l := range b.ordered {
		for i, s := range l.Snapshots {
			if s.Manifest != nil && (first == nil || after(first, &s)) {
				first = &l.Snapshots[i]
			}
		}
	}
	for _, s := range unnamed.Snapshots {
		if first != nil && s.Manifest == nil && after(&s, first) {
			b.find(NoMetadata, Warning, "", s.Ref, "%s has no manifest, though earlier snapshots have one: its lineage is not known", s.Name())
		}
	}
}

// stranger looks whether the newest lineage, which a restore takes, came from nowhere: it is of another cluster than an older one
// and has no ancestor in common with it. So it is where a cluster that brought its data took the prefix over, and where somebody who may write put
// there what was never a backup of this one.
func (b *builder) stranger() {
	at := slices.IndexFunc(b.ordered, func(l *Lineage) bool { return l.ID != "" && !l.LastWrite().IsZero() })
	if at < 0 {
		return
	}
	newest := b.ordered[at]
	cluster := newest.Cluster()
	for _, l := range b.ordered[at+1:] {
		c := l.Cluster()
		if cluster == 0 || c == 0 || c == cluster || l.LastWrite().IsZero() || b.root(l) == b.root(newest) {
			continue
		}
		b.find(Stranger, Warning, newest.ID, newest.Snapshots[0].Ref, "%s of cluster %x is the newest and does not descend from %s of cluster %x, which was here before",
			Title(newest.ID), cluster, Title(l.ID), c)
		return
	}
}

// root is the lineage, or the name of one that is not here, from which l descends in the end; unnamed: the one without a name.
func (b *builder) root(l *Lineage) snapshot.LineageID {
	for l.Parent != "" {
		parent := b.lineages[l.Parent]
		if parent == nil {
			return l.Parent
		}
		l = parent
	}
	if l.Fork > 0 {
		return "" // of the unnamed lineage
	}
	return l.ID
}
