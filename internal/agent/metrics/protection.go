package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Protection is how well the data are protected, as far as the writer of the backups knows. What
// is zero is not known and not shown.
type Protection struct {
	Newest time.Time // when the newest snapshot was made
	// Since is when the oldest change that is not in the bucket was seen; zero with Seen: none is
	// missing.
	Since time.Time
	Seen  bool // Since is known
	// Surveyed: the bucket was looked through, and what follows is known.
	Surveyed bool
	Gaps     int // ranges of revisions missing in the newest lineage, or between its snapshots
	// Contenders are other clusters that write to the same prefix.
	Contenders int
	// RetainUntil is the earliest end among the locks of the newest chain; zero: something of it
	// is not locked.
	RetainUntil time.Time
	// Level is how well the newest chain is protected: one of [Levels].
	Level     string
	Tampering int // what somebody may have done to the bucket
	Excluded  int // snapshots that restores leave out
}

// Levels are how well something can be protected, the weakest first.
func Levels() []string { return []string{"none", "unknown", "advisory", "governance", "compliance"} }

// protection shows a Protection, with ages as of the moment it is asked.
type protection struct {
	now                                       func() time.Time
	age, unprotected, retain, holes, contends *prometheus.Desc
	level, tampering, excluded                *prometheus.Desc

	mu    sync.Mutex
	known *Protection
}

func newProtection(now func() time.Time) *protection {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(prometheus.BuildFQName(namespace, "protection", name), help, labels, nil)
	}
	return &protection{now: now,
		age:         desc("newest_snapshot_age_seconds", "Age of the newest snapshot, in seconds."),
		unprotected: desc("unprotected_seconds", "For how long the oldest change that is not in the bucket has been waiting, in seconds."),
		retain:      desc("retain_until_timestamp", "Earliest end among the locks of the newest chain, in Unix seconds; 0: something of it is not locked."),
		holes:       desc("chain_gaps", "Ranges of revisions that the newest lineage in the bucket lacks."),
		contends:    desc("contending_clusters", "Other clusters that write to the same prefix."),
		level:       desc("level", "1 for how well the weakest object of the newest chain is protected, 0 for the others: none, unknown, advisory, governance or compliance.", "level"),
		tampering:   desc("tamper_findings", "What somebody may have done to the bucket: versions, delete markers, foreign, missing or changed objects."),
		excluded:    desc("excluded_snapshots", "Snapshots that somebody excluded from restores."),
	}
}

func (p *protection) show(known *Protection) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known = known
}

// Describe implements prometheus.Collector.
func (p *protection) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{p.age, p.unprotected, p.retain, p.holes, p.contends, p.level, p.tampering, p.excluded} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (p *protection) Collect(to chan<- prometheus.Metric) {
	p.mu.Lock()
	known := p.known
	p.mu.Unlock()
	if known == nil {
		return
	}
	now := p.now()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	since := func(t time.Time) float64 { return max(0, now.Sub(t).Seconds()) }
	if !known.Newest.IsZero() {
		gauge(p.age, since(known.Newest))
	}
	switch {
	case !known.Seen:
	case known.Since.IsZero():
		gauge(p.unprotected, 0)
	default:
		gauge(p.unprotected, since(known.Since))
	}
	if !known.Surveyed {
		return
	}
	gauge(p.holes, float64(known.Gaps))
	gauge(p.contends, float64(known.Contenders))
	gauge(p.tampering, float64(known.Tampering))
	gauge(p.excluded, float64(known.Excluded))
	for _, level := range Levels() {
		is := 0.0
		if level == known.Level {
			is = 1
		}
		gauge(p.level, is, level)
	}
	if known.RetainUntil.IsZero() {
		gauge(p.retain, 0)
	} else {
		gauge(p.retain, float64(known.RetainUntil.Unix()))
	}
}
