package operator_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"druid.internal/druid/internal/operator"
	"druid.internal/druid/internal/operator/kube"
	"druid.internal/druid/test/cluster"
	"druid.internal/druid/test/process"
)

// pin is the version of Kubernetes that all tests of this directory run on.
var pin = flag.String("kubernetes", "kubernetes", "the installed version: kubernetes or kubernetes-1.34")

// site is an API server with an operator.
type site struct {
	*cluster.Cluster
	objects dynamic.Interface
	path    string // of the operator's program
}

func newSite(t *testing.T) *site {
	t.Helper()
	return siteOn(t, borrow(t))
}

func siteOn(t *testing.T, c *cluster.Cluster) *site {
	t.Helper()
	objects, err := dynamic.NewForConfig(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	return &site{c, objects, buildProgram(t)}
}

// resources are those of an Etcd.
var resources = map[string]schema.GroupVersionResource{
	"Etcd":                  {Group: "druid.gardener.cloud", Version: "v1alpha1", Resource: "etcds"},
	"EtcdMember":            {Group: "druid.gardener.cloud", Version: "v1alpha1", Resource: "etcdmembers"},
	"ServiceAccount":        {Version: "v1", Resource: "serviceaccounts"},
	"Role":                  {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"},
	"RoleBinding":           {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"},
	"Secret":                {Version: "v1", Resource: "secrets"},
	"Lease":                 {Group: "coordination.k8s.io", Version: "v1", Resource: "leases"},
	"PodDisruptionBudget":   {Group: "policy", Version: "v1", Resource: "poddisruptionbudgets"},
	"Service":               {Version: "v1", Resource: "services"},
	"ConfigMap":             {Version: "v1", Resource: "configmaps"},
	"StatefulSet":           {Group: "apps", Version: "v1", Resource: "statefulsets"},
	"Pod":                   {Version: "v1", Resource: "pods"},
	"PersistentVolumeClaim": {Version: "v1", Resource: "persistentvolumeclaims"},
	"EtcdOperatorTask":      {Group: "druid.gardener.cloud", Version: "v1alpha1", Resource: "etcdoperatortasks"},
	"EtcdOpsTask":           {Group: "druid.gardener.cloud", Version: "v1alpha1", Resource: "etcdopstasks"},
	"CronJob":               {Group: "batch", Version: "v1", Resource: "cronjobs"},
	"Event":                 {Group: "events.k8s.io", Version: "v1", Resource: "events"},
}

func (s *site) get(ctx context.Context, kind, namespace, name string) (*unstructured.Unstructured, error) {
	return s.objects.Resource(resources[kind]).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
}

// of lists the objects of an Etcd as "Kind name".
func (s *site) of(ctx context.Context, namespace, etcd string) (all []string, err error) {
	for kind, r := range resources {
		if kind == "Etcd" || kind == "Event" {
			continue
		}
		list, err := s.objects.Resource(r).Namespace(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/part-of=" + etcd})
		if err != nil {
			return nil, err
		}
		for _, o := range list.Items {
			all = append(all, kind+" "+o.GetName())
		}
	}
	slices.Sort(all)
	return all, nil
}

// apply makes an object of its YAML.
func (s *site) apply(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		t.Fatal(err)
	}
	r := s.objects.Resource(resources[o.GetKind()]).Namespace(o.GetNamespace())
	made, err := r.Apply(t.Context(), o.GetName(), o, metav1.ApplyOptions{FieldManager: "test", Force: true})
	if err != nil {
		t.Fatalf("apply %s %s: %v", o.GetKind(), o.GetName(), err)
	}
	return made
}

func (s *site) namespace(t *testing.T, name string) {
	t.Helper()
	n := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}}}
	if _, err := s.objects.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).Create(t.Context(), n, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func etcdYAML(namespace, name string, replicas int) string {
	return fmt.Sprintf(`
apiVersion: druid.gardener.cloud/v1alpha1
kind: Etcd
metadata: {name: %s, namespace: %s}
spec: {labels: {}, replicas: %d, etcd: {}, backup: {}}
`, name, namespace, replicas)
}

// operation is nil if the last operation of the Etcd ended so for the newest specification.
func (s *site) operation(namespace, name, want string) func(context.Context) error {
	return func(ctx context.Context) error {
		e, err := s.get(ctx, "Etcd", namespace, name)
		if err != nil {
			return err
		}
		kind, _, _ := unstructured.NestedString(e.Object, "status", "lastOperation", "type")
		state, _, _ := unstructured.NestedString(e.Object, "status", "lastOperation", "state")
		seen, _, _ := unstructured.NestedInt64(e.Object, "status", "observedGeneration")
		if got := kind + " " + state; got != want || seen != e.GetGeneration() {
			return fmt.Errorf("%s of generation %d, want %s of %d: %v", got, seen, want, e.GetGeneration(), e.Object["status"])
		}
		return nil
	}
}

// applied is nil if the newest specification was acted on, though no pod of it may run: there are no
// nodes, and a pod that is replaced is not ready before an operation is over.
func (s *site) applied(namespace, name string) func(context.Context) error {
	return func(ctx context.Context) error {
		e, err := s.get(ctx, "Etcd", namespace, name)
		if err != nil {
			return err
		}
		seen, _, _ := unstructured.NestedInt64(e.Object, "status", "observedGeneration")
		errs, _, _ := unstructured.NestedSlice(e.Object, "status", "lastErrors")
		if asked := e.GetAnnotations()["druid.gardener.cloud/operation"] + e.GetAnnotations()["gardener.cloud/operation"]; seen != e.GetGeneration() || len(errs) > 0 || asked != "" {
			return fmt.Errorf("generation %d of %d is applied, errors %v", seen, e.GetGeneration(), errs)
		}
		return nil
	}
}

// operate runs an operator that may do what its list of rights says, and nothing else.
func (s *site) operate(t *testing.T, name string, settings ...string) *program {
	t.Helper()
	config, err := s.ConfigFor("druid")
	if err != nil {
		t.Fatal(err)
	}
	return s.operateAs(t, name, config, settings...)
}

// operateAs runs an operator that reaches the API server by a configuration.
func (s *site) operateAs(t *testing.T, name string, config *rest.Config, settings ...string) *program {
	t.Helper()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := cluster.WriteKubeconfig(kubeconfig, config); err != nil {
		t.Fatal(err)
	}
	addresses, err := process.FreePorts("127.0.0.1", 2)
	if err != nil {
		t.Fatal(err)
	}
	port := func(i int) string { return strings.TrimPrefix(addresses[i], "127.0.0.1:") }
	file := filepath.Join(t.TempDir(), "druid.yaml")
	text := fmt.Sprintf(`apiVersion: config.druid.gardener.cloud/v1alpha1
kind: OperatorConfiguration
server:
  metrics: {bindAddress: 127.0.0.1, port: %s}
  health: {bindAddress: 127.0.0.1, port: %s}
%s
`, port(0), port(1), strings.Join(settings, "\n"))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	proc, err := process.Command{
		Name: name, Path: s.path, Args: []string{"--kubeconfig=" + kubeconfig, "--config=" + file},
		Env: append(os.Environ(), "KUBE_CACHE_MUTATION_DETECTOR=true"), // what the operator keeps in memory belongs to everybody: who changes it ends it
	}.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		proc.Kill()
		if t.Failed() {
			keepLog(t, proc)
		}
	})
	p := &program{proc, "http://" + addresses[0], "http://" + addresses[1]}
	p.await(t, p.isReady)
	return p
}

