package retention

import (
	"slices"
	"time"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
)

// UploadGrace is how long chunks without their snapshot are taken for an upload that still
// runs, by the time in the name as well as by the store's clock.
const UploadGrace = 24 * time.Hour

// The parts of an item in the order in which they are deleted.
const (
	partPieces = iota // chunks that may be all that is left of a damaged snapshot
	partSurplus
	partGenuine
	partManifest
	partChunks // chunks that are leftovers
)

// writer turns decided items into decisions about versions.
type writer struct {
	bucket    Bucket
	policy    Policy
	now       time.Time
	margin    time.Duration
	newest    time.Time // creation of the newest snapshot that can be used
	decisions []Decision
}

func (w *writer) write(c *contents) {
	w.decisions = make([]Decision, 0, len(w.bucket.Listing.Objects)+len(w.bucket.Listing.Manifests))
	turns := make(map[*item]int, len(w.bucket.Listing.Objects))
	turn := func(it *item) { turns[it] = len(turns) }
	oldestFirst := slices.Backward(c.histories)
	for _, h := range oldestFirst {
		for _, s := range h.streams {
			for _, it := range slices.Backward(s.deltas) {
				turn(it)
			}
			turn(s.head)
		}
		for _, it := range h.missing {
			turn(it)
		}
	}
	for _, it := range c.loose {
		turn(it)
	}
	c.each(func(it *item) {
		if it.usable && it.created().After(w.newest) {
			w.newest = it.created()
		}
	})
	for _, h := range oldestFirst {
		for _, s := range h.streams {
			for _, it := range s.all() {
				w.item(it, turns[it], h.ID, h.awaits(it), h.ask)
			}
		}
		for _, it := range h.missing {
			w.item(it, turns[it], h.ID, h.awaits(it), h.ask)
		}
	}
	for _, it := range c.loose {
		why, ask := c.looseAwaits(it)
		w.item(it, turns[it], "", why, ask)
	}
}

// item writes everything that is stored under one snapshot's name. unproven is why it waits for a
// proof of the newest chain of the lineage ask; empty: it does not.
func (w *writer) item(it *item, turn int, lineage snapshot.LineageID, unproven Reason, ask snapshot.LineageID) {
	own := slices.Clip(it.policy)
	if it.property != "" {
		own = append(own, it.property)
	}
	along := own // the reasons of what shares the snapshot's fate
	switch {
	case it.snap == nil:
	case it.goes():
		along = []Reason{SnapshotGoes}
	default:
		along = []Reason{WithSnapshot}
	}
	name := it.key.String()
	draft := func(kind Kind, part int, ref timeline.Ref, size int64, why []Reason) Decision {
		key := name
		if ref.Key != it.key {
			key = ref.Key.String()
		}
		return Decision{Ref: ref, Key: key, Version: ref.Version, Kind: kind, Snapshot: name,
			Lineage: lineage, Created: it.created(), Size: size, Reasons: slices.Clip(why), turn: turn, part: part, ask: ask}
	}

	var manifest, leftover []Decision
	key := make([]Decision, 0, 1+len(it.others))
	if it.snap != nil {
		kind := Delta
		if it.isFull() {
			kind = Full
		}
		key = append(key, draft(kind, partGenuine, it.snap.Ref, it.snap.Size, own))
	}
	for _, o := range it.others {
		kind := Surplus
		if o.Marker {
			kind = Marker
		}
		key = append(key, draft(kind, partSurplus, o.Ref, o.Size, along))
	}
	for _, m := range it.manifests {
		kind := Manifest
		if m.Marker {
			kind = Marker
		}
		manifest = append(manifest, draft(kind, partManifest, timeline.Ref{Key: m.Key, Version: m.Version}, 0, along))
	}
	for _, o := range it.chunks {
		switch why, goes := w.chunk(it, o); {
		case goes:
			leftover = append(leftover, draft(Chunk, partChunks, o.Ref, o.Size, []Reason{why}))
		case why == "":
			key = append(key, draft(Chunk, partPieces, o.Ref, o.Size, along))
		default:
			d := draft(Chunk, partChunks, o.Ref, o.Size, []Reason{why})
			d.Action = Keep
			w.decisions = append(w.decisions, d)
		}
	}

	if it.goes() {
		until, blocked := w.judge(key, unproven, time.Time{})
		waits := unproven
		if blocked && len(key) > 0 {
			waits = WaitsForSnapshot
		}
		w.judge(manifest, waits, until)
	} else {
		for _, group := range [][]Decision{key, manifest} {
			for i := range group {
				group[i].Action = Keep
			}
		}
	}
	for i := range leftover {
		waits := unproven
		if waits == ProvenChain {
			waits = "" // its snapshot is complete without it: it was read
		}
		w.judge(leftover[i:i+1], waits, time.Time{})
	}
	w.decisions = append(w.decisions, key...)
	w.decisions = append(w.decisions, manifest...)
	w.decisions = append(w.decisions, leftover...)
}

// judge deletes a group of versions that ought to go, or blocks all of it if any of them is
// protected, or if it has to wait for something that is blocked until then. It returns when
// the group will be free (zero: nobody knows) and whether it is blocked.
func (w *writer) judge(group []Decision, waits Reason, then time.Time) (until time.Time, blocked bool) {
	until, blocked = then, waits != ""
	endless, locked := blocked && then.IsZero() && !waits.unproven(), false
	protections := make([]immutability.Protection, len(group))
	for i, d := range group {
		if d.Kind == Marker {
			continue // no store locks a marker
		}
		p := w.bucket.Locks[d.Ref].Protected(w.now, w.margin)
		protections[i] = p
		if !p.Protected {
			continue
		}
		blocked, locked = true, true
		endless = endless || p.Until.IsZero()
		if p.Until.After(until) {
			until = p.Until
		}
	}
	if endless {
		until = time.Time{}
	}
	for i := range group {
		d := &group[i]
		if !blocked {
			d.Action = Delete
			continue
		}
		d.Action, d.Until = Blocked, until
		switch {
		case protections[i].Protected:
			d.Reasons = append(d.Reasons, lockReason(protections[i].Reason))
		case waits == "" || waits.unproven() && locked:
			d.Reasons = append(d.Reasons, WaitsForKey)
		}
		if waits != "" {
			d.Reasons = append(d.Reasons, waits)
		}
	}
	return until, blocked
}

// chunk tells whether a chunk may go on its own, and why or why not. No reason means that it
// shares the fate of its snapshot.
func (w *writer) chunk(it *item, o timeline.Object) (why Reason, goes bool) {
	switch {
	case w.policy.IsZero():
		return NoPolicy, false
	case it.snap != nil && it.snap.Problem != "":
		return "", false
	case it.snap != nil:
		return ChunkComposed, true
	}
	// Nobody tells whether an upload still runs. A day after its name and its last chunk were
	// made, and with a newer snapshot complete, it does not.
	limit := w.now.Add(-UploadGrace)
	if !w.newest.After(it.created()) || !it.created().Before(limit) {
		return UploadMayRun, false
	}
	for _, chunk := range it.chunks {
		if !chunk.Modified.Before(limit) {
			return UploadMayRun, false
		}
	}
	return UploadGivenUp, true
}
