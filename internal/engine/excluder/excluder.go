// Package excluder takes snapshots out of restores, and puts them back, without deleting anything.
//
// Where a store has tags, the tag x-etcd-snapshot-exclude of every version of the snapshot says it;
// locks do not keep anybody from setting it. Elsewhere a small object beside the snapshot does. What
// was set is read back.
package excluder

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/engine/catalog"
	"druid.internal/druid/internal/store"
)

// The refusals, and what comes too late for one.
var (
	ErrUnknown       = errors.New("no such snapshot")
	ErrLeavesNothing = errors.New("nothing could be restored any more")
	// ErrLeftNothing: it was done, and what was to be left has gone meanwhile, as by a collection.
	ErrLeftNothing = errors.New("nothing can be restored any more")
)

// Request says which snapshots to take out, or to put back.
type Request struct {
	Store  store.Store
	Prefix snapshot.Prefix
	Names  []snapshot.Name

	Include      bool   // put them back instead
	Reason       string // kept where the store has room for it: in the small object
	LeaveNothing bool   // allowed although a lineage could not be restored at all afterwards

	Now func() time.Time
}

// Change is what became of one snapshot.
type Change struct {
	Key      string `json:"key"`
	CopyOf   string `json:"copyOf,omitempty"` // it was not named: it has the bytes of this one, and was made to be locked anew
	Excluded bool   `json:"excluded"`
	Changed  bool   `json:"changed"`            // false: it was so before
	Versions int    `json:"versions,omitempty"` // tagged; 0 where a small object tells it
}

// Reach is a range of revisions to each of which one can restore.
type Reach struct {
	Lineage  snapshot.LineageID `json:"lineage,omitempty"`
	From     snapshot.Revision  `json:"from"`
	To       snapshot.Revision  `json:"to"`
	FromTime time.Time          `json:"fromTime,omitzero"`
	ToTime   time.Time          `json:"toTime,omitzero"`
}

// Report is what was done, and what can be restored before and after it.
type Report struct {
	Changes []Change `json:"changes"`
	Before  []Reach  `json:"before"`
	After   []Reach  `json:"after"`
	// ReasonLost says why the reason of the request is not kept; empty: it is, or none was given.
	ReasonLost string `json:"reasonLost,omitempty"`
	// Newest is set where the newest chain of a lineage lost something: what is uploaded as its
	// continuation cannot be restored before the next full.
	Newest bool `json:"newestChainChanged,omitempty"`
}

// subject is one key that is to change.
type subject struct {
	key      snapshot.Key
	copyOf   string            // as in Change
	versions []timeline.Object // contents, not markers; of one of which only the manifest is there, those of that
	records  int64             // the highest number of its exclusion records
}

// Run carries the request out. Nothing is changed unless all of it can be decided. If it fails
// later the report tells what was done, and running it again goes on.
func Run(ctx context.Context, q Request) (Report, error) {
	if q.Now == nil {
		q.Now = time.Now
	}
	verb := "exclude"
	if q.Include {
		verb = "include"
	}
	r, err := q.run(ctx)
	if err != nil {
		return r, fmt.Errorf("%s snapshots: %w", verb, err)
	}
	return r, nil
}

func (q Request) run(ctx context.Context) (Report, error) {
	before, err := q.read(ctx)
	if err != nil {
		return Report{}, err
	}
	subjects, err := find(before, q.Names)
	if err != nil {
		return Report{}, err
	}
	if err := q.known(before, subjects); err != nil {
		return Report{}, err
	}
	r := Report{Before: reaches(before.Timeline)}
	if err := q.leavesSomething(before.Timeline, imagine(before.Listing, subjects, !q.Include)); err != nil {
		return r, err
	}
	var after *catalog.Catalog
	for todo := subjects; len(todo) > 0; {
		for _, s := range todo {
			c, err := q.change(ctx, s)
			if err != nil {
				return r, err
			}
			r.Changes = append(r.Changes, c)
		}
		if after, err = q.read(ctx); err != nil {
			return r, fmt.Errorf("all were changed, but reading the bucket again failed: %w", err)
		}
		todo = since(after, q.Names, subjects)
		subjects = append(subjects, todo...)
	}
	r.ReasonLost = q.reasonLost(r.Changes)
	r.After, r.Newest = reaches(after.Timeline), newestDiffers(before.Timeline, after.Timeline)
	return r, errors.Join(q.leftSomething(after, subjects), q.known(after, subjects), q.confirm(after, subjects))
}

func (q Request) read(ctx context.Context) (*catalog.Catalog, error) {
	return catalog.Read(ctx, q.Store, q.Prefix, catalog.Options{Tags: catalog.TagsOfAll})
}

// since are keys that were not there before: an extension may copy what is excluded at the same time.
func since(c *catalog.Catalog, names []snapshot.Name, before []subject) (more []subject) {
	found, err := find(c, names)
	if err != nil {
		return nil // what was named is gone meanwhile
	}
	for _, s := range found {
		if !slices.ContainsFunc(before, func(b subject) bool { return b.key == s.key }) {
			more = append(more, s)
		}
	}
	return more
}

