package operator_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"

	"druid.internal/druid/test/cluster"
)

// An API server with the definitions of our resources takes seconds of the processor to start, so the next test has that of one
// that passed, without anything that came to be in between. One of which that cannot be removed, or something is gone, is stopped.
type spare struct {
	*cluster.Cluster
	objects metadata.Interface
	kinds   []schema.GroupVersionResource
	had     map[thing]bool // in the beginning
}

// A thing is an object that somebody made.
type thing struct {
	kind            schema.GroupVersionResource
	namespace, name string
}

func (t thing) String() string {
	return fmt.Sprintf("%s %s/%s", t.kind.Resource, t.namespace, t.name)
}

var spares struct {
	sync.Mutex
	free []*spare
}

// borrow is an API server for a test, and what it made is removed at its end.
func borrow(t *testing.T) *cluster.Cluster {
	t.Helper()
	s := take()
	if s == nil {
		s = newSpare(t)
	}
	t.Cleanup(func() {
		if t.Failed() {
			s.KeepBundle(t, "")
		} else if err := s.sweep(); err == nil {
			spares.Lock()
			defer spares.Unlock()
			spares.free = append(spares.free, s)
			return
		} else {
			t.Logf("the API server is not used again: %v", err)
		}
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s.Cluster
}

func take() *spare {
	spares.Lock()
	defer spares.Unlock()
	n := len(spares.free) - 1
	if n < 0 {
		return nil
	}
	s := spares.free[n]
	spares.free = spares.free[:n]
	return s
}

// stopSpares ends those that no test has.
func stopSpares() error {
	var errs []error
	for s := take(); s != nil; s = take() {
		errs = append(errs, s.Stop())
	}
	return errors.Join(errs...)
}

func newSpare(t *testing.T) *spare {
	t.Helper()
	c, err := cluster.Start(t.Context(), cluster.Options{Pin: *pin})
	if err != nil {
		t.Fatal(err)
	}
	s := &spare{Cluster: c}
	t.Cleanup(func() {
		if s.had == nil {
			_ = c.Stop() // the test fails anyway
		}
	})
	fail := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	define(t, c)
	s.objects, err = metadata.NewForConfig(c.Config)
	fail(err)
	all, err := c.Client.Discovery().ServerPreferredResources()
	fail(err)
	lists, err := discovery.GroupVersionResources(discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list", "delete", "patch"}}, all))
	fail(err)
	for kind := range lists {
		switch kind.GroupResource() {
		case schema.GroupResource{Group: "apiregistration.k8s.io", Resource: "apiservices"}: // follow definitions
		case schema.GroupResource{Group: "networking.k8s.io", Resource: "ipaddresses"}: // follow Services
		case schema.GroupResource{Resource: "events"}: // are those of events.k8s.io
		default:
			s.kinds = append(s.kinds, kind)
		}
	}
	// What refuses changes of others goes first.
	turn := func(k schema.GroupVersionResource) int {
		switch {
		case k.Group == "admissionregistration.k8s.io":
			return 0
		case k.Resource == "namespaces":
			return 2
		}
		return 1
	}
	slices.SortFunc(s.kinds, func(a, b schema.GroupVersionResource) int { return turn(a) - turn(b) })
	things, _, err := s.news(t.Context(), s.kinds)
	fail(err)
	s.had = make(map[thing]bool, len(things))
	for thing := range things {
		s.had[thing] = true
	}
	return s
}

// news are what is of some kinds that was not there in the beginning, without what Kubernetes has for itself, with the finalizers of each.
// It counts those that were.
func (s *spare) news(ctx context.Context, kinds []schema.GroupVersionResource) (found map[thing][]string, old int, err error) {
	found = map[thing][]string{}
	for _, kind := range kinds {
		list, err := s.objects.Resource(kind).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, 0, fmt.Errorf("list %s: %w", kind.Resource, err)
		}
		for _, o := range list.Items {
			made := thing{kind, o.Namespace, o.Name}
			switch {
			case s.had[made]:
				old++
			case strings.HasPrefix(o.Namespace, "kube-"):
			case o.Namespace != "" && (kind.Resource == "serviceaccounts" && o.Name == "default" || kind.Resource == "configmaps" && o.Name == "kube-root-ca.crt"):
			default:
				found[made] = o.Finalizers
			}
		}
	}
	return found, old, nil
}

// sweep removes what was not there in the beginning: namespaces last, when nothing is in them any more.
func (s *spare) sweep() error {
	kinds := s.kinds
	return cluster.Await(context.Background(), time.Minute, func(ctx context.Context) error {
		news, old, err := s.news(ctx, kinds)
		if err != nil {
			return err
		}
		var left []schema.GroupVersionResource
		var names []string
		for _, kind := range kinds {
			for thing, finalizers := range news {
				if thing.kind != kind {
					continue
				}
				names = append(names, thing.String())
				if !slices.Contains(left, kind) {
					left = append(left, kind)
				}
				if kind.Resource == "namespaces" && len(left) > 1 {
					continue
				}
				if err := s.remove(ctx, thing, finalizers); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
					return fmt.Errorf("remove %s: %w", thing, err)
				}
			}
		}
		switch {
		case len(left) > 0:
			kinds = left
			return fmt.Errorf("left are %q", names)
		case len(kinds) < len(s.kinds):
			kinds = s.kinds
			return errors.New("something may have been made anew meanwhile")
		case old < len(s.had):
			return fmt.Errorf("of %d things that were there in the beginning %d are gone", len(s.had), len(s.had)-old)
		}
		return nil
	})
}

func (s *spare) remove(ctx context.Context, t thing, finalizers []string) error {
	objects := s.objects.Resource(t.kind).Namespace(t.namespace)
	if len(finalizers) > 0 {
		if _, err := objects.Patch(ctx, t.name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
			return err
		}
	}
	if t.kind.Resource == "namespaces" { // what their controller does after 5 s
		empty := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: t.name}}
		defer func() { _, _ = s.Client.CoreV1().Namespaces().Finalize(ctx, empty, metav1.UpdateOptions{}) }() // it is looked whether it is gone
	}
	background := metav1.DeletePropagationBackground
	return objects.Delete(ctx, t.name, metav1.DeleteOptions{GracePeriodSeconds: new(int64), PropagationPolicy: &background})
}
