package sites

import "time"

// Ahead is a site whose clock can be moved ahead, for all of its buckets at once: so only a site of a
// fleet that is the test's own.
type Ahead interface {
	Site
	Advance(d time.Duration)
}

func (g *gcs) Advance(d time.Duration)   { g.server.Shim.Advance(d) }
func (a *azure) Advance(d time.Duration) { a.server.Shim.Advance(d) }
func (o *oss) Advance(d time.Duration)   { o.server.Advance(d) }
