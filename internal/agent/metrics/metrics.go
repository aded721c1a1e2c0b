// Package metrics is the catalogue of what a sidecar measures: the names of the original, and those
// about protection, with labels of closed sets of values.
//
// The metrics of taking snapshots are those of package snapshotter and are not repeated here. It
// measures nothing itself but the network, and decides nothing.
package metrics

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"druid.internal/druid/internal/etcd/member"
)

const namespace = "etcdbr"

// Catalogue are all metrics. Its methods may be called concurrently.
type Catalogue struct {
	// The original's.
	waits          *prometheus.GaugeVec
	collected      *prometheus.CounterVec
	validation     *prometheus.HistogramVec
	restoration    *prometheus.HistogramVec
	defragmented   *prometheus.HistogramVec
	clusterSize    *prometheus.GaugeVec // without labels: no sample before it is known
	learner        prometheus.Gauge
	learnerCount   *prometheus.CounterVec
	learnerAdded   *prometheus.HistogramVec
	memberRemoved  *prometheus.HistogramVec
	memberPromoted *prometheus.HistogramVec

	alarm *prometheus.GaugeVec // by etcd

	// About protection.
	leader      *prometheus.GaugeVec // as clusterSize
	protection  *protection
	verified    *prometheus.CounterVec
	verifiedAt  *prometheus.GaugeVec // as clusterSize
	restoreTime *prometheus.GaugeVec
	compared    *prometheus.CounterVec
	reopened    *prometheus.CounterVec
	synced      *prometheus.CounterVec
	syncedAt    prometheus.Gauge

	// About what Kubernetes is told.
	answered *prometheus.CounterVec
	told     *prometheus.GaugeVec
	ahead    *prometheus.GaugeVec // as clusterSize
}

