package backup

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/engine/catalog"
	"druid.internal/druid/internal/engine/verifier"
)

// finding is what a survey found about the newest lineage.
type finding struct {
	gaps int // ranges of revisions that are missing
	// contenders are other clusters that write to the prefix; contest names one, and what to do.
	contenders int
	contest    string
	until      time.Time // earliest end among the locks of the newest chain; zero: something is not locked
	bucket     agentapi.Bucket
}

// mostTold is how many findings, and how many names, are told of each kind.
const mostTold = 10

// tampering are the codes of what no writer of ours and no store does by itself, and of volumes that went back, which nobody else tells.
var tampering = []timeline.Code{
	timeline.Versions, timeline.Marker, timeline.Hidden, timeline.Gone, timeline.ForeignObject, timeline.DigestMismatch,
	timeline.HeaderMismatch, timeline.MissingSnapshot, timeline.BadManifest, timeline.ManyManifests, timeline.BadOwnerRecord, timeline.Stranger,
	timeline.RolledBack, verifier.HashMismatch, timeline.Flood, timeline.EmptyObject,
}

// describeBucket is what a catalog says about the lineage of which the newest chain is so protected.
func describeBucket(t timeline.Timeline, own timeline.Lineage, protection immutability.Summary, now time.Time) agentapi.Bucket {
	b := agentapi.Bucket{LookedAt: now.UTC(), Level: protection.Mode.String(), Protection: protection.String(), Inferred: protection.Inferred}
	if protection.Protected() && !protection.Until.IsZero() {
		until := protection.Until.UTC()
		b.Until = &until
	}
	if windows := own.Windows(); len(windows) > 0 {
		first, last := windows[0], windows[len(windows)-1]
		b.First = &agentapi.Restorable{Time: first.FromTime.UTC(), Revision: int64(first.From)}
		b.Last = &agentapi.Restorable{Time: last.ToTime.UTC(), Revision: int64(last.To)}
	}
	found := tampered(t.Findings)
	b.TamperingCount = len(found)
	for _, f := range found[:min(len(found), mostTold)] {
		b.Tampering = append(b.Tampering, agentapi.Tampering{Code: string(f.Code), Text: f.Text})
	}
	for _, l := range t.Lineages {
		for _, s := range slices.Concat(l.Snapshots, l.Missing) {
			if !s.Excluded {
				continue
			}
			if b.ExcludedCount++; b.ExcludedCount <= mostTold {
				b.Excluded = append(b.Excluded, s.Name().String())
			}
		}
	}
	return b
}

// tampered is what somebody may have done, in the order in which it is told: the gravest first, of those as grave as each
// other the first of each kind, and within a kind as they come. Whoever may write can leave any number of one kind, which must not
// keep another one from being told.
func tampered(all []timeline.Finding) (found []timeline.Finding) {
	type kind struct {
		severity timeline.Severity
		code     timeline.Code
	}
	nth, rank := map[kind]int{}, map[int]int{}
	var order []int
	for i, f := range all {
		if slices.Contains(tampering, f.Code) {
			k := kind{f.Severity, f.Code}
			rank[i], order = nth[k], append(order, i)
			nth[k]++
		}
	}
	slices.SortStableFunc(order, func(x, y int) int {
		return cmp.Or(cmp.Compare(all[y].Severity, all[x].Severity), cmp.Compare(rank[x], rank[y]))
	})
	for _, i := range order {
		found = append(found, all[i])
	}
	return found
}

// requests bounds the small requests a sidecar has under way at a time for one purpose.
const requests = 4

// read returns what is below the prefix, with the locks of the newest chain. Reports pass what
// earlier reports read, work on the backups passes nil.
func (l *Leader) read(ctx context.Context, reported *catalog.Memory) (*catalog.Catalog, error) {
	if err := l.store.ready(ctx); err != nil {
		return nil, err
	}
	return catalog.Read(ctx, l.store, l.cfg.Prefix, catalog.Options{Parallel: requests, NewestLocks: reported != nil, Memory: reported})
}

