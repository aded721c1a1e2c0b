package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/yaml"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/config/crd"
	"druid.internal/druid/internal/operator"
	"druid.internal/druid/test/cluster"
)

// operatorUser is in whose name the operator asks, and nobody else.
const operatorUser = "druid"

// atOnce is how many requests are made at the same time for what is not measured.
const atOnce = 16

// perNamespace is how many Etcds a namespace has.
const perNamespace = 50

var etcdResource = druidResource("etcds")

func druidResource(plural string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: druidv1alpha1.Group, Version: "v1alpha1", Resource: plural}
}

// site is an API server that knows our resources. Its client is not held back.
type site struct {
	*cluster.Cluster
	objects dynamic.Interface
	dir     string
}

func (b *bench) startSite(ctx context.Context, dir string, o cluster.Options) (*site, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	o.Dir = filepath.Join(dir, "kubernetes")
	c, err := cluster.Start(ctx, o)
	if err != nil {
		return nil, err
	}
	s := &site{Cluster: c, dir: dir}
	if s.objects, err = dynamic.NewForConfig(c.Config); err == nil {
		err = errors.Join(s.define(ctx), s.grant(ctx))
	}
	if err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return s, nil
}

// define has the API server know our resources.
func (s *site) define(ctx context.Context) error {
	files, err := fs.Glob(crd.Files, "bases/*.yaml")
	if err != nil {
		return err
	}
	rest := s.Client.Discovery().RESTClient()
	for _, file := range files {
		text, err := crd.Files.ReadFile(file)
		if err != nil {
			return err
		}
		object, err := yaml.YAMLToJSON(text)
		if err != nil {
			return err
		}
		if err := rest.Post().AbsPath("/apis/apiextensions.k8s.io/v1/customresourcedefinitions").Body(object).Do(ctx).Error(); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return cluster.Await(ctx, time.Minute, func(ctx context.Context) error {
		for _, plural := range []string{"etcds", "etcdmembers", "etcdcopybackupstasks", "etcdoperatortasks", "etcdopstasks"} {
			if _, err := s.objects.Resource(druidResource(plural)).List(ctx, metav1.ListOptions{Limit: 1}); err != nil {
				return err
			}
		}
		return nil
	})
}

// grant gives the operator the rights that it is installed with.
func (s *site) grant(ctx context.Context) error {
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: operatorUser}, Rules: append(operator.Access(), operator.OwnAccess()...)}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: operatorUser},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: operatorUser},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: operatorUser}},
	}
	_, err := s.Client.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{})
	if err == nil {
		_, err = s.Client.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{})
	}
	return err
}

// knowsOwners waits until the API server lets Etcds own objects.
func (s *site) knowsOwners(ctx context.Context) error {
	return cluster.Await(ctx, 2*time.Minute, s.owned)
}

// owned is nil once the API server's check of owner references, which looks for new definitions every
// half minute, knows Etcds. Before that it would refuse what the operator makes: administrators alone
// are not checked.
func (s *site) owned(ctx context.Context) error {
	user, err := s.ConfigFor(operatorUser)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(user)
	if err != nil {
		return err
	}
	blocks := true
	_, err = client.CoreV1().ConfigMaps(metav1.NamespaceDefault).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name: "owned", OwnerReferences: []metav1.OwnerReference{{
			APIVersion: druidv1alpha1.GroupVersion().String(), Kind: druidv1alpha1.KindEtcd, Name: "any", UID: "none", BlockOwnerDeletion: &blocks,
		}},
	}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}

// namespaceOf and nameOf are where Etcd i is.
func namespaceOf(i int) string { return fmt.Sprintf("tenant-%d", i/perNamespace) }
func nameOf(i int) string      { return fmt.Sprintf("etcd-%d", i) }

// uids are those of Etcds by namespace and name.
type uids struct {
	mu sync.Mutex
	of map[string]types.UID
}

func newUIDs() *uids { return &uids{of: map[string]types.UID{}} }

func (u *uids) put(namespace, name string, uid types.UID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.of[namespace+"/"+name] = uid
}