// find looks the names up. A name can stand in several places, and all of them are meant. So are copies that extensions
// made, which have later names and are what a restore prefers.
func find(c *catalog.Catalog, names []snapshot.Name) ([]subject, error) {
	wanted := map[snapshot.Name]bool{}
	for _, n := range names {
		wanted[n] = true
	}
	copies := copiesOf(c.Timeline, wanted)
	at := map[snapshot.Key]int{}
	var found []subject
	for _, o := range c.Listing.Objects {
		if o.Key.Object != snapshot.SnapshotObject || o.Marker || !wanted[o.Key.Name] && copies[o.Key] == "" {
			continue
		}
		i, is := at[o.Key]
		if !is {
			i = len(found)
			at[o.Key] = i
			found = append(found, subject{key: o.Key, copyOf: copies[o.Key]})
		}
		found[i].versions = append(found[i].versions, o)
	}
	for _, m := range c.Listing.Manifests { // of those of which nothing else is there
		key := m.Key.Snapshot()
		if m.Marker || !wanted[key.Name] || slices.ContainsFunc(c.Listing.Objects, func(o timeline.Object) bool { return o.Key == key && !o.Marker }) {
			continue
		}
		i, is := at[key]
		if !is {
			i = len(found)
			at[key] = i
			found = append(found, subject{key: key})
		}
		found[i].versions = append(found[i].versions, timeline.Object{Ref: timeline.Ref{Key: m.Key, Version: m.Version}, Excluded: m.Excluded})
	}
	for _, s := range found {
		delete(wanted, s.key.Name)
	}
	for _, n := range names {
		if wanted[n] {
			return nil, fmt.Errorf("%w: %s; `etcdbrctl list --all` shows the names", ErrUnknown, n)
		}
	}
	for ref := range c.Objects.All() {
		if ref.Key.Object != snapshot.ExclusionObject {
			continue
		}
		if i, is := at[ref.Key.Snapshot()]; is {
			found[i].records = max(found[i].records, ref.Key.Number)
		}
	}
	return found, nil
}

// copiesOf are the copies of wanted snapshots that are not wanted themselves, with the names of their origins. What only says that
// it is one, with other bytes, is none: who writes backups shall not have others go with what is excluded.
func copiesOf(t timeline.Timeline, wanted map[snapshot.Name]bool) map[snapshot.Key]string {
	copies := map[snapshot.Key]string{}
	for _, l := range t.Lineages {
		for _, s := range l.Snapshots {
			if s.Manifest == nil || s.Manifest.CopiedFrom == "" || wanted[s.Name()] {
				continue
			}
			name, err := snapshot.ParseName(s.Manifest.CopiedFrom)
			if err != nil || !wanted[name] {
				continue
			}
			for _, origin := range l.Find(name) {
				if m := origin.Manifest; m == nil || m.Digest.IsZero() || m.Digest == s.Manifest.Digest {
					copies[s.Key] = name.String()
				}
			}
		}
	}
	return copies
}

