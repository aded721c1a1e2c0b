package timeline

import (
	"cmp"
	"container/heap"
	"fmt"
	"math"
	"slices"
	"sort"
	"time"

	"druid.internal/druid/internal/backup/snapshot"
)

// Link is a delta in a chain.
type Link struct {
	Snapshot
	From, To snapshot.Revision // what it adds, inclusive; From is above its Start where deltas overlap
}

// Missing is a range of revisions that no usable object holds.
type Missing struct {
	From, To snapshot.Revision // inclusive
	After    string            // name of the object that ends just before, empty if there is none
	Before   string            // name of the object that begins just after, empty if there is none
}

// String names the range and its neighbours.
func (m Missing) String() string {
	s := fmt.Sprintf("revisions %d-%d", m.From, m.To)
	if m.From == m.To {
		s = fmt.Sprintf("revision %d", m.From)
	}
	if m.After != "" {
		s += " after " + m.After
	}
	if m.Before != "" {
		s += " before " + m.Before
	}
	return s
}

// Chain is a full and the deltas that continue it without a gap.
type Chain struct {
	Base   Snapshot
	Deltas []Link
	End    snapshot.Revision // last revision it reaches, a lower bound if Base is not Certain and there are no deltas
	Gap    *Missing          // what keeps it from reaching the next known snapshot; nil: nothing newer is known
}

// Links finds the continuation of a position among the snapshots of a lineage. It costs the
// logarithm of their number per link found.
type Links struct {
	all    []Snapshot // by start, at the same place fulls first
	deltas []int32    // where in all the deltas are
	best   []int32    // best[i] is the farthest reaching of deltas[:i+1]
	newest snapshot.Revision
}

// Links indexes the usable snapshots of l.
func (l Lineage) Links() Links {
	return newLinks(slices.DeleteFunc(slices.Clone(l.Snapshots), func(s Snapshot) bool { return !s.Usable() }), l.Newest)
}

// NewLinks indexes the given snapshots of one lineage, whose newest known revision is told.
func NewLinks(snapshots []Snapshot, newest snapshot.Revision) Links {
	return newLinks(slices.Clone(snapshots), newest)
}

// newLinks is NewLinks of a list that is its own.
func newLinks(own []Snapshot, newest snapshot.Revision) Links {
	x := Links{all: own, newest: newest}
	slices.SortFunc(x.all, func(a, b Snapshot) int {
		return cmp.Or(cmp.Compare(a.start(), b.start()), cmp.Compare(a.Name().Kind, b.Name().Kind), CompareBases(a, b))
	})
	for i := range x.all {
		if s := &x.all[i]; !s.Full() {
			best := int32(i)
			if n := len(x.best); n > 0 && !farther(s, &x.all[x.best[n-1]]) {
				best = x.best[n-1]
			}
			x.deltas, x.best = append(x.deltas, int32(i)), append(x.best, best)
		}
	}
	return x
}

