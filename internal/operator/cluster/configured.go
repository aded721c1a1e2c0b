package cluster

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/operator/desired"
)

// configurations remembers what the ConfigMaps of Etcds say: every look needs it several times, and few
// find another one. To read the text takes longer than all else of a look that finds nothing to do.
type configurations struct {
	mu sync.Mutex
	of map[types.UID]configured // by Etcd
}

// configured is what a version of a ConfigMap says.
type configured struct {
	uid     types.UID
	version string
	live    desired.Live
}

func newConfigurations() *configurations {
	return &configurations{of: map[types.UID]configured{}}
}

// read is what the ConfigMap of an Etcd says; nil: there is none.
func (c *configurations) read(e *druidv1alpha1.Etcd, m *corev1.ConfigMap) *desired.Live {
	if m == nil {
		return &desired.Live{}
	}
	c.mu.Lock()
	known, is := c.of[e.UID]
	c.mu.Unlock()
	if !is || known.uid != m.UID || known.version != m.ResourceVersion {
		known = configured{m.UID, m.ResourceVersion, desired.ReadConfigMap(e, m)}
		c.mu.Lock()
		c.of[e.UID] = known
		c.mu.Unlock()
	}
	return &known.live
}

// forget drops what is known of an Etcd that is gone.
func (c *configurations) forget(uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.of, uid)
}

// configured is what the ConfigMap says.
func (o *Observed) configured() desired.Live {
	if o.Configured != nil {
		return *o.Configured
	}
	return desired.ReadConfigMap(o.Etcd, o.ConfigMap)
}
