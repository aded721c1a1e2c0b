package snapshotter

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/etcd/member"
	"druid.internal/druid/internal/store"
)

// Metrics are the original's, by the same names, with labels of a fixed set of values.
type Metrics struct {
	latestRevision  *prometheus.GaugeVec
	latestTimestamp *prometheus.GaugeVec
	required        *prometheus.GaugeVec
	duration        *prometheus.HistogramVec
	failures        *prometheus.CounterVec
	deltas          prometheus.Gauge
	deltaRevisions  prometheus.Gauge
}

// NewMetrics registers the metrics with r; nil: they are counted and shown nowhere.
func NewMetrics(r prometheus.Registerer) *Metrics {
	const namespace = "etcdbr"
	gauge := func(subsystem, name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help}, labels)
	}
	m := &Metrics{
		latestRevision:  gauge("snapshot", "latest_revision", "Last revision of the newest snapshot.", "kind"),
		latestTimestamp: gauge("snapshot", "latest_timestamp", "When the newest snapshot was made, in Unix seconds.", "kind"),
		required:        gauge("snapshot", "required", "1 if there are changes that no snapshot of the kind holds.", "kind"),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Subsystem: "snapshot", Name: "duration_seconds", Help: "Time taken by snapshots, in seconds.",
			Buckets: prometheus.ExponentialBuckets(0.1, 2, 15),
		}, []string{"kind", "succeeded"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Name: "snapshotter_failure", Help: "Failures by the kind of error.",
		}, []string{"error"}),
		deltas: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: namespace, Subsystem: "snapstore", Name: "latest_deltas_total", Help: "Deltas since the newest full snapshot.",
		}),
		deltaRevisions: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: namespace, Subsystem: "snapstore", Name: "latest_deltas_revisions_total", Help: "Revisions in the deltas since the newest full snapshot.",
		}),
	}
	if r != nil {
		r.MustRegister(m.latestRevision, m.latestTimestamp, m.required, m.duration, m.failures, m.deltas, m.deltaRevisions)
	}
	return m
}

// Retire forgets what the gauges show: somebody else backs up now.
func (m *Metrics) Retire() {
	for _, v := range []*prometheus.GaugeVec{m.latestRevision, m.latestTimestamp, m.required} {
		v.Reset()
	}
	m.deltas.Set(0)
	m.deltaRevisions.Set(0)
}

func (m *Metrics) taken(n snapshot.Name, last snapshot.Revision, began, now time.Time) {
	kind := string(n.Kind)
	m.latestRevision.WithLabelValues(kind).Set(float64(last))
	m.latestTimestamp.WithLabelValues(kind).Set(float64(n.Created))
	m.duration.WithLabelValues(kind, "true").Observe(now.Sub(began).Seconds())
}

func (m *Metrics) failed(kind snapshot.Kind, err error, began, now time.Time) {
	m.duration.WithLabelValues(string(kind), "false").Observe(now.Sub(began).Seconds())
	m.failure(err)
}

func (m *Metrics) failure(err error) { m.failures.WithLabelValues(errorLabel(err)).Inc() }

func (m *Metrics) need(kind snapshot.Kind, yes bool) {
	v := 0.0
	if yes {
		v = 1
	}
	m.required.WithLabelValues(string(kind)).Set(v)
}

// errorLabel puts any error into one of a few classes.
func errorLabel(err error) string {
	for _, class := range []struct {
		err   error
		label string
	}{
		{ErrOwned, "owned"},
		{errHistory, "history"},
		{member.ErrCompacted, "compacted"},
		{store.ErrUnknownOutcome, "store-unconfirmed"},
		{store.ErrForbidden, "store-forbidden"},
		{store.ErrCredentials, "store-credentials"},
		{store.ErrNoBucket, "store-no-bucket"},
		{store.ErrNoSpace, "store-no-space"},
		{store.ErrThrottled, "store-throttled"},
		{store.ErrUnreachable, "store-unreachable"},
		{store.ErrExists, "store-exists"},
		{member.ErrForbidden, "etcd-forbidden"},
		{member.ErrNoLeader, "etcd-no-leader"},
		{member.ErrUnreachable, "etcd-unreachable"},
		{member.ErrStalled, "etcd-stalled"},
		{context.DeadlineExceeded, "timeout"},
		{context.Canceled, "cancelled"},
	} {
		if errors.Is(err, class.err) {
			return class.label
		}
	}
	return "other"
}