// farther prefers the delta that reaches farther, then the one that overlaps less, then the
// one with more known about it, then the earlier one.
func farther(a, b *Snapshot) bool {
	known := func(s *Snapshot) int {
		if s.Manifest != nil {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(a.Last, b.Last), cmp.Compare(a.Name().Start, b.Name().Start),
		cmp.Compare(known(a), known(b)), cmp.Compare(b.Name().Created, a.Name().Created)) > 0
}

// Follow continues from a state at revision pos as far as possible. Of several deltas that
// continue it, the one that reaches farthest is taken, so that the fewest are read.
func (x Links) Follow(pos snapshot.Revision) []Link { return x.FollowTo(pos, math.MaxInt64) }

// FollowTo is Follow, but ends with the link that reaches limit.
func (x Links) FollowTo(pos, limit snapshot.Revision) []Link {
	var links []Link
	for pos < limit {
		n := x.upTo(pos)
		if n == 0 {
			break
		}
		d := x.all[x.best[n-1]]
		if d.Last <= pos {
			break
		}
		links = append(links, Link{Snapshot: d, From: pos + 1, To: d.Last})
		pos = d.Last
	}
	return links
}

// FollowInTime continues from a state at revision pos as far as Follow does, but of several
// deltas takes the one that was complete first. Where leaders overlap, that is the one that
// received the revisions when they happened.
func (x Links) FollowInTime(pos snapshot.Revision) []Link {
	var links []Link
	waiting := &byTime{}
	for i := 0; pos < math.MaxInt64; {
		for ; i < len(x.deltas) && x.all[x.deltas[i]].Name().Start <= pos+1; i++ {
			heap.Push(waiting, x.all[x.deltas[i]])
		}
		if waiting.Len() == 0 {
			break
		}
		if d := heap.Pop(waiting).(Snapshot); d.Last > pos {
			links = append(links, Link{Snapshot: d, From: pos + 1, To: d.Last})
			pos = d.Last
		}
	}
	return links
}

// Beyond names the revisions missing between end, where the snapshot called after ends and
// Follow finds nothing more, and the next snapshot. It is nil if nothing newer than end is known.
func (x Links) Beyond(end snapshot.Revision, after string) *Missing {
	if end >= x.newest {
		return nil
	}
	m := Missing{From: end + 1, To: x.newest, After: after}
	n, _ := slices.BinarySearchFunc(x.all, end, func(s Snapshot, r snapshot.Revision) int {
		if s.start() <= r {
			return -1
		}
		return 1
	})
	if n < len(x.all) {
		m.Before = x.all[n].Name().String()
		m.To = max(m.From, x.all[n].start()-1)
	}
	return &m
}

// upTo counts the deltas that begin at pos+1 or before.
func (x Links) upTo(pos snapshot.Revision) int {
	return sort.Search(len(x.deltas), func(i int) bool { return x.all[x.deltas[i]].Key.Name.Start > pos+1 })
}

type byTime []Snapshot

func (h byTime) Len() int      { return len(h) }
func (h byTime) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h byTime) Less(i, j int) bool {
	return cmp.Or(h[i].NotAfter().Compare(h[j].NotAfter()), compareSnapshots(h[i], h[j])) < 0
}
func (h *byTime) Push(s any) { *h = append(*h, s.(Snapshot)) }
func (h *byTime) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// Chains are the chains of the usable fulls, newest first. Together they have as many links as
// there are fulls times deltas, so ask for all of them only to look at few snapshots.
func (l Lineage) Chains() []Chain {
	links := l.Links()
	var chains []Chain
	for _, f := range l.Bases() {
		chains = append(chains, links.chain(f))
	}
	return chains
}

// Bases are the usable fulls, newest first.
func (l Lineage) Bases() []Snapshot {
	fulls := l.bases()
	slices.Reverse(fulls)
	return fulls
}

// NewestChain is the first of Chains: that of the full which reaches farthest. false if there is no
// usable full.
func (l Lineage) NewestChain() (Chain, bool) {
	bases := l.bases()
	if len(bases) == 0 {
		return Chain{}, false
	}
	return l.Links().chain(bases[len(bases)-1]), true
}

// chain is what continues the full f.
func (x Links) chain(f Snapshot) Chain {
	c := Chain{Base: f, Deltas: x.Follow(f.Last), End: f.Last}
	after := f
	if n := len(c.Deltas); n > 0 {
		after = c.Deltas[n-1].Snapshot
		c.End = after.Last
	}
	c.Gap = x.Beyond(c.End, after.Name().String())
	return c
}

// bases are the usable fulls in the order of CompareBases.
func (l Lineage) bases() []Snapshot {
	var fulls []Snapshot
	for _, s := range l.Snapshots {
		if s.Full() && s.Usable() {
			fulls = append(fulls, s)
		}
	}
	slices.SortFunc(fulls, CompareBases)
	return fulls
}

// Window is a range of revisions, without a gap, to each of which one can restore.
type Window struct {
	From, To         snapshot.Revision // From is a lower bound if Base is not Certain
	FromTime, ToTime time.Time         // when they had been received, by best knowledge (see Snapshot.NotAfter)
	Base             Snapshot          // the full it begins with
}

// Windows are the ranges one can restore to, oldest first.
func (l Lineage) Windows() []Window {
	links := l.Links()
	var windows []Window
	for _, f := range l.bases() {
		n := len(windows)
		if n > 0 && f.Last <= windows[n-1].To {
			continue // its chain is the tail of the one before
		}
		if n == 0 || windows[n-1].To+1 < f.Last {
			windows = append(windows, Window{From: f.Last, FromTime: f.NotAfter(), Base: f})
			n++
		}
		w := &windows[n-1]
		w.To, w.ToTime = f.Last, f.NotAfter()
		if d := links.Follow(f.Last); len(d) > 0 {
			end := d[len(d)-1]
			w.To, w.ToTime = end.To, end.NotAfter()
		}
	}
	return windows
}
