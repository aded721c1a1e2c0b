package operator_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/config/admission"
)

// pageCommands are the commands of kubectl of a page of docs/operations, split as a shell does it.
func pageCommands(t *testing.T, page, begin string) (all [][]string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/operations/" + page)
	if err != nil {
		t.Fatal(err)
	}
	word := regexp.MustCompile(`(?:[^\s']+|'[^']*')+`)
	for _, line := range regexp.MustCompile(`(?m)^kubectl `+begin+`.*$`).FindAllString(string(text), -1) {
		var args []string
		for _, w := range word.FindAllString(line, -1)[1:] {
			args = append(args, strings.ReplaceAll(w, "'", ""))
		}
		all = append(all, args)
	}
	return all
}

// twoEtcds name the Secret shared, and one of their own.
const twoEtcds = `
apiVersion: druid.gardener.cloud/v1alpha1
kind: Etcd
metadata: {name: NAME, namespace: shop}
spec:
  labels: {}
  replicas: 1
  etcd: {authSecretRef: {name: shared}}
  backup: {store: {provider: aws, container: backups, prefix: NAME, secretRef: {name: SECRET}}}
`

// hold puts the original's finalizer on a Secret.
func (s *site) hold(t *testing.T, namespace, name string) {
	t.Helper()
	if _, err := s.Kubectl(t.Context(), "patch", "secret", "-n="+namespace, name, "--type=merge", "-p", `{"metadata":{"finalizers":["example.com/another","`+druidv1alpha1.Finalizer+`"]}}`); err != nil {
		t.Fatal(err)
	}
}