// createEtcds creates so many, and notes their UIDs.
func (s *site) createEtcds(ctx context.Context, n int, note *uids) error {
	for i := 0; i < n; i += perNamespace {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": namespaceOf(i)}}}
		if _, err := s.objects.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).Create(ctx, o, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return each(ctx, n, func(ctx context.Context, i int) error {
		made, err := s.objects.Resource(etcdResource).Namespace(namespaceOf(i)).Create(ctx, etcdWithStore(i), metav1.CreateOptions{})
		if err == nil && note != nil {
			note.put(made.GetNamespace(), made.GetName(), made.GetUID())
		}
		return err
	})
}

// etcdWithStore is Etcd i.
func etcdWithStore(i int) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "druid.gardener.cloud/v1alpha1", "kind": druidv1alpha1.KindEtcd,
		"metadata": map[string]any{"namespace": namespaceOf(i), "name": nameOf(i)},
		"spec": map[string]any{"labels": map[string]any{}, "replicas": int64(membersOfEtcd), "etcd": map[string]any{}, "backup": map[string]any{
			"store": map[string]any{"provider": "aws", "container": "backups", "prefix": nameOf(i), "secretRef": map[string]any{"name": "backups"}},
		}},
	}}
}

// each does something for every number below n, several at the same time.
func each(ctx context.Context, n int, do func(context.Context, int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for i := range n {
		g.Go(func() error { return do(ctx, i) })
	}
	return g.Wait()
}

// wait lets time pass.
func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// The states of Etcds that are waited for.
var (
	etcdMade = fact{"made", func(e *druidv1alpha1.Etcd) bool {
		op, seen := e.Status.LastOperation, e.Status.ObservedGeneration
		return op != nil && op.State == druidv1alpha1.LastOperationSucceeded && seen != nil && *seen == e.Generation
	}}
	etcdHasPods = fact{"there with all pods", func(e *druidv1alpha1.Etcd) bool { return e.Status.Replicas == membersOfEtcd && etcdMade.is(e) }}
	etcdHealthy = fact{"healthy", func(e *druidv1alpha1.Etcd) bool {
		for _, of := range []druidv1alpha1.ConditionType{druidv1alpha1.ConditionReady, druidv1alpha1.ConditionAllMembersReady, druidv1alpha1.ConditionAllMembersUpdated,
			druidv1alpha1.ConditionBackupReady, druidv1alpha1.ConditionDataVolumesReady} {
			if c := druidv1alpha1.FindCondition(e.Status.Conditions, of); c == nil || c.Status != druidv1alpha1.ConditionTrue {
				return false
			}
		}
		return true
	}}
)

// fact is something that is so of an Etcd, or not.
type fact struct {
	name string
	is   func(*druidv1alpha1.Etcd) bool
}

// untilTimeout is for the largest number of Etcds.
const untilTimeout = 30 * time.Minute

// until waits until n Etcds are so. They are watched: to list them again and again would be work of
// its own for the API server.
func (s *site) until(ctx context.Context, n int, f fact) error {
	ctx, cancel := context.WithTimeout(ctx, untilTimeout)
	defer cancel()
	var mu sync.Mutex
	so, last, reached := map[string]bool{}, "", make(chan struct{}, 1)
	look := func(object any) {
		var e druidv1alpha1.Etcd
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.(*unstructured.Unstructured).Object, &e); err != nil {
			return // it is none that we know, and is missed below
		}
		mu.Lock()
		defer mu.Unlock()
		key := e.Namespace + "/" + e.Name
		if f.is(&e) {
			so[key] = true
		} else {
			delete(so, key)
			last = fmt.Sprintf("%s: %+v", key, e.Status)
		}
		if len(so) == n {
			select {
			case reached <- struct{}{}:
			default:
			}
		}
	}
	i := dynamicinformer.NewFilteredDynamicInformer(s.objects, etcdResource, metav1.NamespaceAll, 0, cache.Indexers{}, nil).Informer()
	if _, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: look, UpdateFunc: func(_, now any) { look(now) }}); err != nil {
		return err
	}
	stopped := make(chan struct{})
	following, stop := context.WithCancel(ctx)
	go func() { defer close(stopped); i.Run(following.Done()) }()
	defer func() { stop(); <-stopped }()
	select {
	case <-reached:
		return nil
	case <-ctx.Done():
		mu.Lock()
		defer mu.Unlock()
		return fmt.Errorf("%d of %d Etcds are %s: %w; one that was not: %s", len(so), n, f.name, context.Cause(ctx), last)
	}
}

// asked are the requests that the operator sent, without watches that go on and without those by which it lists the
// Leases of all members, of which there are lists.
func (s *site) asked(from, to time.Time) (all []string, lists int, err error) {
	requests, err := s.Requests(func(r cluster.Request) bool {
		return r.User == operatorUser && r.Verb != "watch" && r.At.After(from) && r.At.Before(to)
	})
	for _, r := range requests {
		if r.Verb == "list" && r.Resource == "leases" && r.Namespace == "" {
			lists++
			continue
		}
		all = append(all, r.String())
	}
	return all, lists, err
}
