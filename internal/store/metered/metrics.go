package metered

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/prometheus/client_golang/prometheus"

	"druid.internal/druid/internal/store"
)

// Metrics are what all stores of a process count into.
type Metrics struct {
	operations *prometheus.CounterVec   // store, provider, operation, result
	duration   *prometheus.HistogramVec // store, provider, operation
	bytes      *prometheus.CounterVec   // store, provider, direction
	inFlight   *prometheus.GaugeVec     // store, provider
}

// NewMetrics registers the metrics, whose names begin with namespace_store_.
func NewMetrics(namespace string, reg prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		operations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: "store", Name: "operations_total",
			Help: "Operations on the object store that have ended, by result. A download counts as open when it begins and as read when it ends.",
		}, []string{"store", "provider", "operation", "result"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Subsystem: "store", Name: "operation_duration_seconds",
			Help:    "How long operations on the object store took, whatever their result.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 12), // 1 ms to 70 minutes: a put is a whole upload
		}, []string{"store", "provider", "operation"}),
		bytes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: "store", Name: "bytes_total",
			Help: "Content moved to (sent) and from (received) the object store; what is repeated counts again.",
		}, []string{"store", "provider", "direction"}),
		inFlight: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: namespace, Subsystem: "store", Name: "operations_in_flight",
			Help: "Operations on the object store that have not ended, open downloads included.",
		}, []string{"store", "provider"}),
	}
	for _, c := range []prometheus.Collector{m.operations, m.duration, m.bytes, m.inFlight} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register the store's metrics: %w", err)
		}
	}
	return m, nil
}

// results are the values of the label result beside "ok" and "other", the most telling first.
var results = []struct {
	err   error
	label string
}{
	{store.ErrUnknownOutcome, "unknown_outcome"},
	{store.ErrNoBucket, "no_bucket"},
	{store.ErrNotFound, "not_found"},
	{store.ErrExists, "exists"},
	{store.ErrCredentials, "credentials"},
	{store.ErrForbidden, "forbidden"},
	{store.ErrThrottled, "throttled"},
	{store.ErrUnsupported, "unsupported"},
	{store.ErrNoSpace, "no_space"},
	{context.Canceled, "canceled"},
	{context.DeadlineExceeded, "timeout"},
	{store.ErrUnreachable, "unreachable"},
	{io.ErrUnexpectedEOF, "truncated"},
}

func result(err error) string {
	if err == nil {
		return "ok"
	}
	var locked *store.ImmutableError
	if errors.As(err, &locked) {
		return "immutable"
	}
	for _, r := range results {
		if errors.Is(err, r.err) {
			return r.label
		}
	}
	return "other"
}
