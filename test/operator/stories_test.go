package operator_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"druid.internal/druid/test/cluster"
)

// away is how long the API server is away.
const away = time.Minute

func TestAnAPIServerThatIsAwayForAMinuteCostsNothing(t *testing.T) {
	together(t, light)
	s, l, w := newShop(t)
	p := s.operate(t, "operator", automatic)
	s.apply(t, l.etcdIn("shop", "grows", 3))
	p.await(t, s.condition("shop", "main", "AllMembersReady", "True", "AllMembersReady", "3 of 3"))
	p.await(t, s.condition("shop", "main", "BackupReady", "True", "BackupSucceeded", ""))
	before, _, err := s.podsOf(t.Context(), "shop", "main")
	if err != nil || len(before) != 3 {
		t.Fatalf("pods %v (%v)", before, err)
	}

	// It goes in the middle of a change.
	s.change(t, "Etcd", "shop", "main", func(o map[string]any) { set(o, int64(5), "spec", "replicas") })
	// Kubernetes' controllers go as well, as they do when they cannot renew their Lease: those that stay wait for minutes before they
	// look at a StatefulSet again that they could not bring up to date.
	for _, part := range []string{cluster.ControllerManager, cluster.APIServer} {
		if err := s.Kill(part); err != nil {
			t.Fatal(err)
		}
	}
	over := time.After(away)
	for down := true; down; {
		select {
		case <-over:
			down = false
		case <-p.Done():
			t.Fatalf("without an API server the operator ended: %v", p.Err())
		}
	}
	if _, err := get(t.Context(), p.health+"/healthz"); err != nil {
		t.Errorf("without an API server the operator does not live: %v", err)
	}
	l.shut()
	for _, part := range []string{cluster.APIServer, cluster.ControllerManager} {
		if err := s.Restart(t.Context(), part); err != nil {
			t.Fatal(err)
		}
	}
	l.shut = l.open(t)
	back := time.Now()
	p.await(t, func(ctx context.Context) error { // until every watch of the operator is back, which takes up to a minute
		pods, _, err := s.podsOf(ctx, "shop", "main")
		if err == nil && len(pods) != 5 {
			err = fmt.Errorf("pods %v, want 5", pods)
		}
		return err
	})
	p.await(t, s.condition("shop", "main", "AllMembersReady", "True", "AllMembersReady", "5 of 5"))
	p.await(t, s.operation("shop", "main", "Reconcile Succeeded"))
	t.Logf("five members %s after the API server was back", time.Since(back).Round(time.Second))
	after, _, err := s.podsOf(t.Context(), "shop", "main")
	for _, uid := range before {
		if err != nil || !slices.Contains(after, uid) {
			t.Errorf("the pods were %v and are %v (%v): none may go because nobody was heard of", before, after, err)
		}
	}
	for _, text := range w.wrongs() {
		t.Error(text)
	}
}

func TestAQuotaThatRefusesPodsIsTold(t *testing.T) {
	together(t, light)
	s := newSite(t)
	s.grant(t)
	s.namespace(t, "poor")
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "small"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"pods": resource.MustParse("1")}}}
	if _, err := s.Client.CoreV1().ResourceQuotas("poor").Create(t.Context(), quota, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, func(ctx context.Context) error {
		q, err := s.Client.CoreV1().ResourceQuotas("poor").Get(ctx, "small", metav1.GetOptions{})
		if err == nil && len(q.Status.Hard) == 0 {
			err = errors.New("the quota is not in force yet")
		}
		return err
	})
	p := s.operate(t, "operator", automatic)
	s.apply(t, etcdYAML("poor", "main", 3))
	p.await(t, s.condition("poor", "main", "AllMembersReady", "False", "NotAllMembersReady", "exceeded quota: small"))
	if err := s.Client.CoreV1().ResourceQuotas("poor").Delete(t.Context(), "small", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	p.await(t, s.has("poor", "main", objectsOf("main", 3)))
}

