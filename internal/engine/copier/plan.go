package copier

import (
	"context"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/engine/catalog"
	"druid.internal/druid/internal/store"
)

// Action is what is to happen to one snapshot.
type Action string

// The actions. With each of them but Conflict the manifest is written if it is missing.
const (
	Copy     Action = "copy"
	Check    Action = "check"    // something of its name and size is there; its bytes are compared
	Present  Action = "present"  // it is there, and proven
	Conflict Action = "conflict" // something else is there, and is not touched
)

// Step is one snapshot of the plan.
type Step struct {
	From    string             `json:"from"`
	Version string             `json:"version,omitempty"` // at the source: the version that counts
	To      string             `json:"to"`
	Kind    snapshot.Kind      `json:"kind"`
	Lineage snapshot.LineageID `json:"lineage,omitempty"`
	Size    int64              `json:"size"`
	Digest  snapshot.Digest    `json:"digest,omitzero"` // by the manifest
	Action  Action             `json:"action"`
	Why     string             `json:"why,omitempty"`

	payload  snapshot.Digest // of what is behind the header, where only that tells one
	snap     timeline.Snapshot
	key      snapshot.Key  // at the destination
	manifest store.Version // at the source, if there is one
	describe bool          // the manifest is missing at the destination
	there    []store.Object
	proof    Proof // of what is present
	full     int   // index of the step with the full before it; its own for a full
}

// Plan is what a copy is going to do, in order: lineages from the oldest, each full before its
// deltas, each manifest right after its snapshot. So the destination is restorable at any
// moment; with several objects copied at a time, an interruption leaves a gap of at most that
// many deltas, which is named by every reader and closed by the next run.
type Plan struct {
	From     string   `json:"from"`
	To       string   `json:"to"`
	Steps    []Step   `json:"steps"`
	Left     []Left   `json:"left,omitempty"`
	Warnings []string `json:"warnings,omitempty"`

	made   bool
	source timeline.Timeline
}

// Plan looks at both ends and decides. It writes nothing. A source of which nothing could be
// restored is ErrNothing; filters that let nothing through are a warning in the plan.
func (c *Copier) Plan(ctx context.Context) (Plan, error) {
	p := Plan{From: place(c.from.Store, c.from.Prefix), To: place(c.to.Store, c.to.Prefix), made: true}
	if err := c.opts.State.bind(p.From, p.To); err != nil {
		return Plan{}, err
	}
	from, err := c.read(ctx, "look at the source", c.from.Store, c.from.Prefix)
	if err != nil {
		return Plan{}, fmt.Errorf("plan the copy: source: %w", err)
	}
	if err := restorable(from.Timeline, p.From); err != nil {
		return Plan{}, fmt.Errorf("plan the copy: %w", err)
	}
	to, err := c.read(ctx, "look at the destination", c.to.Store, c.to.Prefix)
	if err != nil {
		return Plan{}, fmt.Errorf("plan the copy: destination: %w", err)
	}
	if err := guard(from, to, p.To); err != nil {
		if !c.opts.TakeOver {
			return Plan{}, err
		}
		p.Warnings = append(p.Warnings, err.Error())
	}
	p.source = from.Timeline
	sel := choose(from.Timeline, c.opts.MaxBackups, c.opts.MaxAge, c.opts.Now())
	p.Left, p.Warnings = sel.left, append(p.Warnings, sel.warnings...)
	manifests, there := storedManifests(from), arrivals(to)
	taken := map[string]string{}
	fulls := map[snapshot.LineageID]int{}
	for _, s := range sel.chosen {
		step := newStep(s, c.to.Prefix)
		if first, is := taken[step.To]; is {
			p.Left = append(p.Left, Left{Key: step.From, Why: "at the destination it would have the name of " + first})
			continue
		}
		taken[step.To] = step.From
		if s.Full() {
			fulls[s.Lineage] = len(p.Steps)
		}
		step.full = fulls[s.Lineage]
		step.manifest = manifests[s.Manifest]
		c.compare(&step, there[step.To], to.Objects)
		p.Steps = append(p.Steps, step)
	}
	return p, nil
}

// copyKey names the copy of s below prefix: the same layout, directory and name, but no full is
// final at the destination, because the cluster that continues there is not.
func copyKey(s timeline.Snapshot, prefix snapshot.Prefix) snapshot.Key {
	k := s.Key
	k.Prefix = prefix
	if s.Full() {
		k.Name.Final = false
	}
	return k
}

func newStep(s timeline.Snapshot, prefix snapshot.Prefix) Step {
	k := copyKey(s, prefix)
	step := Step{From: s.Key.String(), Version: s.Version, To: k.String(), Kind: s.Name().Kind, Lineage: s.Lineage, Size: s.Size, snap: s, key: k}
	if s.Manifest != nil && s.Manifest == s.Header {
		step.payload = s.Header.Digest // a header cannot tell the digest of what it is part of
	} else if s.Manifest != nil {
		step.Digest = s.Manifest.Digest
	}
	return step
}

// storedManifests finds where the manifests are stored that the timeline chose.
func storedManifests(c *catalog.Catalog) map[*snapshot.Manifest]store.Version {
	found := map[*snapshot.Manifest]store.Version{}
	for _, m := range c.Listing.Manifests {
		if m.Manifest != nil {
			found[m.Manifest] = store.Version{Key: m.Key.String(), ID: m.Version}
		}
	}
	return found
}

// arrival is what the destination has under one key.
type arrival struct {
	versions  []timeline.Object // with content, oldest first
	manifest  *snapshot.Manifest
	described time.Time // when the manifest was written
}

