package operator_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/operator"
	"druid.internal/druid/internal/operator/webhook"
	"druid.internal/druid/test/process"
	"druid.internal/druid/test/stores"
)

// protected has the API server ask an operator at the address, which is logged in as druid.
func (s *site) protected(t *testing.T, address string) {
	t.Helper()
	url := "https://" + address + webhook.Path
	c := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: webhook.ConfigurationName},
		Webhooks:   webhook.Webhooks("druid", admissionregistrationv1.WebhookClientConfig{URL: &url}),
	}
	if _, err := s.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(t.Context(), c, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// grantProtection gives the operator the rights for its Lease and for certificates of its own.
func (s *site) grantProtection(t *testing.T) {
	t.Helper()
	subject := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "druid"}}
	rbac, meta := s.Client.RbacV1(), metav1.ObjectMeta{Name: "druid-protection"}
	_, err := rbac.ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: meta, Rules: operator.ProtectionAccess()}, metav1.CreateOptions{})
	if err == nil {
		_, err = rbac.ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: meta,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name}, Subjects: subject}, metav1.CreateOptions{})
	}
	if err == nil {
		_, err = rbac.Roles("default").Create(t.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: append(operator.OwnAccess(), operator.ProtectionOwnAccess()...)}, metav1.CreateOptions{})
	}
	if err == nil {
		_, err = rbac.RoleBindings("default").Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: meta,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name}, Subjects: subject}, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestObjectsOfAnEtcdAreChangedByTheOperatorAlone(t *testing.T) {
	together(t, light)
	s := newSite(t)
	s.grant(t)
	s.grantProtection(t)
	s.namespace(t, "shop")
	addresses, err := process.FreePorts("127.0.0.1", 1)
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := strings.Cut(addresses[0], ":")
	s.protected(t, addresses[0])
	p := s.operate(t, "operator",
		"  webhooks: {bindAddress: 127.0.0.1, port: "+port+", serverCertDir: \"\"}", // of server
		automatic,
		"leaderElection: {resourceNamespace: default}",
		"webhooks: {etcdComponentProtection: {enabled: true, exemptServiceAccounts: [\"system:serviceaccount:shop:healer\"]}}",
	)
	// The operator's own requests wait for no certificate.
	s.apply(t, etcdYAML("shop", "main", 3))
	p.await(t, s.operation("shop", "main", "Create Succeeded"))
	p.await(t, s.has("shop", "main", objectsOf("main", 3)))
	own := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "own"}}
	if _, err := s.Client.CoreV1().ConfigMaps("shop").Create(t.Context(), own, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	path := func(kind, name string) string {
		kind, sub, _ := strings.Cut(kind, "/")
		r := resources[kind]
		root := "/apis/" + r.Group
		if r.Group == "" {
			root = "/api"
		}
		return strings.TrimSuffix(root+"/"+r.Version+"/namespaces/shop/"+r.Resource+"/"+name+"/"+sub, "/")
	}
	drop := func(ctx context.Context, by kubernetes.Interface, kind, name string) error {
		return by.Discovery().RESTClient().Delete().AbsPath(path(kind, name)).Param("dryRun", "All").Do(ctx).Error()
	}
	patch := func(ctx context.Context, by kubernetes.Interface, kind, name, body string) error {
		return by.Discovery().RESTClient().Patch(types.MergePatchType).AbsPath(path(kind, name)).Body([]byte(body)).Do(ctx).Error()
	}
	p.await(t, func(ctx context.Context) error {
		return refusedWith(patch(ctx, s.Client, "ConfigMap", "main-config", `{"data":{"more":"mine"}}`), "belongs to Etcd main")
	})

	const why = "so only the operator (druid) may do this: change the Etcd instead, or annotate it with druid.gardener.cloud/disable-etcd-component-protection first"
	t.Run("everything that it has made", func(t *testing.T) {
		for _, object := range objectsOf("main", 3) {
			kind, name, _ := strings.Cut(object, " ")
			err := drop(t.Context(), s.Client, kind, name)
			if kind == "Pod" { // it is evicted and deleted as everywhere
				if err != nil {
					t.Errorf("delete %s: %v", object, err)
				}
				continue
			}
			if err := refusedWith(err, kind+" "+name+" belongs to Etcd main, "+why); err != nil {
				t.Errorf("delete %s: %v", object, err)
			}
			targets := []string{kind}
			if slices.Contains([]string{"StatefulSet", "Service", "PodDisruptionBudget", "PersistentVolumeClaim"}, kind) {
				targets = append(targets, kind+"/status") // of which the API server takes labels and owners as well
			}
			for i, target := range targets {
				for what, body := range map[string]string{
					"annotate":               `{"metadata":{"annotations":{"mine":"1"}}}`,
					"take all labels of":     `{"metadata":{"labels":null}}`,
					"take away":              `{"metadata":{"labels":{"app.kubernetes.io/managed-by":"me","app.kubernetes.io/part-of":"mine"}}}`,
					"orphan to be collected": `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"gone","uid":"gone"}]}}`,
				} {
					err := patch(t.Context(), s.Client, target, name, body)
					if what == "annotate" && (i > 0 || kind == "PersistentVolumeClaim") { // Kubernetes writes there, too
						if err != nil {
							t.Errorf("%s %s (%s): %v", what, object, target, err)
						}
						continue
					}
					if err := refusedWith(err, why); err != nil {
						t.Errorf("%s %s (%s): %v", what, object, target, err)
					}
				}
			}
		}
		if err := refusedWith(patch(t.Context(), s.Client, "StatefulSet/scale", "main", `{"spec":{"replicas":1}}`), "the scale of StatefulSet main belongs to Etcd main"); err != nil {
			t.Error(err)
		}
		if err := refusedWith(patch(t.Context(), s.Client, "ConfigMap", "own", `{"metadata":{"labels":{"app.kubernetes.io/managed-by":"etcd-druid","app.kubernetes.io/part-of":"main"}}}`), why); err != nil {
			t.Errorf("give it what is not its: %v", err)
		}
		err := s.Client.CoreV1().ConfigMaps("shop").DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "app.kubernetes.io/part-of=main"})
		if err := refusedWith(err, "ConfigMap main-config belongs to Etcd main"); err != nil {
			t.Errorf("delete all: %v", err)
		}
	})

	t.Run("but by those who must", func(t *testing.T) {
		// The members' own accounts may by their Role; that each writes its own is a policy's business.
		config, err := s.ServiceAccountConfig(t.Context(), "shop", "main")
		if err != nil {
			t.Fatal(err)
		}
		member := kubernetes.NewForConfigOrDie(config)
		if err := patch(t.Context(), member, "Lease", "main-0", `{"spec":{"holderIdentity":"1:2:Leader"}}`); err != nil {
			t.Errorf("a member renews its Lease: %v", err)
		}
		if err := patch(t.Context(), member, "EtcdMember/status", "main-0", `{"status":{"waiting":"for a person"}}`); err != nil {
			t.Errorf("a member writes its status: %v", err)
		}
		if err := refusedWith(patch(t.Context(), member, "Lease", "main-0", `{"metadata":{"labels":null}}`), why); err != nil {
			t.Errorf("a member takes its Lease away: %v", err)
		}
		s.delete(t, "Pod", "shop", "main-2")
		eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "main-1", Namespace: "shop"}}
		if err := s.Client.PolicyV1().Evictions("shop").Evict(t.Context(), eviction); err != nil && !apierrors.IsTooManyRequests(err) {
			t.Errorf("an eviction: %v", err)
		}
		p.await(t, s.operation("shop", "main", "Create Succeeded"))
		healer := s.account(t, "shop", "healer")
		p.await(t, func(ctx context.Context) error {
			return patch(ctx, healer, "ConfigMap", "main-config", `{"metadata":{"annotations":{"healed":"1"}}}`)
		})
	})

	t.Run("or with the annotation", func(t *testing.T) {
		s.change(t, "Etcd", "shop", "main", func(o map[string]any) {
			set(o, map[string]any{druidv1alpha1.AnnotationDisableProtection: ""}, "metadata", "annotations")
		})
		p.await(t, func(ctx context.Context) error {
			return patch(ctx, s.Client, "StatefulSet/scale", "main", `{"spec":{"replicas":3}}`)
		})
		if err := patch(t.Context(), s.Client, "ConfigMap", "main-config", `{"data":{"more":"mine"}}`); err != nil {
			t.Error(err)
		}
		s.change(t, "Etcd", "shop", "main", func(o map[string]any) { set(o, map[string]any{}, "metadata", "annotations") })
		p.await(t, func(ctx context.Context) error {
			return refusedWith(patch(ctx, s.Client, "ConfigMap", "main-config", `{"data":{"more":"mine"}}`), why)
		})
	})

	t.Run("its outage holds up nobody else", func(t *testing.T) {
		p.Kill()
		one, none := int32(1), map[string]string{"app": "other"}
		other := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "other"}, Spec: appsv1.StatefulSetSpec{
			Replicas: &one, Selector: &metav1.LabelSelector{MatchLabels: none},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: none}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "none"}}}},
		}}
		if _, err := s.Client.AppsV1().StatefulSets("shop").Create(t.Context(), other, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct{ kind, name, body string }{
			{"StatefulSet/scale", "other", `{"spec":{"replicas":2}}`},
			{"StatefulSet", "other", `{"metadata":{"labels":{"a":"b"}}}`},
			{"ConfigMap", "own", `{"data":{"a":"b"}}`},
		} {
			if err := patch(t.Context(), s.Client, c.kind, c.name, c.body); err != nil {
				t.Errorf("%s of others: %v", c.kind, err)
			}
		}
		config, err := s.ServiceAccountConfig(t.Context(), "shop", "main")
		if err != nil {
			t.Fatal(err)
		}
		if err := patch(t.Context(), kubernetes.NewForConfigOrDie(config), "Lease", "main-0", `{"spec":{"holderIdentity":"1:2:Member"}}`); err != nil {
			t.Errorf("a heartbeat: %v", err)
		}
		for _, c := range []struct{ kind, name, body string }{
			{"StatefulSet/scale", "main", `{"spec":{"replicas":1}}`},
			{"ConfigMap", "main-config", `{"metadata":{"labels":null}}`},
		} {
			if err := patch(t.Context(), s.Client, c.kind, c.name, c.body); err == nil || !strings.Contains(err.Error(), "failed calling webhook") {
				t.Errorf("%s of the Etcd's: %v, want that nobody can be asked", c.kind, err)
			}
		}
		if err := s.Client.CoreV1().Namespaces().Delete(t.Context(), "shop", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		await(t, func(ctx context.Context) error {
			all, err := s.of(ctx, "shop", "main")
			if err == nil && len(all) > 0 {
				err = fmt.Errorf("the end of the namespace leaves %q", all)
			}
			return err
		})
	})
}