// grant gives the operator its rights.
func (s *site) grant(t *testing.T) {
	t.Helper()
	rbac := s.Client.RbacV1()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "druid"}, Rules: operator.Access()}
	if _, err := rbac.ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "druid"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "druid"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "druid"}},
	}
	if _, err := rbac.ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// asked are the requests of the operator in a namespace since a time, but for those that do not count
// as such: watches, and lists of the cache.
func (s *site) asked(t *testing.T, namespace string, since time.Time) (all []string) {
	t.Helper()
	requests, err := s.Requests(func(r cluster.Request) bool {
		return r.User == "druid" && r.Namespace == namespace && r.At.After(since)
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range requests {
		all = append(all, r.String())
	}
	return all
}

// change edits an object as a person would.
func (s *site) change(t *testing.T, kind, namespace, name string, edit func(o map[string]any)) {
	t.Helper()
	await(t, func(ctx context.Context) error {
		o, err := s.get(ctx, kind, namespace, name)
		if err != nil {
			return err
		}
		edit(o.Object)
		_, err = s.objects.Resource(resources[kind]).Namespace(namespace).Update(ctx, o, metav1.UpdateOptions{FieldManager: "a person"})
		return err
	})
}

func (s *site) delete(t *testing.T, kind, namespace, name string) {
	t.Helper()
	if err := s.objects.Resource(resources[kind]).Namespace(namespace).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

func set(o map[string]any, value any, path ...string) {
	if err := unstructured.SetNestedField(o, value, path...); err != nil {
		panic(err)
	}
}

// objectsOf are those of an Etcd without pods and claims.
func objectsOf(name string, members int) []string {
	all := []string{
		"ConfigMap " + name + "-config", "PodDisruptionBudget " + name,
		"Role druid.gardener.cloud:etcd:" + name, "RoleBinding druid.gardener.cloud:etcd:" + name, "Secret " + name + "-sidecar-token",
		"Service " + name + "-client", "Service " + name + "-peer", "ServiceAccount " + name, "StatefulSet " + name,
	}
	for i := range members {
		all = append(all, fmt.Sprintf("EtcdMember %s-%d", name, i), fmt.Sprintf("Lease %s-%d", name, i), fmt.Sprintf("Pod %s-%d", name, i), fmt.Sprintf("PersistentVolumeClaim %s-%s-%d", name, name, i))
	}
	slices.Sort(all)
	return all
}

// has is nil if exactly these objects are there.
func (s *site) has(namespace, etcd string, want []string) func(context.Context) error {
	return func(ctx context.Context) error {
		got, err := s.of(ctx, namespace, etcd)
		if err == nil && !slices.Equal(got, want) {
			err = fmt.Errorf("objects (-want +got):\n%s", cmp.Diff(want, got))
		}
		return err
	}
}

const automatic = "controllers: {etcd: {enableEtcdSpecAutoReconcile: true, etcdStatusSyncPeriod: 1s}}"

func TestTheOperatorOnARealAPIServer(t *testing.T) {
	together(t, light)
	s := newSite(t)
	s.grant(t)
	s.namespace(t, "shop")
	p := s.operate(t, "operator", automatic)

	t.Run("an Etcd becomes a cluster", func(t *testing.T) {
		s.apply(t, etcdYAML("shop", "main", 3))
		p.await(t, s.operation("shop", "main", "Create Succeeded"))
		p.await(t, s.has("shop", "main", objectsOf("main", 3)))
		e, err := s.get(t.Context(), "Etcd", "shop", "main")
		if err != nil {
			t.Fatal(err)
		}
		refs, _, _ := unstructured.NestedSlice(e.Object, "status", "memberRefs")
		selector, _, _ := unstructured.NestedString(e.Object, "status", "selector")
		if len(refs) != 3 || selector == "" || !slices.Contains(e.GetFinalizers(), "druid.gardener.cloud/etcd-druid") {
			t.Errorf("memberRefs %v, selector %q, finalizers %v", refs, selector, e.GetFinalizers())
		}
		token, err := s.Client.CoreV1().Secrets("shop").Get(t.Context(), "main-sidecar-token", metav1.GetOptions{})
		if err != nil || len(token.Data["token"]) != 64 {
			t.Errorf("the token has %d digits (%v), want 64", len(token.Data["token"]), err)
		}
		p.await(t, s.event("shop", "main", "Applied", "everything is made as the specification wants it"))
		p.await(t, p.counted("etcddruid_objects_total", `action="created"`, `kind="Secret"`))
		p.await(t, p.counted("etcddruid_objects_total", `action="created"`, `kind="StatefulSet"`))
		for _, step := range []string{"observe", "decide", "apply", "report"} {
			p.await(t, p.counted("etcddruid_look_step_duration_seconds_count", fmt.Sprintf("step=%q", step)))
		}
	})

	t.Run("names that are prefixes of each other are kept apart", func(t *testing.T) {
		s.apply(t, etcdYAML("shop", "main-0", 1))
		p.await(t, s.operation("shop", "main-0", "Create Succeeded"))
		p.await(t, s.has("shop", "main-0", objectsOf("main-0", 1)))
		p.await(t, s.has("shop", "main", objectsOf("main", 3)))
	})

	whole := t
	t.Run("without a change there is no request, also after a restart", func(t *testing.T) {
		s.quiet(t, "shop", p)
		p.Kill()
		begun := time.Now()
		p = s.operate(whole, "restarted", automatic)
		s.looked(t, p)
		for _, r := range s.asked(t, "shop", begun) {
			t.Errorf("the restarted operator sent: %s", r)
		}
	})

	t.Run("what is edited or deleted by hand is put back", func(t *testing.T) {
		s.change(t, "Service", "shop", "main-client", func(o map[string]any) {
			set(o, map[string]any{"a": "b"}, "spec", "selector")
			set(o, "Local", "spec", "internalTrafficPolicy")
		})
		s.change(t, "ConfigMap", "shop", "main-config", func(o map[string]any) {
			set(o, "initial-cluster: nobody=http://x:1", "data", "etcd.conf.yaml")
			set(o, "mine", "data", "more")
		})
		s.change(t, "PodDisruptionBudget", "shop", "main", func(o map[string]any) { set(o, int64(0), "spec", "minAvailable") })
		s.change(t, "Lease", "shop", "main-0", func(o map[string]any) { set(o, map[string]any{}, "metadata", "labels") })
		s.change(t, "RoleBinding", "shop", "druid.gardener.cloud:etcd:main", func(o map[string]any) {
			set(o, []any{map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "somebody"}}, "subjects")
		})
		s.change(t, "StatefulSet", "shop", "main", func(o map[string]any) { set(o, map[string]any{"type": "RollingUpdate"}, "spec", "updateStrategy") })
		s.delete(t, "Role", "shop", "druid.gardener.cloud:etcd:main")
		s.delete(t, "ServiceAccount", "shop", "main")
		s.delete(t, "EtcdMember", "shop", "main-1")
		p.await(t, func(ctx context.Context) error {
			service, err := s.Client.CoreV1().Services("shop").Get(ctx, "main-client", metav1.GetOptions{})
			if err != nil || service.Spec.Selector["a"] != "" || service.Spec.Selector["app.kubernetes.io/part-of"] != "main" {
				return fmt.Errorf("the Service selects %v (%v)", service.Spec.Selector, err)
			}
			if to := service.Spec.InternalTrafficPolicy; *to != corev1.ServiceInternalTrafficPolicyCluster {
				return fmt.Errorf("the Service leads to %s members", *to)
			}
			c, err := s.Client.CoreV1().ConfigMaps("shop").Get(ctx, "main-config", metav1.GetOptions{})
			if err != nil || !strings.Contains(c.Data["etcd.conf.yaml"], "main-2=http://") {
				return fmt.Errorf("the ConfigMap says %v (%v)", c.Data, err)
			}
			b, err := s.Client.PolicyV1().PodDisruptionBudgets("shop").Get(ctx, "main", metav1.GetOptions{})
			if err != nil || b.Spec.MinAvailable.IntVal != 3 {
				return fmt.Errorf("minAvailable is %v (%v)", b.Spec.MinAvailable, err)
			}
			rights, err := s.Client.RbacV1().RoleBindings("shop").Get(ctx, "druid.gardener.cloud:etcd:main", metav1.GetOptions{})
			if err != nil || len(rights.Subjects) != 1 || rights.Subjects[0].Name != "main" {
				return fmt.Errorf("the RoleBinding is for %v (%v)", rights.Subjects, err)
			}
			set, err := s.Client.AppsV1().StatefulSets("shop").Get(ctx, "main", metav1.GetOptions{})
			if err != nil || set.Spec.UpdateStrategy.Type != appsv1.OnDeleteStatefulSetStrategyType {
				return fmt.Errorf("the StatefulSet updates by %v (%v)", set.Spec.UpdateStrategy, err)
			}
			return s.has("shop", "main", objectsOf("main", 3))(ctx)
		})
		p.await(t, s.event("shop", "main", "ChangeUndone", "a person"))
		p.await(t, p.counted("etcddruid_objects_total", `action="set_back"`, `kind="Service"`))
		// Events of one reason about one version of an Etcd become one, with the words of the first: what a person wrote is told by now.
		s.change(t, "PersistentVolumeClaim", "shop", "main-main-0", func(o map[string]any) { set(o, map[string]any{}, "metadata", "labels") })
		p.await(t, func(ctx context.Context) error {
			claim, err := s.claim(ctx, "shop", "main-main-0") // of a pod that is there
			if err != nil || claim.Labels["app.kubernetes.io/part-of"] != "main" {
				return fmt.Errorf("the claim has the labels %v (%v)", claim.Labels, err)
			}
			return nil
		})
		s.quiet(t, "shop", p)
		s.delete(t, "StatefulSet", "shop", "main")
		s.delete(t, "RoleBinding", "shop", "druid.gardener.cloud:etcd:main")
		p.await(t, s.has("shop", "main", objectsOf("main", 3)))
		s.quiet(t, "shop", p)
	})

	t.Run("what the specification names no longer is removed, also by an operator that did not write it", func(t *testing.T) {
		s.change(t, "Etcd", "shop", "main-0", func(o map[string]any) {
			set(o, map[string]any{"annotations": map[string]any{"a": "b", "c": "d"}}, "spec", "etcd", "clientService")
		})
		annotations := func(want ...string) func(context.Context) error {
			return func(ctx context.Context) error {
				service, err := s.Client.CoreV1().Services("shop").Get(ctx, "main-0-client", metav1.GetOptions{})
				if err != nil {
					return err
				}
				var got []string
				for name := range service.Annotations {
					if name != kube.AnnotationApplied {
						got = append(got, name)
					}
				}
				if slices.Sort(got); !slices.Equal(got, want) {
					err = fmt.Errorf("annotations %q, want %q", got, want)
				}
				return err
			}
		}
		p.await(t, annotations("a", "c"))
		s.change(t, "Service", "shop", "main-0-client", func(o map[string]any) {
			set(o, "is not ours", "metadata", "annotations", "other")
		})
		p.await(t, annotations("a", "c", "other"))
		p.Kill()
		s.change(t, "Etcd", "shop", "main-0", func(o map[string]any) {
			set(o, map[string]any{"annotations": map[string]any{"c": "d"}}, "spec", "etcd", "clientService")
		})
		p = s.operate(whole, "restarted again", automatic)
		p.await(t, annotations("c", "other"))
		p.await(t, p.counted("etcddruid_objects_total", `action="changed"`, `kind="Service"`))
		s.quiet(t, "shop", p)
	})

	t.Run("a Secret that a pod waits for is named within a minute, and made anew if it is ours", func(t *testing.T) {
		s.namespace(t, "secretless")
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "nowhere"}}
		if _, err := s.Client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		s.apply(t, `
apiVersion: druid.gardener.cloud/v1alpha1
kind: Etcd
metadata: {name: main, namespace: secretless}
spec: {labels: {}, replicas: 1, etcd: {}, backup: {store: {provider: aws, container: backups, prefix: p, secretRef: {name: credentials}}}}
`)
		p.await(t, s.has("secretless", "main", objectsOf("main", 1)))
		binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "main-0", Namespace: "secretless"}, Target: corev1.ObjectReference{Kind: "Node", Name: "nowhere"}}
		if err := s.Client.CoreV1().Pods("secretless").Bind(t.Context(), binding, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		s.delete(t, "Secret", "secretless", "main-sidecar-token")
		minute, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := p.Await(minute, s.condition("secretless", "main", "AllMembersReady", "False", "SecretMissing", "credentials (spec.backup.store.secretRef); make them")); err != nil {
			t.Error(err)
		}
		p.await(t, s.has("secretless", "main", objectsOf("main", 1))) // as the pod does not start
		if err := s.Client.CoreV1().Nodes().Delete(t.Context(), "nowhere", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	})

	t.Run("a foreign object of the same name is not touched, and named", func(t *testing.T) {
		s.namespace(t, "foreign")
		for name, labels := range map[string]map[string]string{
			"taken": nil,
			"shop":  {"app.kubernetes.io/part-of": "shop", "app.kubernetes.io/managed-by": "Helm"}, // as an application of the Etcd's name has them
		} {
			mine := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name + "-config", Labels: labels}, Data: map[string]string{"mine": "1"}}
			if _, err := s.Client.CoreV1().ConfigMaps("foreign").Create(t.Context(), mine, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			s.apply(t, etcdYAML("foreign", name, 1))
			p.await(t, s.fails("foreign", name, "ERR_SYNC_CONFIGMAP", "belongs to somebody else"))
			c, err := s.Client.CoreV1().ConfigMaps("foreign").Get(t.Context(), mine.Name, metav1.GetOptions{})
			if err != nil || len(c.Data) != 1 || !maps.Equal(c.Labels, labels) || len(c.OwnerReferences) != 0 {
				t.Errorf("it is %v now (%v)", c, err)
			}
			s.delete(t, "ConfigMap", "foreign", mine.Name)
			p.await(t, s.operation("foreign", name, "Create Succeeded"))
		}
	})

	t.Run("a quota that refuses an object is told, and gone it goes on", func(t *testing.T) {
		s.namespace(t, "poor")
		quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "none"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"services": resource.MustParse("0")}}}
		if _, err := s.Client.CoreV1().ResourceQuotas("poor").Create(t.Context(), quota, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		await(t, func(ctx context.Context) error {
			q, err := s.Client.CoreV1().ResourceQuotas("poor").Get(ctx, "none", metav1.GetOptions{})
			if err == nil && len(q.Status.Hard) == 0 {
				err = errors.New("the quota is not in force yet")
			}
			return err
		})
		s.apply(t, etcdYAML("poor", "main", 1))
		p.await(t, s.fails("poor", "main", "ERR_SYNC_PEER_SERVICE", "exceeded quota"))
		p.await(t, s.event("poor", "main", "ApplyFailed", "exceeded quota"))
		p.await(t, p.counted("etcddruid_failures_total", `code="ERR_SYNC_PEER_SERVICE"`))
		if _, err := s.get(t.Context(), "StatefulSet", "poor", "main"); !apierrors.IsNotFound(err) {
			t.Errorf("the StatefulSet was made without its Service: %v", err)
		}
		if err := s.Client.CoreV1().ResourceQuotas("poor").Delete(t.Context(), "none", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		p.await(t, s.operation("poor", "main", "Create Succeeded"))
	})

	t.Run("a suspended Etcd is left alone, and its status written", func(t *testing.T) {
		s.change(t, "Etcd", "shop", "main-0", func(o map[string]any) {
			set(o, map[string]any{"druid.gardener.cloud/suspend-etcd-spec-reconcile": ""}, "metadata", "annotations")
			set(o, "extensive", "spec", "etcd", "metrics")
		})
		s.looked(t, p)
		p.await(t, s.condition("shop", "main-0", "ReconcileHeld", "True", "Suspended", "druid.gardener.cloud/suspend-etcd-spec-reconcile"))
		s.delete(t, "Lease", "shop", "main-0-0")
		s.looked(t, p)
		if _, err := s.get(t.Context(), "Lease", "shop", "main-0-0"); !apierrors.IsNotFound(err) {
			t.Errorf("the Lease was made anew: %v", err)
		}
		s.change(t, "Etcd", "shop", "main-0", func(o map[string]any) { set(o, map[string]any{}, "metadata", "annotations") })
		p.await(t, s.applied("shop", "main-0"))
		p.await(t, s.has("shop", "main-0", objectsOf("main-0", 1)))
	})

	t.Run("a schedule that cannot be read leaves the former in force", func(t *testing.T) {
		schedule := func(ctx context.Context) (string, error) {
			c, err := s.Client.CoreV1().ConfigMaps("shop").Get(ctx, "main-0-config", metav1.GetOptions{})
			if err != nil {
				return "", err
			}
			return c.Data["backup-restore.conf.yaml"], nil
		}
		s.change(t, "Etcd", "shop", "main-0", func(o map[string]any) { set(o, "0 1 * * *", "spec", "etcd", "defragmentationSchedule") })
		p.await(t, s.applied("shop", "main-0"))
		s.change(t, "Etcd", "shop", "main-0", func(o map[string]any) { set(o, "0 25 * * *", "spec", "etcd", "defragmentationSchedule") })
		p.await(t, s.event("shop", "main-0", "ScheduleInvalid", "spec.etcd.defragmentationSchedule"))
		p.await(t, s.applied("shop", "main-0"))
		if got, err := schedule(t.Context()); err != nil || !strings.Contains(got, "schedule: 0 1 * * *") {
			t.Errorf("in force is %q (%v), want the former schedule", got, err)
		}
	})

	t.Run("an Etcd that is deleted leaves its volumes and nothing else", func(t *testing.T) {
		s.delete(t, "Etcd", "shop", "main")
		p.await(t, func(ctx context.Context) error {
			if _, err := s.get(ctx, "Etcd", "shop", "main"); !apierrors.IsNotFound(err) {
				return fmt.Errorf("the Etcd is there: %v", err)
			}
			return s.has("shop", "main", []string{"PersistentVolumeClaim main-main-0", "PersistentVolumeClaim main-main-1", "PersistentVolumeClaim main-main-2"})(ctx)
		})
		p.await(t, s.has("shop", "main-0", objectsOf("main-0", 1)))
	})

	t.Run("an Etcd whose StatefulSet was taken from its pods is deleted with them, and made anew at once", func(t *testing.T) {
		s.change(t, "Etcd", "shop", "main-0", func(o map[string]any) {
			set(o, map[string]any{"druid.gardener.cloud/suspend-etcd-spec-reconcile": ""}, "metadata", "annotations")
		})
		s.looked(t, p)
		orphan := metav1.DeletePropagationOrphan
		if err := s.Client.AppsV1().StatefulSets("shop").Delete(t.Context(), "main-0", metav1.DeleteOptions{PropagationPolicy: &orphan}); err != nil {
			t.Fatal(err)
		}
		await(t, s.absent("StatefulSet", "shop", "main-0"))
		s.delete(t, "Etcd", "shop", "main-0")
		p.await(t, s.event("shop", "main-0", "Deleting", "its volumes and backups stay"))
		p.await(t, s.absent("Etcd", "shop", "main-0"))
		s.apply(t, etcdYAML("shop", "main-0", 1)) // the former token may still be there
		p.await(t, s.operation("shop", "main-0", "Create Succeeded"))
		p.await(t, s.has("shop", "main-0", objectsOf("main-0", 1)))
	})
}

