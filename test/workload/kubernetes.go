package workload

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// Kubernetes is what the etcd of a control plane sees: renewed leases most of the time, pods that
// change their conditions or are replaced, events attached to etcd leases and deleted later, nodes
// that report, endpoint slices, and custom resources in JSON. Objects are those of k8s.io/api
// in the API server's storage encoding.
type Kubernetes struct {
	rnd     *rand.Rand
	now     time.Time
	rev     int64
	objects map[string]*object // what lives, by key
	kinds   []kind
	shares  int
	create  func() *mvccpb.Event // nil once everything exists
	pending *mvccpb.Event        // returned before anything new happens
	leases  map[int64]int64
}

// object is what etcd counts of a key.
type object struct{ created, version int64 }

// kind is a sort of object: its share of the changes, and how one of them changes.
type kind struct {
	share  int
	count  int                       // objects that exist from the beginning
	put    func(i int) *mvccpb.Event // one of them as it is
	change func() *mvccpb.Event      // one of them, or a new one, after a change
}

// KubernetesOptions say how large the cluster is.
type KubernetesOptions struct {
	Seed uint64
	// Scale multiplies the numbers of objects: with 1 there are 600 leases, 3000 pods, 200
	// nodes, 400 endpoint slices and 800 custom resources.
	Scale int
	// Populate creates all of them before anything changes. Without it an object appears when it
	// changes for the first time.
	Populate bool
}

// eventTTL is the lifetime of Kubernetes events, in seconds: the API server's default.
const eventTTL = 3600

// NewKubernetes makes the history of a cluster.
func NewKubernetes(o KubernetesOptions) *Kubernetes {
	k := &Kubernetes{
		rnd:     rand.New(rand.NewPCG(o.Seed, 8)),
		now:     time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC),
		rev:     1,
		objects: map[string]*object{},
		leases:  map[int64]int64{},
	}
	scale := max(o.Scale, 1)
	nodes := 200 * scale
	pods := newPods(k, 3000*scale, nodes)
	k.kinds = []kind{
		newLeases(k, 600*scale, nodes),
		pods.statuses(),
		pods.replacements(),
		pods.events(),
		newNodes(k, nodes),
		newEndpointSlices(k, 400*scale, nodes),
		newCustomResources(k, 800*scale),
	}
	for _, kind := range k.kinds {
		k.shares += kind.share
	}
	if o.Populate {
		k.create = k.creation()
	}
	return k
}

// creation puts every object once, kind by kind, and returns nil when all are there.
func (k *Kubernetes) creation() func() *mvccpb.Event {
	at, i := 0, 0
	return func() *mvccpb.Event {
		for at < len(k.kinds) && i == k.kinds[at].count {
			at, i = at+1, 0
		}
		if at == len(k.kinds) {
			return nil
		}
		i++
		return k.kinds[at].put(i - 1)
	}
}

// Next implements Generator.
func (k *Kubernetes) Next() *mvccpb.Event {
	if e := k.pending; e != nil {
		k.pending = nil
		return e
	}
	if k.create != nil {
		if e := k.create(); e != nil {
			return e
		}
		k.create = nil
	}
	k.now = k.now.Add(20 * time.Millisecond)
	n := k.rnd.IntN(k.shares)
	for _, kind := range k.kinds {
		if n -= kind.share; n < 0 {
			return kind.change()
		}
	}
	panic("workload: the shares do not add up")
}

// Leases are the etcd leases that keys were attached to, and the seconds they were granted.
func (k *Kubernetes) Leases() map[int64]int64 { return k.leases }

func (k *Kubernetes) put(key string, value []byte, lease int64) *mvccpb.Event {
	k.rev++
	o := k.objects[key]
	if o == nil {
		o = &object{created: k.rev}
		k.objects[key] = o
	}
	o.version++
	if lease != 0 {
		k.leases[lease] = eventTTL
	}
	return &mvccpb.Event{Kv: &mvccpb.KeyValue{Key: []byte(key), Value: value, Lease: lease,
		CreateRevision: o.created, ModRevision: k.rev, Version: o.version}}
}

// remove deletes a key; nil if it does not exist.
func (k *Kubernetes) remove(key string) *mvccpb.Event {
	if k.objects[key] == nil {
		return nil
	}
	k.rev++
	delete(k.objects, key)
	return &mvccpb.Event{Type: mvccpb.DELETE, Kv: &mvccpb.KeyValue{Key: []byte(key), ModRevision: k.rev}}
}

// both returns first, if any, and keeps second for the next call of Next.
func (k *Kubernetes) both(first *mvccpb.Event, second func() *mvccpb.Event) *mvccpb.Event {
	if first == nil {
		return second()
	}
	k.pending = second()
	return first
}

// stored is the API server's storage encoding of a built-in object.
func stored(apiVersion, kind string, o interface{ Marshal() ([]byte, error) }) []byte {
	raw, err := o.Marshal()
	if err != nil {
		panic(err) // no object made here can fail to marshal
	}
	u := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: apiVersion, Kind: kind}, Raw: raw}
	b, err := u.Marshal()
	if err != nil {
		panic(err)
	}
	return append([]byte("k8s\x00"), b...)
}

func (k *Kubernetes) time() metav1.Time { return metav1.NewTime(k.now) }

func (k *Kubernetes) microTime() metav1.MicroTime {
	return metav1.NewMicroTime(k.now.Add(time.Duration(k.rnd.IntN(1e6)) * time.Microsecond))
}

// hex is a random number of n hexadecimal digits.
func (k *Kubernetes) hex(n int) string {
	b := make([]byte, (n+1)/2)
	for i := range b {
		b[i] = byte(k.rnd.Uint32())
	}
	return hex.EncodeToString(b)[:n]
}

func (k *Kubernetes) uid() types.UID {
	return types.UID(fmt.Sprintf("%s-%s-%s-%s-%s", k.hex(8), k.hex(4), k.hex(4), k.hex(4), k.hex(12)))
}

func (k *Kubernetes) ip() string {
	return fmt.Sprintf("10.%d.%d.%d", k.rnd.IntN(250), k.rnd.IntN(250), k.rnd.IntN(250))
}

// namespace is that of the i-th object: one per hosted cluster.
func namespace(i int) string { return fmt.Sprintf("cluster--team%02d--c%03d", i%20, i%83) }

func nodeName(i int) string { return fmt.Sprintf("worker-pool-a-%05d", i) }

// managed is an entry of managedFields, which every object drags along.
func (k *Kubernetes) managed(manager, fields, subresource string) metav1.ManagedFieldsEntry {
	t, owned := k.time(), &metav1.FieldsV1{}
	owned.SetRawBytes([]byte(fields))
	return metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", Time: &t,
		FieldsType: "FieldsV1", FieldsV1: owned, Subresource: subresource}
}