// known refuses to go by tags that cannot be read: what is excluded would pass for what is not.
func (q Request) known(c *catalog.Catalog, subjects []subject) error {
	if !q.Store.Capabilities().Tags {
		return nil
	}
	var unknown []string
	for _, s := range subjects {
		for _, v := range s.versions {
			if o, there := c.Objects.Find(v.Ref); there && o.Tags == nil {
				unknown = append(unknown, v.Ref.String())
			}
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	return fmt.Errorf("the tags of %s cannot be read, so nobody knows whether it is excluded: %w; allow it (on S3 and OSS GetObjectTagging and GetObjectVersionTagging, on Azure blobs/tags/read or the letter t)",
		some(unknown), store.ErrForbidden)
}

// some names a few of many.
func some(names []string) string {
	const most = 5
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// imagine is the timeline with the subjects excluded, or used.
func imagine(l timeline.Listing, subjects []subject, excluded bool) timeline.Timeline {
	meant := map[snapshot.Key]bool{}
	for _, s := range subjects {
		meant[s.key] = true
	}
	objects := make([]timeline.Object, len(l.Objects))
	for i, o := range l.Objects {
		if meant[o.Key] && o.Key.Object == snapshot.SnapshotObject {
			o.Excluded = excluded
		}
		objects[i] = o
	}
	l.Objects = objects
	l.Manifests = slices.Clone(l.Manifests)
	for i, m := range l.Manifests {
		if meant[m.Key.Snapshot()] {
			l.Manifests[i].Excluded = excluded
		}
	}
	return timeline.Build(l)
}

// leavesSomething refuses to take the last chain of a lineage out of restores.
func (q Request) leavesSomething(before, after timeline.Timeline) error {
	if q.LeaveNothing || q.Include {
		return nil
	}
	for _, l := range before.Lineages {
		if then, _ := after.Lineage(l.ID); len(l.Windows()) > 0 && len(then.Windows()) == 0 {
			return fmt.Errorf("%w of %s; exclude less, or take a new full first", ErrLeavesNothing, timeline.Title(l.ID))
		}
	}
	return nil
}

// leftSomething tells of lineages that nothing is left of but what is excluded now. Who deletes backups does so by what was not
// excluded yet, and knows of no exclusion that is being made.
func (q Request) leftSomething(after *catalog.Catalog, subjects []subject) error {
	if q.LeaveNothing || q.Include {
		return nil
	}
	var titles, keys []string
	for _, l := range imagine(after.Listing, subjects, false).Lineages {
		if now, _ := after.Timeline.Lineage(l.ID); len(l.Windows()) > 0 && len(now.Windows()) == 0 {
			titles = append(titles, timeline.Title(l.ID))
		}
	}
	if len(titles) == 0 {
		return nil
	}
	for _, s := range subjects {
		keys = append(keys, s.key.Name.String())
	}
	return fmt.Errorf("%w of %s: what was to be left is gone meanwhile; include takes it back: %s", ErrLeftNothing, some(titles), some(keys))
}

// change sets the tag of all versions, or writes the record.
func (q Request) change(ctx context.Context, s subject) (Change, error) {
	c := Change{Key: s.key.String(), CopyOf: s.copyOf, Excluded: !q.Include}
	if !q.Store.Capabilities().Tags {
		if s.versions[0].Excluded == c.Excluded {
			return c, nil
		}
		c.Changed = true
		return c, q.record(ctx, s)
	}
	tagger, is := store.As[store.Tagger](q.Store)
	if !is {
		return c, fmt.Errorf("tag %s: %w", s.key, store.ErrUnsupported)
	}
	for _, v := range s.versions {
		if v.Excluded == c.Excluded {
			continue
		}
		at := store.Version{Key: v.Key.String(), ID: v.Version}
		if err := tagger.SetTag(ctx, at, catalog.ExcludeTag, fmt.Sprint(c.Excluded)); err != nil {
			return c, err
		}
		c.Changed = true
		c.Versions++
	}
	return c, nil
}

// reasonLost says why none of the changes keeps the reason. What tags may have in them differs from store to store, and they
// have room for half of a reason at most, so none is put there.
func (q Request) reasonLost(changes []Change) string {
	changed := slices.ContainsFunc(changes, func(c Change) bool { return c.Changed })
	switch {
	case q.Reason == "" || q.Include:
		return ""
	case !changed:
		return "nothing was changed"
	case q.Store.Capabilities().Tags:
		return "a tag tells the exclusion, which has no room for one"
	}
	return ""
}

// record writes the next exclusion record of a snapshot.
func (q Request) record(ctx context.Context, s subject) error {
	content, err := catalog.Exclusion{Excluded: !q.Include, At: q.Now().UTC().Truncate(time.Second), Reason: q.Reason}.Encode()
	if err != nil {
		return err
	}
	key := s.key.Exclusion(s.records + 1).String()
	_, err = q.Store.Put(ctx, key, bytes.NewReader(content), store.PutOptions{})
	if errors.Is(err, store.ErrExists) {
		return fmt.Errorf("somebody else wrote %s at the same moment: look at it with `etcdbrctl list`, and try again: %w", key, err)
	}
	return err
}

// confirm compares what was read back with what was asked for.
func (q Request) confirm(after *catalog.Catalog, subjects []subject) error {
	meant := map[snapshot.Key]bool{}
	for _, s := range subjects {
		meant[s.key] = true
	}
	var wrong []string
	for _, o := range after.Listing.Objects {
		if o.Key.Object == snapshot.SnapshotObject && !o.Marker && meant[o.Key] && o.Excluded == q.Include {
			wrong = append(wrong, o.Ref.String())
		}
	}
	for _, l := range after.Timeline.Lineages {
		for _, s := range l.Missing {
			if meant[s.Key] && s.Excluded == q.Include {
				wrong = append(wrong, s.Key.String())
			}
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return fmt.Errorf("the store accepted the change, and it is not there: %s; either somebody else changed it, or the store drops it",
		some(wrong))
}

func reaches(t timeline.Timeline) []Reach {
	all := []Reach{}
	for _, l := range t.Lineages {
		for _, w := range l.Windows() {
			all = append(all, Reach{Lineage: l.ID, From: w.From, To: w.To, FromTime: w.FromTime, ToTime: w.ToTime})
		}
	}
	return all
}

// newestDiffers reports whether the newest chain of a lineage ends elsewhere, or begins elsewhere.
func newestDiffers(before, after timeline.Timeline) bool {
	for _, l := range before.Lineages {
		then, _ := after.Lineage(l.ID)
		a, _ := l.NewestChain()
		b, _ := then.NewestChain()
		if a.Base.Ref != b.Base.Ref || a.End > b.End {
			return true
		}
	}
	return false
}