// As when the webhook is switched on: the operator from before leads until the new one is ready.
func TestTheWebhookIsServedWhileAnOperatorWithoutItLeads(t *testing.T) {
	together(t, light)
	s := newSite(t)
	s.grant(t)
	s.grantProtection(t)
	s.namespace(t, "shop")
	const lease = "leaderElection: {enabled: true, resourceNamespace: default, leaseDuration: 12s, renewDeadline: 9s, retryPeriod: 500ms}"
	former := s.operate(t, "former", automatic, lease)
	former.await(t, former.leads)
	s.apply(t, etcdYAML("shop", "main", 1))
	former.await(t, s.has("shop", "main", objectsOf("main", 1)))

	addresses, err := process.FreePorts("127.0.0.1", 1)
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := strings.Cut(addresses[0], ":")
	s.protected(t, addresses[0])
	p := s.operate(t, "new",
		"  webhooks: {bindAddress: 127.0.0.1, port: "+port+", serverCertDir: \"\"}", // of server
		automatic, lease, "webhooks: {etcdComponentProtection: {enabled: true}}",
	)
	refuses := func(ctx context.Context) error {
		_, err := s.Client.CoreV1().ConfigMaps("shop").Patch(ctx, "main-config", types.MergePatchType, []byte(`{"data":{"more":"mine"}}`), metav1.PatchOptions{})
		return refusedWith(err, "belongs to Etcd main")
	}
	p.await(t, refuses)
	if err := former.leads(t.Context()); err != nil {
		t.Errorf("the former: %v", err)
	}

	former.Signal(syscall.SIGTERM)
	former.awaitEnd(t)
	p.await(t, p.leads)
	if err := refuses(t.Context()); err != nil {
		t.Errorf("once the new one leads: %v", err)
	}
}

