package timeline

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"druid.internal/druid/internal/backup/snapshot"
)

// Build makes sense of a listing. It never fails: whatever it cannot use becomes a finding.
// The result does not depend on the order of the listing.
func Build(l Listing) Timeline {
	b := builder{
		manifests: make(map[snapshot.Key]*snapshot.Manifest),
		excluded:  make(map[snapshot.Key]bool),
		lineages:  make(map[snapshot.LineageID]*Lineage),
		found:     make(map[Code]int),
	}
	b.foreign(l.Foreign, l.Omitted)
	b.flood(l)
	if o := l.BadOwner; o != nil {
		b.find(BadOwnerRecord, Danger, "", o.Ref, "%v; who backs up here is refused until it says --take-over, or that version is deleted", o.Err)
	}
	b.readManifests(l.Manifests)
	b.readObjects(l.Objects)
	b.missing()
	b.relate()
	for _, lineage := range b.ordered {
		b.inspect(lineage)
	}
	b.unattributed()
	b.stranger()
	b.more()
	return b.timeline()
}

type builder struct {
	manifests map[snapshot.Key]*snapshot.Manifest // the one that counts, by the snapshot's key
	excluded  map[snapshot.Key]bool               // snapshots whose manifest is, by their key
	present   map[snapshot.Key]struct{}           // snapshots with content or at least a marker
	lineages  map[snapshot.LineageID]*Lineage
	ordered   []*Lineage
	findings  []Finding
	found     map[Code]int // findings of each code, with those left out
}

// MaxFindingsPerCode bounds the findings of one code. Further findings of that code are counted,
// so that a bucket full of conspicuous objects needs no more memory than the objects themselves.
const MaxFindingsPerCode = 1000

func (b *builder) find(code Code, severity Severity, lineage snapshot.LineageID, r Ref, text string, args ...any) {
	if b.found[code]++; b.found[code] > MaxFindingsPerCode {
		return
	}
	f := Finding{Code: code, Severity: severity, Lineage: lineage, Version: r.Version, Text: fmt.Sprintf(text, args...)}
	if r.Key != (snapshot.Key{}) {
		f.Key = r.Key.String()
	}
	b.findings = append(b.findings, f)
}

// flood reports the objects that the listing left out.
func (b *builder) flood(l Listing) {
	const remedy = "each reading of the bucket has to list them: find out who writes them, and delete them, or move the backups to another prefix if they are locked"
	if n := l.Omitted.Foreign - l.Omitted.Probes; n > 0 {
		example := ""
		if i := slices.IndexFunc(l.Foreign, func(f Foreign) bool { return !f.Probe }); i >= 0 {
			example = ", for example " + l.Foreign[i].Key
		}
		b.find(Flood, Warning, "", Ref{}, "%d more objects below the prefix are no snapshots%s; %s", n, example, remedy)
	}
	if n := l.Omitted.Empty; n > 0 {
		b.find(Flood, Warning, "", Ref{}, "%d more objects with names of snapshots and manifests are empty, for example %s; %s", n, l.Omitted.EmptyExample, remedy)
	}
}

// more reports how many findings were left out.
func (b *builder) more() {
	for code, n := range b.found {
		if n > MaxFindingsPerCode {
			b.findings = append(b.findings, Finding{Code: Flood, Severity: Warning,
				Text: fmt.Sprintf("%d more findings of the code %q are left out", n-MaxFindingsPerCode, code)})
		}
	}
}

func (b *builder) lineage(id snapshot.LineageID) *Lineage {
	l := b.lineages[id]
	if l == nil {
		l = &Lineage{Lineage: snapshot.Lineage{ID: id}}
		b.lineages[id] = l
	}
	return l
}

func (b *builder) foreign(objects []Foreign, omitted Omitted) {
	probes := omitted.Probes
	for _, f := range objects {
		if f.Probe {
			probes++
			continue
		}
		why := "not an object of this layout"
		if f.Err != nil {
			why = f.Err.Error()
		}
		// The reason need not say again which object and that it is no snapshot.
		why = strings.TrimPrefix(why, snapshot.ErrNotSnapshot.Error()+": ")
		why = strings.TrimPrefix(why, fmt.Sprintf("%q: ", f.Key))
		b.findings = append(b.findings, Finding{Code: ForeignObject, Severity: Info, Key: f.Key, Version: f.Version,
			Text: fmt.Sprintf("%s is left alone, it is no snapshot: %s", f.Key, why)})
	}
	if probes > 0 {
		b.findings = append(b.findings, Finding{Code: ProbeLeft, Severity: Info,
			Text: fmt.Sprintf("%d versions of one byte were left by probes of the store, because it refused to delete them; they may be deleted when their locks have ended", probes)})
	}
}

