package operator_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
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

// TestTheOriginalsFinalizersOnSecretsGo: the operator tells which of them nobody needs, and the page's commands
// take them away. A Secret in use is kept without them.
func TestTheOriginalsFinalizersOnSecretsGo(t *testing.T) {
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
	const two = `
apiVersion: druid.gardener.cloud/v1alpha1
kind: Etcd
metadata: {name: NAME, namespace: shop}
spec:
  labels: {}
  replicas: 1
  etcd: {authSecretRef: {name: shared}}
  backup: {store: {provider: aws, container: backups, prefix: NAME, secretRef: {name: SECRET}}}
`
	s.apply(t, strings.NewReplacer("NAME", "main", "SECRET", "credentials").Replace(two))
	s.apply(t, strings.NewReplacer("NAME", "other", "SECRET", "plain").Replace(two))
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