// As with cert-manager: somebody else makes the certificates, and exchanges the files while the webhook is asked.
func TestTheWebhookIsServedWithTheCertificatesOfFiles(t *testing.T) {
	together(t, light)
	s := newSite(t)
	s.grant(t)
	s.namespace(t, "shop")
	dir := t.TempDir()
	certify := func() (authority []byte) {
		ca, err := stores.NewCA()
		if err != nil {
			t.Fatal(err)
		}
		cert, key, err := ca.Issue("127.0.0.1")
		if err != nil {
			t.Fatal(err)
		}
		for name, content := range map[string][]byte{corev1.TLSCertKey: cert, corev1.TLSPrivateKeyKey: key} {
			if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return ca.PEM
	}
	trust := func(authority []byte) {
		configurations := s.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
		c, err := configurations.Get(t.Context(), webhook.ConfigurationName, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range c.Webhooks {
			c.Webhooks[i].ClientConfig.CABundle = authority
		}
		if _, err := configurations.Update(t.Context(), c, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	addresses, err := process.FreePorts("127.0.0.1", 1)
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := strings.Cut(addresses[0], ":")
	first := certify()
	s.protected(t, addresses[0])
	trust(first)
	p := s.operate(t, "operator", "  webhooks: {bindAddress: 127.0.0.1, port: "+port+", serverCertDir: "+dir+"}", automatic, "webhooks: {etcdComponentProtection: {enabled: true}}")
	s.apply(t, etcdYAML("shop", "main", 1))
	p.await(t, s.has("shop", "main", objectsOf("main", 1)))
	refuses := func(ctx context.Context) error {
		_, err := s.Client.CoreV1().ConfigMaps("shop").Patch(ctx, "main-config", types.MergePatchType, []byte(`{"data":{"more":"mine"}}`), metav1.PatchOptions{})
		return refusedWith(err, "belongs to Etcd main")
	}
	p.await(t, refuses)
	trust(certify())
	p.await(t, refuses)
}

// refusedWith is nil if the error is a refusal that says so.
func refusedWith(err error, want string) error {
	if err == nil || !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), want) {
		return fmt.Errorf("%v, want a refusal with %q", err, want)
	}
	return nil
}

// account is a client of a new ServiceAccount that may do everything in the cluster.
func (s *site) account(t *testing.T, namespace, name string) kubernetes.Interface {
	t.Helper()
	meta := metav1.ObjectMeta{Name: name}
	if _, err := s.Client.CoreV1().ServiceAccounts(namespace).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err := s.Client.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: meta,
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: name}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config, err := s.ServiceAccountConfig(t.Context(), namespace, name)
	if err != nil {
		t.Fatal(err)
	}
	return kubernetes.NewForConfigOrDie(config)
}
