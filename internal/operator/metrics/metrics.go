// Package metrics is the catalogue of what the operator measures: what it does, counted when it does
// it, and how the Etcds are, counted when somebody looks.
//
// Labels have closed sets of values, but for the namespace and the name of an Etcd, which only Etcds
// with a condition in trouble have. It decides nothing about clusters. What controller-runtime
// measures of its own (queues, requests to the API server, which operator leads) is not repeated here.
package metrics

import (
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const namespace = "etcddruid"

// Catalogue are all metrics. Its methods may be called concurrently.
type Catalogue struct {
	looks     *prometheus.CounterVec
	steps     *prometheus.HistogramVec
	objects   *prometheus.CounterVec
	pods      *prometheus.CounterVec
	failures  *prometheus.CounterVec
	snapshots *prometheus.HistogramVec

	rows []Row
	all  []prometheus.Collector
}

// Row is a metric for the documentation.
type Row struct {
	Name   string
	Kind   string // counter, gauge or histogram
	Labels []string
	Help   string
}

// New makes the metrics; none is shown before [Catalogue.Register].
func New() *Catalogue {
	c := &Catalogue{}
	c.looks = c.counter("looks_total", "Looks at Etcds: how much of the specification was acted on, and what it came to.", "mode", "result")
	c.steps = c.histogram("look_step_duration_seconds", "How long the steps of looks at Etcds took, in seconds.",
		prometheus.ExponentialBuckets(0.0001, 4, 10), "step") // up to 26 s
	c.objects = c.counter("objects_total", "Objects of Etcds that were created, changed, set back after somebody else had changed them, or removed.", "kind", "action")
	c.pods = c.counter("pods_replaced_total", "Pods with a former template that were deleted, so that they come back with the newest.")
	c.failures = c.counter("failures_total", "What could not be carried out, by the code that status.lastErrors has.", "code")
	c.snapshots = c.histogram("snapshot_duration_seconds", "How long the snapshots took that must be in the bucket before a step, with the proof that they can be restored, in seconds.",
		prometheus.ExponentialBuckets(1, 2, 13), "succeeded") // up to 68 minutes
	for _, g := range gauges {
		c.rows = append(c.rows, Row{Name: g.name, Kind: "gauge", Labels: g.labels, Help: g.help})
	}
	return c
}

// Rows are the metrics of the operator, in the order of their names.
func (c *Catalogue) Rows() []Row {
	return slices.SortedFunc(slices.Values(c.rows), func(a, b Row) int { return strings.Compare(a.Name, b.Name) })
}

// Register has r show the metrics, and how the Etcds are as soon as leads is closed: of several
// operators only the one that works counts them.
func (c *Catalogue) Register(r prometheus.Registerer, etcds Reader, leads <-chan struct{}, now func() time.Time) error {
	for _, one := range append(slices.Clone(c.all), &census{etcds: etcds, leads: leads, now: now}) {
		if err := r.Register(one); err != nil {
			return err
		}
	}
	return nil
}

func (c *Catalogue) counter(name, help string, labels ...string) *prometheus.CounterVec {
	o := prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}
	v := prometheus.NewCounterVec(o, labels)
	c.add(v, prometheus.Opts(o), "counter", labels)
	return v
}

func (c *Catalogue) histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	o := prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: buckets}
	v := prometheus.NewHistogramVec(o, labels)
	c.add(v, prometheus.Opts{Namespace: namespace, Name: name, Help: help}, "histogram", labels)
	return v
}

func (c *Catalogue) add(v prometheus.Collector, o prometheus.Opts, kind string, labels []string) {
	c.all = append(c.all, v)
	c.rows = append(c.rows, Row{Name: prometheus.BuildFQName(o.Namespace, o.Subsystem, o.Name), Kind: kind, Labels: labels, Help: o.Help})
}

// Result is what a look at an Etcd came to.
type Result string

// The results.
const (
	Done    Result = "done"    // nothing is left to do
	Waits   Result = "waits"   // a step was made, or has to be waited for
	Refused Result = "refused" // something that the specification wants is not done
	Failed  Result = "failed"  // something could not be carried out, or not be read
)

// Looked counts a look at an Etcd in a mode.
func (c *Catalogue) Looked(mode string, r Result) { c.looks.WithLabelValues(mode, string(r)).Inc() }

// Step is a part of a look at an Etcd.
type Step string

// The steps.
const (
	Observe Step = "observe"
	Decide  Step = "decide"
	Apply   Step = "apply"
	Report  Step = "report"
)

// Clock measures the steps of one look.
type Clock struct {
	steps *prometheus.HistogramVec
	since time.Time
}

// Clock starts one.
func (c *Catalogue) Clock() *Clock { return &Clock{c.steps, time.Now()} }

// Ended tells that a step ended, and the next one begins.
func (c *Clock) Ended(s Step) {
	now := time.Now()
	c.steps.WithLabelValues(string(s)).Observe(now.Sub(c.since).Seconds())
	c.since = now
}

// Action is what was done about an object.
type Action string

// The actions.
const (
	Created Action = "created"
	Changed Action = "changed"
	SetBack Action = "set_back" // somebody else had changed it
	Removed Action = "removed"
)

// Object counts an object of a kind.
func (c *Catalogue) Object(kind string, a Action) { c.objects.WithLabelValues(kind, string(a)).Inc() }

// PodReplaced counts a pod.
func (c *Catalogue) PodReplaced() { c.pods.WithLabelValues().Inc() }

// Failure counts something that could not be carried out.
func (c *Catalogue) Failure(code string) { c.failures.WithLabelValues(code).Inc() }

// Snapshot tells of a snapshot before a step.
func (c *Catalogue) Snapshot(took time.Duration, succeeded bool) {
	word := "false"
	if succeeded {
		word = "true"
	}
	c.snapshots.WithLabelValues(word).Observe(took.Seconds())
}