func TestWithoutAutoReconcileTheAnnotationDecides(t *testing.T) {
	together(t, light)
	s := newSite(t)
	s.grant(t)
	s.namespace(t, "shop")
	p := s.operate(t, "operator", "controllers: {etcd: {etcdStatusSyncPeriod: 1s}}")
	s.apply(t, etcdYAML("shop", "main", 1))
	p.await(t, s.operation("shop", "main", "Create Succeeded"))
	for _, spelling := range []string{"druid.gardener.cloud/operation", "gardener.cloud/operation"} {
		port := map[string]int64{"druid.gardener.cloud/operation": 3379, "gardener.cloud/operation": 4379}[spelling]
		ports := func(ctx context.Context) (ports []int32) {
			service, err := s.Client.CoreV1().Services("shop").Get(ctx, "main-client", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range service.Spec.Ports {
				ports = append(ports, p.Port)
			}
			return ports
		}
		s.change(t, "Etcd", "shop", "main", func(o map[string]any) { set(o, port, "spec", "etcd", "clientPort") })
		s.looked(t, p)
		p.await(t, s.condition("shop", "main", "ReconcileHeld", "True", "NotRequested", "to apply it, annotate the Etcd with druid.gardener.cloud/operation=reconcile"))
		if got := ports(t.Context()); slices.Contains(got, int32(port)) {
			t.Errorf("nobody asked for it, and the Service has the ports %v", got)
		}
		s.change(t, "Etcd", "shop", "main", func(o map[string]any) { set(o, map[string]any{spelling: "reconcile"}, "metadata", "annotations") })
		p.await(t, s.applied("shop", "main"))
		p.await(t, func(ctx context.Context) error {
			e, err := s.get(ctx, "Etcd", "shop", "main")
			if err == nil && e.GetAnnotations()[spelling] != "" {
				err = fmt.Errorf("the annotation %s is still there", spelling)
			}
			return err
		})
		p.await(t, func(ctx context.Context) error {
			e, err := s.get(ctx, "Etcd", "shop", "main")
			if err == nil && strings.Contains(fmt.Sprint(e.Object["status"]), "ReconcileHeld") {
				err = errors.New("the condition says that the specification is not applied")
			}
			return err
		})
		if got := ports(t.Context()); !slices.Contains(got, int32(port)) {
			t.Errorf("it was asked for by %s, and the Service has the ports %v", spelling, got)
		}
	}
}

// fails is nil if the last operation of the Etcd failed so.
func (s *site) fails(namespace, name, code, description string) func(context.Context) error {
	return func(ctx context.Context) error {
		e, err := s.get(ctx, "Etcd", namespace, name)
		if err != nil {
			return err
		}
		state, _, _ := unstructured.NestedString(e.Object, "status", "lastOperation", "state")
		list, _, _ := unstructured.NestedSlice(e.Object, "status", "lastErrors")
		for _, item := range list {
			m, _ := item.(map[string]any)
			if m["code"] == code && strings.Contains(fmt.Sprint(m["description"]), description) && state == "Error" {
				return nil
			}
		}
		return fmt.Errorf("state %s, errors %v, want %s with %q", state, list, code, description)
	}
}

// condition is nil if the Etcd has it so.
func (s *site) condition(namespace, name, of, status, reason, message string) func(context.Context) error {
	return func(ctx context.Context) error {
		e, err := s.get(ctx, "Etcd", namespace, name)
		if err != nil {
			return err
		}
		list, _, _ := unstructured.NestedSlice(e.Object, "status", "conditions")
		for _, item := range list {
			c, _ := item.(map[string]any)
			if c["type"] == of && c["status"] == status && c["reason"] == reason && strings.Contains(fmt.Sprint(c["message"]), message) {
				return nil
			}
		}
		return fmt.Errorf("conditions %v, want %s %s %s with %q", list, of, status, reason, message)
	}
}

// event is nil if there is one about the Etcd.
func (s *site) event(namespace, name, reason, note string) func(context.Context) error {
	return func(ctx context.Context) error {
		list, err := s.Client.EventsV1().Events(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		var all []string
		for _, e := range list.Items {
			if e.Regarding.Name == name && e.Reason == reason && strings.Contains(e.Note, note) {
				return nil
			}
			all = append(all, e.Regarding.Name+" "+e.Reason+": "+e.Note)
		}
		return fmt.Errorf("events %q, want %s with %q", all, reason, note)
	}
}

// looked returns when the operator has finished a look at every Etcd that began after the call.
func (s *site) looked(t *testing.T, p *program) {
	t.Helper()
	count := func(ctx context.Context) (float64, error) {
		return p.measured(ctx, "controller_runtime_reconcile_total", `controller="etcd"`, `result="requeue_after"`)
	}
	var first float64
	p.await(t, func(ctx context.Context) (err error) { first, err = count(ctx); return err })
	list, err := s.objects.Resource(resources["Etcd"]).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// Each is looked at once in every period; who is in the middle of it now counts for nothing.
	rounds := float64(3 * len(list.Items))
	p.await(t, func(ctx context.Context) error {
		now, err := count(ctx)
		if err == nil && now < first+rounds {
			err = fmt.Errorf("%v looks, want %v", now-first, rounds)
		}
		return err
	})
}

// quiet waits until the operator looks without a request.
func (s *site) quiet(t *testing.T, namespace string, p *program) {
	t.Helper()
	p.await(t, func(ctx context.Context) error {
		since := time.Now()
		s.looked(t, p)
		if all := s.asked(t, namespace, since); len(all) > 0 {
			return fmt.Errorf("it still sends: %q", all)
		}
		return nil
	})
}