// readObjects decides for every key which version counts.
func (b *builder) readObjects(objects []Object) {
	keys := make(map[snapshot.Key]struct{}, len(objects))
	several := make(map[snapshot.Key][]Object) // where there is more than one version
	chunks := make(map[snapshot.Key]int)
	for _, o := range objects {
		switch o.Key.Object {
		case snapshot.SnapshotObject:
			if _, is := keys[o.Key]; is {
				several[o.Key] = nil
			}
			keys[o.Key] = struct{}{}
		case snapshot.ChunkObject:
			chunks[o.Key.Snapshot()]++
		}
	}
	for key, n := range chunks {
		b.find(Chunk, Info, b.lineageOf(key), Ref{Key: key}, "beside %s there are parts of an upload, which no restore reads: %d", key.Name, n)
	}
	b.present = keys
	for i, o := range objects {
		if o.Key.Object != snapshot.SnapshotObject {
			continue
		}
		if list, are := several[o.Key]; are {
			several[o.Key] = append(list, o)
			continue
		}
		b.add(o.Key, objects[i:i+1:i+1])
	}
	for key, list := range several {
		b.add(key, oldestFirst(list))
	}
}

// lineageOf is the lineage that the manifest of key tells.
func (b *builder) lineageOf(key snapshot.Key) snapshot.LineageID {
	if m := b.manifests[key]; m != nil {
		return m.Lineage.ID
	}
	return ""
}

// oldestFirst sorts and drops what a listing returned twice.
func oldestFirst(list []Object) []Object {
	slices.SortStableFunc(list, func(a, b Object) int {
		return cmp.Or(a.Modified.Compare(b.Modified), cmp.Compare(a.Version, b.Version),
			cmp.Compare(a.Size, b.Size), strings.Compare(a.Digest.String(), b.Digest.String()))
	})
	seen := make(map[Ref]bool, len(list))
	return slices.DeleteFunc(list, func(o Object) bool {
		again := seen[o.Ref]
		seen[o.Ref] = true
		return again
	})
}

// add makes a snapshot of all versions of one key.
func (b *builder) add(key snapshot.Key, versions []Object) {
	contents, markers := versions, []Object(nil)
	if slices.ContainsFunc(versions, func(o Object) bool { return o.Marker }) {
		contents = nil
		for _, o := range versions {
			if o.Marker {
				markers = append(markers, o)
			} else {
				contents = append(contents, o)
			}
		}
	}
	m := b.manifests[key]
	if len(contents) == 0 {
		s := known(key, m)
		s.Problem, s.Others = "only delete markers are left of it", markers
		b.absent(s, Gone, Danger, "gone")
		return
	}
	chosen, candidates, why := choose(contents, m)
	told := m
	if told == nil && key.Name.Kind == snapshot.Delta && fits(chosen.Header, key.Name) == "" {
		told = chosen.Header
	}
	s := known(key, told)
	if told == nil && chosen.Header != nil && !s.Full() {
		s.Lineage = chosen.Header.Lineage.ID // it is missing there, whatever its name should be
	}
	s.Object, s.candidates = chosen, candidates
	s.Certain = !s.Full() || m != nil
	b.judge(&s, m, len(contents), len(markers), why)
	if len(versions) > 1 {
		s.Others = slices.DeleteFunc(slices.Clone(versions), func(o Object) bool { return o.Ref == chosen.Ref })
	} else if len(s.candidates) == 1 {
		s.candidates = nil // there is only the object itself
	}
	l := b.lineage(s.Lineage)
	if len(l.Snapshots) == cap(l.Snapshots) {
		l.Snapshots = slices.Grow(l.Snapshots, max(len(l.Snapshots), 16))
	}
	l.Snapshots = append(l.Snapshots, s)
}

// known is what a key and what is told about it say.
func known(key snapshot.Key, told *snapshot.Manifest) Snapshot {
	s := Snapshot{Object: Object{Ref: Ref{Key: key}}, Manifest: told, Last: key.Name.Last}
	if told != nil {
		s.Lineage = told.Lineage.ID
		s.Last = max(s.Last, told.LastRevision)
	}
	s.Certain = !s.Full() || told != nil
	return s
}

// choose picks the version that counts among at least one, oldest first, and those to try.
// Without a manifest nothing tells a later version from a forgery, so only the oldest is tried.
func choose(contents []Object, m *snapshot.Manifest) (chosen Object, candidates []Object, why string) {
	if m == nil {
		return contents[0], contents[:1:1], "is the oldest"
	}
	var proven, possible []Object
	for _, o := range contents {
		switch {
		case o.Digest == m.Digest:
			proven = append(proven, o)
		case o.Digest.IsZero() && o.Size == m.Size:
			possible = append(possible, o)
		}
	}
	candidates = append(proven, possible...)
	switch {
	case len(proven) > 0:
		return candidates[0], candidates, "has the digest of the manifest"
	case len(possible) > 0:
		return candidates[0], candidates, "is the oldest of the size that the manifest tells"
	}
	return contents[0], nil, "is the oldest, and none fits the manifest"
}

// fits tells why what an object says about itself cannot belong to the name; empty: it can,
// or it says nothing.
func fits(header *snapshot.Manifest, n snapshot.Name) string {
	switch {
	case header == nil:
	case header.Snapshot != "" && header.Snapshot != n.String():
		return "its header says that it is " + header.Snapshot
	case n.Kind == snapshot.Delta && header.LastRevision != 0 && header.LastRevision != n.Last:
		return fmt.Sprintf("its header says that it ends at revision %d", header.LastRevision)
	case header.LastRevision != 0 && header.LastRevision < n.Last:
		return fmt.Sprintf("its header says that it ends at revision %d already", header.LastRevision)
	}
	return ""
}