func arrivals(c *catalog.Catalog) map[string]arrival {
	all := map[string]arrival{}
	for _, o := range c.Listing.Objects {
		if o.Key.Object == snapshot.SnapshotObject && !o.Marker {
			a := all[o.Key.String()]
			a.versions = append(a.versions, o)
			all[o.Key.String()] = a
		}
	}
	for k, a := range all {
		slices.SortStableFunc(a.versions, func(x, y timeline.Object) int { return x.Modified.Compare(y.Modified) })
		all[k] = a
	}
	var oldest = map[string]timeline.StoredManifest{}
	for _, m := range c.Listing.Manifests {
		k := m.Key.Snapshot().String()
		if before, is := oldest[k]; m.Manifest != nil && (!is || m.Modified.Before(before.Modified)) {
			oldest[k] = m
		}
	}
	for k, m := range oldest {
		a := all[k]
		a.manifest, a.described = m.Manifest, m.Modified
		all[k] = a
	}
	return all
}

// compare decides what to do about what is there already.
func (c *Copier) compare(s *Step, there arrival, objects catalog.Objects) {
	s.describe = s.manifest.Key != "" && there.manifest == nil
	if s.Action = Copy; len(there.versions) == 0 {
		if there.manifest != nil && !s.Digest.IsZero() && there.manifest.Digest != s.Digest {
			s.conflict(c, "a manifest of another object is there")
		}
		return
	}
	measured := false
	for _, o := range there.versions {
		if o.Size != s.Size || !o.Digest.IsZero() && !s.Digest.IsZero() && o.Digest != s.Digest {
			continue
		}
		is := store.Object{Version: store.Version{Key: s.To, ID: o.Version}, Size: o.Size, Modified: o.Modified}
		if told, found := objects.Find(o.Ref); found {
			is.Retention = told.Retention
		}
		if !s.Digest.IsZero() && o.Digest == s.Digest {
			s.there, measured = []store.Object{is}, true
			break
		}
		s.there = append(s.there, is)
	}
	switch {
	case len(s.there) == 0:
		s.conflict(c, fmt.Sprintf("the former has %d bytes, the latter %d", there.versions[0].Size, s.Size))
	case there.manifest != nil && !s.Digest.IsZero() && there.manifest.Digest != s.Digest:
		s.conflict(c, "its manifest tells another digest")
	case c.opts.Verify:
		s.Action, s.Why = Check, "to be verified"
	case measured:
		s.Action, s.Why, s.proof = Present, "same size and digest", ReadBack
	case c.opts.State.proves(s.there[0], s):
		s.Action, s.Why, s.proof = Present, "proven by an earlier run", ByRecord
	case there.manifest != nil && !s.Digest.IsZero() && !untouched(s.there[0], there.described, c.opts.Now()):
		s.Action, s.Why = Check, "same name and size; it may have been overwritten since its manifest was written"
	case there.manifest != nil && !s.Digest.IsZero():
		s.Action, s.Why, s.proof = Present, "same size, and the manifests tell the same digest", ByManifest
	default:
		s.Action, s.Why = Check, "same name and size; nothing at the destination proves the content"
	}
}

// untouched reports whether o is still what its manifest was written for: it is not younger than
// that, and has a version ID, which an overwrite cannot keep, or a lock, which refuses one. A
// lock that only this project respects counts for nothing.
func untouched(o store.Object, described, now time.Time) bool {
	if o.Modified.After(described) {
		return false
	}
	r := o.Retention
	locked := r != nil && (r.Hold || r.Until.After(now)) && immutability.Compare(r.Mode, immutability.ModeAdvisory) > 0
	return o.ID != "" || locked
}

func (s *Step) conflict(c *Copier, why string) {
	s.Action = Conflict
	s.Why = fmt.Sprintf("%s is not %s: %s", object(c.to.Store, s.To), object(c.from.Store, s.From), why)
}

// Bytes are how many bytes the plan copies.
func (p Plan) Bytes() int64 {
	var n int64
	for _, s := range p.Steps {
		if s.Action == Copy {
			n += s.Size
		}
	}
	return n
}

// work is how many bytes are sent or compared.
func (p Plan) work() int64 {
	n := p.Bytes()
	for _, s := range p.Steps {
		if s.Action == Check {
			n += s.Size
		}
	}
	return n
}

// Count is how many snapshots get one action.
func (p Plan) Count(a Action) int {
	n := 0
	for _, s := range p.Steps {
		if s.Action == a {
			n++
		}
	}
	return n
}

// WriteTable prints the plan for people.
func (p Plan) WriteTable(w io.Writer) error {
	fmt.Fprintf(w, "from  %s\nto    %s\n\n", p.From, p.To)
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "SNAPSHOT\tBYTES\tACTION\tAS\tWHY")
	for _, s := range p.Steps {
		as := "-"
		if s.key.Name != s.snap.Name() {
			as = s.key.Name.String()
		}
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%s\n", s.snap.Name(), s.Size, s.Action, as, dash(s.Why))
	}
	for _, l := range p.Left {
		fmt.Fprintf(t, "%s\t-\tleave\t-\t%s\n", l.Key, l.Why)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, text := range p.Warnings {
		fmt.Fprintf(w, "warning: %s\n", text)
	}
	_, err := fmt.Fprintf(w, "copy %d (%d bytes), present %d, to check %d, conflicts %d, left %d\n",
		p.Count(Copy), p.Bytes(), p.Count(Present), p.Count(Check), p.Count(Conflict), len(p.Left))
	return err
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
