package retention

import "time"

// applyDeltaRetention lets the deltas of older streams go. Those of a lineage's newest chain
// are never older ones: in the newest lineage they are the present, in a lineage that was
// left behind they are the last that is known of it and share the fate of their full.
func (c *contents) applyDeltaRetention(p Policy, now time.Time) {
	if !p.keepers() && p.DeltaRetention == 0 {
		return
	}
	for _, h := range c.histories {
		ending := h.ending()
		for _, s := range h.streams {
			for _, it := range s.deltas {
				full, ends := ending[it]
				switch {
				case ends && !full.gone:
					it.keep(EndOfLineage)
				case !it.created().Before(now.Add(-p.DeltaRetention)):
					it.keep(YoungDelta)
				case ends:
					it.drop(BaseGoes)
				default:
					it.drop(OldDelta)
				}
			}
		}
	}
}

// ending are the deltas of the newest stream and of the newest restorable chain, each with
// the full it stands on.
func (h *history) ending() map[*item]*item {
	ending := map[*item]*item{}
	if s := h.newest(); s != nil {
		for _, it := range s.deltas {
			ending[it] = s.head
		}
	}
	for _, it := range h.links {
		ending[it] = h.base
	}
	return ending
}

// applyMaxAge lets go what is too old.
func (c *contents) applyMaxAge(p Policy, now time.Time) {
	if p.MaxAge == 0 {
		return
	}
	for _, h := range c.histories {
		for _, s := range h.streams {
			for _, it := range s.all() {
				if it.created().Before(now.Add(-p.MaxAge)) {
					it.drop(OverMaxAge)
				}
			}
		}
	}
}

// applyMaxSize lets streams go, the oldest of the oldest lineage first, until what is left is
// small enough. What goes for another reason counts as gone even where a lock still blocks
// it: that the old cannot go yet is no reason to let the new go.
func (c *contents) applyMaxSize(p Policy) {
	if p.MaxSize == 0 {
		return
	}
	var left int64
	c.each(func(it *item) {
		if !it.gone {
			left += it.size
		}
	})
	for i := len(c.histories) - 1; i >= 0; i-- {
		for _, s := range c.histories[i].streams {
			if left <= p.MaxSize {
				return
			}
			for _, it := range s.all() {
				if !it.gone {
					left -= it.size
					it.drop(OverMaxSize)
				}
			}
		}
	}
}