// New registers the metrics with r; nil: they are counted and shown nowhere. now is for ages; nil
// means time.Now.
func New(r prometheus.Registerer, now func() time.Time) *Catalogue {
	if now == nil {
		now = time.Now
	}
	var all []prometheus.Collector
	counter := func(subsystem, name, help string, labels ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help}, labels)
		all = append(all, v)
		return v
	}
	gauge := func(subsystem, name, help string) prometheus.Gauge {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help})
		all = append(all, g)
		return g
	}
	known := func(subsystem, name, help string) *prometheus.GaugeVec {
		v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help}, nil)
		all = append(all, v)
		return v
	}
	labelled := func(subsystem, name, help string, labels ...string) *prometheus.GaugeVec {
		v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help}, labels)
		all = append(all, v)
		return v
	}
	duration := func(subsystem, name, help string, labels ...string) *prometheus.HistogramVec {
		v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help,
			Buckets: prometheus.ExponentialBuckets(0.1, 2, 15)}, labels) // up to 27 minutes
		all = append(all, v)
		return v
	}
	c := &Catalogue{
		collected:      counter("snapshot", "gc_total", "Objects that garbage collection was to delete.", "kind", "succeeded"),
		waits:          labelled("snapshot", "gc_unproven_objects", "Objects that garbage collection does not delete because no newer chain was proven by reading it, at the last collection.", "store"),
		validation:     duration("validation", "duration_seconds", "Time taken by validations of the data directory, in seconds.", "succeeded"),
		restoration:    duration("restoration", "duration_seconds", "Time taken by restorations, in seconds.", "restore", "succeeded"),
		defragmented:   duration("defragmentation", "duration_seconds", "Time taken by defragmentations, in seconds.", "succeeded", "endpoint"),
		clusterSize:    known("", "cluster_size", "Members that the cluster lists, learners included; not shown before it is known."),
		learner:        gauge("", "is_learner", "1 if this member is a learner."),
		learnerCount:   counter("", "is_learner_count_total", "How often this member became a learner.", "succeeded"),
		learnerAdded:   duration("", "add_learner_duration_seconds", "Time taken to add this member as a learner, in seconds.", "succeeded"),
		memberRemoved:  duration("", "member_remove_duration_seconds", "Time taken to remove members, in seconds.", "succeeded"),
		memberPromoted: duration("", "member_promote_duration_seconds", "Time taken to promote a learner, in seconds.", "succeeded"),

		alarm: labelled("", "etcd_alarm", "1 while etcd has raised an alarm: NOSPACE or CORRUPT.", "alarm"),

		leader:      known("", "backup_leader", "1 if this sidecar writes the backups; not shown without a store."),
		protection:  newProtection(now),
		verified:    counter("protection", "verify_total", "Proofs that the newest chain can be restored: ok, broken, or error if there was no answer.", "result"),
		verifiedAt:  known("protection", "verified_timestamp", "When the newest chain was last proven restorable, in Unix seconds; not shown before that."),
		restoreTime: known("protection", "restore_seconds", "Time a restore of the newest chain took when it was last proven, in seconds; not shown before that."),
		compared:    counter("protection", "compare_total", "Comparisons of the members before a full: agree, dissent if a majority agreed and another member did not, minority if this member did not, or none if no majority agreed.", "result"),
		reopened:    counter("store", "opened_total", "How often a store was opened, at first or because its credentials changed.", "store", "succeeded"),
		synced:      counter("secondary", "sync_total", "Copies to the second store.", "succeeded"),
		syncedAt:    gauge("secondary", "synced_timestamp", "When the second store was last like the first, in Unix seconds."),

		answered: counter("kubernetes", "requests_total", "Requests to the API server about the member's Lease and EtcdMember, by what became of them; ok if it was granted.", "object", "situation"),
		told:     labelled("kubernetes", "told_timestamp", "When the API server last took what it was told about the member, in Unix seconds.", "object"),
		ahead:    known("kubernetes", "clock_ahead_seconds", "By how much the clock of this node is ahead of the API server's; not shown before it answered."),
	}
	for _, p := range []Proof{Proven, Broken, Untold} {
		c.verified.WithLabelValues(string(p)) // a counter that begins at 1 has not increased
	}
	for _, a := range []Agreement{Agree, Dissent, Minority, NoMajority} {
		c.compared.WithLabelValues(string(a))
	}
	if r != nil {
		r.MustRegister(append(all, c.protection, newNetwork())...)
	}
	return c
}

