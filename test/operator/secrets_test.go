package operator_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/config/admission"
)

// everySecret is an Etcd that names a Secret wherever it can.
const everySecret = `
apiVersion: druid.gardener.cloud/v1alpha1
kind: Etcd
metadata: {name: main, namespace: shop}
spec:
  labels: {}
  replicas: 1
  etcd:
    authSecretRef: {name: auth}
    clientUrlTls: {tlsCASecretRef: {name: client-ca}, serverTLSSecretRef: {name: client-server}, clientTLSSecretRef: {name: client-client}}
    peerUrlTls: {tlsCASecretRef: {name: peer-ca}, serverTLSSecretRef: {name: peer-server}, clientTLSSecretRef: {name: peer-client}}
  backup:
    tls: {tlsCASecretRef: {name: backup-ca}, serverTLSSecretRef: {name: backup-server}, clientTLSSecretRef: {name: backup-client}}
    store: {provider: aws, container: backups, prefix: p, secretRef: {name: credentials}, roles: {collectorSecretRef: {name: collector}, extenderSecretRef: {name: extender}, excluderSecretRef: {name: excluder}}}
`

func (s *site) secret(t *testing.T, namespace, name string) {
	t.Helper()
	o := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"test": "yes"}}}
	if _, err := s.Client.CoreV1().Secrets(namespace).Create(t.Context(), o, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// withoutOperator is an API server that knows our resources, and nobody who looks after them.
func withoutOperator(t *testing.T) *site {
	t.Helper()
	c := borrow(t)
	objects, err := dynamic.NewForConfig(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	return &site{Cluster: c, objects: objects}
}

// admit applies the policies of a file.
func (s *site) admit(t *testing.T, file string) {
	t.Helper()
	text, err := admission.Files.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := s.KubectlWith(t.Context(), string(text), "apply", "-f", "-"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

func TestASecretThatAnEtcdUsesIsNotDeleted(t *testing.T) {
	together(t, light)
	s := withoutOperator(t)
	s.admit(t, "secrets.yaml")
	for _, namespace := range []string{"shop", "neighbours"} {
		s.namespace(t, namespace)
		s.secret(t, namespace, "credentials")
	}
	s.apply(t, everySecret)
	// A neighbour's Etcds do not count, and neither do those that name something else.
	s.apply(t, etcdYAML("shop", "other", 1))
	s.apply(t, etcdYAML("neighbours", "main", 1))
	drop := func(ctx context.Context, namespace, name string) error {
		return s.Client.CoreV1().Secrets(namespace).Delete(ctx, name, metav1.DeleteOptions{})
	}
	refused := func(err error, want string) error {
		if err == nil || !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), want) {
			return fmt.Errorf("%v, want a refusal with %q", err, want)
		}
		return nil
	}
	// The API server learns a moment later of policies and Etcds.
	protected := func(namespace string) {
		await(t, func(ctx context.Context) error {
			err := drop(ctx, namespace, "credentials")
			if err == nil {
				s.secret(t, namespace, "credentials")
			}
			return refused(err, "spec.backup.store.secretRef")
		})
	}

	e := &druidv1alpha1.Etcd{}
	if err := yaml.UnmarshalStrict([]byte(everySecret), e); err != nil {
		t.Fatal(err)
	}
	if uses := e.Secrets(); len(uses) != 13 {
		t.Fatalf("the Etcd names %d Secrets", len(uses))
	}
	protected("shop")
	for _, use := range e.Secrets() {
		if use.Name != "credentials" {
			s.secret(t, "shop", use.Name)
		}
		want := fmt.Sprintf("Secret %s is in use by Etcd main (%s): have the Etcd name another one, delete the Etcd, or annotate it with "+druidv1alpha1.AnnotationDisableProtection, use.Name, use.Field)
		if err := refused(drop(t.Context(), "shop", use.Name), want); err != nil {
			t.Error(err)
		}
	}
	t.Run("among many", func(t *testing.T) {
		s.secret(t, "shop", "unused")
		err := s.Client.CoreV1().Secrets("shop").DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "test=yes"})
		if err := refused(err, "is in use by Etcd main"); err != nil {
			t.Error(err)
		}
		if _, err := s.Client.CoreV1().Secrets("shop").Get(t.Context(), "peer-ca", metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
	})
	t.Run("others are", func(t *testing.T) {
		s.secret(t, "shop", "others")
		s.secret(t, "shop", "peer-client") // which the Etcd names, and nobody reads
		for _, of := range [][2]string{{"shop", "others"}, {"shop", "peer-client"}, {"neighbours", "credentials"}} {
			if err := drop(t.Context(), of[0], of[1]); err != nil {
				t.Error(err)
			}
		}
	})
	t.Run("without the Etcd it is", func(t *testing.T) {
		s.delete(t, "Etcd", "shop", "main")
		await(t, func(ctx context.Context) error { return drop(ctx, "shop", "credentials") })
	})
	t.Run("without the protection it is", func(t *testing.T) {
		s.secret(t, "neighbours", "credentials")
		s.apply(t, strings.ReplaceAll(everySecret, "shop", "neighbours"))
		protected("neighbours")
		annotate := func(annotations map[string]any) {
			s.change(t, "Etcd", "neighbours", "main", func(o map[string]any) { set(o, annotations, "metadata", "annotations") })
		}
		for _, spelling := range []string{druidv1alpha1.AnnotationDisableProtection, druidv1alpha1.AnnotationDisableProtectionOld} {
			annotate(map[string]any{spelling: ""})
			await(t, func(ctx context.Context) error { return drop(ctx, "neighbours", "credentials") })
			s.secret(t, "neighbours", "credentials")
			annotate(map[string]any{})
			protected("neighbours")
		}
	})
	t.Run("with its namespace it is", func(t *testing.T) {
		s.change(t, "Etcd", "neighbours", "main", func(o map[string]any) { set(o, []any{"test/holds"}, "metadata", "finalizers") })
		if err := s.Client.CoreV1().Namespaces().Delete(t.Context(), "neighbours", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		await(t, func(ctx context.Context) error {
			_, err := s.Client.CoreV1().Secrets("neighbours").Get(ctx, "credentials", metav1.GetOptions{})
			if !apierrors.IsNotFound(err) {
				return fmt.Errorf("the Secret is still there: %v", err)
			}
			return nil
		})
	})
}