// manage writes an object by server-side apply in somebody's name, as a tool for deployments does.
func (s *site) manage(t *testing.T, by, text string) {
	t.Helper()
	body, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	force := true
	_, err = s.Client.CoreV1().Services("shop").Patch(t.Context(), "main-client", types.ApplyPatchType, body, metav1.PatchOptions{FieldManager: by, Force: &force})
	if err != nil {
		t.Fatal(err)
	}
}

func TestOtherFieldManagersKeepTheirFieldsAndLoseOurs(t *testing.T) {
	together(t, light)
	s := newSite(t)
	s.grant(t)
	s.namespace(t, "shop")
	p := s.operate(t, "operator", automatic)
	s.apply(t, etcdYAML("shop", "main", 1))
	p.await(t, s.operation("shop", "main", "Create Succeeded"))
	s.quiet(t, "shop", p)
	const service = "{apiVersion: v1, kind: Service, metadata: {name: main-client, namespace: shop, labels: {team: blue}}"
	as := func(want map[string]string) func(context.Context) error {
		return func(ctx context.Context) error {
			o, err := s.Client.CoreV1().Services("shop").Get(ctx, "main-client", metav1.GetOptions{})
			if err != nil {
				return err
			}
			if o.Labels["team"] != "blue" || o.Spec.Selector["app.kubernetes.io/part-of"] != want["part-of"] {
				return fmt.Errorf("labels %v, selector %v", o.Labels, o.Spec.Selector)
			}
			return nil
		}
	}

	t.Run("a field that we do not name is theirs", func(t *testing.T) {
		s.manage(t, "deployer", service+"}")
		s.quiet(t, "shop", p)
		p.await(t, as(map[string]string{"part-of": "main"}))
	})
	t.Run("the same value is no conflict", func(t *testing.T) {
		s.manage(t, "deployer", service+", spec: {selector: {app.kubernetes.io/part-of: main}}}")
		s.quiet(t, "shop", p)
		p.await(t, as(map[string]string{"part-of": "main"}))
	})
	t.Run("another value is set back as often as it comes, and whose it was is told", func(t *testing.T) {
		for range 5 {
			s.manage(t, "deployer", service+", spec: {selector: {app.kubernetes.io/part-of: nobody}}}")
			p.await(t, as(map[string]string{"part-of": "main"}))
		}
		p.await(t, s.event("shop", "main", "ChangeUndone", "deployer (spec.selector"))
		s.quiet(t, "shop", p)
		if err := s.operation("shop", "main", "Create Succeeded")(t.Context()); err != nil {
			t.Errorf("it is no failure of the Etcd: %v", err)
		}
	})
	t.Run("what runs in the pods, configures them or leads to them is nobody else's", func(t *testing.T) {
		const set, config = `{"spec":{"template":{"spec":{"containers":[{"name":"evil","image":"i"}],"volumes":[{"name":"v","emptyDir":{}}],"nodeSelector":{"no":"where"},"hostNetwork":true}},"persistentVolumeClaimRetentionPolicy":{"whenScaled":"Delete"}}}`, `{"data":{"foo":"x"}}`
		if _, err := s.Client.AppsV1().StatefulSets("shop").Patch(t.Context(), "main", types.StrategicMergePatchType, []byte(set), metav1.PatchOptions{FieldManager: "deployer"}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Client.CoreV1().ConfigMaps("shop").Patch(t.Context(), "main-config", types.MergePatchType, []byte(config), metav1.PatchOptions{FieldManager: "deployer"}); err != nil {
			t.Fatal(err)
		}
		s.manage(t, "deployer", service+", spec: {ports: [{name: x, port: 1}]}}")
		alone := []byte(`{"spec":{"selector":{"foo":"bar"}}}`) // and nothing else of that object
		if _, err := s.Client.CoreV1().Services("shop").Patch(t.Context(), "main-peer", types.MergePatchType, alone, metav1.PatchOptions{FieldManager: "deployer"}); err != nil {
			t.Fatal(err)
		}
		alone = []byte(`{"spec":{"selector":{"matchLabels":{"foo":"bar"}}}}`)
		if _, err := s.Client.PolicyV1().PodDisruptionBudgets("shop").Patch(t.Context(), "main", types.MergePatchType, alone, metav1.PatchOptions{FieldManager: "deployer"}); err != nil {
			t.Fatal(err)
		}
		p.await(t, func(ctx context.Context) error {
			made, err := s.Client.AppsV1().StatefulSets("shop").Get(ctx, "main", metav1.GetOptions{})
			if err != nil {
				return err
			}
			configMap, err := s.Client.CoreV1().ConfigMaps("shop").Get(ctx, "main-config", metav1.GetOptions{})
			if err != nil {
				return err
			}
			o, err := s.Client.CoreV1().Services("shop").Get(ctx, "main-client", metav1.GetOptions{})
			if err != nil {
				return err
			}
			var names []string
			for _, c := range made.Spec.Template.Spec.Containers {
				names = append(names, c.Name)
			}
			for _, v := range made.Spec.Template.Spec.Volumes {
				names = append(names, v.Name)
			}
			if slices.Contains(names, "evil") || slices.Contains(names, "v") || configMap.Data["foo"] != "" || len(o.Spec.Ports) != 3 {
				return fmt.Errorf("containers and volumes %v, files %d, ports %d", names, len(configMap.Data), len(o.Spec.Ports))
			}
			pods := made.Spec.Template.Spec
			if deletes := made.Spec.PersistentVolumeClaimRetentionPolicy.WhenScaled; pods.HostNetwork || len(pods.NodeSelector) > 0 || deletes != appsv1.RetainPersistentVolumeClaimRetentionPolicyType {
				return fmt.Errorf("pods have the network of their host: %t, nodes are chosen by %v, volumes are treated by %s", pods.HostNetwork, pods.NodeSelector, deletes)
			}
			peer, err := s.Client.CoreV1().Services("shop").Get(ctx, "main-peer", metav1.GetOptions{})
			if err != nil {
				return err
			}
			budget, err := s.Client.PolicyV1().PodDisruptionBudgets("shop").Get(ctx, "main", metav1.GetOptions{})
			if err != nil {
				return err
			}
			if peer.Spec.Selector["foo"] != "" || budget.Spec.Selector.MatchLabels["foo"] != "" {
				return fmt.Errorf("nobody is selected: by the Service %v, by the budget %v", peer.Spec.Selector, budget.Spec.Selector)
			}
			return nil
		})
	})
	t.Run("what a policy of the cluster adds to every object stays", func(t *testing.T) {
		policies := s.Client.AdmissionregistrationV1()
		expression := `Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{priorityClassName: "system-node-critical"}}}}`
		policy := &admissionv1.MutatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "critical"}, Spec: admissionv1.MutatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
				Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
				Rule:       admissionv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"statefulsets"}},
			}}}},
			Mutations:          []admissionv1.Mutation{{PatchType: admissionv1.PatchTypeApplyConfiguration, ApplyConfiguration: &admissionv1.ApplyConfiguration{Expression: expression}}},
			ReinvocationPolicy: admissionv1.NeverReinvocationPolicy,
		}}
		_, err := policies.MutatingAdmissionPolicies().Create(t.Context(), policy, metav1.CreateOptions{})
		switch {
		case apierrors.IsNotFound(err):
			t.Skip("this Kubernetes has no MutatingAdmissionPolicies yet; the newest one, which make test runs, has")
		case err != nil:
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = policies.MutatingAdmissionPolicies().Delete(context.Background(), "critical", metav1.DeleteOptions{})
		})
		binding := &admissionv1.MutatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "critical"}, Spec: admissionv1.MutatingAdmissionPolicyBindingSpec{PolicyName: "critical"}}
		if _, err := policies.MutatingAdmissionPolicyBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = policies.MutatingAdmissionPolicyBindings().Delete(context.Background(), "critical", metav1.DeleteOptions{})
		})
		written := func(ctx context.Context) error {
			// Whoever writes has the policy add it: here it is somebody else, until the operator takes out what he wrote himself.
			_, err := s.Client.AppsV1().StatefulSets("shop").Patch(ctx, "main", types.MergePatchType, []byte(`{"spec":{"template":{"spec":{"nodeSelector":{"no":"where"}}}}}`), metav1.PatchOptions{FieldManager: "deployer"})
			if err != nil {
				return err
			}
			made, err := s.Client.AppsV1().StatefulSets("shop").Get(ctx, "main", metav1.GetOptions{})
			if err == nil && made.Spec.Template.Spec.PriorityClassName == "" {
				err = errors.New("the policy is not in force yet")
			}
			return err
		}
		p.await(t, written)
		p.await(t, func(ctx context.Context) error {
			made, err := s.Client.AppsV1().StatefulSets("shop").Get(ctx, "main", metav1.GetOptions{})
			if err == nil && len(made.Spec.Template.Spec.NodeSelector) > 0 {
				err = errors.New("the nodes are still chosen")
			}
			return err
		})
		s.quiet(t, "shop", p)
		made, err := s.Client.AppsV1().StatefulSets("shop").Get(t.Context(), "main", metav1.GetOptions{})
		if err != nil || made.Spec.Template.Spec.PriorityClassName != "system-node-critical" {
			t.Errorf("what the policy adds is %q (%v)", made.Spec.Template.Spec.PriorityClassName, err)
		}
	})
}