func flag(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func word(succeeded bool) string { return strconv.FormatBool(succeeded) }

// Collected counts what garbage collection did with n objects of a kind: Full, Incr or Chunk.
func (c *Catalogue) Collected(kind string, succeeded bool, n int) {
	c.collected.WithLabelValues(kind, word(succeeded)).Add(float64(n))
}

// CollectionWaits tells how many objects of a store the last collection kept for lack of a proof.
func (c *Catalogue) CollectionWaits(store string, n int) {
	c.waits.WithLabelValues(store).Set(float64(n))
}

// Validated tells how long a validation of the data directory took.
func (c *Catalogue) Validated(took time.Duration, succeeded bool) {
	c.validation.WithLabelValues(word(succeeded)).Observe(took.Seconds())
}

// The kinds of restoration.
const (
	SingleMember = "single_node" // from the bucket
	OfACluster   = "multi_node"  // from the leader
)

// Restored tells how long a restoration of a kind took.
func (c *Catalogue) Restored(kind string, took time.Duration, succeeded bool) {
	c.restoration.WithLabelValues(kind, word(succeeded)).Observe(took.Seconds())
}

// Defragmented tells how long a member took. There are as many endpoints as members.
func (c *Catalogue) Defragmented(endpoint string, took time.Duration, succeeded bool) {
	c.defragmented.WithLabelValues(word(succeeded), endpoint).Observe(took.Seconds())
}

// ClusterSize tells how many members there are.
func (c *Catalogue) ClusterSize(members int) { c.clusterSize.WithLabelValues().Set(float64(members)) }

// Learner tells whether this member is a learner.
func (c *Catalogue) Learner(is bool) { c.learner.Set(flag(is)) }

// LearnerAdded tells of an attempt to add this member as a learner.
func (c *Catalogue) LearnerAdded(took time.Duration, succeeded bool) {
	c.learnerCount.WithLabelValues(word(succeeded)).Inc()
	c.learnerAdded.WithLabelValues(word(succeeded)).Observe(took.Seconds())
}

// MemberRemoved tells of an attempt to remove a member.
func (c *Catalogue) MemberRemoved(took time.Duration, succeeded bool) {
	c.memberRemoved.WithLabelValues(word(succeeded)).Observe(took.Seconds())
}

// MemberPromoted tells of an attempt to promote a learner.
func (c *Catalogue) MemberPromoted(took time.Duration, succeeded bool) {
	c.memberPromoted.WithLabelValues(word(succeeded)).Observe(took.Seconds())
}

// Alarmed tells whether etcd has raised an alarm of a kind.
func (c *Catalogue) Alarmed(kind member.AlarmKind, raised bool) {
	c.alarm.WithLabelValues(string(kind)).Set(flag(raised))
}

// Leads tells whether this sidecar writes the backups. While it does not, nothing is shown of the
// protection: only the one that writes knows.
func (c *Catalogue) Leads(yes bool) {
	c.leader.WithLabelValues().Set(flag(yes))
	if !yes {
		c.protection.show(nil)
	}
}

// Protects tells how well the data are protected now.
func (c *Catalogue) Protects(p Protection) { c.protection.show(&p) }

// Proof is what an attempt to prove the newest chain ended with.
type Proof string

// The proofs.
const (
	Proven Proof = "ok"
	Broken Proof = "broken"
	Untold Proof = "error" // the store did not answer, or there was no room
)

// Verified tells of a proof at a time; took counts if it is Proven.
func (c *Catalogue) Verified(p Proof, at time.Time, took time.Duration) {
	c.verified.WithLabelValues(string(p)).Inc()
	if p == Proven {
		c.verifiedAt.WithLabelValues().Set(float64(at.Unix()))
		c.restoreTime.WithLabelValues().Set(took.Seconds())
	}
}

// Agreement is what comparing the members showed.
type Agreement string

// The agreements.
const (
	Agree      Agreement = "agree"    // all that told
	Dissent    Agreement = "dissent"  // a majority, this member among them, and some member has other data
	Minority   Agreement = "minority" // a majority has other data than this member
	NoMajority Agreement = "none"
)

// Compared counts a comparison.
func (c *Catalogue) Compared(a Agreement) { c.compared.WithLabelValues(string(a)).Inc() }

// The stores.
const (
	Primary   = "primary"
	Secondary = "secondary"
)

// Opened counts an opening of a store.
func (c *Catalogue) Opened(store string, succeeded bool) {
	c.reopened.WithLabelValues(store, word(succeeded)).Inc()
}

// Synced tells of a copy to the second store.
func (c *Catalogue) Synced(at time.Time, succeeded bool) {
	c.synced.WithLabelValues(word(succeeded)).Inc()
	if succeeded {
		c.syncedAt.Set(float64(at.Unix()))
	}
}

// Answered counts a request to Kubernetes about an object, lease or member. The situations are those
// of package kube.
func (c *Catalogue) Answered(object, situation string) {
	c.answered.WithLabelValues(object, situation).Inc()
}

// Told tells when Kubernetes last took what it was told about an object.
func (c *Catalogue) Told(object string, at time.Time) {
	c.told.WithLabelValues(object).Set(float64(at.Unix()))
}

// Ahead tells by how much this node's clock is ahead of the API server's.
func (c *Catalogue) Ahead(by time.Duration) { c.ahead.WithLabelValues().Set(by.Seconds()) }