// TestTheOriginalsFinalizersOnSecretsGo: the operator takes them off those that no Etcd names any more, and may change nothing else of a Secret.
func TestTheOriginalsFinalizersOnSecretsGo(t *testing.T) {
	together(t, light)
	s := newSite(t)
	s.grant(t)
	policy, err := admission.Files.ReadFile("finalizers.yaml")
	if err != nil {
		t.Fatal(err)
	}
	mine := strings.NewReplacer("system:serviceaccount:etcd-druid-system:etcd-druid", "druid",
		"{kind: ServiceAccount, name: etcd-druid, namespace: etcd-druid-system}", "{kind: User, name: druid, apiGroup: rbac.authorization.k8s.io}").Replace(string(policy))
	if out, err := s.KubectlWith(t.Context(), mine, "apply", "-f", "-"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, namespace := range []string{"shop", "leaves"} {
		s.namespace(t, namespace)
		for _, name := range []string{"credentials", "shared", "next"} {
			s.secret(t, namespace, name)
			s.hold(t, namespace, name)
		}
	}
	await(t, func(ctx context.Context) error { // the API server learns of a policy by and by
		for change, refused := range map[string]bool{
			`{"data":{"more":"eA=="}}`: true, `{"metadata":{"labels":{"more":"x"}}}`: true, `{"metadata":{"annotations":{"more":"x"}}}`: true, `{"immutable":true}`: true,
			`{"metadata":{"finalizers":["` + druidv1alpha1.Finalizer + `"]}}`: true, // another's goes
			`{"metadata":{"finalizers":["more/x","example.com/another"]}}`:    true,
			`{"metadata":{"finalizers":["example.com/another"]}}`:             false,
		} {
			_, err := s.Kubectl(ctx, "patch", "secret", "-n=shop", "next", "--as=druid", "--dry-run=server", "--type=merge", "-p", change)
			if (err != nil) != refused || refused && !strings.Contains(err.Error(), "may change nothing else") {
				return fmt.Errorf("the change %s by the operator: refused with %w, want it to be: %v", change, err, refused)
			}
		}
		return nil
	})
	apply := func(namespace, name, secret string) {
		s.apply(t, strings.NewReplacer("NAME", name, "SECRET", secret, "namespace: shop", "namespace: "+namespace).Replace(twoEtcds))
	}
	apply("shop", "main", "credentials")
	apply("shop", "other", "next")
	apply("leaves", "main", "credentials")
	p := s.operate(t, "operator", automatic)
	for _, at := range [][2]string{{"shop", "main"}, {"shop", "other"}, {"leaves", "main"}} {
		p.await(t, s.has(at[0], at[1], objectsOf(at[1], 1)))
	}
	held := func(want ...string) func(context.Context) error {
		return func(ctx context.Context) error {
			list, err := s.Client.CoreV1().Secrets("shop").List(ctx, metav1.ListOptions{})
			if err != nil {
				return err
			}
			var has []string
			for _, o := range list.Items {
				if slices.Contains(o.Finalizers, druidv1alpha1.Finalizer) {
					has = append(has, o.Name)
				}
				if o.Labels["test"] == "yes" && !slices.Contains(o.Finalizers, "example.com/another") {
					return fmt.Errorf("of %s another's finalizer is gone", o.Name)
				}
			}
			if !slices.Equal(has, want) {
				return fmt.Errorf("the original's finalizer is on %q, want %q", has, want)
			}
			return nil
		}
	}
	p.await(t, held("credentials", "next", "shared"))
	apply("shop", "main", "next") // the specification names another one
	p.await(t, held("next", "shared"))
	s.delete(t, "Etcd", "shop", "main")
	p.await(t, func(ctx context.Context) error {
		if _, err := s.get(ctx, "Etcd", "shop", "main"); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the Etcd is still there: %w", err)
		}
		return nil
	})
	p.await(t, held("next", "shared")) // the other one's
	s.delete(t, "Etcd", "shop", "other")
	p.await(t, held())

	// A namespace ends with its Secrets.
	for _, name := range []string{"credentials", "shared", "next"} {
		finalizers := `["` + druidv1alpha1.Finalizer + `"]`
		if name == "next" { // which no Etcd names there
			finalizers = "null"
		}
		if _, err := s.Kubectl(t.Context(), "patch", "secret", "-n=leaves", name, "--type=merge", "-p", `{"metadata":{"finalizers":`+finalizers+`}}`); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Client.CoreV1().Namespaces().Delete(t.Context(), "leaves", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	p.await(t, func(ctx context.Context) error {
		if _, err := s.Client.CoreV1().Namespaces().Get(ctx, "leaves", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the namespace is still there: %w", err)
		}
		return nil
	})
}

// TestWhereTheOperatorMayNotTakeFinalizersItTellsOfThem: without the policy that lets it, it tells which of them nobody needs, and the page's
// commands take them away. A Secret in use is kept without them.
func TestWhereTheOperatorMayNotTakeFinalizersItTellsOfThem(t *testing.T) {
	together(t, light)
	s := newSite(t)
	s.grant(t)
	s.namespace(t, "shop")
	s.admit(t, "secrets.yaml")
	for _, name := range []string{"credentials", "shared", "plain"} {
		s.secret(t, "shop", name)
	}
	for _, name := range []string{"credentials", "shared"} {
		if _, err := s.Kubectl(t.Context(), "patch", "secret", "-n=shop", name, "--type=merge", "-p", `{"metadata":{"finalizers":["`+druidv1alpha1.Finalizer+`"]}}`); err != nil {
			t.Fatal(err)
		}
	}
	s.apply(t, strings.NewReplacer("NAME", "main", "SECRET", "credentials").Replace(twoEtcds))
	s.apply(t, strings.NewReplacer("NAME", "other", "SECRET", "plain").Replace(twoEtcds))
	p := s.operate(t, "operator", automatic)
	p.await(t, s.has("shop", "main", objectsOf("main", 1)))
	s.delete(t, "Etcd", "shop", "main")
	p.await(t, s.event("shop", "main", "SecretsKept", "no Etcd needs credentials any more"))

	list, patch := pageCommands(t, "taking-over.md", "get secrets"), pageCommands(t, "taking-over.md", "patch secret")
	if len(list) != 1 || len(patch) != 1 {
		t.Fatalf("the page has the commands %q and %q", list, patch)
	}
	held := func(want string) {
		t.Helper()
		out, err := s.Kubectl(t.Context(), append(list[0], "-n=shop")...)
		if err != nil || strings.TrimSpace(out) != want {
			t.Errorf("the page's command lists %q with %v, want %q", out, err, want)
		}
	}
	take := func(name string) error {
		args := append([]string{}, patch[0]...)
		for i, a := range args {
			if a == "NAME" {
				args[i] = name
			}
		}
		out, err := s.Kubectl(t.Context(), append(args, "-n=shop")...)
		if err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
		return err
	}
	held("credentials shared")
	if err := take("plain"); err == nil {
		t.Error("a finalizer was taken from a Secret without one")
	}
	secrets := s.Client.CoreV1().Secrets("shop")
	p.await(t, func(ctx context.Context) error { return secrets.Delete(ctx, "credentials", metav1.DeleteOptions{}) })
	if o, err := secrets.Get(t.Context(), "credentials", metav1.GetOptions{}); err != nil || o.DeletionTimestamp == nil {
		t.Fatalf("with the finalizer the Secret is %v (%v), want it to stay while it is deleted", o, err)
	}
	if err := take("credentials"); err != nil {
		t.Fatal(err)
	}
	p.await(t, func(ctx context.Context) error {
		if _, err := secrets.Get(ctx, "credentials", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the Secret is still there: %w", err)
		}
		return nil
	})
	if err := take("shared"); err != nil {
		t.Fatal(err)
	}
	held("")
	p.await(t, func(ctx context.Context) error {
		if err := secrets.Delete(ctx, "shared", metav1.DeleteOptions{}); err == nil || !strings.Contains(err.Error(), "in use by Etcd other") {
			return errors.Join(errors.New("want its deletion to be refused"), err)
		}
		return nil
	})
}