// judge records what is remarkable about one snapshot.
func (b *builder) judge(s *Snapshot, m *snapshot.Manifest, contents, markers int, why string) {
	name, id := s.Name(), s.Lineage
	if contents > 1 {
		b.find(Versions, Warning, id, s.Ref, "%s has %d versions; version %s counts, because it %s", name, contents, orNone(s.Version), why)
	}
	if markers > 0 {
		severity := Warning
		if s.Excluded {
			severity = Info // excluding an object of an S3 bucket takes a marker
		}
		b.find(Marker, severity, id, s.Ref, "%s has a delete marker, which hides nothing here", name)
	}
	if s.Hidden {
		b.find(Hidden, Warning, id, s.Ref, "%s was deleted by its name, which hides nothing here: its versions are there", name)
	}
	if m != nil && len(s.candidates) == 0 {
		s.Problem = "its bytes are not the ones its manifest describes"
		b.find(DigestMismatch, Danger, id, s.Ref, "%s is not used: %s", name, s.Problem)
	}
	wrong := fits(s.Header, name)
	if wrong == "" && m != nil && s.Header != nil && s.Header.Lineage.ID != m.Lineage.ID {
		wrong = fmt.Sprintf("its header says %s and its manifest %s", Title(s.Header.Lineage.ID), Title(m.Lineage.ID))
	}
	if wrong != "" {
		s.Problem = wrong
		b.find(HeaderMismatch, Danger, id, s.Ref, "%s is not used: %s", name, wrong)
	}
	if s.Unreadable != "" && s.Problem == "" {
		s.Problem = s.Unreadable
		b.find(UnreadableObject, Danger, id, s.Ref, "%s is not used: %s", name, s.Unreadable)
	}
	if s.Empty && s.Problem == "" {
		s.Problem = "it is empty"
		b.find(EmptyObject, Danger, id, s.Ref, "%s is not used: it has no bytes; it was never written whole, or is not a snapshot", name)
	}
	if !name.Compression.Known() {
		s.Problem = fmt.Sprintf("it is packed in a way this program does not know: %q", name.Compression)
		b.find(UnknownSuffix, Danger, id, s.Ref, "%s is not used: %s", name, s.Problem)
	}
	if s.Problem != "" {
		s.candidates = nil
	}
	if s.Excluded {
		b.find(ExcludedObject, Info, id, s.Ref, "%s is tagged x-etcd-snapshot-exclude: it is not used and does not count", name)
	}
	if s.Full() && s.Certain && s.Last > name.Last {
		b.find(FullAhead, Info, id, s.Ref, "%s reaches revision %d, %d beyond its name", name, s.Last, s.Last-name.Last)
	}
	if m := s.Manifest; s.Full() && m != nil && m.Suspect != "" {
		b.find(Suspect, Warning, id, s.Ref, "%s restores, but the members of the cluster may not have agreed on its content: %q", name, m.Suspect)
	}
}

func orNone(version string) string {
	if version == "" {
		return `""`
	}
	return version
}

// missing adds the snapshots of which only a manifest tells.
func (b *builder) missing() {
	for key, m := range b.manifests {
		if _, is := b.present[key]; is {
			continue
		}
		s := known(key, m)
		s.Problem = "only its manifest is there"
		b.absent(s, MissingSnapshot, Warning, "missing")
	}
}

// absent adds a snapshot of which there is no content. That counts unless its manifest is excluded.
func (b *builder) absent(s Snapshot, code Code, severity Severity, is string) {
	if s.Excluded = b.excluded[s.Key]; s.Excluded {
		b.find(ExcludedObject, Info, s.Lineage, Ref{Key: s.Key}, "%s is excluded: it does not count that %s", s.Name(), s.Problem)
	} else {
		b.find(code, severity, s.Lineage, Ref{Key: s.Key}, "%s is %s: %s", s.Name(), is, s.Problem)
	}
	b.lineage(s.Lineage).Missing = append(b.lineage(s.Lineage).Missing, s)
}

// timeline sorts what was collected.
func (b *builder) timeline() Timeline {
	t := Timeline{Findings: b.findings}
	for i := range t.Findings {
		t.Findings[i].Text = OneLine(t.Findings[i].Text)
	}
	for _, l := range b.ordered {
		t.Lineages = append(t.Lineages, *l)
	}
	slices.SortFunc(t.Findings, func(x, y Finding) int {
		return cmp.Or(cmp.Compare(y.Severity, x.Severity), cmp.Compare(x.Key, y.Key), cmp.Compare(x.Code, y.Code),
			cmp.Compare(x.Lineage, y.Lineage), cmp.Compare(x.Version, y.Version), cmp.Compare(x.Text, y.Text))
	})
	return t
}

// OneLine is a text that shows on a terminal what it has. Whoever may write into the bucket names objects as he likes.
func OneLine(text string) string {
	if utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return text
	}
	quoted := strconv.Quote(text)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}
