package cluster_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"druid.internal/druid/test/cluster"
	"druid.internal/druid/test/stores"
)

// pin is the version that all tests of this directory run on.
var pin = flag.String("kubernetes", "kubernetes", "the installed version: kubernetes or kubernetes-1.34")

// await asks again and again until fact says nil.
func await(t *testing.T, fact func(context.Context) error) {
	t.Helper()
	if err := cluster.Await(t.Context(), 2*time.Minute, fact); err != nil {
		t.Fatal(err)
	}
}

func TestAnAPIServerWithoutNodesDoesWhatKubernetesDoes(t *testing.T) {
	c := cluster.Run(t, cluster.Options{Pin: *pin, Progress: t.Output()})

	t.Run("it is the version that was asked for", func(t *testing.T) {
		v, err := c.Client.Discovery().ServerVersion()
		if err != nil {
			t.Fatal(err)
		}
		want, err := stores.Find(*pin)
		if err != nil || v.GitVersion != want.Version {
			t.Errorf("it is %s, want %s (%v)", v.GitVersion, want.Version, err)
		}
	})
	t.Run("a namespace gets its ServiceAccount, and a client with its token is that account", func(t *testing.T) {
		namespace(t, c, "accounts")
		config, err := c.ServiceAccountConfig(t.Context(), "accounts", "default")
		if err != nil {
			t.Fatal(err)
		}
		if got, want := whoami(t, config), "system:serviceaccount:accounts:default"; got != want {
			t.Errorf("it is %s, want %s", got, want)
		}
	})
	t.Run("a custom resource is served once it is defined", func(t *testing.T) {
		raw(t, c, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
		await(t, func(ctx context.Context) error {
			return c.Client.Discovery().RESTClient().Get().AbsPath("/apis/test.druid/v1/lamps").Do(ctx).Error()
		})
		raw(t, c, "/apis/test.druid/v1/namespaces/default/lamps", `{"apiVersion":"test.druid/v1","kind":"Lamp","metadata":{"name":"hall"},"spec":{"watts":40}}`)
		err := post(t, c, "/apis/test.druid/v1/namespaces/default/lamps", `{"apiVersion":"test.druid/v1","kind":"Lamp","metadata":{"name":"sun"},"spec":{"watts":4000}}`)
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "too bright") {
			t.Errorf("error %v, want the rule's message", err)
		}
	})
	t.Run("an admission policy refuses", func(t *testing.T) {
		namespace(t, c, "policed")
		raw(t, c, "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies", policy)
		raw(t, c, "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings", binding)
		// The API server learns of a policy a moment later.
		await(t, func(ctx context.Context) error {
			m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "forbidden-"}}
			_, err := c.Client.CoreV1().ConfigMaps("policed").Create(ctx, m, metav1.CreateOptions{})
			if err == nil || !strings.Contains(err.Error(), "no such name") {
				return fmt.Errorf("error %v, want the policy's message", err)
			}
			return nil
		})
	})
	t.Run("a user may do what its role says, and the audit log tells what it did", func(t *testing.T) {
		namespace(t, c, "audited")
		role := &rbacv1.Role{
			ObjectMeta: metav1.ObjectMeta{Name: "reader"},
			Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get"}}},
		}
		bound := &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "reader"},
			RoleRef:    rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "Role", Name: "reader"},
			Subjects:   []rbacv1.Subject{{APIGroup: "rbac.authorization.k8s.io", Kind: "User", Name: "alice"}},
		}
		if _, err := c.Client.RbacV1().Roles("audited").Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Client.RbacV1().RoleBindings("audited").Create(t.Context(), bound, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		config, err := c.ConfigFor("alice", "readers")
		if err != nil {
			t.Fatal(err)
		}
		alice, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		await(t, func(ctx context.Context) error {
			_, err := alice.CoreV1().ConfigMaps("audited").Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
			return err
		})
		err = alice.CoreV1().ConfigMaps("audited").Delete(t.Context(), "kube-root-ca.crt", metav1.DeleteOptions{})
		if !apierrors.IsForbidden(err) {
			t.Errorf("error %v, want forbidden", err)
		}
		wantLast := []string{
			"alice get configmaps audited/kube-root-ca.crt: 200",
			"alice delete configmaps audited/kube-root-ca.crt: 403",
		}
		await(t, func(context.Context) error {
			requests, err := c.Requests(func(r cluster.Request) bool { return r.User == "alice" })
			if err != nil {
				return err
			}
			var got []string
			for _, r := range requests {
				got = append(got, r.String())
			}
			if len(got) < 2 || !slices.Equal(got[len(got)-2:], wantLast) {
				return fmt.Errorf("alice's requests are %q, want the last to be %q", got, wantLast)
			}
			return nil
		})
	})
	t.Run("an API server that crashed comes back with what it knew", func(t *testing.T) {
		if err := c.Kill(cluster.APIServer); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Client.CoreV1().Namespaces().Get(t.Context(), "audited", metav1.GetOptions{}); err == nil {
			t.Error("it answers although it was killed")
		}
		if err := c.Restart(t.Context(), cluster.APIServer); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Client.CoreV1().Namespaces().Get(t.Context(), "audited", metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
	})
}

func TestTwoClustersSideBySideAreTwo(t *testing.T) {
	one, other := cluster.Run(t, cluster.Options{}), cluster.Run(t, cluster.Options{})
	namespace(t, one, "one")
	if _, err := other.Client.CoreV1().Namespaces().Get(t.Context(), "one", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("error %v, want the namespace of one not found in the other", err)
	}
}

func namespace(t *testing.T, c *cluster.Cluster, name string) {
	t.Helper()
	n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := c.Client.CoreV1().Namespaces().Create(t.Context(), n, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, func(ctx context.Context) error {
		_, err := c.Client.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

func post(t *testing.T, c *cluster.Cluster, path, object string) error {
	t.Helper()
	if !json.Valid([]byte(object)) {
		t.Fatalf("not JSON: %s", object)
	}
	return c.Client.Discovery().RESTClient().Post().AbsPath(path).SetHeader("Content-Type", "application/json").Body([]byte(object)).Do(t.Context()).Error()
}

func raw(t *testing.T, c *cluster.Cluster, path, object string) {
	t.Helper()
	if err := post(t, c, path, object); err != nil {
		t.Fatal(err)
	}
}

const crd = `{
  "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "lamps.test.druid"},
  "spec": {
    "group": "test.druid", "scope": "Namespaced", "names": {"plural": "lamps", "singular": "lamp", "kind": "Lamp"},
    "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
      "type": "object", "properties": {"spec": {
        "type": "object", "properties": {"watts": {"type": "integer"}},
        "x-kubernetes-validations": [{"rule": "self.watts < 100", "message": "too bright"}]
      }}
    }}}]
  }
}`

const policy = `{
  "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "names"},
  "spec": {
    "failurePolicy": "Fail",
    "matchConstraints": {
      "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "policed"}},
      "resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}]
    },
    "validations": [{"expression": "!object.metadata.name.startsWith('forbidden')", "message": "no such name"}]
  }
}`

const binding = `{
  "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "names"},
  "spec": {"policyName": "names", "validationActions": ["Deny"]}
}`
