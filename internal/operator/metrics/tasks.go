package metrics

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Tasks are the metrics of tasks, with the names and labels that the original's design has. They name the
// Etcd, so there are series for each Etcd that has tasks; those of one end with the process.
type Tasks struct {
	ended *prometheus.CounterVec
	took  *prometheus.HistogramVec
	c     *Catalogue
}

// NewTasks makes them; none is shown before [Tasks.Register].
func NewTasks() *Tasks {
	c := &Catalogue{}
	labels := []string{"type", "state", "etcd", "etcd_namespace"}
	return &Tasks{
		c:     c,
		ended: c.counter("operator_tasks_total", "Tasks that have ended, by how they did: succeeded, failed or rejected.", labels...),
		took: c.histogram("operator_task_duration_seconds", "How long tasks took from their beginning to their end, in seconds; 0 for those that were rejected.",
			prometheus.ExponentialBuckets(1, 2, 13), labels...), // up to 68 minutes
	}
}

// Rows are the metrics, for the documentation.
func (t *Tasks) Rows() []Row { return t.c.Rows() }

// Register has r show the metrics.
func (t *Tasks) Register(r prometheus.Registerer) error {
	for _, one := range t.c.all {
		if err := r.Register(one); err != nil {
			return err
		}
	}
	return nil
}

// Ended counts a task. The design has its states in small letters here, other than in the status.
func (t *Tasks) Ended(of, state, etcd, etcdNamespace string, took time.Duration) {
	state = strings.ToLower(state)
	t.ended.WithLabelValues(of, state, etcd, etcdNamespace).Inc()
	t.took.WithLabelValues(of, state, etcd, etcdNamespace).Observe(took.Seconds())
}