// survey looks through the bucket for what the metrics tell.
func (t *term) survey(ctx context.Context) error {
	standing, err := t.ours()
	if err != nil {
		seen, usurped := t.usurped()
		if !usurped {
			return err
		}
		standing = seen
	}
	if standing.LastFull == nil {
		return errNotYet // there is nothing to protect before the first full
	}
	cat, err := t.read(ctx, &t.reported)
	if err != nil {
		return err
	}
	var f finding
	for _, found := range cat.Timeline.Findings {
		if found.Lineage == standing.Lineage && (found.Code == timeline.Gap || found.Code == timeline.Hole) {
			f.gaps++
		}
	}
	f.contest, f.contenders = contest(cat.Timeline, standing.Lineage)
	protection := immutability.Summary{Mode: immutability.ModeNone}
	var period time.Duration    // of the newest object's lock
	var reach snapshot.Revision // what can be restored
	own, known := cat.Timeline.Lineage(standing.Lineage)
	if known {
		if chain, ok := own.NewestChain(); ok {
			reach = chain.End
			locks, clock := t.locksOf(cat, objectsOf(chain))
			protection = immutability.Summarize(locks, clock)
			period = periodOf(cat, chain, locks)
		}
	}
	if protection.Protected() {
		f.until = protection.Until
	}
	cat.Timeline.Findings = append(cat.Timeline.Findings, t.works.mismatches(own)...)
	f.bucket = describeBucket(cat.Timeline, own, protection, t.cfg.Now())
	f.bucket.Period = int64(period / time.Second)
	if now := standing.Uploaded(); reach < now {
		f.gaps = max(f.gaps, 1)
		if standing.Active {
			t.remedy(ctx, reach, now)
		}
	}
	t.mu.Lock()
	t.found, t.seen = &f, standing
	t.seen.Active = false
	t.mu.Unlock()
	if f.contest != "" {
		t.log.Error("the prefix has two writers", "message", f.contest)
	}
	looked := t.log.With("objects", cat.Objects.Len(), "gaps", f.gaps, "protection", protection.String())
	if len(cat.Notes) > 0 { // what this identity may not see, as tags
		looked = looked.With("notes", strings.Join(cat.Notes, "; "))
	}
	looked.Info("looked through the bucket")
	return nil
}

// periodOf is how long the newest object of a chain was locked from its upload, to the second: what the next
// one will get, too. 0: nobody told.
func periodOf(cat *catalog.Catalog, c timeline.Chain, locks []*immutability.Retention) time.Duration {
	refs := objectsOf(c)
	last := len(refs) - 1
	o, found := cat.Objects.Find(refs[last])
	if r := locks[last]; found && r != nil && r.Mode.Locks() && r.Until.After(o.Modified) && !o.Modified.IsZero() {
		return r.Until.Sub(o.Modified).Round(time.Second)
	}
	return 0
}

// contest tells of other clusters that write to the prefix, and how many they are.
func contest(t timeline.Timeline, own snapshot.LineageID) (string, int) {
	others := t.Contenders(own)
	if len(others) == 0 {
		return "", 0
	}
	o := others[0]
	return fmt.Sprintf("cluster %x writes to the same prefix, too (%s, the last at %s): after a loss of all data nothing is restored by itself; stop one of the clusters, or give it a prefix and an owner of its own",
		o.Cluster(), timeline.Title(o.ID), o.LastWrite().Format(time.RFC3339)), len(others)
}

// remedy takes a full, because what was uploaded up to a revision is not there any more, or cannot
// be restored: somebody deleted or hid it, or the store lost it.
func (t *term) remedy(ctx context.Context, reach, uploaded snapshot.Revision) {
	t.log.Error("the bucket cannot restore what was uploaded; a full is taken", "uploaded", int64(uploaded), "restorable", int64(reach))
	if _, err := t.snapshotter().TakeFull(ctx, false); err != nil && ctx.Err() == nil {
		t.log.Error("the full that the bucket needs failed; the next look tries again", "error", err)
	}
}

// objectsOf are the full and the deltas of a chain.
func objectsOf(c timeline.Chain) []timeline.Ref {
	refs := []timeline.Ref{c.Base.Ref}
	for _, d := range c.Deltas {
		refs = append(refs, d.Ref)
	}
	return refs
}

// locksOf returns the locks of the objects of the newest chain, in their order, and the moment to
// judge them by. A lock that may not be read is nil.
func (l *Leader) locksOf(cat *catalog.Catalog, refs []timeline.Ref) ([]*immutability.Retention, time.Time) {
	locks := make([]*immutability.Retention, len(refs))
	clock := immutability.Clock{Local: l.cfg.Now()}
	for i, ref := range refs {
		o, found := cat.Objects.Find(ref)
		if !found {
			continue
		}
		locks[i] = o.Retention
		if o.ServerTime.After(clock.Server) {
			clock.Server = o.ServerTime
		}
	}
	return locks, clock.ForExtension()
}
