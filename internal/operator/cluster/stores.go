package cluster

import (
	"context"
	"fmt"
	"reflect"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
)

// partOf is the index of the objects of an Etcd, or of a task: by the label with its name, in its namespace.
const partOf = "part-of"

// store is what is kept in memory of the objects of one kind.
type store interface {
	GetByKey(key string) (object any, there bool, err error)
	ByIndex(index, value string) ([]any, error)
}

// stores are those of the kinds that Etcds have objects of, by type. They are what the manager's cache reads, without its
// client, which took more than half of a look at an idle Etcd.
type stores map[reflect.Type]store

// newStores has the cache keep what the stores have.
func newStores(ctx context.Context, c cache.Cache) (stores, error) {
	all := stores{}
	for _, o := range []client.Object{
		&druidv1alpha1.Etcd{}, &appsv1.StatefulSet{}, &corev1.ConfigMap{}, &policyv1.PodDisruptionBudget{}, &corev1.Service{}, &corev1.ServiceAccount{}, &rbacv1.Role{}, &rbacv1.RoleBinding{},
		&druidv1alpha1.EtcdOperatorTask{}, &druidv1alpha1.EtcdMember{}, &corev1.Pod{}, &corev1.PersistentVolumeClaim{},
	} {
		i, err := c.GetInformer(ctx, o, cache.BlockUntilSynced(false))
		if err != nil {
			return nil, fmt.Errorf("keep every %T in memory: %w", o, err)
		}
		shared, is := i.(toolscache.SharedIndexInformer)
		if !is {
			return nil, fmt.Errorf("what is kept of every %T is in a %T, and cannot be read", o, i)
		}
		if err := shared.AddIndexers(toolscache.Indexers{partOf: byPart}); err != nil {
			return nil, fmt.Errorf("index every %T: %w", o, err)
		}
		all[reflect.TypeOf(o)] = shared.GetIndexer()
	}
	return all, nil
}

// byPart is what an object is indexed by.
func byPart(object any) ([]string, error) {
	o, is := object.(client.Object)
	if !is {
		return nil, fmt.Errorf("a %T is kept in memory", object)
	}
	if name, labelled := o.GetLabels()[druidv1alpha1.LabelPartOf]; labelled {
		return []string{o.GetNamespace() + "/" + name}, nil
	}
	return nil, nil
}

// named is an object by its name; false: there is none. It belongs to everybody.
func named[T client.Object](s stores, namespace, name string) (o T, there bool, err error) {
	found, there, err := s[reflect.TypeFor[T]()].GetByKey(namespace + "/" + name)
	if err != nil || !there {
		return o, false, err
	}
	o, is := found.(T)
	if !is {
		return o, false, fmt.Errorf("%s/%s is kept as %T, and is to be a %T", namespace, name, found, o)
	}
	return o, true, nil
}

// partsOf are the objects labelled with a name. They belong to everybody.
func partsOf[T client.Object](s stores, namespace, name string) ([]T, error) {
	found, err := s[reflect.TypeFor[T]()].ByIndex(partOf, namespace+"/"+name)
	if err != nil {
		return nil, fmt.Errorf("find every %s of %s/%s: %w", reflect.TypeFor[T](), namespace, name, err)
	}
	return all[T](found)
}

// inNamespace are all objects of a type in a namespace. They belong to everybody.
func inNamespace[T client.Object](s stores, namespace string) ([]T, error) {
	found, err := s[reflect.TypeFor[T]()].ByIndex(toolscache.NamespaceIndex, namespace)
	if err != nil {
		return nil, fmt.Errorf("find every %s in %s: %w", reflect.TypeFor[T](), namespace, err)
	}
	return all[T](found)
}

func all[T client.Object](found []any) ([]T, error) {
	all := make([]T, 0, len(found))
	for _, f := range found {
		o, is := f.(T)
		if !is {
			return nil, fmt.Errorf("a %T is kept as a %s", f, reflect.TypeFor[T]())
		}
		all = append(all, o)
	}
	return all, nil
}
