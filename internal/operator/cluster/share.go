package cluster

import (
	"reflect"
	"sync"
	"unique"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
)

// share has an object of the cache share with others what most of them have: the objects of many Etcds differ in few
// names, and are most of what the operator keeps in memory.
func share(o client.Object) {
	o.SetNamespace(shared(o.GetNamespace()))
	for _, pairs := range []map[string]string{o.GetLabels(), o.GetAnnotations()} {
		for k, v := range pairs {
			pairs[shared(k)] = shared(v)
		}
	}
	owners := o.GetOwnerReferences()
	for i := range owners {
		w := &owners[i]
		w.APIVersion, w.Kind, w.Name, w.UID = shared(w.APIVersion), shared(w.Kind), shared(w.Name), types.UID(shared(string(w.UID)))
	}
	o.SetOwnerReferences(owners)
	switch o := o.(type) {
	case *appsv1.StatefulSet:
		models.share(&o.Spec)
	case *corev1.Pod:
		models.share(&o.Spec)
	case *corev1.PersistentVolumeClaim:
		models.share(&o.Spec)
		models.share(&o.Status)
	case *corev1.Service:
		models.share(&o.Spec)
	case *druidv1alpha1.Etcd:
		models.share(&o.Spec)
		models.share(&o.Status)
	case *druidv1alpha1.EtcdMember:
		models.share(&o.Status)
	}
}

// sharedLength is up to which length texts are shared: longer ones are seldom the same.
const sharedLength = 128

func shared(text string) string {
	if len(text) > sharedLength {
		return text
	}
	return unique.Make(text).Value()
}

// models are, for each type, what was seen last: the next one most likely looks like it.
var models = latest{of: map[reflect.Type]reflect.Value{}}

type latest struct {
	mu sync.Mutex
	of map[reflect.Type]reflect.Value
}

// share has what v points to consist of the same parts as the last one of its type where they are equal. Nobody may
// change either of them afterwards.
func (l *latest) share(v any) {
	now := reflect.ValueOf(v).Elem()
	l.mu.Lock()
	defer l.mu.Unlock()
	if last, known := l.of[now.Type()]; known {
		alias(now, last)
	}
	kept := reflect.New(now.Type()).Elem()
	kept.Set(now)
	l.of[now.Type()] = kept
}

// alias replaces every part of v that equals its counterpart in m by that one, and returns whether all of it did.
func alias(v, m reflect.Value) bool {
	switch v.Kind() {
	case reflect.Struct:
		if opaque(v.Type()) {
			return reflect.DeepEqual(v.Interface(), m.Interface())
		}
		same := true
		for i := range v.NumField() {
			same = alias(v.Field(i), m.Field(i)) && same
		}
		return same
	case reflect.Slice:
		if v.Len() != m.Len() || v.IsNil() != m.IsNil() {
			return false
		}
		same := true
		for i := range v.Len() {
			same = alias(v.Index(i), m.Index(i)) && same
		}
		if same {
			v.Set(m)
		}
		return same
	case reflect.Pointer:
		if v.IsNil() || m.IsNil() {
			return v.IsNil() && m.IsNil()
		}
		if v.Pointer() == m.Pointer() {
			return true
		}
		if !alias(v.Elem(), m.Elem()) {
			return false
		}
		v.Set(m)
		return true
	case reflect.Map:
		if !reflect.DeepEqual(v.Interface(), m.Interface()) {
			return false
		}
		v.Set(m)
		return true
	case reflect.String:
		if v.String() != m.String() {
			return false
		}
		v.SetString(m.String())
		return true
	}
	return reflect.DeepEqual(v.Interface(), m.Interface())
}

// opaque types have parts that only they may touch, as quantities and times have.
func opaque(t reflect.Type) bool {
	if known, is := opaques.Load(t); is {
		return known.(bool)
	}
	is := false
	for i := range t.NumField() {
		is = is || !t.Field(i).IsExported()
	}
	opaques.Store(t, is)
	return is
}

// opaques are the types of which that is known.
var opaques sync.Map
