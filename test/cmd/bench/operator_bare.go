package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/operator/config"
)

// madeResources are those that the operator makes objects of, in its order.
var madeResources = []schema.GroupVersionResource{
	{Version: "v1", Resource: "serviceaccounts"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"},
	{Version: "v1", Resource: "secrets"},
	druidResource("etcdmembers"),
	{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"},
	{Group: "policy", Version: "v1", Resource: "poddisruptionbudgets"},
	{Version: "v1", Resource: "services"},
	{Version: "v1", Resource: "configmaps"},
	{Group: "apps", Version: "v1", Resource: "statefulsets"},
}

// object is one that was made, with what it is.
type object struct {
	Resource schema.GroupVersionResource `json:"resource"`
	Object   map[string]any              `json:"object"`
}

// keepObjects writes everything that the operator made to a file, an Etcd after the other, and says how
// many objects that are.
func (s *site) keepObjects(ctx context.Context, file string) (count int, err error) {
	clusters := map[string][]object{}
	for _, r := range madeResources {
		list, err := s.objects.Resource(r).List(ctx, metav1.ListOptions{LabelSelector: druidv1alpha1.LabelManagedBy + "=" + druidv1alpha1.ManagedBy})
		if err != nil {
			return 0, err
		}
		for i := range list.Items {
			o := &list.Items[i]
			strip(o)
			key := o.GetNamespace() + "/" + o.GetLabels()[druidv1alpha1.LabelPartOf]
			clusters[key] = append(clusters[key], object{r, o.Object})
			count++
		}
	}
	text, err := json.Marshal(clusters)
	if err != nil {
		return 0, err
	}
	return count, os.WriteFile(file, text, 0o600)
}

// strip takes away what the API server and others wrote.
func strip(o *unstructured.Unstructured) {
	for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"} {
		unstructured.RemoveNestedField(o.Object, "metadata", field)
	}
	unstructured.RemoveNestedField(o.Object, "status")
	if ip, _, _ := unstructured.NestedString(o.Object, "spec", "clusterIP"); ip != "None" {
		unstructured.RemoveNestedField(o.Object, "spec", "clusterIP")
		unstructured.RemoveNestedField(o.Object, "spec", "clusterIPs")
	}
}

// readObjects reads what was kept, each Etcd's objects for themselves, and has the Etcds own them that
// are there now.
func readObjects(file string, of *uids) ([][]object, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	clusters := map[string][]object{}
	if err := json.Unmarshal(text, &clusters); err != nil {
		return nil, err
	}
	var all [][]object
	for key, objects := range clusters {
		uid, there := of.of[key]
		if !there {
			return nil, fmt.Errorf("objects of %s, which is no Etcd", key)
		}
		for _, o := range objects {
			u := &unstructured.Unstructured{Object: o.Object}
			owners := u.GetOwnerReferences()
			for i := range owners {
				owners[i].UID = uid
			}
			u.SetOwnerReferences(owners)
		}
		all = append(all, objects)
	}
	return all, nil
}

// makeAll creates the objects in the operator's name, one after the other for each Etcd, and as many
// Etcds at the same time as the operator. Like the operator's client it has one for each kind, and
// the limits are those of each.
func (s *site) makeAll(ctx context.Context, clusters [][]object, limits config.Config) error {
	clients := map[schema.GroupVersionResource]dynamic.Interface{}
	user, err := s.ConfigFor(operatorUser) // of others than administrators is checked what they grant
	if err != nil {
		return err
	}
	for _, r := range madeResources {
		to := rest.CopyConfig(user)
		to.QPS, to.Burst = float32(limits.ClientConnection.QPS), limits.ClientConnection.Burst
		client, err := dynamic.NewForConfig(to)
		if err != nil {
			return err
		}
		clients[r] = client
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(limits.Controllers.Etcd.ConcurrentSyncs)
	for _, objects := range clusters {
		g.Go(func() error {
			for _, o := range objects {
				u := &unstructured.Unstructured{Object: o.Object}
				if _, err := clients[o.Resource].Resource(o.Resource).Namespace(u.GetNamespace()).Create(ctx, u, metav1.CreateOptions{}); err != nil {
					return fmt.Errorf("%s %s/%s: %w", u.GetKind(), u.GetNamespace(), u.GetName(), err)
				}
			}
			return nil
		})
	}
	return g.Wait()
}