// The store's refusal is what sidecars write: that they refuse is shown where they are.
func TestOfTwoEtcdsOnOnePrefixTheSecondSaysWhatToDo(t *testing.T) {
	together(t, light)
	s := newSite(t)
	s.grant(t)
	s.class(t, "grows", true)
	l := newLand(t, s)
	s.namespace(t, "first")
	s.namespace(t, "second")
	first, second := l.settle("first"), l.settle("second")
	second.mu.Lock()
	second.refused = "the prefix belongs to another Etcd: cluster/first/main"
	second.mu.Unlock()
	p := s.operate(t, "operator", automatic)
	s.apply(t, l.etcdIn("first", "grows", 1))
	s.apply(t, l.etcdIn("second", "grows", 1))
	p.await(t, s.condition("first", "main", "BackupReady", "True", "BackupSucceeded", ""))
	p.await(t, s.condition("second", "main", "BackupReady", "False", "StoreOwnedByAnother",
		"the prefix belongs to another Etcd: cluster/first/main; change spec.backup.store.prefix, or, if the other owner is gone for good, annotate the Etcd with druid.gardener.cloud/take-over-backups=true"))
	p.await(t, s.event("second", "main", "BackupFailing", "the prefix belongs to another Etcd: cluster/first/main; change spec.backup.store.prefix"))
	owners := map[string]string{}
	for _, namespace := range []string{"first", "second"} {
		c, err := s.Client.CoreV1().ConfigMaps(namespace).Get(t.Context(), "main-config", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(c.Data["backup-restore.conf.yaml"]) {
			if _, owner, is := strings.Cut(line, "owner: "); is {
				owners[strings.TrimSpace(owner)] = namespace
			}
		}
	}
	if len(owners) != 2 {
		t.Errorf("the owners are %v, want one for each Etcd", owners)
	}

	t.Run("the annotation has its pods take the prefix over, and goes when they did", func(t *testing.T) {
		s.change(t, "Etcd", "second", "main", func(o map[string]any) {
			set(o, map[string]any{"druid.gardener.cloud/take-over-backups": "true"}, "metadata", "annotations")
		})
		p.await(t, func(ctx context.Context) error {
			c, err := s.Client.CoreV1().ConfigMaps("second").Get(ctx, "main-config", metav1.GetOptions{})
			if err == nil && !strings.Contains(c.Data["backup-restore.conf.yaml"], "takeOver: true") {
				err = fmt.Errorf("the sidecars are not told: %s", c.Data["backup-restore.conf.yaml"])
			}
			return err
		})
		p.await(t, s.condition("second", "main", "BackupReady", "True", "BackupSucceeded", ""))
		p.await(t, func(ctx context.Context) error {
			o, err := s.get(ctx, "Etcd", "second", "main")
			if err == nil && len(o.GetAnnotations()) > 0 {
				err = fmt.Errorf("annotations %v", o.GetAnnotations())
			}
			return err
		})
	})
	for _, w := range []*town{first, second} {
		for _, text := range w.wrongs() {
			t.Errorf("%s: %s", w.namespace, text)
		}
	}
}

// An edit that is refused asks for larger volumes as well, of a class that cannot grow any: nothing of it is done, and the cluster
// keeps what it needs.
func TestARunningClusterIsKeptWhileItsSpecificationIsRefused(t *testing.T) {
	together(t, light)
	s, l, w := newShop(t)
	s.class(t, "fixed", false)
	p := s.operate(t, "operator", automatic)
	s.apply(t, l.etcdIn("shop", "fixed", 3))
	p.await(t, s.condition("shop", "main", "AllMembersReady", "True", "AllMembersReady", ""))
	p.await(t, s.operation("shop", "main", "Create Succeeded"))
	uid := func(kind, name string) string {
		o, err := s.get(t.Context(), kind, "shop", name)
		if err != nil {
			t.Fatal(err)
		}
		return string(o.GetUID())
	}
	set := uid("StatefulSet", "main")

	const short = "spec.backup.store.immutability.retentionPeriod is too short"
	s.change(t, "Etcd", "shop", "main", func(o map[string]any) {
		spec("2Gi", "storageCapacity")(o)
		spec(map[string]any{"retentionType": "object", "retentionPeriod": "1h"}, "backup", "store", "immutability")(o)
	})
	p.await(t, s.fails("shop", "main", "ERR_REFUSED", short))
	p.await(t, s.event("shop", "main", "Refused", short))
	p.await(t, p.counted("etcddruid_looks_total", `result="refused"`))
	lost := map[string]string{"Service": "main-client", "PodDisruptionBudget": "main", "RoleBinding": "druid.gardener.cloud:etcd:main", "EtcdMember": "main-1"}
	for kind, name := range lost {
		was := uid(kind, name)
		s.delete(t, kind, "shop", name)
		p.await(t, func(ctx context.Context) error {
			o, err := s.get(ctx, kind, "shop", name)
			if err == nil && string(o.GetUID()) == was {
				err = fmt.Errorf("%s %s still goes", kind, name)
			}
			return err
		})
	}
	p.await(t, func(context.Context) error { // it reads at each look, and changes and tells nothing
		since := time.Now()
		s.looked(t, p)
		writes := slices.DeleteFunc(s.asked(t, "shop", since), func(request string) bool {
			return strings.HasPrefix(request, "druid get ") || strings.HasPrefix(request, "druid list ")
		})
		if len(writes) > 0 {
			return fmt.Errorf("it still writes: %q", writes)
		}
		return nil
	})
	if now := uid("StatefulSet", "main"); now != set {
		t.Error("the StatefulSet is another one")
	}
	if err := s.fails("shop", "main", "ERR_REFUSED", short)(t.Context()); err != nil {
		t.Errorf("once it is kept: %v", err)
	}

	s.change(t, "Etcd", "shop", "main", spec(nil, "backup", "store", "immutability"))
	p.await(t, func(ctx context.Context) error {
		o, err := s.get(ctx, "StatefulSet", "shop", "main")
		if err == nil && string(o.GetUID()) == set {
			err = errors.New("the volumes do not grow once nothing is refused")
		}
		return err
	})
	p.await(t, p.counted("etcddruid_objects_total", `action="removed"`, `kind="StatefulSet"`))
	for _, text := range w.wrongs() {
		t.Error(text)
	}
}
